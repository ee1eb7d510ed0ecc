"""Devices of our own for commands of a user who owns those of the machine, as root does.

bubblewrap can only show the devices of the machine, and not read-only. Whoever owns a file may change its mode and
times, wherever it is mounted: a command could take /dev/null away from all other programs.
"""

from __future__ import annotations

import os
import stat
import threading
from pathlib import Path

from ..core.homes import state_home
from .descriptors import unreadable

_SHOWN = tuple(f"/dev/{name}" for name in ("null", "zero", "full", "random", "urandom", "tty"))  # by `bwrap --dev`
_OWNER = 65534  # has no number in a sandbox, so nobody there owns them
_MODE = stat.S_IFCHR | 0o666


def own_devices(folder: Path | None = None) -> dict[str, str]:
    """Return devices in the place of those of the machine that this user owns: path → ours. They are made in a private
    folder if they are not there; where that is not possible, there are none."""
    folder = folder or state_home() / "devices"
    found: dict[str, str] = {}
    for path in _SHOWN:
        ours = str(folder / os.path.basename(path))
        with unreadable:
            status = os.stat(path)
            if status.st_uid == os.geteuid() and _is_there(ours, status.st_rdev):
                found[path] = ours
    return found


def _is_there(path: str, number: int) -> bool:
    """Return whether a device is there, or was made, and can be used. Raises OSError."""
    try:
        status = os.lstat(path)
    except FileNotFoundError:
        for folder in (Path(path).parents[1], Path(path).parent):
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        aside = f"{path}.{os.getpid()}.{threading.get_ident()}"
        os.mknod(aside, stat.S_IFCHR, number)
        try:
            os.chown(aside, _OWNER, _OWNER)
            os.chmod(aside, stat.S_IMODE(_MODE))
            os.rename(aside, path)
        except OSError:
            os.unlink(aside)
            raise
        status = os.lstat(path)
    usable = not os.statvfs(path).f_flag & os.ST_NODEV
    return usable and (status.st_mode, status.st_rdev, status.st_uid) == (_MODE, number, _OWNER)
