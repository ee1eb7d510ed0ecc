"""Backend `landlock`: rules for files, a seccomp filter and limits, without namespaces.

It is for machines without user namespaces. All restrictions belong to a thread and pass to what it starts: so a thread
restricts itself, starts the command and ends. There is one view of the file system, and a rule for a folder holds for
everything in it, without exceptions. So where a protected name lies in a folder, there is no rule for the folder, but
for its entries: next to a protected name a command can change what is there, and create, rename or remove nothing.
docs/sandbox.md has the consequences.
"""

from __future__ import annotations

import contextlib
import fcntl
import functools
import logging
import os
import resource
import secrets
import signal
import tempfile
import threading
import time
from collections.abc import Generator, Iterable, Mapping, Sequence
from pathlib import Path

from ....core.errors import SandboxUnavailable
from ... import landlock_calls
from ...per_process import PerProcess
from ...private_folders import beyond_tools
from ...process_tree import has_ended
from ...programs import named_programs
from ...remove_tree import remove_all
from ...spawn import Spawn
from .. import seccomp
from ..cgroup import CgroupEvents, join_group
from ..protected_paths import ProtectedPaths
from ..resource_limits import limit_process, resource_limits
from ..settings import CommandLimits, Profile, SandboxSettings
from ..writable import Writable, workspace_of
from .file_rules import FileRules
from .landlock_syscalls import MARK, build_filter
from .reading_rules import ReadingRules

log = logging.getLogger("toolcrib.boundary")

# HOME is another folder inside, so programs that look for these below HOME need a variable.
_HOMES_OF_TOOLS = {
    "PYENV_ROOT": ".pyenv", "RBENV_ROOT": ".rbenv", "NODENV_ROOT": ".nodenv", "GOENV_ROOT": ".goenv",
    "ASDF_DATA_DIR": ".asdf", "VOLTA_HOME": ".volta", "RUSTUP_HOME": ".rustup", "NVM_DIR": ".nvm",
}  # fmt: skip

# $0 is a pipe from us. The shell waits for a line, which comes when its limits are set. Then it becomes the command.
_HELD = 'read -r go < "$0" || exit 126; exec "$@"'

# The same in the command's own bash, which reads this first, by descriptor: one program less to start.
_HELD_BASH = "unset BASH_ENV; read -r <&{held} || exit 126; unset REPLY; exec {held}<&- {script}<&-\n"

# git stops at a settings file that it may not read, but not at a missing one; it need not store what it looked up.
_GIT = {"GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_NOSYSTEM": "1", "GIT_OPTIONAL_LOCKS": "0"}

_TMP = ".tmp"
_END_SECONDS = 5.0
# Looks that find nothing, while processes begin that may be the command's: after others of it were found, and before.
_LOOKS, _FIRST_LOOKS = 60, 8
_NEAR = 256  # the newest numbers of processes


class LandlockSandbox:
    """A sandbox around one workspace. `abi` is Landlock's version; by default the kernel's."""

    name = "landlock"
    active = True
    fresh_folders: tuple[str, ...] = ()
    domains: tuple[str, ...] = ()

    def __init__(self, settings: SandboxSettings, workspace: Path, abi: int | None = None) -> None:
        self.profile: Profile = settings.profile
        self.workspace = workspace_of(workspace, whole_machine=True)
        self.abi = landlock_calls.landlock_abi() if abi is None else abi
        machine = seccomp.this_machine()
        if machine is None or self.abi < 1:
            raise SandboxUnavailable("This machine has no Landlock, or a processor without a table of system calls.")
        if settings.loopback:
            raise SandboxUnavailable(
                'sandbox.loopback needs a network of its own, which backend "landlock" cannot make. Use bubblewrap or '
                "docker, or leave it off."
            )
        self._rights = landlock_calls.all_rights(self.abi)
        self._filter = build_filter(machine, self.abi)
        self._settings = settings
        self._writable = Writable(self.workspace, settings, self.profile)
        self._reading = ReadingRules(settings, self.workspace, self.abi)

    def wrap(self, argv: Sequence[str], *, cwd: Path, env: Mapping[str, str], timeout: float | None) -> Spawn:
        """Return what to start instead of the command. Raises SandboxUnavailable or OSError if it cannot be
        prepared."""
        program = os.path.join(cwd, argv[0]) if "/" in argv[0] else argv[0]
        if next(named_programs(program, env.get("PATH")), None) is None:
            raise SandboxUnavailable(f"The sandbox could not start the command: No such file: {argv[0]}")
        if self._settings.only_reads and self._settings.backend != self.name:
            return self._lean(argv, cwd, env)
        limits, counted = self._settings.limits, CgroupEvents(self._settings.limits)
        guards = self._writable.guards(cwd)
        with contextlib.ExitStack() as opened:
            place = beyond_tools(self._settings.writable(self.workspace))
            folder = tempfile.mkdtemp(prefix="toolcrib-command-", dir=place)
            opened.callback(_remove_later, folder)
            ruleset = landlock_calls.create_ruleset(landlock_calls.handled(self.abi, self._rights))
            opened.callback(os.close, ruleset)
            hidden = self._reading.closed()
            path = self._reading.add(ruleset, hidden, env.get("PATH", ""), cwd)
            inner = _environment(env, folder, path)
            self._allow_changes(ruleset, folder, guards, hidden)
            held, release = os.pipe()
            opened.callback(os.close, release)
            started_as, fds = _held(argv, held, inner)
            end, ours = os.pipe()
            opened.callback(os.close, ours)
            watched = os.dup(end)
            opened.callback(os.close, watched)
            opened.callback(counted.end)
            mark = secrets.randbits(62)
            opened.callback(_end_marked, mark)
            cleanup = opened.pop_all().close

        def started(pid: int) -> None:
            limit_process(pid, _limits(limits, timeout))
            resource.prlimit(pid, MARK, (mark, mark))
            counted.begin(pid)
            _end_with_us(watched, pid)
            os.write(release, b"\n")

        notes = list[str]()

        def appeared() -> list[str]:
            notes.extend(counted.notes())
            return self._writable.appeared(guards)

        return Spawn(
            argv=started_as,
            cwd=str(cwd),
            env=inner,
            child_fds=(*fds, end),
            outlives_thread=True,
            confined=functools.partial(_threads(self._filter, limits)().start, ruleset),
            started=started,
            cleanup=cleanup,
            appeared=appeared,
            notes=notes,
        )

    def _lean(self, argv: Sequence[str], cwd: Path, env: Mapping[str, str]) -> Spawn:
        """Return a reading command for backends without a sandbox: it gets rules and the filter, and else what they
        give it (no limits but time). It costs a third of what a command costs that can write."""
        ruleset, path = self._reading.ruleset(env.get("PATH", ""), cwd)
        return Spawn(
            argv=argv,
            cwd=str(cwd),
            env={**env, **_GIT, "PATH": os.pathsep.join(path)},
            confined=functools.partial(_threads(self._filter, None)().start, ruleset),
            outlives_thread=True,
            cleanup=lambda: os.close(ruleset),
        )

    # --- files --------------------------------------------------------------------------------------------

    def _allow_changes(
        self, ruleset: int, folder: str, guards: Sequence[ProtectedPaths], hidden: frozenset[str]
    ) -> None:
        """Allow changes in the private folder, and in the writable folders of everything that is not protected."""
        change = self._rights & ~landlock_calls.NODES
        landlock_calls.allow_path(ruleset, folder, change)
        roots = [*map(str, self._writable.roots())]
        closed = {path for found in guards for path in found.read_only | found.named}
        pinned = {path for found in guards for path in found.pinned}.difference(roots)
        rules = FileRules(ruleset, change, closed | hidden, pinned)
        for root in roots:
            rules.allow(root, real=True)


@functools.cache
def _threads(program: bytes, limits: CommandLimits | None) -> PerProcess[landlock_calls.ConfinedThreads]:
    """Return the threads with a filter, in the control group of these limits."""

    def always() -> None:
        if limits is not None:
            join_group(limits)
        landlock_calls.bound_capabilities(landlock_calls.ALL_CAPABILITIES)
        landlock_calls.filter_thread(program)

    def confine(ruleset: int) -> None:
        landlock_calls.drop_capabilities()
        landlock_calls.restrict_thread(ruleset)

    return PerProcess(lambda: landlock_calls.ConfinedThreads(always, confine))


def _limits(limits: CommandLimits, timeout: float | None) -> dict[int, int]:
    """Return the limits. Here processes are counted together with all others of the user: the limit is added to that
    number."""
    found = resource_limits(limits, timeout)
    with contextlib.suppress(OSError, ValueError, IndexError), open("/proc/loadavg") as file:
        running = int(file.read().split()[3].partition("/")[2])
        found[resource.RLIMIT_NPROC] = running + limits.processes
    return found


def _held(argv: Sequence[str], held: int, env: dict[str, str]) -> tuple[Sequence[str], tuple[int, ...]]:
    """Return what to start instead of the command so that it waits for a line on `held`, and its descriptors."""
    bash = tuple(argv[:2]) == ("/bin/bash", "-c") and "BASH_ENV" not in env
    if not bash or os.getuid() != os.geteuid():  # then bash would not read the file
        return ["/bin/sh", "-c", _HELD, f"/proc/self/fd/{held}", *argv], (held,)
    script = os.memfd_create("toolcrib")
    os.write(script, _HELD_BASH.format(held=held, script=script).encode())
    env["BASH_ENV"] = f"/proc/self/fd/{script}"
    return argv, (held, script)


def _end_with_us(pipe: int, group: int) -> None:
    """Let the kernel kill a process group when the other end of a pipe is closed, which only we have: when we are gone.
    The signal comes as long as a process of the group has this end."""
    fcntl.fcntl(pipe, fcntl.F_SETOWN, -group)
    fcntl.fcntl(pipe, fcntl.F_SETSIG, signal.SIGKILL)
    fcntl.fcntl(pipe, fcntl.F_SETFL, os.O_ASYNC)


def _environment(env: Mapping[str, str], private: str, path: Sequence[str]) -> dict[str, str]:
    """Return the command's environment. The private folder is HOME; TMPDIR is made in it, with a name that is not
    shown: each folder costs 0.1 ms."""
    inner = {**env, "PATH": os.pathsep.join(path), "HOME": private, "TMPDIR": f"{private}/{_TMP}"}
    os.mkdir(inner["TMPDIR"], 0o700)
    inner.setdefault("GIT_CONFIG_NOSYSTEM", "1")  # git stops at a file that it may not read, but not at a missing file
    for name, folder in _HOMES_OF_TOOLS.items():
        real = os.path.expanduser(f"~/{folder}")
        if name not in inner and os.path.isdir(real):
            inner[name] = real
    return inner


def _end_marked(mark: int) -> None:
    """End every process of a command, whatever its group and session. First all are stopped, so that none starts
    another meanwhile. Some do nothing but start the next and end, and are gone before a signal arrives. So they are
    looked for among the newest numbers, and what is found may from then on run only while the processor of this thread
    has nothing else to do; what it starts inherits that."""
    until = time.monotonic() + _END_SECONDS
    stopped: set[int] = set()
    with contextlib.ExitStack() as slowed:
        missed, everywhere = 0, True
        while missed < (_LOOKS if stopped else _FIRST_LOOKS) and time.monotonic() < until:
            newest = _newest()
            near = range(newest + _NEAR // 8, max(1, newest - _NEAR), -1)
            new = _marked(mark, map(int, filter(str.isdigit, os.listdir("/proc"))) if everywhere else near, stopped)
            if new and not stopped:
                slowed.enter_context(_on_one_processor())
            stopped |= {pid for pid in new if _stop(pid)}
            if everywhere and not new and _newest() == newest:
                break  # nothing began meanwhile, so nothing was missed
            missed = 0 if new else missed + 1
            everywhere = not new and not everywhere
        for pid in stopped:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
    if time.monotonic() >= until:
        log.warning("a command started processes faster than they could be ended: some of them may still run")
    for pid in stopped:
        has_ended(pid)


def _newest() -> int:
    """Return the number of the newest process of the machine."""
    try:
        with open("/proc/loadavg") as file:
            return int(file.read().split()[-1])
    except (OSError, ValueError):
        return 0


@contextlib.contextmanager
def _on_one_processor() -> Generator[None]:
    """Keep this thread on one processor, if it may choose."""
    before = os.sched_getaffinity(0)
    try:
        with contextlib.suppress(OSError):
            os.sched_setaffinity(0, {min(before)})
        yield
    finally:
        with contextlib.suppress(OSError):
            os.sched_setaffinity(0, before)


def _stop(pid: int) -> bool:
    """Slow a process down, and stop it. Return whether it was there."""
    try:
        with contextlib.suppress(PermissionError):
            os.sched_setscheduler(pid, os.SCHED_IDLE, os.sched_param(0))
            os.sched_setaffinity(pid, os.sched_getaffinity(0))
        os.kill(pid, signal.SIGSTOP)
    except ProcessLookupError:
        return False
    return True


def _marked(mark: int, pids: Iterable[int], known: set[int]) -> list[int]:
    found: list[int] = []
    for pid in pids:
        try:
            if pid not in known and resource.prlimit(pid, MARK)[1] == mark:
                found.append(pid)
        except OSError:  # gone, or another user's
            continue
    return found


def _remove_later(folder: str) -> None:
    """Remove a private folder; in a thread if the command left files in it, because others wait for this thread."""
    try:
        for name in (_TMP, ""):
            os.rmdir(os.path.join(folder, name))
        return
    except OSError:
        pass

    def remove() -> None:
        with contextlib.suppress(OSError):
            remove_all(folder)

    threading.Thread(target=remove, name="toolcrib-remove", daemon=True).start()
