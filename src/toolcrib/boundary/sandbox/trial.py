"""Test whether a sandbox really runs a command here, and remember on disk which program did, until something about this
machine changes.

Only success is stored. A wrong answer cannot weaken a sandbox: the program is always searched for again, and if it does
not work after all, it starts no command.
"""

from __future__ import annotations

import contextlib
import json
import os
import stat
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from ...core.errors import SandboxUnavailable
from ..environment import command_environment
from ..own_files import replace_file
from ..process import start
from ..real_path import real_path
from .spec import Sandbox

_RUN_SECONDS = 20.0
MAX_AGE_SECONDS = 86_400.0
_MAX_BYTES = 64 * 1024

# The conditions of a sandbox's success besides the program: the kernel's boot, our namespaces, and our permissions.
_FACTS = (
    "/proc/sys/kernel/osrelease",
    "/proc/sys/kernel/random/boot_id",
    "/proc/sys/kernel/apparmor_restrict_unprivileged_userns",
    "/proc/sys/kernel/unprivileged_userns_clone",
    "/proc/sys/user/max_user_namespaces",
    "/proc/self/attr/current",
    "/proc/self/uid_map",
)
_NAMESPACES = ("/proc/self/ns/user", "/proc/self/ns/mnt")
_STATUS = ("Uid:", "Groups:", "CapEff:", "CapBnd:", "NoNewPrivs:", "Seccomp:", "Seccomp_filters:")


def try_run(make: Callable[[Path], Sandbox]) -> str:
    """Run a command in a sandbox around a new folder; the command writes there. Return "" if that works, else the
    error text."""
    with tempfile.TemporaryDirectory(prefix="toolcrib-probe-") as name:
        folder = Path(real_path(name))
        command = ["/bin/sh", "-c", "echo probe > probe && exit 7"]
        try:
            spawn = make(folder).wrap(command, cwd=folder, env=command_environment(), timeout=5)
            result = start(spawn, timeout=_RUN_SECONDS).wait()
        except SandboxUnavailable as error:
            return str(error)
        except OSError as error:
            return f"{error.strerror or error}"
        assert result is not None  # nothing bounds this wait
        if result.exit_code != 7:
            said = result.stderr.excerpt().text.strip()[:200]
            return f"a test command ended with {result.exit_code} instead of 7. {said}".strip()
        return "" if (folder / "probe").exists() else "what a test command wrote did not arrive in its folder"


class RememberedTrial:
    """The program that worked, stored in one file. `programs` are all that could have been chosen."""

    def __init__(self, path: Path, programs: Sequence[str]) -> None:
        self._path, self._programs = path, programs
        self._facts = {"programs": [_identity(program) for program in programs], "machine": _machine()}

    def read(self) -> str | None:
        """Return the program that worked, if all conditions are the same as then; else None."""
        with contextlib.suppress(OSError, ValueError, TypeError, KeyError):
            data = json.loads(_read_own(self._path))
            if data["facts"] == self._facts and data["program"] in self._programs:
                return str(data["program"])
        return None

    def write(self, program: str) -> None:
        """Store a program that worked. Do nothing if the folder is missing or not writable."""
        with contextlib.suppress(OSError):
            replace_file(self._path, json.dumps({"facts": self._facts, "program": program}))


def _read_own(path: Path) -> bytes:
    """Read the file if it is recent, belongs to us, and only we may write to it. Raises OSError otherwise."""
    fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    with open(fd, "rb") as file:
        status = os.fstat(fd)
        private = stat.S_ISREG(status.st_mode) and status.st_uid == os.geteuid() and not status.st_mode & 0o022
        if not private or not 0 <= time.time() - status.st_mtime < MAX_AGE_SECONDS:
            raise PermissionError("not ours alone, or too old")
        return file.read(_MAX_BYTES)


def _identity(program: str) -> list[str | int]:
    """Identify a program by facts that change with its content."""
    try:
        status = os.stat(program)
    except OSError:
        return [program]
    return [program, status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns]


def _machine() -> list[str]:
    found = [_text(path) for path in _FACTS]
    for path in _NAMESPACES:
        try:
            found.append(os.readlink(path))
        except OSError:
            found.append("")
    lines = _text("/proc/self/status").splitlines()
    return [*found, *(line for line in lines if line.startswith(_STATUS))]


def _text(path: str) -> str:
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read(_MAX_BYTES)
    except OSError:
        return ""
