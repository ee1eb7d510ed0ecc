"""Find the files that the host itself runs or loads outside the sandbox: tools may change them only after a question.

Toolcrib runs from an environment (interpreter, packages, `.pth` files). Where it was added to a project (`uv add
toolcrib`), that environment lies in the workspace. Whatever a tool wrote there would run with the person's rights at
the next start, or sooner: in a worker. The settings add further files: scripts of servers and hooks.
"""

from __future__ import annotations

import functools
import glob
import os
import re
import site
import sys
from collections.abc import Iterable

from ..core.dataclass import dataclass
from ..core.homes import config_home, state_home
from .programs import beneath, interpreter

RULE_HOST_FILES = "path:host-files"
ENVIRONMENT = (
    "Toolcrib itself runs from this environment: what is put there runs outside the sandbox, with your rights, from "
    "the next start on"
)
_ON_PATH = "your shell finds programs in it by their names, and they run outside the sandbox"
STARRED = (".*.so", ".*.pyc")
_MODULES = ("*.py", "*.so", "*.pyc", "*/__init__.*")  # what Python imports from a folder by name
_OWN_DATA = "it says what Toolcrib allows and remembers"


_ABOVE_PACKAGE = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


@dataclass(frozen=True, slots=True)
class HostFile:
    """A file, or a folder with all in it, by its absolute path, and what a change of it means. `many`: it has a star,
    and means every such file except those that are `known`."""

    path: str
    reason: str
    many: bool = False
    known: frozenset[str] = frozenset()

    def covers(self, path: str) -> bool:
        """Return whether a path (absolute, no links in it) is the file, or in the folder."""
        if not self.many:
            return beneath(path, self.path)
        return path not in self.known and _starred(self.path).fullmatch(path) is not None

    def is_touched_by(self, path: str) -> bool:
        """Return whether a change of this path (absolute, no links in it) would change the file, or what is above."""
        return self.covers(path) or beneath(self.path, path)

    def there(self) -> list[str]:
        """Return the paths that it means: of several files those that exist, and links that lead to them."""
        if not self.many:
            return [self.path]
        folder = os.path.dirname(self.path[: self.path.index("*")])
        found = set(glob.iglob(glob.escape(self.path).replace("[*]", "*")))
        if os.path.dirname(self.path) != folder:  # a link to a folder: later there may be something in it
            found = {path for path in found if not os.path.islink(os.path.dirname(path))} | _links_in(folder)
        return sorted(found - self.known)


def new_modules_of(folder: str, reason: str) -> tuple[HostFile, ...]:
    """Return what Python would import from a folder by a name that is not there yet. It would come before the standard
    library and packages, for everything that these import, too."""
    all_there = (HostFile(f"{folder}/{name}", reason, True) for name in _MODULES)
    return tuple(HostFile(each.path, reason, True, frozenset(each.there())) for each in all_there)


def modules_in(folder: str) -> list[str]:
    """Return what Python can import from a folder by name."""
    return [path for name in _MODULES for path in HostFile(f"{folder}/{name}", "", True).there()]


@functools.cache
def _starred(pattern: str) -> re.Pattern[str]:
    return re.compile("[^/]*".join(map(re.escape, pattern.split("*"))), re.DOTALL)


def _links_in(folder: str) -> set[str]:
    try:
        with os.scandir(folder) as entries:
            return {each.path for each in entries if each.is_symlink() and not each.is_file()}
    except OSError:
        return set()


def shadows_of(module: str) -> tuple[str, ...]:
    """Return what Python would load in the place of a module's file: a package, extension modules, compiled code. Those
    that end with STARRED have a star (`HostFile.many`)."""
    stem = module.removesuffix(".py")
    folder, name = os.path.split(stem)
    return stem, f"{stem}.so", f"{stem}.*.so", f"{folder}/__pycache__/{name}.*.pyc"


@functools.cache
def own_environment() -> tuple[str, ...]:
    """Return the paths of the environment that this process runs from; some lie in others."""
    paths = [*_prefixes(), os.path.dirname(interpreter()), os.path.dirname(os.__file__), *site.getsitepackages()]
    paths += [os.path.join(site.getuserbase(), "Scripts" if os.name == "nt" else "bin"), site.getusersitepackages()]
    paths.append(_ABOVE_PACKAGE)
    if os.path.basename(sys.argv[0] if sys.argv else "") in ("toolcrib", "toolcrib.exe"):
        paths.append(os.path.abspath(sys.argv[0]))  # perhaps a link into an environment elsewhere
    return _both(paths)


@functools.cache
def environment_in(root: str) -> tuple[HostFile, ...]:
    """Return what of our environment lies in a folder (its real path). An environment around the folder does not
    count: the interpreter of a system has the prefix /usr, but not all of /usr/src belongs to it."""
    return _inside(root, own_environment(), ENVIRONMENT)


def own_data_in(root: str) -> tuple[HostFile, ...]:
    """Return which folders of our own settings and state lie in a folder. Commands do not see them, and cannot move
    what they lie in; file tools refuse both (`private_folders.py`)."""
    return _inside(root, _both([str(config_home()), str(state_home())]), _OWN_DATA)


@functools.cache
def programs_in(root: str, home: str, path: str) -> tuple[HostFile, ...]:
    """Return the folders of a PATH that lie in a folder around a home directory: its user's shell runs programs from
    them. In any other folder they belong to a project."""
    if not beneath(os.path.realpath(home), root):
        return ()
    return _inside(root, _both(each for each in path.split(os.pathsep) if os.path.isabs(each)), _ON_PATH)


def host_files_in(root: str, files: Iterable[HostFile] = ()) -> list[HostFile]:
    """Return what of our environment, of the programs of a home directory and of these files lies in a folder (its real
    path)."""
    there = (each for each in files if each.path != root and beneath(each.path, root))
    on_path = programs_in(root, os.path.expanduser("~"), os.environ.get("PATH", ""))
    return [*environment_in(root), *on_path, *there]


def host_file_at(root: str, path: str, files: Iterable[HostFile] = ()) -> HostFile | None:
    """Return the first of our environment and these files that a change of this path in `root` would change."""
    return next((each for each in host_files_in(root, files) if each.is_touched_by(path)), None)


_left_out: list[str] = []


def leave_project_out() -> None:
    """Take the folders that are not part of our environment off the path of imports: a project's own (an editable
    installation, PYTHONPATH). A tool could put a module there that we look for. It is for a process that is ours."""
    own = [os.path.realpath(path) for path in (*_prefixes(), site.getusersitepackages(), _ABOVE_PACKAGE)]
    foreign = [each for each in sys.path if not any(beneath(os.path.realpath(each), path) for path in own)]
    sys.path[:] = [each for each in sys.path if each not in foreign]
    _left_out.extend(foreign)


def let_project_in() -> None:
    """Put these folders back, at the end, for Python plugins that a person enabled: a project may have its own."""
    sys.path.extend(_left_out)
    _left_out.clear()


def _prefixes() -> tuple[str, ...]:
    return (sys.prefix, sys.exec_prefix, sys.base_prefix, sys.base_exec_prefix)


def _inside(root: str, paths: Iterable[str], reason: str) -> tuple[HostFile, ...]:
    found = {path for path in paths if path != root and beneath(path, root)}
    outer = (path for path in found if not any(path != other and beneath(path, other) for other in found))
    return tuple(HostFile(path, reason) for path in sorted(outer))


def _both(paths: Iterable[str]) -> tuple[str, ...]:
    """Return the real paths, and the names of those that are links themselves."""
    given = [path for path in paths if path]
    names = (os.path.join(os.path.realpath(os.path.dirname(path)), os.path.basename(path)) for path in given)
    return tuple(dict.fromkeys([*map(os.path.realpath, given), *names]))
