"""Commands as transactions: whether a command runs over a layer, and what becomes of the layer when it has ended.

`direct` writes straight through. `journal` applies the layer at the end, so that undo covers the command. `review`
keeps it until a person said yes: the question is a call of `apply_changes`, asked and recorded like any other.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import logging
import os
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from ..boundary.capture import SpillTarget
from ..boundary.layers.apply import ApplyConflict
from ..boundary.layers.changes import ChangeList
from ..boundary.layers.layer import CommandLayer
from ..boundary.process import start
from ..boundary.sandbox import Sandbox
from ..boundary.sandbox.spec import Layering
from ..boundary.spawn import Spawn
from ..core.context import ToolContext
from ..core.errors import ToolcribError
from ..core.output import ErrorKind, ToolOutput
from ..core.threads import shared_threads
from ..core.verdict import Judgement
from ..record.journal import Journal
from ..record.layers import HeldChanges
from .change_list import MOST_PATHS, diffs, headline, paths
from .transcript import MOST_CHARACTERS, NO_UNDO

log = logging.getLogger(__name__)

Mode = Literal["direct", "journal", "review"]
APPLY, DISCARD = "apply_changes", "discard_changes"
_RULE = "sandbox.effects"
_PROBE_SECONDS = 20.0
_FEW_PATHS = 10

OpenSpill = Callable[[str, str], SpillTarget]
"""`open_spill(call_id, name)` opens a file for what an output has no room for."""

CallTool = Callable[[str, Mapping[str, Any], ToolContext], Awaitable[ToolOutput]]
"""Runs a tool of the same toolbox through its pipeline."""

AnswerOf = Callable[[str], str | None]
"""`answer_of(approval_id)` is what became of a question: pending, approved, denied …"""


@dataclass(slots=True)
class Settled:
    """What became of a command's effects. `notes` are for its reader; `held` waits for a person; `kind` and `meta`
    make the output an error."""

    notes: list[str] = field(default_factory=list[str])
    undo: str = NO_UNDO
    held: HeldChanges | None = None
    kind: ErrorKind | None = None
    meta: dict[str, Any] = field(default_factory=dict[str, Any])
    applied: ChangeList | None = None

    def touches(self, path: str) -> bool:
        """Whether what was applied has to do with a path of the workspace."""
        if self.applied is None:
            return False
        roots, changes = self.applied.roots, self.applied.changes
        names = (os.path.join(roots[change.root], change.path) if change.root else change.path for change in changes)
        return any(name == path or name.startswith(f"{path}/") or path.startswith(f"{name}/") for name in names)


class Effects:
    """The effects of one toolbox's commands."""

    def __init__(
        self,
        mode: Mode,
        journal: Journal,
        *,
        call: CallTool | None = None,
        answer_of: AnswerOf | None = None,
        redact: Callable[[str], str] | None = None,
        open_spill: OpenSpill | None = None,
        patience: float = 0.0,
        unattended: bool = False,
    ) -> None:
        self._unattended = unattended
        self.mode, self.journal = mode, journal
        self.patience = patience + 10.0 if mode == "review" else 0.0  # seconds that a question may take
        self._call, self._answer_of, self._redact, self._open_spill = call, answer_of, redact, open_spill
        self._problem: dict[Sandbox, str] = {}
        self._asked: dict[str, str] = {}  # key of a command → the layer it left

    # --- before

    def why_direct(self, sandbox: Sandbox) -> str:
        """Why commands of this sandbox cannot run over a layer; "" if they can or there is nothing to overlay."""
        if self.mode == "direct" or sandbox.profile == "read-only":
            return ""
        if not isinstance(sandbox, Layering):
            return f'only backend "bubblewrap" can hold changes back, and commands run with "{sandbox.name}"'
        found = self._problem.get(sandbox)
        if found is None:
            found = self._problem[sandbox] = self._probe(sandbox)
        return found

    def judge(self, sandbox: Sandbox) -> Judgement | None:
        """What is to be said of any command before it runs: where nothing can be held back for review, it is asked
        about beforehand, and where nobody is asked, refused."""
        why = self.why_direct(sandbox) if self.mode == "review" else ""
        if not why:
            return None
        text = f'sandbox.effects is "review", but what it changes cannot be held back: {why}'
        if self._unattended:
            return Judgement("deny", f'{text}. To let commands write directly: sandbox.effects = "direct"', _RULE)
        return Judgement("ask", f"{text}; it would write directly", _RULE)

    def begin(self, sandbox: Sandbox) -> CommandLayer | None:
        """A layer for a command; None where it writes directly."""
        if self.mode == "direct" or sandbox.profile == "read-only" or self.why_direct(sandbox):
            return None
        assert isinstance(sandbox, Layering)
        return self.journal.layers.begin(sandbox.layer_roots())

    def _probe(self, sandbox: Layering) -> str:
        """Run a command over a layer, once: kernels and file systems differ. "" if that works."""
        try:
            layer = self.journal.layers.begin(sandbox.layer_roots())
        except (ToolcribError, OSError) as error:
            return str(error)
        try:
            try:
                os.setxattr(layer.roots[0].upper, "user.toolcrib", b"1")
                os.removexattr(layer.roots[0].upper, "user.toolcrib")
            except OSError as error:
                return f"the file system of {self.journal.layers.path} keeps no extended attributes ({error.strerror})"
            argv, cwd = ["/bin/sh", "-c", "exit 7"], layer.roots[0].path
            spawn = sandbox.wrap(argv, cwd=cwd, env={"PATH": os.defpath}, timeout=_PROBE_SECONDS, layer=layer)
            result = start(spawn, timeout=_PROBE_SECONDS).wait()
            if result is None or result.exit_code != 7:
                said = "" if result is None else result.stderr.excerpt().text.strip()[:200]
                return f"a test command over a layer failed: {said}"
        except (ToolcribError, OSError) as error:
            return str(error)
        finally:
            layer.remove()
        return ""

    # --- after

    def settle(self, spawn: Spawn, sandbox: Sandbox, *, call_id: str | None, ctx: ToolContext, command: str) -> Settled:
        """Look at what a command left, and apply it where nobody needs to be asked. Blocks; called once."""
        layer = spawn.layer
        if layer is None or spawn.changes is None:
            why = self.why_direct(sandbox)
            return Settled([_went_direct(self.mode, why)] if why else [])
        try:
            found = spawn.changes()
        except (ToolcribError, OSError) as error:
            layer.remove()
            return Settled([f"[what the command changed was discarded: {error}]"], undo="")
        if not found:
            layer.remove_later()
            return Settled(undo="(it changed no files)")
        try:
            return self._keep(layer, found, call_id or "exec", ctx.session_id, command)
        except OSError as error:  # no room for the list: nothing is applied that could not be undone
            layer.remove()
            return Settled([f"[what the command changed was discarded: {error.strerror or error}]"], undo="")

    def _keep(
        self, layer: CommandLayer, found: ChangeList, call_id: str, session_id: str | None, command: str
    ) -> Settled:
        told = self.told(found, layer, call_id) if self.mode == "review" else "\n".join(paths(found, _FEW_PATHS))
        key = key_of(session_id, command)
        shown = self._redact(command) if self._redact is not None else command
        held = self.journal.layers.hold(
            layer, found, call_id=call_id, session_id=session_id, command=shown[:2_000], key=key, told=told
        )
        if not found.ops:  # only what is never applied
            self.journal.layers.discard(held.id)
            return Settled([f"[{headline(found)}]", told], undo="")
        if self.mode == "review":
            return Settled(held=held, undo="")
        return self._apply(held, found, told)

    def _apply(self, held: HeldChanges, found: ChangeList, told: str) -> Settled:
        try:
            self.journal.apply_layer(held, call_id=held.call_id, session_id=held.session_id)
        except ApplyConflict as error:
            return Settled([_not_applied(held, str(error))], undo="")
        except (ToolcribError, OSError) as error:
            return Settled([_not_applied(held, f"it could not be applied: {error}")], undo="")
        undo = f"(`toolcrib undo {held.call_id}` takes this back)"
        return Settled([f"[changed: {headline(found)}]", told], undo=undo, applied=found)

    def told(self, found: ChangeList, layer: CommandLayer, call_id: str) -> str:
        """The list as a person and the model read it: paths, then content; what has no room is in a file."""
        lines = paths(found)
        if len(found.changes) > MOST_PATHS and self._open_spill is not None:
            with contextlib.closing(self._open_spill(call_id, "changes.txt")) as file:
                file.write(memoryview("\n".join(paths(found, len(found.changes))).encode("utf-8", "replace")))
            lines.append(f"(all of them: {file.path})")
        shown = diffs(found, [root.upper for root in layer.roots], self._redact)
        text = "\n".join([*lines, *shown])
        if len(text) <= MOST_CHARACTERS * 2 // 3:
            return text
        return "\n".join(lines)[: MOST_CHARACTERS * 2 // 3]

    # --- asking

    def earlier(self, session_id: str | None, command: str) -> HeldChanges | None:
        """Changes of exactly this command that wait for an answer, or have one: it need not run again."""
        name = self._asked.get(key_of(session_id, command))
        if name is None or self.mode != "review":
            return None
        try:
            held = self.journal.layers.get(name)
            answer = self._answer_of(held.approval_id) if self._answer_of and held.approval_id else None
            if held.state == "held" and answer in ("pending", "approved"):
                return held
            if held.state == "held":  # denied, or nobody answered
                self.journal.layers.discard(held.id)
        except ToolcribError:  # gone
            pass
        self._asked.pop(key_of(session_id, command), None)
        return None

    async def conclude(self, settled: Settled, ctx: ToolContext) -> Settled:
        """Ask about what is held, and say what came of it."""
        held = settled.held
        if held is None or self._call is None:
            return settled
        self._asked[held.key] = held.id
        answer = await self._call(APPLY, {"changes": held.id}, replace(ctx, call_id=None))
        if not answer.is_error:
            self._asked.pop(held.key, None)
            settled.notes += ["[changes, approved and applied:]", held.told]
            settled.undo = f"(`toolcrib undo {held.call_id}` takes this back)"
            return settled
        approval = answer.meta.get("approval_id")
        await shared_threads.run(self.journal.layers.note_approval, held, approval)
        settled.kind = answer.error_kind
        settled.meta.update(answer.meta)
        if answer.error_kind == "denied" and self._answer_of is not None and self._said_no(approval):
            await shared_threads.run(self.journal.layers.discard, held.id)
            self._asked.pop(held.key, None)
            settled.notes += ["[it would have changed:]", held.told, "[these changes were refused and are discarded]"]
            settled.notes.append(answer.for_llm)
            return settled
        settled.notes += [f"[it would change, and nothing of this is done yet ({held.id}):]", held.told, answer.for_llm]
        if answer.error_kind == "pending":
            settled.notes.append(
                f'(do not run the command again: {APPLY}(changes="{held.id}") applies these changes once approved, '
                f'{DISCARD}(changes="{held.id}") drops them)'
            )
        return settled

    def _said_no(self, approval_id: Any) -> bool:
        return isinstance(approval_id, str) and self._answer_of is not None and self._answer_of(approval_id) == "denied"


def key_of(session_id: str | None, command: str) -> str:
    """Names exactly one command of one session."""
    return hashlib.sha256(json.dumps([session_id, command]).encode()).hexdigest()


def _went_direct(mode: str, why: str) -> str:
    return f'[this command wrote directly, though sandbox.effects is "{mode}": {why}]'


def _not_applied(held: HeldChanges, why: str) -> str:
    return (
        f"[nothing that it changed was applied: {why}. The changes are kept as {held.id}: {DISCARD} drops them, "
        f"`toolcrib changes show {held.id}` shows them]"
    )
