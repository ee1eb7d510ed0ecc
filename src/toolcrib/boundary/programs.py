"""Answer which absolute path a program has, and whether the host may run it outside the sandbox.

What a tool may write must never be run by Toolcrib itself. So a program is looked up here, and used only if nobody but
this user and root can put another one in its place: neither it nor a folder or link on the way to it lies in a folder
that tools may write (`writable`: the workspace and the folders granted for writing) or that another user may write.
A program that is found by its name alone is not taken from a temporary folder either. `host_starts.py` lists what is
started; `host_environment` is what such a program gets.
"""

from __future__ import annotations

import contextlib
import functools
import os
import stat
import sys
import tempfile
from collections.abc import Collection, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Literal

from ..core.errors import ConfigError
from .openat2 import is_without_links
from .real_path import real_path

SYSTEM_PATH = ("/usr/local/bin", "/usr/bin", "/bin")
_MAX_LINKS = 40  # as the kernel (path_resolution(7))

# Variables that make a program load or run something else. A direnv file or an activated environment of the workspace
# may have set them, and no program that Toolcrib starts for itself needs them.
_LOADING = (
    "LD", "DYLD", "PYTHON", "GIT", "PERL5", "RUBY", "NODE", "NPM_CONFIG", "BASH_FUNC", "BUNDLE", "GEM", "LUA",
    "TERMINFO", "UV_",
)  # fmt: skip
"""How the names of most of them begin; the others:"""
_ALSO_LOADING = frozenset({
    "PERLLIB", "BASH_ENV", "ENV", "SHELLOPTS", "BASHOPTS", "IFS", "ZDOTDIR", "CDPATH", "VIRTUAL_ENV", "CONDA_PREFIX",
    "CLASSPATH", "GCONV_PATH", "LOCPATH", "NLSPATH", "_JAVA_OPTIONS", "JDK_JAVA_OPTIONS", "MANPAGER", "PAGER",
    "LESSOPEN", "LESSCLOSE", "BUN_OPTIONS", "DOTNET_STARTUP_HOOKS", "OPENSSL_CONF", "OPENSSL_MODULES",
    "OPENSSL_ENGINES", "BROWSER", "GTK_PATH", "GTK_MODULES", "GTK3_MODULES", "GIO_EXTRA_MODULES", "GIO_MODULE_DIR",
    "GST_PLUGIN_PATH", "GST_PLUGIN_PATH_1_0", "GI_TYPELIB_PATH", "GDK_PIXBUF_MODULE_FILE", "QT_PLUGIN_PATH",
    "QML_IMPORT_PATH", "QML2_IMPORT_PATH", "LIBGL_DRIVERS_PATH", "LIBVA_DRIVERS_PATH", "GBM_BACKENDS_PATH",
    "VK_LAYER_PATH", "VK_ICD_FILENAMES", "VK_DRIVER_FILES", "OCL_ICD_VENDORS",
})  # fmt: skip


def find_program(name: str, writable: Iterable[str | Path] = (), path: str | None = None) -> str | None:
    """Return the absolute path of the first program of this name that the host may run, or None.

    A name with a slash is a path: it is returned if the host may run it. `path` is instead of this process's PATH.
    """
    roots = tuple(writable)
    return next((found for found, why in look_up(name, roots, path) if why is None), None)


def look_up(
    name: str, writable: Iterable[str | Path] = (), path: str | None = None, *, shims: bool = False
) -> Iterator[tuple[str, str | None]]:
    """Yield each program of this name, and why the host must not run it: None if it may. `shims` may run only where
    the files that they obey are protected (`launchers.py`)."""
    roots = (*writable, *(() if os.path.dirname(name) else temporary_folders()))
    for found in named_programs(name, path):
        shim = None if shims or not is_shim(found) else f"{found} is a shim: files of the workspace say what it runs"
        yield found, doubt(found, roots) or shim


def is_shim(path: str) -> bool:
    """Return whether a program is a shim of a version manager (asdf, mise, pyenv …): what it runs is chosen by files in
    the folder where it starts, and above."""
    of_manager = os.path.basename(real_path(path)) in ("asdf", "mise", "rtx")
    return "shims" in path.split(os.sep)[:-1] or (of_manager and os.path.basename(path) not in ("asdf", "mise", "rtx"))


def named_programs(name: str, path: str | None = None) -> Iterator[str]:
    """Yield each program of this name, whether the host may run it or not."""
    if os.path.dirname(name):
        given = os.path.abspath(os.path.expanduser(name))
        if _is_program(given):
            yield given
        return
    folders = (os.environ.get("PATH", os.defpath) if path is None else path).split(os.pathsep)
    for folder in dict.fromkeys(folders):
        found = os.path.join(folder, name)
        if os.path.isabs(folder) and _is_program(found):
            yield found


def packaged(name: str) -> Iterator[str]:
    """Yield where a wheel puts a program of this name: the scripts folders of this installation."""
    import sysconfig

    of_user = sysconfig.get_path("scripts", sysconfig.get_preferred_scheme("user"))
    for folder in dict.fromkeys([sysconfig.get_path("scripts"), os.path.dirname(sys.executable), of_user]):
        path = os.path.join(folder, name)
        if os.access(path, os.X_OK):
            yield path


def temporary_folders() -> tuple[str, ...]:
    """Return the folders for temporary files: many programs write there, so nothing is found there by its name."""
    return ("/tmp", "/var/tmp", "/dev/shm", tempfile.gettempdir())  # noqa: S108


def doubt(path: str | Path, writable: Iterable[str | Path] = ()) -> str | None:
    """Return why the host must not run or load this file, or use this folder; None if it may."""
    roots = tuple({*(os.path.abspath(each) for each in writable), *(real_path(each) for each in writable)})
    checked = os.name != "nt"
    try:
        for name in names_followed(os.path.join(os.getcwd(), path)):  # not abspath: `link/..` is where the link leads
            root = next((each for each in roots if beneath(name, each)), None)
            if root is not None:
                return f"{'it' if name == root else name} lies in {root}, which tools may write"
            if checked and (why := _others(name)) is not None:
                return why
    except OSError as error:
        return f"{path} cannot be checked: {error.strerror or error}"
    return None


def check_grant(path: str | os.PathLike[str], writable: Iterable[str | os.PathLike[str]]) -> None:
    """Raise ConfigError for a granted path that leads through a link in these folders: a tool could let it lead to
    another place."""
    roots = {real_path(each) for each in writable}
    whole = os.path.abspath(os.path.expanduser(path))
    for name in links_followed(whole):  # one that cannot be read grants nothing
        if any(beneath(name, root) and name != root for root in roots):
            raise ConfigError(
                f"{whole} is granted through the link {name}, which tools may change. "
                f"It leads to {real_path(whole)} now: if you mean that, name it instead"
            )


def beneath(path: str, folder: str) -> bool:
    """Return whether a path is a folder or lies in it, by their text."""
    return path == folder or path.startswith(folder.rstrip(os.sep) + os.sep)


def within_any(path: str, folders: Iterable[str]) -> bool:
    """Return whether a path is one of these folders or lies in one, by their text."""
    return any(beneath(path, folder) for folder in folders)


def within_known(path: str, folders: Collection[str]) -> bool:
    """Do the same for a set of very many folders, without a slash at the end: it takes as long as the path is deep."""
    while path not in folders:
        path, slash, _ = path.rpartition("/")
        if not slash:
            return False
    return True


def host_environment(writable: Iterable[str | Path] = (), environ: Mapping[str, str] | None = None) -> dict[str, str]:
    """Return the environment for a program that the host starts for itself: this process's, without the variables that
    load something, and with only those folders of PATH from which it may run programs."""
    given = os.environ if environ is None else environ
    return {
        **{name: value for name, value in given.items() if not loads_something(name)},
        "PATH": search_path(writable, given.get("PATH")),
    }


def loads_something(variable: str) -> bool:
    """Return whether a variable of this name makes a program load or run something."""
    name = variable.upper()
    return name.startswith(_LOADING) or name in _ALSO_LOADING or name.endswith("JAVA_TOOL_OPTIONS")


def search_path(writable: Iterable[str | Path] = (), path: str | None = None) -> str:
    """Return those folders of a PATH (by default this process's) from which the host may run programs."""
    roots = tuple(writable)
    folders = (os.environ.get("PATH", os.defpath) if path is None else path).split(os.pathsep)
    safe = [each for each in folders if os.path.isabs(each) and os.path.isdir(each) and doubt(each, roots) is None]
    return os.pathsep.join(dict.fromkeys(safe)) or os.pathsep.join(SYSTEM_PATH)


def interpreter() -> str:
    """Return the interpreter that this process runs in: what it loads is protected (`host_files.py`)."""
    return sys.executable


def own_command() -> list[str]:
    """The command that starts this Toolcrib from anywhere: clients do not have our PATH."""
    beside = Path(sys.executable).parent / ("toolcrib.exe" if sys.platform == "win32" else "toolcrib")
    if beside.exists():
        return [str(beside)]
    found = find_program("toolcrib")
    return [found] if found else [sys.executable, "-P", "-m", "toolcrib"]


def names_followed(path: str) -> Iterator[str]:
    """Yield every name that is followed on the way to a file: folders, links, and the file. Raises OSError."""
    return (name for name, kind in _followed(path) if kind != "left")


def _followed(path: str) -> Iterator[tuple[str, Literal["", "link", "left"]]]:
    """Yield the same names, and the folders that `..` leaves, each with whether it is a link, or is left."""
    at, links = os.sep if os.name != "nt" else os.path.splitdrive(path)[0] + os.sep, 0
    pending = [part for part in reversed(path[len(at) :].split(os.sep)) if part]
    while pending:
        part = pending.pop()
        if part == ".":
            continue
        if part == "..":
            yield at, "left"
            at = os.path.dirname(at)
            continue
        name = os.path.join(at, part)
        if not os.path.islink(name):
            yield name, ""
            at = name
            continue
        yield name, "link"
        links += 1
        if links > _MAX_LINKS:
            raise OSError(f"{path} has too many links")
        target = os.readlink(name)
        at = os.sep if os.path.isabs(target) else at
        pending += [part for part in reversed(target.split(os.sep)) if part]


def followed(path: str | os.PathLike[str]) -> list[str]:
    """Return the same names; none if that cannot be known."""
    try:
        return list(names_followed(os.path.abspath(path)))
    except OSError:
        return []


def links_followed(path: str) -> list[str]:
    """Return the links that are followed on the way to a file, as far as they are known."""
    if is_without_links(path):
        return []
    return [name for name, kind in _as_far(path) if kind == "link"]


def places_followed(path: str) -> list[str]:
    """Return these links, and the folders that `..` leaves: a link in the place of one would lead elsewhere."""
    return [name for name, kind in _as_far(path) if kind]


def _as_far(path: str) -> Iterator[tuple[str, str]]:
    with contextlib.suppress(OSError):
        yield from _followed(path)


def without_dots(path: str) -> str:
    """Return a path normalised, with each `..` taken from where the name before it really leads."""
    head, dots, tail = f"{path}/".rpartition("/../")
    return os.path.normpath(os.path.join(real_path(f"{head}/.."), tail.lstrip("/")) if dots else path)


def _others(name: str) -> str | None:
    """Return why another user could change what a name leads to; None if none can.

    In a folder with the sticky bit only the owner of an entry can replace it.
    """
    status = os.lstat(name)
    if not _is_ours(status.st_uid):
        return f"{name} belongs to another user (uid {status.st_uid})"
    mode = status.st_mode
    if stat.S_ISLNK(mode) or (stat.S_ISDIR(mode) and mode & stat.S_ISVTX):
        return None
    if mode & stat.S_IWOTH:
        return f"every user may write {name}"
    if mode & stat.S_IWGRP and not _is_own_group(status.st_gid):
        return f"other users may write {name}: its group {status.st_gid} may"
    return None


def _is_ours(uid: int) -> bool:
    return uid in (0, os.geteuid()) or (uid == _overflow() and os.geteuid() != uid and _in_namespace())


@functools.cache
def _overflow() -> int:
    """Return the number under which the kernel shows users that a namespace has no number for."""
    try:
        return int(Path("/proc/sys/kernel/overflowuid").read_text())
    except (OSError, ValueError):
        return 65534


@functools.cache
def _in_namespace() -> bool:
    """Return whether root outside has no number here (rootless containers), so that its files belong to nobody."""
    try:
        lines = Path("/proc/self/uid_map").read_text().splitlines()
    except OSError:
        return False
    return not any(int(line.split()[1]) == 0 for line in lines)


@functools.cache
def _is_own_group(gid: int) -> bool:
    """Return whether a group has no members but this user and root, as the private groups of users have."""
    import grp
    import pwd

    own = {0, os.geteuid()}
    if gid == 0:
        return True
    try:
        named = {pwd.getpwnam(name).pw_uid for name in grp.getgrgid(gid).gr_mem}
    except KeyError:
        return False
    return named <= own and {user.pw_uid for user in pwd.getpwall() if user.pw_gid == gid} <= own


def _is_program(path: str) -> bool:
    return os.path.isfile(path) and os.access(path, os.X_OK)
