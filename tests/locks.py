"""The locks that this process has on an SQLite file."""

from __future__ import annotations

import os
from pathlib import Path

import pytest


def locks_of(path: Path) -> set[str]:
    """Return the POSIX locks of this process on a file and on the index of its log. Skips the test where the system
    does not list them."""
    listed = Path("/proc/locks")
    if not listed.exists():
        pytest.skip("this system does not list locks")
    inodes = {str(each.stat().st_ino) for each in (path, path.with_name(f"{path.name}-shm")) if each.exists()}
    rows = [line.split()[1:] for line in listed.read_text().splitlines()]
    return {
        " ".join(row)
        for row in rows
        if row[0] == "POSIX" and row[3] == str(os.getpid()) and row[4].rpartition(":")[2] in inodes
    }
