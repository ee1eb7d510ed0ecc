"""Backend `landlock`: rules for files, a seccomp filter and limits, without namespaces.

It is for machines without user namespaces. All restrictions belong to a thread and pass to what it starts: so a thread
restricts itself, starts the command and ends. There is one view of the file system, and a rule for a folder holds for
everything in it, without exceptions. So where a protected name lies in a folder, there is no rule for the folder, but
for its entries: next to a protected name a command can change what is there, and create, rename or remove nothing.
docs/sandbox.md has the consequences.
"""

from __future__ import annotations

import contextlib
import os
import resource
import secrets
import shutil
import signal
import stat
import tempfile
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from ....core.errors import SandboxUnavailable
from ... import landlock_calls
from ...descriptors import closing_fd
from ...process_tree import has_ended
from ...remove_tree import remove_all
from ...spawn import Spawn
from .. import seccomp
from ..cgroup import CgroupEvents, join_group
from ..protected_paths import ProtectedPaths
from ..readable_roots import KnownRoots, system_paths
from ..resource_limits import limit_process, resource_limits
from ..settings import CommandLimits, Profile, SandboxSettings
from ..writable import Writable, workspace_of
from .landlock_syscalls import MARK, build_filter

_DEVICES = ("/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom")

# HOME is another folder inside, so programs that look for these below HOME need a variable.
_HOMES_OF_TOOLS = {
    "PYENV_ROOT": ".pyenv", "RBENV_ROOT": ".rbenv", "NODENV_ROOT": ".nodenv", "GOENV_ROOT": ".goenv",
    "ASDF_DATA_DIR": ".asdf", "VOLTA_HOME": ".volta", "RUSTUP_HOME": ".rustup", "NVM_DIR": ".nvm",
}  # fmt: skip

# $0 is a pipe from us. The shell waits for a line, which comes when its limits are set. Then it becomes the command. It
# leaves a process in the command's group that waits for the pipe's end, when we are gone, and ends the group.
_HELD = """read -r go < "$0" || exit 126
( ( read -r end < "$0"; kill -KILL 0 ) < /dev/null > /dev/null 2>&1 & )
exec "$@"
"""

_END_SECONDS = 2.0


class LandlockSandbox:
    """A sandbox around one workspace. `abi` is Landlock's version; by default the kernel's."""

    name = "landlock"
    active = True
    fresh_folders: tuple[str, ...] = ()
    domains: tuple[str, ...] = ()

    def __init__(self, settings: SandboxSettings, workspace: Path, abi: int | None = None) -> None:
        self.profile: Profile = settings.profile
        self.workspace = workspace_of(workspace)
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
        self._roots = KnownRoots(self.workspace)

    def wrap(self, argv: Sequence[str], *, cwd: Path, env: Mapping[str, str], timeout: float | None) -> Spawn:
        """Return what to start instead of the command. Raises SandboxUnavailable or OSError if it cannot be
        prepared."""
        program = os.path.join(cwd, argv[0]) if "/" in argv[0] else argv[0]
        if shutil.which(program, path=env.get("PATH")) is None:
            raise SandboxUnavailable(f"The sandbox could not start the command: No such file: {argv[0]}")
        limits, counted = self._settings.limits, CgroupEvents(self._settings.limits)
        guards = self._writable.guards(cwd)
        with contextlib.ExitStack() as opened:
            folder = tempfile.mkdtemp(prefix="toolcrib-command-")
            opened.callback(_remove_later, folder)
            ruleset = landlock_calls.create_ruleset(landlock_calls.handled(self.abi, self._rights))
            opened.callback(os.close, ruleset)
            path = self._allow_reading(ruleset, env.get("PATH", ""), cwd)
            inner = _environment(env, folder, path)
            self._allow_changes(ruleset, folder, guards)
            held, release = os.pipe()
            opened.callback(os.close, release)
            opened.callback(counted.end)
            mark = secrets.randbits(62)
            opened.callback(_end_marked, mark)
            cleanup = opened.pop_all().close

        def confine() -> None:
            landlock_calls.drop_capabilities()
            landlock_calls.restrict_thread(ruleset)
            landlock_calls.filter_thread(self._filter)

        def started(pid: int) -> None:
            limit_process(pid, _limits(limits, timeout))
            resource.prlimit(pid, MARK, (mark, mark))
            counted.begin(pid)
            os.write(release, b"\n")

        spawn = Spawn(
            argv=["/bin/sh", "-c", _HELD, f"/proc/self/fd/{held}", *argv],
            cwd=str(cwd),
            env=inner,
            child_fds=(held,),
            prepare=lambda: join_group(limits),
            confine=confine,
            started=started,
            cleanup=cleanup,
        )

        def appeared() -> list[str]:
            spawn.notes += counted.notes()
            return self._writable.appeared(guards)

        spawn.appeared = appeared
        return spawn

    # --- files --------------------------------------------------------------------------------------------

    def _allow_reading(self, ruleset: int, path: str, cwd: Path) -> list[str]:
        """Allow reading what a command may read. Return the PATH that remains."""
        binds, kept = self._roots.look(cwd, path)
        roots = (*self._settings.read_roots, *self._settings.write_roots)
        readable = [*system_paths(), *binds.values(), *map(os.path.realpath, roots), str(self.workspace), "/proc"]
        self._refuse_hidden(readable)
        for each in readable:
            landlock_calls.allow_path(ruleset, each, landlock_calls.READ)
        for each in _DEVICES:
            landlock_calls.allow_path(ruleset, each, landlock_calls.DEVICE & self._rights)
        return kept

    def _refuse_hidden(self, readable: Sequence[str]) -> None:
        for path in self._settings.hidden:
            real = os.path.realpath(path)
            inside = next((g for g in readable if real == g or real.startswith(g.rstrip("/") + "/")), None)
            if inside is not None and os.path.lexists(path):
                raise SandboxUnavailable(
                    f"{path} is to be hidden from commands and lies in {inside}, which they may read. Backend "
                    '"landlock" cannot do that: use bubblewrap, or move one of them.'
                )

    def _allow_changes(self, ruleset: int, folder: str, guards: Sequence[ProtectedPaths]) -> None:
        """Allow changes in the private folder, and in the writable folders of everything that is not protected."""
        change = self._rights & ~landlock_calls.NODES
        landlock_calls.allow_path(ruleset, folder, change)
        closed = {path for found in guards for path in found.read_only | found.named}
        pinned = {path for found in guards for path in found.pinned}
        above = pinned | {str(parent) for path in closed | pinned for parent in Path(path).parents}
        changes = _Changes(ruleset, change, closed, above)
        for root in self._writable.roots():
            if closed.isdisjoint(map(str, root.parents)):
                changes.allow(str(root))


@dataclass(frozen=True, slots=True)
class _Changes:
    """Rules for changing everything except the paths in `closed`; `above` are the folders in which these lie."""

    ruleset: int
    rights: int
    closed: set[str]
    above: set[str]

    def allow(self, path: str, parent: int | None = None) -> None:
        """Allow changing a file or folder; `parent` is the open folder in which it lies, if any."""
        if path in self.closed:
            return
        kind = os.O_RDONLY | os.O_DIRECTORY if path in self.above else os.O_PATH
        name = path if parent is None else os.path.basename(path)
        try:
            target = os.open(name, kind | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=parent)
        except OSError:  # without a rule it cannot be changed
            return
        with closing_fd(target):
            if path in self.above:
                for entry in os.listdir(target):
                    self.allow(f"{path}/{entry}", target)
            elif not stat.S_ISLNK(os.fstat(target).st_mode):
                landlock_calls.allow(self.ruleset, target, self.rights)


def _limits(limits: CommandLimits, timeout: float | None) -> dict[int, int]:
    """Return the limits. Here processes are counted together with all others of the user: the limit is added to that
    number."""
    found = resource_limits(limits, timeout)
    with contextlib.suppress(OSError, ValueError, IndexError), open("/proc/loadavg") as file:
        running = int(file.read().split()[3].partition("/")[2])
        found[resource.RLIMIT_NPROC] = running + limits.processes
    return found


def _environment(env: Mapping[str, str], private: str, path: Sequence[str]) -> dict[str, str]:
    """Return the command's environment. HOME and TMPDIR are made in the private folder."""
    inner = {**env, "PATH": os.pathsep.join(path), "HOME": f"{private}/home", "TMPDIR": f"{private}/tmp"}  # noqa: S108
    for name in ("HOME", "TMPDIR"):
        os.mkdir(inner[name], 0o700)
    inner.setdefault("GIT_CONFIG_NOSYSTEM", "1")  # git stops at a file that it may not read, but not at a missing file
    for name, folder in _HOMES_OF_TOOLS.items():
        real = os.path.expanduser(f"~/{folder}")
        if name not in inner and os.path.isdir(real):
            inner[name] = real
    return inner


def _end_marked(mark: int) -> None:
    """End every process of a command, whatever its group and session. First all are stopped, so that none starts
    another meanwhile."""
    until = time.monotonic() + _END_SECONDS
    stopped: set[int] = set()
    while (new := _marked(mark) - stopped) and time.monotonic() < until:
        stopped |= new
        _send(new, signal.SIGSTOP)
    _send(stopped, signal.SIGKILL)
    for pid in stopped:
        has_ended(pid)


def _marked(mark: int) -> set[int]:
    found: set[int] = set()
    for pid in (int(name) for name in os.listdir("/proc") if name.isdigit()):
        with contextlib.suppress(OSError):  # gone, or another user's
            if resource.prlimit(pid, MARK)[1] == mark:
                found.add(pid)
    return found


def _send(pids: set[int], number: signal.Signals) -> None:
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, number)


def _remove_later(folder: str) -> None:
    """Remove a private folder, in a thread: there may be many files, and others wait for this thread."""

    def remove() -> None:
        with contextlib.suppress(OSError):
            remove_all(folder)

    threading.Thread(target=remove, name="toolcrib-remove", daemon=True).start()
