"""Runs the commands of tools in the sandbox: folder, environment, secrets, spill, and a check of their changes."""

from __future__ import annotations

import contextlib
import functools
import logging
import os
import threading
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, cast

from ..boundary.capture import SpillTarget
from ..boundary.descriptors import patiently
from ..boundary.environment import command_environment
from ..boundary.git_identity import git_identity
from ..boundary.sandbox import Sandbox
from ..boundary.sandbox.spec import HostOpener, LazySandbox, Lift, OverlaySandbox, WalledSandboxes, WriteLayer
from ..boundary.spawn import Spawn
from ..boundary.workspace import Workspace
from ..core.context import ToolContext, Wall, current_context
from ..core.dataclass import dataclass
from ..core.errors import OutsideWorkspace, SandboxUnavailable, ToolError
from ..core.threads import ThreadsExhausted, shared_threads
from ..core.verdict import MISSING, Judgement
from .command_effects import UNSEARCHED, CommandEffects, CommandOutcome, OpenCallSpill, SavesFiles
from .command_sessions import LOOK_SECONDS, may_wait
from .explain import similar_names
from .moved_away import MoveToTrash, move_away
from .transcript import MAX_CHARACTERS, NEXT_TO_GIT, read_only

if TYPE_CHECKING:
    from ..boundary.process import Process, ProcessResult
    from ..boundary.proxy.egress_secret import EgressSecret
    from ..policy.secrets.grants import Secrets

ONLY_PROXY = "the command got placeholders for {}: only sandbox.backend bubblewrap puts their values into requests"
_NO_HOOKS = {"GIT_CONFIG_COUNT": "1", "GIT_CONFIG_KEY_0": "core.hooksPath", "GIT_CONFIG_VALUE_0": os.devnull}
RAN_NO_HOOKS = "[git ran no hooks: they could have changed .git, as this command could]"
MAX_INPUT = 16 << 20  # the most bytes of a program's stdin

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Ran:
    """The result of a command that has ended, with its sandbox and notes for the reader."""

    result: ProcessResult
    sandbox: Sandbox
    notes: list[str]


@dataclass(frozen=True, slots=True)
class PreparedCommand:
    """A command that is ready to start, with its sandbox and the layer that takes its changes.

    `lacks` says which granted secrets it does not get, `wall` what it can do at most.
    """

    sandbox: Sandbox
    spawn: Spawn
    lacks: list[str]
    layer: WriteLayer | None = None
    wall: Wall | None = None
    saved: object | None = None
    """What was saved of the workspace before it; None if nothing."""
    liftable: bool = False
    """Whether its wall is more than the sandbox of the settings, so that a person's yes lets it do more."""
    cut_off: bool = False
    """Whether it has no network at all."""
    named: frozenset[str] | None = None
    """The folders that may have protected names before it; None if they were not looked for."""
    read_only: str = ""
    """What its sandbox does not let it change in the workspace, for a command that tries it."""

    def discard(self) -> None:
        """Release everything of a command that will not be started."""
        self.spawn.discard()
        if self.layer is not None:
            self.layer.remove()


class CommandRunner:
    """Runs commands in one workspace and one sandbox.

    `sandbox` is called when the first command comes. If it raises SandboxUnavailable, commands are refused with its
    reason. `env` holds the names of host variables that commands get in addition to the usual ones. `saver` returns
    what saves the files that a command could delete, if no person was asked about the command.
    """

    def __init__(
        self,
        workspace: Workspace,
        sandbox: Callable[[], Sandbox] | WalledSandboxes,
        *,
        env: Iterable[str] = (),
        open_spill: OpenCallSpill | None = None,
        move_to_trash: MoveToTrash | None = None,
        secrets: Secrets | None = None,
        effects: CommandEffects | None = None,
        saver: Callable[[], SavesFiles] | None = None,
    ) -> None:
        self.workspace = workspace
        self._saver = saver
        self.effects = effects
        given = isinstance(sandbox, WalledSandboxes)
        self.walls = sandbox if given else WalledSandboxes.around(LazySandbox.of(sandbox))
        self.sandbox = self.walls.own
        self._env = tuple(env)
        self._open_spill = open_spill
        self._move_to_trash = move_to_trash
        self._secrets = secrets
        self._running: dict[Process, threading.Event] = {}  # those that are awaited → set when looked over

    async def run(
        self,
        argv: Sequence[str],
        *,
        asker: str,
        working_dir: str | None = None,
        timeout: float,
        env: Mapping[str, str] | None = None,
        call_id: str | None = None,
        limit: int = MAX_CHARACTERS,
        input: bytes | None = None,  # noqa: A002
        fds: Sequence[int] = (),
        spill: bool = True,
    ) -> Ran:
        """Run a command to its end.

        The command gets the secrets of `asker`, and the variables in `env` in addition to the usual ones. `input` is
        its whole stdin; None means no stdin. `fds` stay open in the command, and are closed here. `spill` stores the
        output that exceeds `limit` characters per stream.

        Raises ToolError, SandboxUnavailable or OSError if the command cannot be started.
        """
        from ..boundary.process import start

        with ExitStack() as unused:
            for fd in fds:
                unused.callback(os.close, fd)
            if input is not None and len(input) > MAX_INPUT:
                raise ToolError(f"the arguments have {len(input):,} bytes; a program is given at most {MAX_INPUT:,}")
            wall = current_context().wall
            prepared = await self.prepare(argv, asker, working_dir, timeout, env, wall=wall)
            prepared.spawn.child_fds = (*prepared.spawn.child_fds, *fds)
            unused.pop_all()
        open_spill = self.spill_of(call_id) if spill else None
        process = start(prepared.spawn, timeout=timeout, limit=limit, open_spill=open_spill, input=input)
        result, outcome = await self.finished(process, prepared, current_context(), " ".join(argv))
        return Ran(result, prepared.sandbox, outcome.notes)

    async def finished(
        self, process: Process, prepared: PreparedCommand, ctx: ToolContext, command: str
    ) -> tuple[ProcessResult, CommandOutcome]:
        """Wait for a command's end, and for the outcome of its changes. They are recorded under the name `command`.

        Raises the error that ended the command early or prevented its start.
        """
        with self._in_flight(process):
            result, outcome = await self._looked_over(process, prepared, ctx, command)
        return result, outcome if self.effects is None else await self.effects.ask(outcome, ctx)

    @contextlib.contextmanager
    def _in_flight(self, process: Process) -> Generator[None]:
        self._running[process] = looked_over = threading.Event()
        try:
            yield
        finally:
            looked_over.set()
            del self._running[process]

    def close(self) -> None:
        """End all commands, and wait until the workspace was looked over after each: from then on it is closed."""
        running = [*self._running.items()]
        for process, _ in running:
            process.kill()
        for _, looked_over in running if may_wait() else ():
            looked_over.wait(LOOK_SECONDS)

    async def _looked_over(
        self, process: Process, prepared: PreparedCommand, ctx: ToolContext, command: str
    ) -> tuple[ProcessResult, CommandOutcome]:
        try:
            result = await process.finished()
        except BaseException:  # the changes are checked all the same
            self.look_over(prepared, ctx, command)
            raise
        if prepared.wall == "read":  # there are no changes to search for
            outcome = self.look_over(prepared, ctx, command)
        else:
            look_over = functools.partial(self.look_over, prepared, ctx, command)  # it searches the workspace
            try:
                outcome = await shared_threads.run_to_end(look_over) if prepared.sandbox.active else look_over()
            except ThreadsExhausted:
                outcome = look_over()
        return result, outcome

    def undo_covers(self, path: str) -> bool:
        """Return whether undo would bring back a file if a command that nobody was asked about changed it."""
        return self.effects is None and self._saver is not None and self._saver().covers(path)

    def judged_effects(self) -> tuple[Judgement | None, bool]:
        """Return the judgement of every command whose changes should be reviewed but cannot be held back, and whether
        they are held back."""
        if self.effects is None or not self.effects.needs_review():
            return None, False
        try:
            direct = self.effects.judge(self.sandbox())
        except SandboxUnavailable:  # the policy reports it
            return None, False
        return direct, direct is None

    def secret_names(self, asker: str) -> list[str]:
        """Return the names of the environment variables in which commands of `asker` get secrets."""
        return [] if self._secrets is None else self._secrets.names_for(asker)

    async def prepare(
        self,
        argv: Sequence[str],
        asker: str,
        working_dir: str | None,
        timeout: float | None,
        env: Mapping[str, str] | None = None,
        *,
        lift: Lift | None = None,
        wall: Wall | None = None,
        hosts: tuple[str, ...] = (),
    ) -> PreparedCommand:
        """Prepare a command. `env` and the secrets of `asker` are set in addition to the usual variables. `lift`:
        what a person let it change. `wall`: what it can do at most. `hosts` were opened to it.

        Raises ToolError if the working folder does not exist, and SandboxUnavailable or OSError if the sandbox fails.
        """
        granted: dict[str, str] = {}
        lacks: list[str] = []
        egress: tuple[EgressSecret, ...] = ()
        if self._secrets is not None and self._secrets.names_for(asker):  # in a thread: they may come from a program
            granted, lacks, egress = await shared_threads.run(self._secrets.environment, asker)
        if self._secrets is not None:
            for name, value in (env or {}).items():
                self._secrets.learn(name, value)
        # in a thread, because the first use probes the sandbox with commands
        chosen = self.walls.behind(wall, lift)
        sandbox = chosen.known or await shared_threads.run(chosen)
        opener = sandbox if (hosts or egress) and isinstance(sandbox, HostOpener) else None
        if opener is not None and opener.opens_hosts and (hosts or (egress and sandbox.domains)):
            sandbox = await shared_threads.run(opener.opening, hosts, egress)
        elif egress and opener is None:
            lacks = [*lacks, f"[{ONLY_PROXY.format(', '.join(each.name for each in egress))}]"]
        cut_off = sandbox.active and not sandbox.domains and not hosts

        saved = None
        saver = self._saver if wall in ("workspace", "all") else None
        if saver is not None and (self.effects is None or await shared_threads.run(self.effects.why_direct, sandbox)):
            saved = await shared_threads.run(saver().save)

        def wrapped() -> PreparedCommand:
            from ..boundary.sandbox.protected_search import search_all

            cwd = self._folder(working_dir)
            commits = wall != "read" or any(
                "git" in word for word in argv
            )  # a command that only reads can show it, too
            person = git_identity(cwd) if sandbox.active and commits else {}
            full = {**person, **command_environment(self._env), **(env or {}), **granted}
            if lift == ".git" and sandbox.active:  # hooks run what they like of the workspace
                from ..boundary.git_settings import runs_hooks

                full |= _NO_HOOKS
                lacks.extend([RAN_NO_HOOKS] if runs_hooks(str(cwd)) else ())
            layer = self.effects.begin(sandbox) if self.effects is not None else None
            writes = self._is_active() and sandbox.profile == "workspace-write"
            kept = NEXT_TO_GIT if sandbox.name == "landlock" else read_only(background=timeout is None)
            note = kept if writes else ""
            if layer is None:
                named = None
                if saved is None and sandbox.active and wall != "read":
                    _ = self._saver and self._saver()  # it knows of searches by other processes
                    named = search_all(str(self.workspace.root))
                spawn = sandbox.wrap(argv, cwd=cwd, env=full, timeout=timeout)
                liftable = sandbox.active and not self._is_active()
                return PreparedCommand(sandbox, spawn, lacks, None, wall, saved, liftable, cut_off, named, note)
            try:
                over = cast("OverlaySandbox", sandbox)
                spawn = over.wrap(argv, cwd=cwd, env=full, timeout=timeout, layer=layer)
            except BaseException:
                layer.remove()
                raise
            return PreparedCommand(sandbox, spawn, lacks, layer, wall, cut_off=cut_off, read_only=note)

        # without a sandbox there is no work for a thread
        return await shared_threads.make(wrapped, PreparedCommand.discard) if sandbox.active else wrapped()

    def _is_active(self) -> bool:
        known = self.sandbox.known
        return known is not None and known.active

    def _folder(self, working_dir: str | None) -> Path:
        from ..boundary.sandbox.writable import check_still_there  # a start does not need it

        check_still_there(self.workspace.root)
        if working_dir is None:
            return self.workspace.root
        shown = self.place(working_dir)
        try:
            fd = self.workspace.open_dir(shown)
        except OutsideWorkspace:
            raise
        except OSError as error:
            raise ToolError(self._not_usable(working_dir, error)) from None
        os.close(fd)
        return self.workspace.root / self.workspace.real(shown)

    def place(self, working_dir: str) -> str:
        """Return a working folder relative to the workspace, or absolute in another granted folder. Raises
        OutsideWorkspace if it is outside of them."""
        place = self.workspace.locate(working_dir)
        if not self.workspace.is_listed(place):
            raise OutsideWorkspace(f"working_dir {working_dir!r} must be inside the workspace {self.workspace.root}")
        return place.shown

    def judged_folder(self, working_dir: str | None) -> str | Judgement:
        """Return the absolute working folder, or the judgement of a command that cannot run in it."""
        if working_dir is None:
            return str(self.workspace.root)
        try:
            return str(self.workspace.root / self.workspace.real(self.place(str(working_dir))))
        except ToolError as error:
            return Judgement("deny", str(error), "path:outside")
        except OSError as error:  # a yes could not make it run
            return Judgement("deny", self._not_usable(str(working_dir), error), MISSING)

    def _not_usable(self, working_dir: str, error: OSError) -> str:
        if isinstance(error, FileNotFoundError):
            alike = similar_names(self.workspace, self.place(working_dir))
            return f"there is no folder {working_dir!r} to run it in; make it first, or leave working_dir out{alike}"
        return f"working_dir {working_dir!r}: {error.strerror or error}"

    def spill_of(self, call_id: str | None) -> Callable[[str], SpillTarget] | None:
        """Return a function that opens a file for the output of one call that is too long for the model; or None."""
        open_spill = self._open_spill
        return None if open_spill is None else lambda name: open_spill(call_id or "call", f"{name}.txt")

    def look_over(self, prepared: PreparedCommand, ctx: ToolContext, command: str) -> CommandOutcome:
        """Check the changes of a command, and move away files that it must not create. Blocks; call it once."""
        from ..boundary.sandbox.protected_paths import forget_links  # a start does not need it
        from ..boundary.sandbox.protected_search import search_all

        forget_links([*map(str, self.workspace.writable)])
        outcome, root = CommandOutcome(), str(self.workspace.root)
        try:
            if self.effects is not None:
                outcome = self.effects.collect(prepared.layer, prepared.sandbox, ctx, command)
            if prepared.saved is not None and self._saver is not None:
                notes, outcome = outcome.notes, self._saver().outcome(prepared.saved, ctx)
                outcome.notes[:0] = notes
            elif (named := prepared.named) is not None and patiently(lambda: search_all(root, named)) is None:
                outcome.notes.append(UNSEARCHED)
        except Exception as error:  # the disk may be full; what it must not make has to go all the same
            log.warning("the changes of a command could not be stored for undo", exc_info=True)
            outcome.notes.append(f"[undo does not cover what this command changed: {error}]")
            outcome.undo = ""
        try:
            found = prepared.spawn.appeared()
        except Exception as error:  # the person must learn about it
            log.warning("what a command made was not searched for what other programs run or trust", exc_info=True)
            outcome.notes.append(f"[what it made was not searched for what other programs run or trust: {error}]")
            found = []
        if prepared.layer is not None:  # the command did not make the new files outside the layer
            found = [path for path in found if outcome.touches(path) or _is_entered(path, outcome)]
        forget = self._saver().forget if found and self._saver is not None else None
        moved = move_away(found, self.workspace, self._move_to_trash, ctx.call_id, forget)
        if replaced := [path for path in found if outcome.touches(path) and prepared.layer is None]:
            look = f"look at what {' and '.join(replaced)} led to, because other programs run or trust it; then "
            outcome.undo = outcome.undo.replace("`toolcrib undo ", f"{look}`toolcrib undo --force ")
        outcome.notes = [*prepared.lacks, *outcome.notes, *moved, *prepared.spawn.notes]
        prepared.spawn.appeared = list  # what it made is in question no more: other commands do not doubt it
        if prepared.layer is not None:
            prepared.layer.protected = ()
        return outcome


def _is_entered(path: str, outcome: CommandOutcome) -> bool:
    """Return whether a path is of a repository below one whose index a command has changed: git may enter it now."""
    return ".git" in Path(path).parts and any(
        outcome.touches(str(above / ".git" / "index")) for above in Path(path).parents
    )
