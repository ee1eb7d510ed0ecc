"""The real path of a name that a command may have made."""

from __future__ import annotations

import os

from .openat2 import is_without_links

_TRIES = 100


def real_path(path: str | os.PathLike[str]) -> str:
    """Return the absolute path without links on the way, as `os.path.realpath` does. That raises RecursionError for a
    chain of a thousand links, which the kernel follows nowhere (path_resolution(7): 40): such a name is its own.

    The kernel is asked first whether there is any link: `os.path.realpath` looks at each folder on the way by itself.
    """
    path = os.fspath(path)
    is_plain = path.startswith("/") and not path.startswith("//") and os.path.normpath(path) == path
    if is_plain and is_without_links(path):
        return path
    for tries in range(_TRIES, 0, -1):
        try:
            return os.path.realpath(path)
        except RecursionError:
            break
        except OSError:  # between its two looks at a link (lstat, readlink) a command has put a folder in its place
            if tries == 1:
                raise
    return os.path.abspath(path)
