"""Run commands as transactions: decide whether a command runs over a layer, and what happens to the layer after its
end.

Mode `direct` has no layer. `journal` applies the layer at the end, so that undo covers the command. `review` holds the
layer until a person agrees: the request is a call of `apply_changes`, approved and recorded like any other call.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import shlex
from collections.abc import Collection, Mapping
from dataclasses import replace
from functools import partial
from typing import Any, Literal

from ..boundary.process import start
from ..boundary.real_path import real_path
from ..boundary.sandbox import Sandbox
from ..boundary.sandbox.spec import OverlaySandbox, WriteLayer
from ..builtin.command_effects import CommandOutcome, EffectServices
from ..builtin.explain import call_id_of
from ..builtin.transcript import MAX_CHARACTERS
from ..core.context import ToolContext
from ..core.errors import ToolcribError, ToolError
from ..core.output import ToolOutput
from ..core.threads import shared_threads
from ..core.tool import Tool, tool
from ..core.verdict import Judgement
from ..record.journal import Journal
from .change_list import ChangeList
from .change_text import diffs, headline, paths
from .command_layer import CommandLayer
from .journal_rows import JournalledLayers
from .layer_apply import ApplyConflict
from .layer_scan import changes_of
from .layer_store import HeldChanges

APPLY, DISCARD = "apply_changes", "discard_changes"
_RULE = "sandbox.effects"
_PROBE_SECONDS = 20.0
_FEW_PATHS = 10
_MAX_TOLD = MAX_CHARACTERS * 2 // 3
_ANSWERED = ("approved", "denied")
_ASKED = ("pending", *_ANSWERED)


class LayeredCommands:
    """The effects of one toolbox's commands."""

    question = APPLY

    def __init__(
        self, mode: Literal["journal", "review"], journal: Journal, changes: JournalledLayers, services: EffectServices
    ) -> None:
        self.mode, self.journal, self.changes, self.layers = mode, journal, changes, changes.layers
        self.patience = services.patience + 10.0 if mode == "review" else 0.0
        self._services = services
        self._problem: dict[Sandbox, str] = {}
        self._asked: dict[str, str] = {}  # key of a command → its layer

    def tools(self) -> list[Tool]:
        """Return `apply_changes` and `discard_changes`, which apply or drop the reviewed changes of a command."""
        return [
            tool(
                self.apply_changes, name=APPLY, category="filesystem_write", destructive=True, open_world=False,
                judge=self._judge_held, preview=self._preview,
            ),
            tool(
                self.discard_changes, name=DISCARD, category="filesystem_write", destructive=False, open_world=False,
                judge=self._judge_held,
            ),
        ]  # fmt: skip

    def needs_review(self) -> bool:
        """Return whether a person is asked about the changes of each command."""
        return self.mode == "review"

    # --- before

    def why_direct(self, sandbox: Sandbox) -> str:
        """Return why commands of this sandbox cannot run over a layer; "" if they can, or if there is nothing to
        overlay."""
        if sandbox.profile == "read-only":
            return ""
        if not isinstance(sandbox, OverlaySandbox):
            return f'only backend "bubblewrap" can hold changes back, and commands run with "{sandbox.name}"'
        found = self._problem.get(sandbox)
        if found is None:
            found = self._problem[sandbox] = self._probe(sandbox)
        return found

    def judge(self, sandbox: Sandbox) -> Judgement | None:
        """Judge any command before it runs. Without a layer the changes cannot be reviewed afterwards, so a person
        is asked first; the command is refused if no person can be asked."""
        why = self.why_direct(sandbox) if self.needs_review() else ""
        if not why:
            return None
        text = f'sandbox.effects is "review", but what it changes cannot be held back: {why}'
        if self._services.unattended():
            return Judgement("deny", f'{text}. To let commands write directly: sandbox.effects = "direct"', _RULE)
        return Judgement("ask", f"{text}; it would write directly", _RULE)

    def begin(self, sandbox: Sandbox) -> CommandLayer | None:
        """Create a layer for a command; return None if the command writes directly."""
        if sandbox.profile == "read-only" or self.why_direct(sandbox):
            return None
        assert isinstance(sandbox, OverlaySandbox)
        return self.layers.begin(sandbox.layer_roots())

    def _probe(self, sandbox: OverlaySandbox) -> str:
        """Run one test command over a layer, because kernels and file systems differ. Return "" if that works, else
        the problem."""
        layer = None
        try:
            layer = self.layers.begin(sandbox.layer_roots())
            try:
                os.setxattr(layer.roots[0].upper, "user.toolcrib", b"1")
                os.removexattr(layer.roots[0].upper, "user.toolcrib")
            except OSError as error:
                return f"the file system of {self.layers.path} keeps no extended attributes ({error.strerror})"
            argv, cwd = ["/bin/sh", "-c", "exit 7"], layer.roots[0].path
            spawn = sandbox.wrap(argv, cwd=cwd, env={"PATH": os.defpath}, timeout=_PROBE_SECONDS, layer=layer)
            result = start(spawn, timeout=_PROBE_SECONDS).wait()
            if result is None or result.exit_code != 7:
                said = "" if result is None else result.stderr.excerpt().text.strip()[:200]
                return f"a test command over a layer failed: {said}"
        except (ToolcribError, OSError) as error:
            return str(error)
        finally:
            if layer is not None:
                layer.remove()
        return ""

    # --- after

    def collect(self, layer: WriteLayer | None, sandbox: Sandbox, ctx: ToolContext, command: str) -> CommandOutcome:
        """List the changes in a command's layer, and apply them if no approval is needed. Blocks; call it once."""
        if layer is None:
            why = self.why_direct(sandbox)
            said = f'[this command wrote directly, though sandbox.effects is "{self.mode}": {why}]'
            return CommandOutcome([said] if why else [])
        assert isinstance(layer, CommandLayer)
        try:
            found = changes_of(layer)
        except (ToolcribError, OSError) as error:
            layer.remove()
            return CommandOutcome([f"[what the command changed was discarded: {error}]"], undo="")
        if not found:
            layer.remove_later()
            return CommandOutcome(undo="(it changed no files)")
        try:
            return self._keep(layer, found, ctx, command)
        except OSError as error:  # the list would be too long: nothing is applied that could not be undone
            layer.remove()
            return CommandOutcome([f"[what the command changed was discarded: {error.strerror or error}]"], undo="")

    def _keep(self, layer: CommandLayer, found: ChangeList, ctx: ToolContext, command: str) -> CommandOutcome:
        call_id, session_id = call_id_of(ctx, self.journal), ctx.session_id
        told = self.told(found, layer, call_id) if self.needs_review() else "\n".join(paths(found, _FEW_PATHS))
        key = key_of(ctx, command)
        shown = self._services.redact(command) if self._services.redact is not None else command
        held = self.layers.hold(
            layer, found, call_id=call_id, session_id=session_id, command=shown[:2_000], key=key, told=told
        )
        if not found.ops:  # only changes that are never applied
            self.layers.discard(held.id)
            return CommandOutcome([f"[{headline(found)}]", told], undo="")
        if self.needs_review():
            return CommandOutcome(waiting=held, undo="")
        return self._apply(held, found, told)

    def _apply(self, held: HeldChanges, found: ChangeList, told: str) -> CommandOutcome:
        try:
            self.changes.apply(self.journal, held)
        except ApplyConflict as error:
            return CommandOutcome([_not_applied(held, str(error))], undo="")
        except (ToolcribError, OSError) as error:
            return CommandOutcome([_not_applied(held, f"it could not be applied: {error}")], undo="")
        undo = f"(`toolcrib undo {held.call_id}` takes this back)"
        return CommandOutcome([f"[changed: {headline(found)}]", told], undo=undo, touches=partial(_touches, found))

    def told(self, found: ChangeList, layer: CommandLayer, call_id: str) -> str:
        """Return the list for a person and the model: paths, then content. Text that does not fit is in a file."""
        lines, every = paths(found, room=_MAX_TOLD * 2 // 3), paths(found, len(found.changes))
        if lines != every and self._services.open_spill is not None:
            with contextlib.closing(self._services.open_spill(call_id, "changes.txt")) as file:
                file.write(memoryview("\n".join(every).encode("utf-8", "replace")))
            lines.append(f"(all of them: {file.path})")
        uppers, room = [root.upper for root in layer.roots], _MAX_TOLD - sum(map(len, lines))
        return "\n".join([*lines, *diffs(found, uppers, self._services.redact, self._services.hides_more, room)])

    # --- approval

    def earlier(self, ctx: ToolContext, command: str) -> CommandOutcome | None:
        """Return the outcome of exactly this command, if its changes wait for an answer or have one, which may be a
        no. Then it need not run again. At the command line each call is a process: there only an answer counts."""
        if not self.needs_review():
            return None
        key = key_of(ctx, command)
        name = self._asked.get(key) or self._stored(key, _ANSWERED if ctx.channel == "cli" else _ASKED)
        if name is None:
            return None
        try:
            held = self.layers.get(name)
            answer = self._answer(held.approval_id)
            if held.state == "held" and answer in _ASKED:
                return CommandOutcome(["(the command ran before)"], undo="", waiting=held)
            if held.state == "held":  # not answered in time
                self.layers.discard(held.id)
        except ToolcribError:  # the layer is gone
            pass
        self._asked.pop(key, None)
        return None

    def _stored(self, key: str, answers: Collection[str]) -> str | None:
        """Return the changes of a command, perhaps of another process, whose request is in one of these states."""
        stored = (each for each in self.layers.all("held") if each.key == key)
        return next((each.id for each in stored if self._answer(each.approval_id) in answers), None)

    async def ask(self, outcome: CommandOutcome, ctx: ToolContext) -> CommandOutcome:
        """Ask a person about changes that wait, and add the answer to the outcome."""
        held = outcome.waiting
        if not isinstance(held, HeldChanges) or self._services.call is None:
            return outcome
        self._asked[held.key] = held.id
        answer = await self._services.call(APPLY, {"changes": held.id}, replace(ctx, call_id=None))
        if not answer.is_error:
            self._asked.pop(held.key, None)
            outcome.notes += ["[changes, approved and applied:]", held.told]
            outcome.undo = f"(`toolcrib undo {held.call_id}` takes this back)"
            return outcome
        approval = answer.meta.get("approval_id")
        await shared_threads.run(self.layers.note_approval, held, approval)
        outcome.kind = answer.error_kind
        outcome.meta.update(answer.meta)
        if answer.error_kind == "denied" and self._answer(approval) == "denied":
            await shared_threads.run(self.layers.discard, held.id)
            self._asked.pop(held.key, None)
            outcome.notes += ["[it would have changed:]", held.told, "[these changes were refused and are discarded]"]
            outcome.notes.append(answer.for_llm)
            return outcome
        outcome.notes += [f"[it would change, and nothing of this is done yet ({held.id}):]", held.told]
        if answer.error_kind == "pending" and ctx.channel == "cli":  # who reads it is the person who may apply them
            outcome.notes.append(_how_to_apply(held))
            return outcome
        outcome.notes.append(answer.for_llm)
        if answer.error_kind == "pending":
            outcome.notes.append(
                f'(do not run the command again: {APPLY}(changes="{held.id}") applies these changes once approved, '
                f'{DISCARD}(changes="{held.id}") drops them)'
            )
        return outcome

    def _answer(self, approval_id: object) -> str | None:
        """Return the state of an approval request, if it was made and can be looked up."""
        if not isinstance(approval_id, str) or self._services.answer_of is None:
            return None
        return self._services.answer_of(approval_id)

    # --- the tools

    async def apply_changes(self, changes: str, *, ctx: ToolContext) -> ToolOutput:
        """Apply the changes of a command that ran with review: all of them, or none if something changed meanwhile.

        Args:
            changes: The id that exec returned, like ch-19a5c0e7b21-3fa9c1.
        """
        held = await shared_threads.run(self._held, changes, ctx)
        try:
            await shared_threads.run(self.changes.apply, self.journal, held)
        except ApplyConflict as error:
            raise ToolError(
                f"nothing was applied, for the workspace changed since the command ran: {error}. Run the command again "
                f"to see what it does now; {DISCARD} drops these changes."
            ) from None
        except OSError as error:
            raise ToolError(f"nothing was applied: {error.strerror or error}") from None
        return ToolOutput(f"Applied the changes {changes}. `toolcrib undo {held.call_id}` takes them back.")

    async def discard_changes(self, changes: str, *, ctx: ToolContext) -> str:
        """Drop the changes of a command that ran with review, without applying them.

        Args:
            changes: The id that exec returned.
        """
        held = await shared_threads.run(self._held, changes, ctx)
        await shared_threads.run(self.changes.layers.discard, held.id)
        return f"Discarded the changes {changes}; the workspace is as it was."

    def _held(self, name: str, ctx: ToolContext) -> HeldChanges:
        held = self.changes.layers.get(name)
        if held.session_id != ctx.session_id and ctx.channel != "cli":  # in that case the caller is the person
            raise ToolError(f"changes {name} belong to another session; a person can apply them: toolcrib changes")
        if held.state != "held":
            raise ToolError(f"changes {name} are {held.state}")
        return held

    def _judge_held(self, args: Mapping[str, Any], ctx: ToolContext) -> Judgement | None:
        try:
            self._held(str(args.get("changes")), ctx)
        except ToolError as error:  # what cannot be done needs no question
            return Judgement("deny", str(error), "changes:unknown")
        return None

    def _preview(self, args: Mapping[str, Any], ctx: ToolContext) -> str:
        held = self._held(str(args.get("changes")), ctx)
        return f"{held.command}\nhas run, and would change ({headline(held.changes())}):\n{held.told}"


def _touches(applied: ChangeList, path: str) -> bool:
    """Return whether an applied change concerns a path of the workspace."""
    roots, changes = applied.roots, applied.changes
    names = (os.path.join(roots[change.root], change.path) if change.root else change.path for change in changes)
    return any(name == path or name.startswith(f"{path}/") or path.startswith(f"{name}/") for name in names)


def key_of(ctx: ToolContext, command: str) -> str:
    """Return a key that identifies one command of one session, or of the person at the command line."""
    return hashlib.sha256(json.dumps([ctx.channel == "cli" or ctx.session_id, command]).encode()).hexdigest()


def _how_to_apply(held: HeldChanges) -> str:
    root = held.roots[0]
    where = "" if real_path(os.curdir) == real_path(root) else f" --workspace {shlex.quote(root)}"
    return (
        f"To apply these changes: toolcrib changes apply {held.id}{where}\n"
        f"To drop them:           toolcrib changes discard {held.id}{where}"
    )


def _not_applied(held: HeldChanges, why: str) -> str:
    return (
        f"[nothing that it changed was applied: {why}. The changes are stored as {held.id}: {DISCARD} drops them, "
        f"`toolcrib changes show {held.id}` shows them]"
    )
