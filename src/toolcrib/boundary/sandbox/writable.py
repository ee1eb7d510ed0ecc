"""Find the folders that a command may change, and the protected paths in them."""

from __future__ import annotations

import logging
import os
import shlex
import threading
from collections.abc import Iterable, Sequence
from pathlib import Path

from ...core.errors import SandboxUnavailable
from ...core.text import one_line
from ..descriptors import patiently
from ..host_file import HostFile, both_names
from ..host_files import host_files_in, own_data_in
from ..programs import beneath, within_any
from ..real_path import real_path
from ..workspace_paths import WHOLE_MACHINE
from .detours import state_of
from .found_files import kept_files
from .protected_paths import ProtectedPaths, find_protected_paths, links_of_home
from .protected_search import closed_above, entered_before, remembered, repositories_after
from .running_commands import begin, doubt, end, kept_now, others, searching, shown_now
from .settings import Profile, SandboxSettings

log = logging.getLogger("toolcrib.boundary")
FORBIDDEN_WORKSPACES = ("/", "/proc", "/dev", "/sys", "/etc", "/bin", "/lib", "/usr")
_MAX_KNOWN = 20_000  # folders with protected names that are remembered, per root


def workspace_of(folder: Path, *, whole_machine: bool = False) -> Path:
    """Return a sandbox's workspace, a real path. Raises SandboxUnavailable for a system folder, a missing folder, or
    one where a link is now on the way. With `whole_machine` it may be `/`, of which commands get only what they get
    anywhere."""
    check_still_there(folder)
    allowed = whole_machine and str(folder) == WHOLE_MACHINE
    if not allowed and (str(folder) in FORBIDDEN_WORKSPACES or not folder.is_dir()):
        raise SandboxUnavailable(
            f"{folder} cannot be the workspace of a sandbox: it must be a folder that is not part of the system."
        )
    return folder


def check_still_there(workspace: Path) -> None:
    """Raise SandboxUnavailable if something else is now in the place of a workspace (its real path), or above it."""
    if (now := real_path(workspace)) != str(workspace):
        raise SandboxUnavailable(f"{workspace} leads to {now} now, so commands cannot run there. Start again.")


class Writable:
    """The workspace and the folders granted for writing; empty under any profile except workspace-write."""

    def __init__(self, workspace: Path, settings: SandboxSettings, profile: Profile) -> None:
        self._workspace, self._settings = workspace, settings
        self._allowed = profile == "workspace-write"
        self._kept = kept_files(workspace, settings)
        self._lock = threading.Lock()
        self._known: dict[Path, dict[str, None]] = {}  # folders of each root in which protected names were found

    def roots(self) -> list[Path]:
        """Return the current folders, links followed, the workspace first."""
        if not self._allowed:
            return []
        paths = list(map(Path, self._settings.writable(self._workspace)))
        beside = [real_path(path) for path in self._settings.beside(paths, self._workspace)]
        return [Path(real) for real in map(real_path, paths) if within_any(real, beside)]

    def guards(self, cwd: Path, *, lasting: bool = False) -> list[ProtectedPaths]:
        """Return the protected paths of each folder that exists, outer folders first, in the order of their binds. They
        hold for other commands, too, until `appeared` is called, or nothing refers to them. `lasting`: the command has
        no time limit."""
        check_still_there(self._workspace)
        there = {root for root in self.roots() if root.is_dir()}
        with searching() as ended:
            guards = [self._guard(root, cwd, ended) for root in sorted(there, key=lambda path: len(path.parts))]
            self._hold_across(guards)
            for guard in guards:
                if lasting:
                    guard.close_repositories()
                doubt(guard, ended)
                guard.states = {path: state_of(path) for path, read_only in guard.mounts() if read_only}
            begin(guards)
        return guards

    def _hold_across(self, guards: list[ProtectedPaths]) -> None:
        """Protect in each folder what links of others, and of the home, lead to, and granted folders."""
        others = [*guards, *links_of_home(guard.root for guard in guards)] if guards else []
        for guard in guards:
            for target, (link, _) in [pair for other in others if other is not guard for pair in other.leads.items()]:
                if target.startswith(f"{guard.root}/"):  # a protected link leads from one folder into another
                    guard.hold(HostFile(target, "", place=real_path(link) != target), shared=False)
            for inner in (other.root for other in guards if other.root.startswith(f"{guard.root}/")):
                guard.hold_place(inner)

    def appeared(self, guards: Iterable[ProtectedPaths], notes: list[str] | None = None) -> list[str]:
        """Return the protected names that a command made, and the files that rules forbid to change, each once; those
        in the workspace relative to it. Add `notes` about those that were mounted and are not any more."""
        guards = list(guards)
        end(guards)
        found = patiently(lambda: self._found(guards))
        if notes is not None:
            notes.extend(self._replaced(guards))
        return list(found.values())

    def _found(self, guards: Sequence[ProtectedPaths]) -> dict[Path, str]:
        running = others()
        found: dict[Path, str] = {}
        for guard in guards:
            hidden = (each for each in repositories_after(guard.root, guard.started) if guard.is_deep(each))
            new = guard.appeared((*remembered(guard.root), *hidden), running)
            found.update({self._workspace / path: path for path in new})
        if guards:
            for path in map(Path, self._kept.appeared(min(guard.started for guard in guards))):
                root = next((guard for guard in guards if path.is_relative_to(guard.root)), None)
                if root is not None and str(path) not in root.held:
                    found[path] = str(path) if root.absolute else os.path.relpath(path, self._workspace)
        return found

    def _replaced(self, guards: Iterable[ProtectedPaths]) -> list[str]:
        """Say which protected files were replaced. Then the kernel removes what is mounted on them in other mount
        namespaces (rename(2), unlink(2)), so that the command could change the new ones."""
        paths = [path for guard in guards for path, was in guard.states.items() if state_of(path) not in ((), was)]
        if not paths:
            return []
        shown = ", ".join(one_line(os.path.relpath(path, self._workspace)) for path in sorted(paths)[:10])
        text = (
            f"{shown}: another program changed or replaced it while the command ran. From then on the command could "
            "change it, too, and other programs run or trust it"
        )
        log.warning("%s. Look at it.", text)
        return [f"[{text}. Tell the user to look at it.]"]

    def _guard(self, root: Path, cwd: Path, ended: list[ProtectedPaths]) -> ProtectedPaths:
        with self._lock:
            known = (*self._known.get(root, ()), *remembered(str(root)))
        lifted = self._settings.host_files_writable
        free = (*map(str, self.roots()), *lifted)
        allowed = frozenset(self._settings.allow_protected)
        found = find_protected_paths(root, cwd, allowed, known, free=[each for each in free if each != str(root)])
        if not any(beneath(str(root), each.root) or beneath(each.root, str(root)) for each in others(ended)):
            entered_before(str(root), found.search.entered)
        kept = tuple(kept_now(str(root), ended))  # a command that runs could hide from this one what they are
        for closed in found.search.closed:
            unknown = closed.endswith("/.git") and not any(beneath(file.path, closed) for file in kept)
            if closed == str(root) or unknown:  # the settings of a repository name what must not change elsewhere
                raise SandboxUnavailable(
                    f"{closed} cannot be opened, so what commands must not change is not known. A person can open it: "
                    f"chmod u+rwx {shlex.quote(closed)}"
                )
        own, near = self._settings.host_files, (str(cwd), *found.known)
        files = [each for each in host_files_in(str(root), own, near) if each.path not in lifted]
        for each in (*files, *own_data_in(str(root))):
            found.hold(each)
        granted = map(real_path, self._settings.read_roots)  # the innermost root decides
        for path in both_names((*self._kept.paths(), *granted)):
            if path.startswith(f"{root}/"):
                found.hold(HostFile(path, ""), shared=False)
        for file in kept:
            free = file.path in lifted and not file.name
            there = os.path.lexists(file.path) or closed_above(file.path, str(root))
            if file not in found.shared and not free and there:
                found.hold(file)
        for file in shown_now(str(root)):
            if os.path.exists(file.path) and real_path(file.path) == file.path:
                found.keep(file.path)
        found.denied, found.absolute = self._kept.denies, root != self._workspace
        with self._lock:
            bases = self._known.setdefault(root, {})
            bases.update(dict.fromkeys(found.known[:_MAX_KNOWN]))  # it begins with the folders that were known before
        return found
