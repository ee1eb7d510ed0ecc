"""Backend `bubblewrap`: new namespaces, a minimal root, no capabilities, a seccomp filter, limits."""

from __future__ import annotations

import functools
import json
import os
import socket
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ...core.errors import SandboxUnavailable
from ..filesystems import may_hang
from ..mount_points import Mount, mounts, not_bound
from ..own_devices import own_devices
from ..process_tree import has_ended
from ..programs import within_any, within_known
from ..real_path import real_path
from ..spawn import Spawn, memory_file
from ..workspace_paths import WHOLE_MACHINE
from . import seccomp
from .cgroup import CgroupEvents, join_group
from .found_files import withheld_files
from .readable_roots import (
    SYSTEM_FOLDERS,
    SYSTEM_LINKS,
    KnownRoots,
    alias_arguments,
    bind_arguments,
    kernel_arguments,
    open_system_files,
    shown_by,
    system_arguments,
)
from .remedies import explain
from .resource_limits import limit_process, resource_limits
from .settings import CommandLimits, Profile, SandboxSettings
from .spec import WriteLayer
from .writable import FORBIDDEN_WORKSPACES, Writable, workspace_of

if TYPE_CHECKING:
    from ..network.address_guard import AddressGuard
    from ..proxy.egress_secret import EgressSecret
    from .outlet import Outlet

_TMP, _SHM, _OTHER_HOME = "/tmp", "/dev/shm", "/tmp/home"  # noqa: S108  (inside they are new and empty)

# The sandbox's own user namespace is the last one (--disable-userns); pid, network, ipc, uts, cgroup and mounts
# are new. --new-session keeps it from the terminal, and with the pid namespace the whole tree ends together.
_ISOLATION = (
    "--unshare-all", "--unshare-user", "--disable-userns", "--die-with-parent", "--new-session",
    "--cap-drop", "ALL", "--hostname", "sandbox",
)  # fmt: skip

_NEW_ROOT = "/newroot"  # what bubblewrap mounts lies there until its last steps
MAX_OWN_BINDS = 20
"""bubblewrap reads the list of all mounts after each one that it makes. Where more protected paths are bound, a helper
does it when bubblewrap has finished."""
_MAX_WITHHELD = 2_000
"""bubblewrap takes at most 9,000 arguments, three for each path."""


class BubblewrapSandbox:
    """A sandbox around one workspace. `program` is the bwrap to run; a trial has shown that it works here.

    `overlay_program` returns the bwrap for commands that run over a layer, or raises SandboxUnavailable.
    """

    name = "bubblewrap"
    active = True
    fresh_folders = (_TMP, f"/var{_TMP}", _SHM)

    def __init__(
        self, program: str, settings: SandboxSettings, workspace: Path, overlay_program: Callable[[], str] | None = None
    ) -> None:
        self.profile: Profile = settings.profile
        self.program = program
        self.workspace = workspace_of(workspace, whole_machine=True)
        machine = seccomp.this_machine()
        if machine is None:
            raise SandboxUnavailable(
                f"The sandbox has no system call table for this processor ({os.uname().machine}); it knows x86-64 and "
                'aarch64. Without a sandbox: sandbox.backend = "none".'
            )
        self.domains = settings.domains
        self._filter = _filter(machine, settings)
        self._settings = settings
        self._writable = Writable(self.workspace, settings, self.profile)
        self._withheld = withheld_files(self.workspace, settings)
        self._roots = KnownRoots(self.workspace)
        self.overlay_program = overlay_program or (lambda: program)

    def wrap(
        self,
        argv: Sequence[str],
        *,
        cwd: Path,
        env: Mapping[str, str],
        timeout: float | None,
        layer: WriteLayer | None = None,
    ) -> Spawn:
        """Return what to start instead of the command. Raises SandboxUnavailable or OSError if it cannot be
        prepared."""
        home = self._home(env)
        roots, path = self._roots.look(cwd, env.get("PATH", ""))
        program = self.program if layer is None else self.overlay_program()
        granted = self._granted()
        devices = own_devices()
        arguments = [program, *_ISOLATION, *self._mounts(home, roots, granted, devices)]
        guards = self._writable.guards(cwd, lasting=timeout is None)
        if layer is not None:
            arguments += layer.arguments()
            layer.protected = guards
        hidden = [Path(real_path(path)) for path in self._settings.hidden]
        withheld = [path for path in map(Path, self._withheld.paths()) if not any(map(path.is_relative_to, hidden))]
        bound = [] if layer is not None else self._pins([*withheld, *hidden])
        for guarded in guards:
            bound += guarded.arguments(pins=layer is None)
        binds = [bound[number : number + 3] for number in range(0, len(bound), 3)]
        # What is read-only comes last: what is bound later, also for another granted folder, lies over it.
        binds.sort(key=lambda bind: bind[0] == "--ro-bind")
        covered = self._covered(withheld, shown_by(arguments, hidden))
        protect = None
        if len(binds) > MAX_OWN_BINDS:
            binds, protect = _divided(binds, covered, over_layer=layer is not None)
        arguments += [each for bind in binds for each in bind]
        outlet = self._outlet()
        whole = {*granted.values()} - {WHOLE_MACHINE}
        copies = open_system_files(whole)
        for fd, target in copies:
            arguments += ["--perms", "0444", "--file", str(fd), target]
        arguments += covered
        if outlet is not None and outlet.authorities is not None:
            target, content = outlet.authorities
            copies.append((memory_file(content), target))
            arguments += ["--perms", "0444", "--ro-bind-data", str(copies[-1][0]), target]
        check = functools.partial(
            not_bound, paths=bound[2::3], base=_NEW_ROOT, whole=whole, over_layer=layer is not None and protect is None
        )
        handshake = _BubblewrapHandshake(self._settings.limits, timeout, outlet, protect, check)
        arguments += ["--file", str(handshake.last), os.devnull, "--remount-ro", "/", "--chdir", str(cwd)]

        filter_fd = memory_file(self._filter)
        arguments += ["--seccomp", str(filter_fd)]
        arguments += ["--json-status-fd", str(handshake.status), "--block-fd", str(handshake.block)]
        arguments += ["--sync-fd", str(handshake.held)]
        inner = {**env, "PATH": os.pathsep.join(path), "HOME": home, "TMPDIR": _TMP}
        if outlet is not None:
            inner = outlet.environment(inner)
        notes, refused = list[str](), list[str]()

        def appeared() -> list[str]:
            notes.extend(handshake.notes())
            refused.extend(outlet.refused() if outlet is not None else ())
            return self._writable.appeared(guards, notes if layer is None else None)

        # The command inherits the environment. In the arguments, every user could read the granted secrets.
        return Spawn(
            argv=[*arguments, "--", *argv],
            cwd="/",
            env=inner,
            child_fds=(filter_fd, *handshake.for_bwrap(), *(fd for fd, _ in copies)),
            nothing=devices.get(os.devnull, os.devnull),
            handshake=handshake,
            failure=handshake.failure,
            prepare=lambda: join_group(self._settings.limits),
            appeared=appeared,
            notes=notes,
            refused=refused,
        )

    @property
    def opens_hosts(self) -> bool:
        """Return whether the settings leave commands any network."""
        return self._settings.network != "off"

    def refusal(self, host: str) -> str:
        """Return why the settings keep this host (`host:port`) closed to every command; "" if they do not."""
        found = self._guard().judge_known(f"http://{host}/")
        return found.reason if found is not None and found.verdict == "deny" else ""

    def opening(self, hosts: tuple[str, ...], egress: tuple[EgressSecret, ...] = ()) -> BubblewrapSandbox:
        """Return this sandbox for a command that may also reach these hosts, each as `host:port`, and into whose
        requests the proxy puts these secrets."""
        settings = replace(self._settings, opened=hosts, egress=egress)
        return BubblewrapSandbox(self.program, settings, self.workspace, self.overlay_program)

    def layer_roots(self) -> list[Path]:
        """Return the folders to overlay. Raises SandboxUnavailable if they cannot be overlaid."""
        self.overlay_program()
        return _overlay_roots(self._writable.roots())

    def _outlet(self) -> Outlet | None:
        if not (self.domains or self._settings.opened):
            return None
        from .outlet import Outlet

        return Outlet(self._settings, self._guard())

    def _guard(self) -> AddressGuard:
        from ..network.address_guard import AddressGuard

        given: Any = self._settings.guard
        guard: Any = given() if callable(given) else given
        return AddressGuard() if guard is None else guard

    def _home(self, env: Mapping[str, str]) -> str:
        """Return the home directory's name inside the sandbox. It is the host's name, so that tools find their
        files, if it can be empty."""
        home = os.path.normpath(env.get("HOME") or "/")
        above = (home, *(str(p) for p in Path(home).parents))
        taken = {*FORBIDDEN_WORKSPACES, *SYSTEM_FOLDERS, *SYSTEM_LINKS, str(self.workspace)} - {"/"}
        if not os.path.isabs(home) or home == "/" or taken.intersection(above):
            return _OTHER_HOME
        return home

    def _granted(self) -> dict[str, str]:
        """Return the workspace, and the granted folders and files that are there, and not there with it: name → the
        real path."""
        granted = self._settings.beside((*self._settings.read_roots, *self._settings.write_roots), self.workspace)
        real = {os.path.abspath(path): real_path(path) for path in (*granted, self.workspace)}
        return {name: path for name, path in real.items() if os.path.lexists(path)}

    def _mounts(
        self, home: str, roots: Mapping[str, str], granted: Mapping[str, str], devices: Mapping[str, str]
    ) -> list[str]:
        """Show the system, our `devices`, the `roots` and what is `granted`, in this order. What is granted has its
        real path, which protections and rules know; other names are links to it."""
        size = str(self._settings.limits.tmp)
        workspace = str(self.workspace)
        arguments = [
            *system_arguments(),
            "--proc", "/proc", *kernel_arguments(os.geteuid() == 0),
            "--dev", "/dev", *(each for path, ours in devices.items() for each in ("--dev-bind", ours, path)),
            "--size", size, "--tmpfs", _SHM, "--remount-ro", "/dev",
            "--size", size, "--tmpfs", _TMP, "--dir", "/run", "--symlink", "../tmp", f"/var{_TMP}",
        ]  # fmt: skip
        arguments += ["--dir", home] if home == _OTHER_HOME else ["--size", size, "--tmpfs", home]
        whole = {*granted.values()} - {WHOLE_MACHINE}
        links = {name: real for name, real in roots.items() if name != real and within_any(real, whole)}
        arguments += bind_arguments({name: real for name, real in roots.items() if name not in links})
        writes = "--bind" if self.profile == "workspace-write" else "--ro-bind"
        for option, paths in (("--ro-bind", self._settings.read_roots), (writes, self._settings.write_roots)):
            for real in (granted[name] for name in map(os.path.abspath, paths) if name in granted):
                arguments += [option, real, real]
        if workspace != WHOLE_MACHINE:
            arguments += [writes, workspace, workspace]
        links |= {name: real for name, real in granted.items() if name != real}
        return [*arguments, *alias_arguments(links, arguments)]

    def _pins(self, unseen: Sequence[Path]) -> list[str]:
        """Keep the folders above withheld and hidden files where they are: the next command would not know them again
        under other names."""
        roots = self._writable.roots() if unseen else []
        above = {
            folder
            for path in unseen
            for root in roots
            for folder in path.parents
            if folder != root and folder.is_relative_to(root) and os.path.isdir(folder)
        }
        order = sorted(above, key=lambda folder: len(folder.parts))
        return [each for folder in order for each in ("--bind", str(folder), str(folder))]

    def _covered(self, withheld: Sequence[Path], hidden: Sequence[Path]) -> list[str]:
        """Cover what is withheld, and what is hidden and could be seen."""
        arguments: list[str] = []
        if len(withheld) > _MAX_WITHHELD:
            raise SandboxUnavailable(
                f"{len(withheld):,} files here have names that mean secrets, or are denied by rules ({withheld[0]} …); "
                f"at most {_MAX_WITHHELD:,} can be left out of the sandbox of a command. "
                "Remove or rename some, or hide their folder (sandbox.hidden)."
            )
        for path in dict.fromkeys(self._withheld.seen_as(str(each)) for each in (*hidden, *withheld)):
            if os.path.isdir(path):
                arguments += ["--tmpfs", path, "--remount-ro", path]
            elif os.path.exists(path):
                arguments += ["--ro-bind", "/dev/null", path]
        return arguments


def _filter(machine: seccomp.Machine, settings: SandboxSettings) -> bytes:
    """Allow only named kinds of sockets. With our proxy, and without `loopback`, allow only the sockets that can
    reach the proxy: host sockets in the workspace would be another way out."""
    if settings.only_reads:
        return seccomp.build(machine, (), seccomp.pairs_only(machine))
    if settings.loopback:
        return seccomp.build(machine, (seccomp.AF_UNIX, seccomp.AF_INET, seccomp.AF_INET6, seccomp.AF_NETLINK))
    if settings.domains or settings.opened:
        return seccomp.build(machine, (seccomp.AF_INET,), seccomp.tcp_only(machine))
    return seccomp.build(machine, (seccomp.AF_UNIX,))


def _overlay_roots(writable: Sequence[Path]) -> list[Path]:
    """Return the folders for the layer: those that are writable, without folders inside another one.

    Raises SandboxUnavailable if one of them cannot be overlaid.
    """
    found: list[Path] = []
    for path in sorted(set(writable), key=lambda p: len(p.parts)):
        if any(path.is_relative_to(other) for other in found):
            continue
        if not path.exists():
            continue
        if not path.is_dir():
            raise SandboxUnavailable(f"{path} is a file, and only folders can be overlaid")
        if may_hang(path):
            raise SandboxUnavailable(f"{path} lies on a network's file system, which cannot be overlaid safely")
        found.append(path)
    for inner in (each.point for each in mounts()):
        for path in found:
            if inner != str(path) and inner.startswith(f"{path}/"):
                raise SandboxUnavailable(f"{inner} is a file system of its own, which a layer would hide")
    found.sort(key=writable.index)  # the workspace first
    return found


def _divided(
    binds: list[list[str]], covered: Iterable[str], *, over_layer: bool
) -> tuple[list[list[str]], Callable[[int], None] | None]:
    """Return the binds that bubblewrap makes itself, and a function that makes the others in the sandbox whose first
    process has this number, when bubblewrap has finished. What it covers would lie under what is bound afterwards.

    Over a layer one of them makes all: bubblewrap binds what lies below the layer, the function what is seen in it.
    """
    from .namespace_helper import can_bind, namespace_helper

    if not can_bind():
        return binds, None
    covers = {each for each in covered if each.startswith("/")}
    around = {str(folder) for each in covers for folder in Path(each).parents}
    own, later = list[list[str]](), list[tuple[str, bool]]()
    for bind in binds:
        if bind[2] in around or within_known(bind[2], covers):
            own.append(bind)
        else:
            later.append((bind[2], bind[0] == "--ro-bind"))
    if own and over_layer:
        return binds, None
    return own, lambda leader: namespace_helper.bind(leader, later)


class _BubblewrapHandshake:
    """bwrap sends the leader's pid, mounts everything, and waits. We set the leader's limits, open its outlet, look at
    its mounts, and let it continue.

    bwrap follows links: a command that runs at the same time could put one in the place of what is bound onto itself.
    """

    def __init__(
        self,
        limits: CommandLimits,
        timeout: float | None,
        outlet: Outlet | None,
        protect: Callable[[int], None] | None,
        not_bound: Callable[[int, list[Mount]], str],
    ) -> None:
        self._limits, self._timeout, self._outlet = limits, timeout, outlet
        self._protect, self._not_bound = protect, not_bound
        self.fd, self.status = os.pipe()
        # bwrap copies `last` after all mounts: it is empty, and closed then, so that `ready` is at its end, too.
        ready, last = socket.socketpair()
        ready.shutdown(socket.SHUT_WR)
        self.ready, self.last = ready.detach(), last.detach()
        self.block, self._release = os.pipe()
        # At the end of the pipe bwrap would run the command, too. So it keeps the pipe open itself: no end comes when
        # our process is killed before it has set the limits.
        self.held = os.dup(self._release)
        self._text = b""
        self._counted = CgroupEvents(limits)
        self._ours: list[Mount] = []
        self._leader: int | None = None
        self._ran = False

    def feed(self, data: bytes) -> int | None:
        self._text += data
        leader = None
        *lines, self._text = self._text.split(b"\n")
        for line in lines:
            news = json.loads(line)
            self._ran = self._ran or "exit-code" in news
            leader = news.get("child-pid", leader)
        if leader is not None and self._leader is None:
            self._confine(leader)
        return leader

    def _confine(self, leader: int) -> None:
        try:
            limit_process(leader, resource_limits(self._limits, self._timeout))
            self._counted.begin(leader)
            if self._outlet is not None:
                self._outlet.open(leader)
            self._ours = mounts()  # now, while bwrap still mounts
            self._leader = leader
        except (SandboxUnavailable, ProcessLookupError):
            if not has_ended(leader):
                raise  # else bubblewrap could not create the sandbox, and prints the reason

    def release(self) -> None:
        if self._leader is None:
            return
        if self._protect is not None:
            try:
                self._protect(self._leader)
            except SandboxUnavailable:
                if not has_ended(self._leader):
                    raise
                return
        other = self._not_bound(self._leader, self._ours)
        if other and not has_ended(self._leader):
            raise SandboxUnavailable(
                f"{other} was changed while the sandbox of this command was made, so that it would have shown other "
                "files. The command did not run. Try again when no other command changes it."
            )
        try:
            os.write(self._release, b"1")
        except BrokenPipeError:  # it has failed meanwhile, and prints the reason
            pass

    def for_bwrap(self) -> tuple[int, ...]:
        """Return the descriptors that bwrap gets."""
        return self.status, self.block, self.held, self.last

    def failure(self, stderr: str, code: int) -> Exception | None:
        """Return the error if the command never ran, None if it did."""
        if self._ran:
            return None
        return SandboxUnavailable(explain(stderr))

    def notes(self) -> list[str]:
        """Return notes about the limits and refusals that the command met. Call it after the command's end."""
        return [*self._counted.notes(), *(self._outlet.notes() if self._outlet is not None else ())]

    def close(self) -> None:
        """Close our ends. The other ends belong to the spawn's `child_fds`."""
        for fd in (self.fd, self.ready, self._release):
            os.close(fd)
        if self._outlet is not None:
            self._outlet.close()
        self._counted.end()
