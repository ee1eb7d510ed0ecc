"""Backend `landlock`: rules for files, a seccomp filter and limits, without namespaces.

It is for machines without user namespaces. There is one view of the file system, so nothing inside a readable folder
can be hidden, and nothing inside a writable folder can be read-only. So protected names are copied before a command and
restored after it. docs/sandbox.md lists the other points that are weaker than with bubblewrap.
"""

from __future__ import annotations

import contextlib
import marshal
import os
import resource
import shutil
import tempfile
import threading
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from ....core.errors import SandboxUnavailable
from ...landlock_calls import (
    ADD_RULE,
    CREATE_RULESET,
    EXECUTE,
    IOCTL_DEV,
    MAKE_BLOCK,
    MAKE_CHAR,
    OF_FILES,
    READ_DIR,
    READ_FILE,
    RESTRICT_SELF,
    RULE_PATH_BENEATH,
    TRUNCATE,
    WRITE_FILE,
    all_rights,
    handled,
    landlock_abi,
)  # fmt: skip
from ...spawn import Spawn, memory_file
from .. import seccomp
from ..cgroup import join_group
from ..cgroup_events import CgroupEvents
from ..interpreter import code_of, own_python
from ..known_roots import KnownRoots
from ..protected_paths import ProtectedPaths
from ..readable_roots import system_paths
from ..resource_limits import resource_limits
from ..settings import CommandLimits, Profile, SandboxSettings
from ..writable import Writable, workspace_of
from . import landlock_syscalls
from .protected_backup import BackupStore, ProtectedBackup

if TYPE_CHECKING:
    from .launcher import Plan

_READ = EXECUTE | READ_FILE | READ_DIR
_LANDLOCK = (CREATE_RULESET, ADD_RULE, RESTRICT_SELF, RULE_PATH_BENEATH)
_DEVICES = ("/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom")

_MAX_RESTORES = 50  # of protected files while a command runs; then the command is ended

# HOME is another folder inside, so programs that look for these below HOME need a variable.
_HOMES_OF_TOOLS = {
    "PYENV_ROOT": ".pyenv", "RBENV_ROOT": ".rbenv", "NODENV_ROOT": ".nodenv", "GOENV_ROOT": ".goenv",
    "ASDF_DATA_DIR": ".asdf", "VOLTA_HOME": ".volta", "RUSTUP_HOME": ".rustup", "NVM_DIR": ".nvm",
}  # fmt: skip

_LOADER = "import marshal,sys;f=open(int(sys.argv[1]),'rb');c,p=marshal.load(f);f.close();n={};exec(c,n);n['main'](p)"


class LandlockSandbox:
    """A sandbox around one workspace. `abi` is Landlock's version; by default the kernel's."""

    name = "landlock"
    active = True
    fresh_folders: tuple[str, ...] = ()
    domains: tuple[str, ...] = ()

    def __init__(self, settings: SandboxSettings, workspace: Path, abi: int | None = None) -> None:
        self.profile: Profile = settings.profile
        self.workspace = workspace_of(workspace)
        self.abi = landlock_abi() if abi is None else abi
        machine = seccomp.this_machine()
        if machine is None or self.abi < 1:
            raise SandboxUnavailable("This machine has no Landlock, or a processor without a table of system calls.")
        if settings.loopback:
            raise SandboxUnavailable(
                'sandbox.loopback needs a network of its own, which backend "landlock" cannot make. Use bubblewrap or '
                "docker, or leave it off."
            )
        self._python = own_python('Backend "landlock" starts a Python interpreter for each command')
        self._filters = landlock_syscalls.filters(machine, self.abi)
        self._calls = landlock_syscalls.made_calls(machine)
        self._seccomp = cast("int", landlock_syscalls.SECCOMP[machine.column])
        self._settings = settings
        self._keeper = BackupStore()
        self._lock = threading.Lock()
        self._writable = Writable(self.workspace, settings, self.profile)
        self._roots = KnownRoots(self.workspace)

    def wrap(self, argv: Sequence[str], *, cwd: Path, env: Mapping[str, str], timeout: float | None) -> Spawn:
        """Return what to start instead of the command. Raises SandboxUnavailable or OSError if it cannot be
        prepared."""
        readable, path = self._visible(env.get("PATH", ""), cwd)
        writable = self._writable.roots()
        self._refuse_hidden([*readable, *map(str, writable), str(self.workspace)])
        guards, kept = self._keep(cwd)
        folder = tempfile.mkdtemp(prefix="toolcrib-command-")
        handshake: _LauncherHandshake | None = None
        try:
            home, tmp = f"{folder}/home", f"{folder}/tmp"  # noqa: S108
            os.mkdir(home, 0o700)
            os.mkdir(tmp, 0o700)
            handshake = _LauncherHandshake(self._settings.limits, kept)
            places = [os.path.realpath(folder), *map(str, writable)]
            plan: Plan = {
                "argv": list(argv), "cwd": str(cwd), "status": handshake.status, "control": handshake.control,
                "folder": folder, "writable": places, "handled": handled(self.abi, all_rights(self.abi)),
                "landlock": _LANDLOCK, "rules": self._rules(readable, places),
                "filters": self._filters, "seccomp": self._seccomp,
                "calls": self._calls, "limits": list(_limits(self._settings.limits, timeout).items()),
                "watched": kept.places(),
            }  # fmt: skip
            plan_fd = memory_file(marshal.dumps((code_of("landlock.launcher"), cast("dict[str, Any]", plan))))
        except BaseException:
            shutil.rmtree(folder, ignore_errors=True)
            if handshake is not None:
                handshake.discard()
            raise
        spawn = Spawn(
            argv=[self._python, "-I", "-S", "-c", _LOADER, str(plan_fd)],
            cwd="/",
            env=_environment(env, home=home, tmp=tmp, path=path),
            child_fds=(plan_fd, handshake.status, handshake.control),
            handshake=handshake,
            cleanup=lambda: _remove_later(folder),
            prepare=lambda: join_group(self._settings.limits),
            stop=handshake.stop,
        )
        counted = handshake.counted
        spawn.appeared = lambda: self._settle(guards, kept, counted, spawn.notes)
        return spawn

    # --- files --------------------------------------------------------------------------------------------

    def _rules(self, readable: Sequence[str], writable: Sequence[str]) -> list[tuple[str, int, int]]:
        rights = all_rights(self.abi)
        change = rights & ~(MAKE_CHAR | MAKE_BLOCK | IOCTL_DEV)
        device = (READ_FILE | WRITE_FILE | TRUNCATE | IOCTL_DEV) & rights
        return [
            *((path, _READ, _READ & OF_FILES) for path in readable),
            *((path, change, change & OF_FILES) for path in writable),
            *((path, 0, device) for path in _DEVICES),
        ]

    def _visible(self, path: str, cwd: Path) -> tuple[list[str], list[str]]:
        """Return the files that may be read, and the PATH that remains."""
        binds, kept = self._roots.look(cwd, path)
        found = [*system_paths(), *binds.values()]
        found += [os.path.realpath(p) for p in (*self._settings.read_roots, *self._settings.write_roots)]
        return [*found, str(self.workspace), "/proc"], kept

    def _refuse_hidden(self, granted: Sequence[str]) -> None:
        for path in self._settings.hidden:
            real = os.path.realpath(path)
            inside = next((g for g in granted if real == g or real.startswith(g.rstrip("/") + "/")), None)
            if inside is not None and os.path.lexists(path):
                raise SandboxUnavailable(
                    f"{path} is to be hidden from commands and lies in {inside}, which they may read. Backend "
                    '"landlock" cannot do that: use bubblewrap, or move one of them.'
                )

    # --- protected names ----------------------------------------------------------------------------------

    def _keep(self, cwd: Path) -> tuple[list[ProtectedPaths], ProtectedBackup]:
        guards = self._writable.guards(cwd)
        with self._lock:
            return guards, self._keeper.take(guards)

    def _settle(
        self, guards: list[ProtectedPaths], kept: ProtectedBackup, counted: CgroupEvents, notes: list[str]
    ) -> list[str]:
        """Restore changed protected files. Return the files to be moved away."""
        notes += counted.notes()
        done = kept.restore()
        if done.back:
            notes.append(f"[put back as before, for commands must not change it: {self._shown(done.back)}]")
        if done.times >= _MAX_RESTORES:
            notes.append("[ended, because it went on changing them]")
        if done.failed:
            notes.append(f"[protected, changed, and could not be put back: {self._shown(done.failed)}. Tell the user.]")
        paths = [os.path.relpath(p, self.workspace) if self._is_inside(p) else p for p in done.aside]
        for found in guards:
            paths += found.appeared()
        return list(dict.fromkeys(paths))

    def _shown(self, paths: Sequence[str]) -> str:
        names = [os.path.relpath(p, self.workspace) if self._is_inside(p) else p for p in paths]
        return ", ".join(names[:10]) + (f" and {len(names) - 10} more" if len(names) > 10 else "")

    def _is_inside(self, path: str) -> bool:
        return path.startswith(f"{self.workspace}/")


class _LauncherHandshake:
    """The launcher sends the command's pid and waits. We put the command into a control group and let it continue."""

    def __init__(self, limits: CommandLimits, kept: ProtectedBackup) -> None:
        self._limits, self._kept = limits, kept
        self._lock = threading.Lock()
        self._restoring = False
        self.fd, self.status = os.pipe()
        self.control, self._word = os.pipe()
        self._text = b""
        self._error = ""
        self._ran, self._open = False, True
        self.counted = CgroupEvents(limits)

    def feed(self, data: bytes) -> int | None:
        """Read the launcher's messages. Never returns a leader: the launcher ends the processes that the command
        started, and ends after them."""
        self._text += data
        *lines, self._text = self._text.split(b"\n")
        for line in lines:
            word, _, rest = line.decode(errors="replace").partition(" ")
            if word == "pid":
                self.counted.begin(int(rest))
                self._send(b"1")
            self._ran = self._ran or word == "ran"
            if word == "error":
                self._error = rest
            if word == "changed" and not self._restoring:
                self._restoring = True
                threading.Thread(target=self._restore, name="toolcrib-restore", daemon=True).start()
        return None

    def _restore(self) -> None:
        """Restore protected files while the command runs, and have the new ones watched."""
        self._restoring = False  # changes after this point are reported again
        done = self._kept.restore(running=True)
        self._send(b"w" if done.times < _MAX_RESTORES else b"0")

    def stop(self) -> None:
        """Make the launcher end everything."""
        self._send(b"0")

    def _send(self, word: bytes) -> None:
        with self._lock:
            if self._open:
                with contextlib.suppress(OSError):  # it has ended meanwhile
                    os.write(self._word, word)

    def failure(self, stderr: str, code: int) -> Exception | None:
        if self._ran:
            return None
        said = self._error or stderr.strip()[:500] or "its launcher ended without a word"
        return SandboxUnavailable(f"The sandbox could not start the command: {said}")

    def close(self) -> None:
        """Close our ends. The other ends belong to the spawn's `child_fds`."""
        with self._lock:
            self._open = False
            os.close(self._word)
        os.close(self.fd)
        self.counted.end()

    def discard(self) -> None:
        """Close all descriptors of a spawn that was never started."""
        os.close(self.status)
        os.close(self.control)
        self.close()


def _limits(limits: CommandLimits, timeout: float | None) -> dict[int, int]:
    """Return the limits. Here processes are counted together with all others of the user: the limit is added to that
    number."""
    found = resource_limits(limits, timeout)
    with contextlib.suppress(OSError, ValueError, IndexError), open("/proc/loadavg") as file:
        running = int(file.read().split()[3].partition("/")[2])
        found[resource.RLIMIT_NPROC] = running + limits.processes
    return found


def _environment(env: Mapping[str, str], *, home: str, tmp: str, path: Sequence[str]) -> dict[str, str]:
    inner = {**env, "PATH": os.pathsep.join(path), "HOME": home, "TMPDIR": tmp}
    inner.setdefault("GIT_CONFIG_NOSYSTEM", "1")  # git stops at a file that it may not read, but not at a missing file
    for name, folder in _HOMES_OF_TOOLS.items():
        real = os.path.expanduser(f"~/{folder}")
        if name not in inner and os.path.isdir(real):
            inner[name] = real
    return inner


def _remove_later(folder: str) -> None:
    """Remove the rest of a private folder, in a thread: there may be many files, and others wait for this thread."""
    if os.path.lexists(folder):
        threading.Thread(target=lambda: _remove_all(folder), name="toolcrib-remove", daemon=True).start()


def _remove_all(folder: str) -> None:
    for path in _folders(folder):  # a command may have closed them
        with contextlib.suppress(OSError):
            os.chmod(path, 0o700)
    shutil.rmtree(folder, ignore_errors=True)


def _folders(folder: str) -> Iterator[str]:
    yield folder
    with contextlib.suppress(OSError), os.scandir(folder) as entries:
        for entry in entries:
            if entry.is_dir(follow_symlinks=False):
                yield from _folders(entry.path)
