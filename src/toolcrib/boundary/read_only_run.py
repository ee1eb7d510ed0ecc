"""Run a search program that may only read, inside given directories, for a limited time, with streamed output.

On Linux Landlock confines the program: a link that is swapped in during the search does not lead outside. The rules
hold for the thread that sets them and for the processes that it starts. So the program is started from a separate
thread, which then watches the clock. On kernels without Landlock the program runs unconfined; `confined` says so.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from typing import Literal, cast

from ..core.dataclass import dataclass
from . import landlock_calls
from .descriptors import closing_fd
from .landlock_calls import EXECUTE, READ_DIR, READ_FILE, landlock_abi

if sys.platform == "linux":  # not in the function that needs it: modules cannot be imported there any more
    import resource

# The first rights alone. Truncation and device ioctl of later versions are left out: the kernel looks for them at every
# open, up to the root of the file system where no rule grants them, which doubled the cost (a grep over 50,728 files:
# 63 ms more than unconfined, without them 44).
_RIGHTS = landlock_calls.FIRST_RIGHTS

# Where a dynamically linked program finds its loader and libraries.
_LIBRARIES = ("/lib", "/lib32", "/lib64", "/usr/lib", "/usr/lib32", "/usr/lib64", "/etc/ld.so.cache")

MEMORY = 4 << 30  # bytes; ripgrep holds a whole line, and with its threads reserves some 100 MiB

_TICK = 0.05  # seconds between two looks at the clock and at cancellation

Stop = Literal["time", "cancelled", "enough"]


def _confine_thread(program: str, directories: Sequence[int], files: Sequence[str]) -> None:
    """Restrict the calling thread, for good, to reading these directories and running this program."""
    with closing_fd(landlock_calls.create_ruleset(landlock_calls.handled(landlock_abi(), _RIGHTS))) as ruleset:
        for target in directories:
            landlock_calls.allow(ruleset, target, READ_FILE | READ_DIR)
        for path in files:
            landlock_calls.allow_path(ruleset, path, READ_FILE)
        landlock_calls.allow_path(ruleset, program, READ_FILE | EXECUTE)
        for path in _LIBRARIES:
            landlock_calls.allow_path(ruleset, path, READ_FILE | READ_DIR | EXECUTE)
        landlock_calls.restrict_thread(ruleset)


@dataclass(frozen=True)
class Haystack:
    """The place of a search: an open directory, and other paths that may be read for their ignore rules.

    The program starts in `directory`, wherever its name leads by now. `readable` are open directories above it,
    `ignore_files` single files above those. With `stdin`, an open file is searched instead of the directory.
    """

    directory: int
    readable: Sequence[int] = ()
    ignore_files: Sequence[str] = ()
    stdin: int | None = None


class Running:
    """A running program. After the context has ended, `stopped` is the reason for an early end, if any, and `said`
    is its stderr."""

    def __init__(self, process: subprocess.Popen[bytes], confined: bool) -> None:
        self.process = process
        self.confined = confined
        self.stopped: Stop | None = None
        self.said = ""
        self.ended = False

    def chunks(self, size: int = 1 << 16) -> Iterator[bytes]:
        """Yield its output as it comes."""
        assert self.process.stdout is not None
        descriptor = self.process.stdout.fileno()
        while chunk := os.read(descriptor, size):
            yield chunk
        self.ended = True

    def stop(self, why: Stop) -> None:
        """End it now."""
        if self.stopped is None and self.process.returncode is None:
            self.stopped = why
            self.process.kill()


def _directory_name(descriptor: int) -> str:
    """Return a name for an open directory that `chdir` accepts and no other program can swap (on Linux)."""
    if sys.platform == "linux":
        return f"/proc/self/fd/{descriptor}"
    import fcntl

    get_path = cast(int, getattr(fcntl, "F_GETPATH"))  # noqa: B009  (macOS only)
    return fcntl.fcntl(descriptor, get_path, b"\0" * 1024).rstrip(b"\0").decode()


@contextmanager
def run_read_only(
    command: Sequence[str],
    where: Haystack,
    *,
    seconds: float,
    cancelled: Callable[[], bool] = lambda: False,
    pass_fds: Sequence[int] = (),
    confine: bool = True,
    memory: int = MEMORY,
) -> Generator[Running]:
    """Start a program and yield it. At the end of the context it is ended and reaped. Raises OSError if it cannot
    start. `memory` bounds its address space in bytes (Linux): a file of one endless line must not fill this machine."""
    started: Future[Running] = Future()
    done = threading.Event()
    confine = confine and landlock_abi() > 0
    with tempfile.TemporaryFile() as errors, open(os.devnull, "rb") as nothing:

        def start() -> Running:
            if confine:
                _confine_thread(command[0], [where.directory, *where.readable], where.ignore_files)
            process = subprocess.Popen(
                command,
                cwd=_directory_name(where.directory),
                stdin=nothing if where.stdin is None else where.stdin,
                stdout=subprocess.PIPE,
                stderr=errors,
                env={"LC_ALL": "C.UTF-8"},
                pass_fds=pass_fds,
                bufsize=0,
            )
            if sys.platform == "linux":
                try:
                    resource.prlimit(process.pid, resource.RLIMIT_AS, (memory, memory))
                except ProcessLookupError:
                    pass  # it has ended already
                except BaseException:
                    process.kill()
                    raise
            return Running(process, confine)

        def watch() -> None:
            try:
                running = start()
            except BaseException as error:  # handed over to the caller's thread
                started.set_exception(error)
                return
            started.set_result(running)
            deadline = time.monotonic() + seconds
            while not done.wait(_TICK):
                if cancelled():
                    running.stop("cancelled")
                elif time.monotonic() >= deadline:
                    running.stop("time")

        thread = threading.Thread(target=watch, name="toolcrib-search", daemon=True)
        thread.start()
        running = started.result()
        try:
            yield running
        finally:
            if not running.ended:
                running.stop("enough")
            running.process.wait()  # the watch still runs, and ends a program that closes its output and stays
            done.set()
            thread.join()
            assert running.process.stdout is not None
            running.process.stdout.close()
            errors.seek(0)
            running.said = errors.read(4_000).decode("utf-8", "replace").strip()
