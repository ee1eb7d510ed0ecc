"""Backend `bubblewrap`: namespaces of its own, a minimal root, no capabilities, a seccomp filter, limits."""

from __future__ import annotations

import json
import os
import resource
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from ...core.errors import SandboxUnavailable
from ..spawn import Spawn
from . import seccomp
from .cgroup import CommandGroup, join_group, new_group
from .guarded import Guard, guard
from .remedies import explain
from .roots import (
    ROOTS_SECONDS,
    SYSTEM_FOLDERS,
    SYSTEM_LINKS,
    Roots,
    kernel_arguments,
    open_system_files,
    system_arguments,
)
from .spec import Limits, Profile, SandboxSettings

_TMP, _SHM, _OTHER_HOME = "/tmp", "/dev/shm", "/tmp/home"  # noqa: S108  (inside they are new and empty)
_MOST_KNOWN = 1_000  # folders with protected names that are remembered
FORBIDDEN_WORKSPACES = ("/", "/proc", "/dev", "/sys", "/etc", "/bin", "/lib", *SYSTEM_FOLDERS[:1])

# The sandbox's own user namespace is the last one (--disable-userns); pid, network, ipc, uts, cgroup and mounts
# are new. --new-session keeps it from the terminal, and with the pid namespace the whole tree ends together.
_ISOLATION = (
    "--unshare-all", "--unshare-user", "--disable-userns", "--die-with-parent", "--new-session",
    "--cap-drop", "ALL", "--hostname", "sandbox",
)  # fmt: skip


class Bubblewrap:
    """A sandbox around one workspace. `program` is the bwrap to run; a probe has shown that it works here."""

    name = "bubblewrap"
    active = True

    def __init__(self, program: str, settings: SandboxSettings, workspace: Path) -> None:
        self.profile: Profile = settings.profile or "workspace-write"
        self.program = program
        self.workspace = Path(os.path.realpath(workspace))
        if str(self.workspace) in FORBIDDEN_WORKSPACES or not self.workspace.is_dir():
            raise SandboxUnavailable(
                f"{workspace} cannot be the workspace of a sandbox: it must be a folder that is not part of the system."
            )
        machine = seccomp.this_machine()
        if machine is None:
            raise SandboxUnavailable(
                f"The sandbox has no system call table for this processor ({os.uname().machine}); it knows x86-64 and "
                'aarch64. Without a sandbox: sandbox.backend = "none".'
            )
        families = (seccomp.AF_UNIX, seccomp.AF_INET, seccomp.AF_INET6, seccomp.AF_NETLINK)
        self._filter = seccomp.build(machine, families if settings.loopback else families[:1])
        self._settings = settings
        self._lock = threading.Lock()
        self._known: dict[Path, dict[str, None]] = {}  # folders of each root in which protected names were found
        self._roots: tuple[float, str, Roots, list[str]] | None = None

    def wrap(self, argv: Sequence[str], *, cwd: Path, env: Mapping[str, str], timeout: float | None) -> Spawn:
        """What to start instead. Raises SandboxUnavailable or OSError where it cannot be prepared."""
        home = self._home(env)
        roots, path = self._visible(env.get("PATH", ""), cwd)
        arguments = [self.program, *_ISOLATION, *self._mounts(home, roots)]
        guards = self._guards(cwd)
        for guarded in guards:
            arguments += guarded.arguments()
        arguments += self._hidden()
        copies = open_system_files()
        for fd, target in copies:
            arguments += ["--perms", "0444", "--file", str(fd), target]
        arguments += ["--remount-ro", "/", "--chdir", str(cwd)]

        handshake = _Handshake(self._settings.limits, timeout)
        filter_fd = memory_file(self._filter)
        arguments += ["--seccomp", str(filter_fd)]
        arguments += ["--json-status-fd", str(handshake.status), "--block-fd", str(handshake.block)]
        inner = {**env, "PATH": os.pathsep.join(path), "HOME": home, "TMPDIR": _TMP}
        # The environment reaches the command by inheritance: as arguments, every user could read granted secrets.
        return Spawn(
            argv=[*arguments, "--", *argv],
            cwd="/",
            env=inner,
            child_fds=(filter_fd, handshake.status, handshake.block, *(fd for fd, _ in copies)),
            handshake=handshake,
            prepare=lambda: join_group(self._settings.limits),
            appeared=lambda: self._appeared(guards),
        )

    def _guards(self, cwd: Path) -> list[Guard]:
        """What is protected in each folder that the command may write to, outer folders first, as their binds go."""
        if self.profile != "workspace-write":
            return []
        guards: list[Guard] = []
        roots = {self.workspace, *(Path(os.path.realpath(path)) for path in self._settings.write)}
        for root in sorted(filter(Path.is_dir, roots), key=lambda path: len(path.parts)):
            known = self._known.setdefault(root, {})
            found = guard(root, cwd, self._settings.allow_protected, tuple(known))
            found.absolute = root != self.workspace
            known.update(dict.fromkeys(found.known[: _MOST_KNOWN - len(known)]))
            guards.append(found)
        return guards

    def _appeared(self, guards: list[Guard]) -> list[str]:
        found = {self.workspace / path: path for guarded in guards for path in guarded.appeared()}
        return list(found.values())

    def _home(self, env: Mapping[str, str]) -> str:
        """The home directory's name inside: the host's, so that tools find themselves, if it can be empty."""
        home = os.path.normpath(env.get("HOME") or "/")
        above = (home, *(str(p) for p in Path(home).parents))
        taken = {*FORBIDDEN_WORKSPACES, *SYSTEM_FOLDERS, *SYSTEM_LINKS, str(self.workspace)} - {"/"}
        if not os.path.isabs(home) or home == "/" or taken.intersection(above):
            return _OTHER_HOME
        return home

    def _visible(self, path: str, cwd: Path) -> tuple[list[str], list[str]]:
        """Bubblewrap's arguments for the tools' folders, and the PATH that remains."""
        now = time.monotonic()
        with self._lock:
            if self._roots is None or self._roots[1] != path or now - self._roots[0] > ROOTS_SECONDS:
                roots = Roots(Path(os.path.expanduser("~")), self.workspace)
                self._roots = now, path, roots, roots.add_path(path)
            _, _, roots, kept = self._roots
            inside = [str(p) for p in (cwd, *cwd.parents) if p.is_relative_to(self.workspace)]
            roots.add_environments(inside)
            return roots.arguments(), kept

    def _mounts(self, home: str, roots: list[str]) -> list[str]:
        size = str(self._settings.limits.tmp)
        workspace = str(self.workspace)
        arguments = [
            *system_arguments(),
            "--proc", "/proc", *kernel_arguments(os.geteuid() == 0),
            "--dev", "/dev", "--size", size, "--tmpfs", _SHM, "--remount-ro", "/dev",
            "--size", size, "--tmpfs", _TMP, "--dir", "/run", "--symlink", "../tmp", f"/var{_TMP}",
        ]  # fmt: skip
        arguments += ["--dir", home] if home == _OTHER_HOME else ["--size", size, "--tmpfs", home]
        arguments += roots
        for path in self._settings.read:
            arguments += ["--ro-bind-try", str(path), str(path)]
        for path in self._settings.write:
            arguments += ["--bind-try" if self.profile == "workspace-write" else "--ro-bind-try", str(path), str(path)]
        bind = "--bind" if self.profile == "workspace-write" else "--ro-bind"
        return [*arguments, bind, workspace, workspace]

    def _hidden(self) -> list[str]:
        arguments: list[str] = []
        for path in self._settings.hidden:
            if path.is_dir():
                arguments += ["--tmpfs", str(path), "--remount-ro", str(path)]
            elif path.exists():
                arguments += ["--ro-bind", "/dev/null", str(path)]
        return arguments


class _Handshake:
    """bwrap tells the pid of the leader and waits; we set its limits and let it go on."""

    def __init__(self, limits: Limits, timeout: float | None) -> None:
        self._limits, self._timeout = limits, timeout
        self.fd, self.status = os.pipe()
        self.block, self._release = os.pipe()
        self._text = b""
        self._cgroup: CommandGroup | None = None
        self._confined = self._ran = False

    def feed(self, data: bytes) -> int | None:
        self._text += data
        leader = None
        *lines, self._text = self._text.split(b"\n")
        for line in lines:
            news = json.loads(line)
            self._ran = self._ran or "exit-code" in news
            leader = news.get("child-pid", leader)
        if leader is not None and not self._confined:
            self._confine(leader)
        return leader

    def _confine(self, leader: int) -> None:
        for limit, value in resource_limits(self._limits, self._timeout).items():
            soft, hard = resource.prlimit(leader, limit)
            bound = value if hard == resource.RLIM_INFINITY else min(value, hard)
            soft = bound if soft == resource.RLIM_INFINITY else min(bound, max(soft, value))
            resource.prlimit(leader, limit, (soft, bound))
        self._cgroup = new_group(self._limits)
        if self._cgroup is not None:
            self._cgroup.add(leader)
        self._confined = True
        try:
            os.write(self._release, b"1")
        except BrokenPipeError:  # it has failed meanwhile, and says so itself
            pass

    def failure(self, stderr: str, code: int) -> Exception | None:
        if self._ran:
            return None
        return SandboxUnavailable(explain(stderr))

    def close(self) -> None:
        """The other ends belong to the spawn's `child_fds`."""
        os.close(self.fd)
        os.close(self._release)
        if self._cgroup is not None:
            self._cgroup.remove()


def resource_limits(limits: Limits, timeout: float | None) -> dict[int, int]:
    """The rlimits of one command. CPU time only where there is a time limit to multiply."""
    found = {
        resource.RLIMIT_CORE: 0,
        resource.RLIMIT_AS: limits.address_space,
        resource.RLIMIT_FSIZE: limits.file_size,
        resource.RLIMIT_NOFILE: limits.open_files,
        # Counted inside the sandbox's own user namespace (Linux ≥ 5.14); the host's root is not bound by it.
        resource.RLIMIT_NPROC: limits.processes,
    }
    if timeout is not None:
        cores = limits.cores or os.cpu_count() or 1
        found[resource.RLIMIT_CPU] = max(1, int(timeout * cores) + 1)
    return found


def memory_file(content: bytes) -> int:
    """A descriptor of a file without a name that has this content, at its beginning."""
    fd = os.memfd_create("toolcrib")
    os.write(fd, content)
    os.lseek(fd, 0, os.SEEK_SET)
    return fd
