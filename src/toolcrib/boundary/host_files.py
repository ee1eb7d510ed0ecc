"""Find the files that are run or loaded outside the sandbox: tools may change them only after a question.

Toolcrib runs from an environment (interpreter, packages, `.pth` files). Where it was added to a project (`uv add
toolcrib`), that environment lies in the workspace. Whatever a tool wrote there would run with the person's rights at
the next start, or sooner: in a worker. The settings add further files: scripts of servers and hooks. git, which a
person runs, adds those that its settings name.
"""

from __future__ import annotations

import functools
import os
import site
import sys
from collections.abc import Iterable, Iterator

from ..core.homes import config_home, state_home
from .host_file import HostFile, both_names, modules_named
from .import_path import ABOVE_PACKAGE, PREFIXES, SEARCHED
from .named_by_variables import named_by_variables
from .programs import beneath, interpreter, within_any
from .protected_names import PROTECTED_NAMES
from .real_path import real_path

RULE_HOST_FILES = "path:host-files"
ENVIRONMENT = (
    "Toolcrib itself runs from this environment: what is put there runs outside the sandbox, with your rights, from "
    "the next start on"
)
_SHADOWS = (
    "Python looks there before its own modules when Toolcrib starts (PYTHONPATH, or `python -m`), so it would run "
    "outside the sandbox, with your rights"
)
_ON_PATH = "your shell finds programs in it by their names, and they run outside the sandbox"
_OWN_DATA = "it says what Toolcrib allows and remembers"
_SEARCHED = tuple(map(real_path, SEARCHED))  # "" is the current folder


@functools.cache
def own_environment() -> tuple[str, ...]:
    """Return the paths of the environment that this process runs from; some lie in others."""
    paths = [*PREFIXES, os.path.dirname(interpreter()), os.path.dirname(os.__file__), *site.getsitepackages()]
    paths += [os.path.join(site.getuserbase(), "Scripts" if os.name == "nt" else "bin"), site.getusersitepackages()]
    paths.append(ABOVE_PACKAGE)
    if os.path.basename(sys.argv[0] if sys.argv else "") in ("toolcrib", "toolcrib.exe"):
        paths.append(os.path.abspath(sys.argv[0]))  # perhaps a link into an environment elsewhere
    return both_names(paths)


@functools.cache
def environment_in(root: str) -> tuple[HostFile, ...]:
    """Return what of our environment lies in a folder (its real path). An environment around the folder does not
    count: the interpreter of a system has the prefix /usr, but not all of /usr/src belongs to it."""
    return _inside(root, own_environment(), ENVIRONMENT)


def own_data_in(root: str) -> tuple[HostFile, ...]:
    """Return which folders of our own settings and state lie in a folder. Commands do not see them, and cannot move
    what they lie in; file tools refuse both (`private_folders.py`)."""
    return _inside(root, both_names([str(config_home()), str(state_home())]), _OWN_DATA)


@functools.cache
def programs_in(root: str, home: str, path: str) -> tuple[HostFile, ...]:
    """Return the folders of a PATH that lie in a folder around a home directory: its user's shell runs programs from
    them. In any other folder they belong to a project."""
    if not beneath(real_path(home), root):
        return ()
    return _inside(root, both_names(each for each in path.split(os.pathsep) if os.path.isabs(each)), _ON_PATH)


@functools.cache
def modules_before_ours(root: str) -> tuple[HostFile, ...]:
    """Return the modules in a folder that Python would load instead of those that Toolcrib needs: at its start it looks
    there first."""
    library = real_path(os.path.dirname(os.__file__))
    first = _SEARCHED[: _SEARCHED.index(library)] if library in _SEARCHED else ()
    ours = own_environment()
    folders = [each for each in first if beneath(each, root) and not within_any(each, ours)]
    if not folders:
        return ()
    needed = {*sys.stdlib_module_names, __name__.split(".")[0]}
    for installed in (each for path in site.getsitepackages() if os.path.isdir(path) for each in os.listdir(path)):
        needed.add(installed.split(".")[0])
    only = frozenset(needed)
    return tuple(each for folder in dict.fromkeys(folders) for each in modules_named(folder, _SHADOWS, only))


def host_files_in(root: str, files: Iterable[HostFile] = (), folders: Iterable[str] = ()) -> list[HostFile]:
    """Return what lies in a folder (its real path) of our environment, of the programs of a home directory, of these
    files, of protected names that begin above it, and of what the settings of the repositories around `root` and these
    folders name."""
    from .git_settings import named_by_git
    from .named_by_agents import named_by_agents

    there = (each for each in files if each.path != root and beneath(each.path, root))
    on_path = programs_in(root, os.path.expanduser("~"), os.environ.get("PATH", ""))
    ours = (*environment_in(root), *modules_before_ours(root), *named_by_variables(root, own_environment()))
    around = (root, *folders)
    named = (*named_by_git(root, around), *named_by_agents(root, around))
    return [*ours, *on_path, *there, *_names_from_above(root), *named]


def _names_from_above(root: str) -> Iterator[HostFile]:
    """Yield the protected names that end in a folder and begin above it: in `~/.config` that is `fish`."""
    for name, rest, reason in _names_below(root):
        for path in both_names([f"{root}/{rest}"]):
            if path != root and beneath(path, root):
                yield HostFile(path, reason, name=name)


@functools.cache
def _names_below(root: str) -> tuple[tuple[str, str, str], ...]:
    names = ((each.name, each.name.split("/"), each.reason) for each in PROTECTED_NAMES)
    return tuple(
        (name, "/".join(parts[count:]), reason)
        for name, parts, reason in names
        for count in range(1, len(parts))
        if root.casefold().endswith("/".join(["", *parts[:count]]).casefold())
    )


def host_file_at(root: str, path: str, files: Iterable[HostFile] = ()) -> HostFile | None:
    """Return the first of `host_files_in` that a change of this path in `root` would change."""
    folders = (os.path.dirname(path),)
    return next((each for each in host_files_in(root, files, folders) if each.is_touched_by(path)), None)


def _inside(root: str, paths: Iterable[str], reason: str) -> tuple[HostFile, ...]:
    found = {path for path in paths if path != root and beneath(path, root)}
    outer = (path for path in found if not any(path != other and beneath(path, other) for other in found))
    return tuple(HostFile(path, reason) for path in sorted(outer))
