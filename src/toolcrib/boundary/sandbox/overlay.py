"""Check whether bubblewrap can put a copy-on-write layer over these folders."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from pathlib import Path

from ...core.errors import SandboxUnavailable
from ..filesystems import may_hang

_OCTAL = re.compile(rb"\\([0-7]{3})")


def overlay_roots(writable: Sequence[Path]) -> list[Path]:
    """Return the folders for the layer: those that are writable, without folders inside another one.

    Raises SandboxUnavailable if one of them cannot be overlaid.
    """
    found: list[Path] = []
    for path in sorted(set(writable), key=lambda p: len(p.parts)):
        if any(path.is_relative_to(other) for other in found):
            continue
        if not path.exists():
            continue
        if not path.is_dir():
            raise SandboxUnavailable(f"{path} is a file, and only folders can be overlaid")
        if may_hang(path):
            raise SandboxUnavailable(f"{path} lies on a network's file system, which cannot be overlaid safely")
        found.append(path)
    for inner in _mount_points():
        for path in found:
            if inner != str(path) and inner.startswith(f"{path}/"):
                raise SandboxUnavailable(f"{inner} is a file system of its own, which a layer would hide")
    found.sort(key=writable.index)  # the workspace first
    return found


def _mount_points() -> list[str]:
    """Return the mount points that this process sees."""
    try:
        with open("/proc/self/mountinfo", "rb") as file:
            lines = file.read().splitlines()
    except OSError:
        return []
    # The kernel writes spaces, tabs, line ends and backslashes in octal (proc_pid_mountinfo(5)).
    points = (line.split(b" ", 5)[4] for line in lines)
    return [os.fsdecode(_OCTAL.sub(lambda found: bytes([int(found[1], 8)]), point)) for point in points]
