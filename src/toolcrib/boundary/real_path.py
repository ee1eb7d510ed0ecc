"""The real path of a name that a command may have made."""

from __future__ import annotations

import os


def real_path(path: str | os.PathLike[str]) -> str:
    """Return the absolute path without links on the way, as `os.path.realpath` does. That raises RecursionError for a
    chain of a thousand links, which the kernel follows nowhere (path_resolution(7): 40): such a name is its own."""
    try:
        return os.path.realpath(path)
    except RecursionError:
        return os.path.abspath(path)
