"""Open a path below a directory one component at a time, so that the kernel never follows a link.

This is the portable way where openat2 is missing, and the only one that can follow an absolute link which points back
inside: links are read and resolved here, from directories that are open, so a name that is swapped meanwhile can make
the walk fail or end elsewhere inside, but never outside.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable, Sequence

_MAX_LINKS = 40  # the kernel's own limit (MAXSYMLINKS)
_O_PATH = getattr(os, "O_PATH", os.O_RDONLY)  # search permission is enough to pass through a directory
_DIRECTORY = _O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC

Reroot = Callable[[str], "tuple[int, Sequence[str], str] | None"]
"""A function that finds an absolute link target: (descriptor of a root, parts below it, the root's path), or None if
it is outside."""


class LinkMet(OSError):
    """A link is in a path that must not have one. `at` is the link, `target` is where it points."""

    def __init__(self, at: str, target: str) -> None:
        super().__init__(errno.ELOOP, os.strerror(errno.ELOOP), at)
        self.at = at
        self.target = target


class Escape(OSError):
    """The path leads out of the directory it must stay in."""

    def __init__(self, at: str, target: str) -> None:
        super().__init__(errno.EXDEV, "leads outside", at)
        self.at = at
        self.target = target


def walk_open(
    root_fd: int,
    parts: Sequence[str],
    flags: int,
    *,
    root_path: str = "",
    follow: bool = True,
    reroot: Reroot | None = None,
) -> tuple[int, str, tuple[str, ...]]:
    """Open `parts` below `root_fd`. Return (descriptor, path of the root it ended in, real parts below that root).

    `flags` are for the last component. With `follow`, links inside are followed. Raises LinkMet for any link without
    `follow`, Escape if the path leads outside.
    """
    todo = list(reversed(parts))
    held: list[int] = []  # directories below the current root, one for each entry of `names`
    names: list[str] = []
    base, base_path = root_fd, root_path
    links = 0
    try:
        while True:
            if not todo:
                fd = os.open(".", flags & ~os.O_NOFOLLOW, dir_fd=held[-1] if held else base)
                return fd, base_path, tuple(names)
            name = todo.pop()
            if name in ("", "."):
                continue
            if name == "..":
                if not names:
                    raise Escape("/".join([*names, name]), "..")
                os.close(held.pop())
                names.pop()
                continue
            here = held[-1] if held else base
            last = not todo
            try:
                if last:
                    fd = os.open(name, flags | os.O_NOFOLLOW | os.O_CLOEXEC, 0o666, dir_fd=here)
                    if _O_PATH and flags & _O_PATH and stat.S_ISLNK(os.fstat(fd).st_mode):
                        os.close(fd)  # O_PATH opens the link itself
                        raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), name)
                    names.append(name)
                    return fd, base_path, tuple(names)
                fd = os.open(name, _DIRECTORY, dir_fd=here)
            except OSError as error:
                if error.errno not in (errno.ELOOP, errno.ENOTDIR, errno.EMLINK):
                    raise
                target = _link_target(name, here)
                if target is None:
                    raise
            else:
                held.append(fd)
                names.append(name)
                continue
            at = "/".join([*names, name])
            if not follow:
                raise LinkMet(at, target)
            links += 1
            if links > _MAX_LINKS:
                raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), at)
            if target.startswith("/"):
                place = reroot(target) if reroot is not None else None
                if place is None:
                    raise Escape(at, target)
                base, inside, base_path = place
                while held:
                    os.close(held.pop())
                names.clear()
                todo.extend(reversed(inside))
            else:
                todo.extend(reversed(target.split("/")))
    finally:
        for fd in held:
            os.close(fd)


def _link_target(name: str, dir_fd: int) -> str | None:
    try:
        return os.readlink(name, dir_fd=dir_fd)
    except OSError:
        return None  # not a link (any more)
