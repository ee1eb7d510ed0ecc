"""Judge whether a path may be read or changed: it may be outside, hold secrets, be protected, or have other names."""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Container, Iterable
from pathlib import Path

from ..core.errors import OutsideWorkspace, ToolError
from ..core.verdict import Judgement
from .hidden_entries import hidden_at
from .host_files import RULE_HOST_FILES, host_file_at
from .protected_names import (
    REPOSITORY,
    REPOSITORY_NAMES,
    ProtectedName,
    protected_below,
    protected_by,
)
from .sensitive_names import sensitive_by
from .workspace import Workspace
from .workspace_paths import ReadOnlyRoot, WorkspacePath
from .workspace_roots import PathLike

# The values of `Judgement.rule` for a path; `check --bare` and the policy use them to distinguish the cases.
RULE_OUTSIDE = "path:outside"
RULE_READ_ONLY = "path:read-only"
RULE_SECRET = "path:secret"  # noqa: S105
RULE_PROTECTED = "path:protected"
RULE_LINKED = "path:hard-link"


def made_by(ws: Workspace, paths: Iterable[PathLike]) -> frozenset[Path]:
    """Return these paths and the folders above them, as absolute paths: what a call makes that names all of them."""
    made: set[Path] = set()
    for path in paths:
        with contextlib.suppress(ToolError):
            place = ws.locate(path)
            made.update(place.root.path.joinpath(*place.parts[:n]) for n in range(1, len(place.parts) + 1))
    return frozenset(made)


def why_protected(ws: Workspace, path: PathLike, along: Container[Path] = ()) -> ProtectedName | None:
    """Return the entry of the protected names that a change of this path would affect. `along` is
    what else the same call makes (`made_by`)."""
    place = ws.locate(path)
    inside = "/".join(place.parts)
    root = str(place.root.path)
    whole = os.path.join(root, *place.parts)
    found = protected_by(inside) or (protected_below(inside) if place.parts else None) or hidden_at(root, whole)
    if found is None and _in_repository(ws, place, along):
        return REPOSITORY
    if found is None and place.root.writable:
        from .sandbox.protected_paths import protected_behind  # only changes need it
        from .sandbox.running_commands import protected_now

        found = protected_behind(map(str, ws.writable), whole) or protected_now(root, whole)
    return found


# What makes git take a folder for a repository, and which of the others must be there already. `commondir` is a setting
# itself: it names the folder of the others.
_COMPLETE = {"head": ("objects", "commondir"), "objects": ("HEAD",)}


def _in_repository(ws: Workspace, place: WorkspacePath, along: Container[Path] = ()) -> bool:
    """Return whether a path is one of the settings of a repository that is not called .git, or makes a repository of a
    folder that has such settings. `along` is what appears with it."""
    if place.parts and place.parts[-1].casefold() == "commondir":
        return True
    for n, part in enumerate(place.parts):

        def there(*names: str, above: tuple[str, ...] = place.parts[:n]) -> bool:
            paths = [place.root.path.joinpath(*above, name) for name in names]
            return any(path in along for path in paths) or any(_is_there(ws, path) for path in paths)

        name = part.casefold()
        completes = name in _COMPLETE and there(*_COMPLETE[name]) and there(*REPOSITORY_NAMES)
        if completes and not _is_there(ws, place.root.path.joinpath(*place.parts[: n + 1])):
            return True
        if name in REPOSITORY_NAMES and there("HEAD") and there("objects", "commondir"):
            return True
    return False


def _is_there(ws: Workspace, path: PathLike) -> bool:
    try:
        ws.lstat(path)
    except OSError:
        return False
    return True


def judge_path(
    ws: Workspace, path: PathLike, *, read: bool = True, write: bool = False, along: Container[Path] = ()
) -> Judgement | None:
    """Return a reason to ask about reading or changing a path, or to deny it; None if it is allowed. Opens no
    content. `along` is what else the same call makes (`made_by`)."""
    try:
        place = ws.locate(path)
        if write:
            if "\n" in place.shown:
                return Judgement("deny", "a name with a line end would look like more than one in a question")
            verdict = _judge_write(ws, place, along)
            if verdict is not None:
                return verdict
        if read or not write:
            real = _leads_to(ws, path)
            secret = ((real and sensitive_by(real)) or sensitive_by(place.shown)) if read else None
            if secret:
                linked = f" (it leads to {real})" if real and real != place.shown else ""
                return Judgement("ask", f"{place.shown}{linked} may hold secrets: {secret.reason}", RULE_SECRET)
    except OutsideWorkspace as error:
        return Judgement("deny", str(error), RULE_OUTSIDE)
    except ToolError as error:
        return Judgement("deny", str(error))
    return None


def _leads_to(ws: Workspace, path: PathLike) -> str | None:
    """Return the file that a path leads to; None if it is not there. Raises OutsideWorkspace if it lies outside: no yes
    to the name of a secret may hide that."""
    try:
        return ws.real(path)
    except OutsideWorkspace:  # is an OSError too
        raise
    except OSError:
        return None


def _judge_write(ws: Workspace, place: WorkspacePath, along: Container[Path]) -> Judgement | None:
    root = str(place.root.path)
    path = os.path.join(root, *place.parts)
    try:
        ws.locate_to_change(path)
    except ReadOnlyRoot as error:
        return Judgement("deny", str(error), RULE_READ_ONLY)
    try:
        st = ws.lstat(path)
    except OutsideWorkspace:  # a link leads out: no yes to a protected name may hide that
        raise
    except OSError:
        st = None
    from .sandbox.running_commands import kept_now, shown_now  # only changes need it

    run_now = (each for each in kept_now(root) if not each.name)
    run_by_host = host_file_at(root, path, (*ws.host_files, *run_now, *shown_now(root)))
    if run_by_host is not None:
        return Judgement("ask", f"{place.shown}: {run_by_host.reason}", RULE_HOST_FILES, insists=True)
    protected = why_protected(ws, path, along)
    if protected is not None:
        named = place.shown if place.shown == protected.name else f"{place.shown} touches {protected.name}"
        return Judgement("ask", f"{named}: {protected.reason}", RULE_PROTECTED)
    if st is not None and stat.S_ISREG(st.st_mode) and st.st_nlink > 1:
        reason = f"{place.shown} has {st.st_nlink} names (hard links); changing it here parts it from the others"
        return Judgement("ask", reason, RULE_LINKED)
    return None
