"""Judge whether a path may be read or changed: it may be outside, hold secrets, be protected, or have other names."""

from __future__ import annotations

import stat

from ..core.errors import OutsideWorkspace, ToolError
from ..core.verdict import Judgement
from .host_files import RULE_HOST_FILES, host_file_at
from .protected_names import REPOSITORY, REPOSITORY_NAMES, ProtectedName, protected_below, protected_by
from .sensitive_names import SensitiveName, sensitive_by
from .workspace import Workspace
from .workspace_paths import ReadOnlyRoot, WorkspacePath
from .workspace_roots import PathLike

# The values of `Judgement.rule` for a path; `check --bare` and the policy use them to distinguish the cases.
RULE_OUTSIDE = "path:outside"
RULE_READ_ONLY = "path:read-only"
RULE_SECRET = "path:secret"  # noqa: S105
RULE_PROTECTED = "path:protected"
RULE_LINKED = "path:hard-link"


def why_sensitive(ws: Workspace, path: PathLike) -> SensitiveName | None:
    """Return the table's entry for the path or for the file that it leads to."""
    found = sensitive_by(ws.relative(path))
    if found is not None:
        return found
    try:
        return sensitive_by(ws.real(path))
    except OutsideWorkspace:  # is an OSError too
        raise
    except OSError:
        return None


def why_protected(ws: Workspace, path: PathLike) -> ProtectedName | None:
    """Return the entry of the protected names that a change of this path would affect."""
    place = ws.locate(path)
    inside = "/".join(place.parts)
    found = protected_by(inside) or (protected_below(inside) if place.parts else None)
    return found or (REPOSITORY if _in_repository(ws, place) else None)


# Without a file of one of these names git takes no folder for a repository. A tool needs neither for anything else.
_MAKES_REPOSITORY = frozenset({"head", "commondir"})


def _in_repository(ws: Workspace, place: WorkspacePath) -> bool:
    """Return whether a path is one of the settings of a repository that is not called .git, or makes a repository of a
    folder."""
    if place.parts and place.parts[-1].casefold() in _MAKES_REPOSITORY:
        return True
    for n, part in enumerate(place.parts):

        def there(*names: str, above: tuple[str, ...] = place.parts[:n]) -> bool:
            return any(_is_there(ws, place.root.path.joinpath(*above, name)) for name in names)

        name = part.casefold()
        if name == "objects" and there("HEAD") and there(*REPOSITORY_NAMES) and not there(part):
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


def judge_path(ws: Workspace, path: PathLike, *, read: bool = True, write: bool = False) -> Judgement | None:
    """Return a reason to ask about reading or changing a path, or to deny it; None if it is allowed. Opens no
    content."""
    try:
        place = ws.locate(path)
        if write:
            verdict = _judge_write(ws, place)
            if verdict is not None:
                return verdict
        if read:
            secret = why_sensitive(ws, path)
            if secret is not None:
                return Judgement("ask", f"{place.shown} may hold secrets: {secret.reason}", RULE_SECRET)
    except OutsideWorkspace as error:
        return Judgement("deny", str(error), RULE_OUTSIDE)
    except ToolError as error:
        return Judgement("deny", str(error))
    return None


def _judge_write(ws: Workspace, place: WorkspacePath) -> Judgement | None:
    try:
        ws.locate_to_change(place.path)
    except ReadOnlyRoot as error:
        return Judgement("deny", str(error), RULE_READ_ONLY)
    text = str(place.root.path.joinpath(*place.parts))
    run_by_host = host_file_at(str(place.root.path), text, ws.host_files)
    if run_by_host is not None:
        return Judgement("ask", f"{place.shown}: {run_by_host.reason}", RULE_HOST_FILES, insists=True)
    protected = why_protected(ws, place.path)
    if protected is not None:
        return Judgement("ask", f"{place.shown} touches {protected.name}: {protected.reason}", RULE_PROTECTED)
    try:
        st = ws.lstat(place.path)
    except OutsideWorkspace:
        raise
    except OSError:
        return None
    if stat.S_ISREG(st.st_mode) and st.st_nlink > 1:
        reason = f"{place.shown} has {st.st_nlink} names (hard links); changing it here parts it from the others"
        return Judgement("ask", reason, RULE_LINKED)
    return None
