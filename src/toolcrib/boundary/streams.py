"""The three pipes of a running command, read and written without waiting.

Everything happens in the process thread, except for the methods that say otherwise.
"""

from __future__ import annotations

import contextlib
import os
import threading
import time
from collections.abc import Callable
from functools import partial
from typing import NamedTuple

from .capture import Capture, OpenSpill
from .spawner import BUFFER_BYTES, Watched, spawner

_DRAIN_BYTES = 4 << 20  # how much is still read after the command has ended
_CHATTY_BYTES = 1 << 20  # a command that printed more than this is read in larger pieces
_BREATH_SECONDS = 0.0002  # a pipe of 1 MiB takes longer to fill, so the command does not wait
_FULL_BYTES = 1 << 15  # bytes to read at once where a pipe of Linux's usual 64 KiB is emptied just in time
_STDIN_BYTES = 1 << 20  # how much input may wait for a session that does not read

Wire = Callable[[int, int], object]
"""`wire(stdout, stdin)` takes over our ends of these two pipes, which do not block, and must close them. The process
thread calls it as soon as the command runs; stderr is captured as usual."""


class ChildEnds(NamedTuple):
    """The command's ends of its pipes, during its start."""

    stdin: int
    stdout: int
    stderr: int

    def close(self) -> None:
        """Close them: the command has them, or will never get them."""
        for fd in self:
            os.close(fd)


class Streams:
    """Our ends of the pipes. `owner` is the command: it fails if reading or writing raises. It is not stored, to
    avoid a cycle."""

    def __init__(
        self,
        limit: int,
        open_spill: OpenSpill | None,
        interactive: bool,
        wire: Wire | None,
        input: bytes | None,  # noqa: A002
    ) -> None:
        self._limit = limit
        self._open_spill = open_spill
        self._interactive = interactive  # takes input now; the last may come before the command begins
        self._has_stdin = interactive or input is not None
        self._wire = wire
        self._lock = threading.Lock()
        self._captures = self._new_captures()
        self._read_ends: list[int] = []  # stdout and stderr, until they are watched
        self._streams: dict[int, int] = {}  # file descriptor → index of its capture
        self._narrow: set[int] = set()  # those of them that are as the system made them
        self._stdin: int | None = None
        self._pending = bytearray(input or b"")

    def _new_captures(self) -> list[Capture]:
        return [Capture(self._limit, name, self._open_spill) for name in ("stdout", "stderr")]

    # --- from any thread ---------------------------------------------------------------------------------

    def errors(self) -> str:
        """Return the stderr so far, its head and tail."""
        with self._lock:
            return self._captures[1].excerpt().text

    def since(self, positions: tuple[int, int]) -> tuple[tuple[bytes, bytes], tuple[int, int]]:
        """Return the output of both streams after these positions, as far as it is kept, and the positions after it."""
        with self._lock:
            (out, at_out), (err, at_err) = (c.since(p) for c, p in zip(self._captures, positions, strict=True))
        return (out, err), (at_out, at_err)

    @property
    def idle(self) -> bool:
        """Return whether nothing was printed since the last `take`."""
        return not any(capture.total for capture in self._captures)

    def take(self) -> tuple[Capture, Capture]:
        """Return the output since the last `take` (or the start), and begin anew."""
        fresh = self._new_captures()
        with self._lock:
            taken, self._captures = self._captures, fresh
        for capture in taken:
            capture.close()
        return taken[0], taken[1]

    def write(self, data: bytes, end: bool, owner: Watched) -> bool:
        """Queue input; it may be the last input. Return False if none is taken (any more)."""
        with self._lock:
            if not self._interactive or len(self._pending) + len(data) > _STDIN_BYTES:
                return False
            self._pending += data
            if end:
                self._interactive = False
        spawner().call(lambda: self._flush(owner))
        return True

    # --- in the process thread ---------------------------------------------------------------------------

    def open(self, nothing: str) -> ChildEnds:
        """Create the pipes. Return the ends for the command; without input it reads the device `nothing`."""
        pipes = [os.pipe(), os.pipe()]
        self._read_ends = [read_end for read_end, _ in pipes]
        if self._has_stdin or self._wire is not None:
            stdin, self._stdin = os.pipe2(os.O_CLOEXEC) if hasattr(os, "pipe2") else os.pipe()
        else:
            stdin = os.open(nothing, os.O_RDWR)
        return ChildEnds(stdin, pipes[0][1], pipes[1][1])

    def abandon(self) -> None:
        """Close the command's outputs, because nothing was started."""
        for fd in self._read_ends:
            os.close(fd)

    def attach(self, owner: Watched) -> None:
        """Read from the running command, or hand stdout and stdin over."""
        if self._wire is not None:
            self._hand_over(self._wire, self._read_ends[0])
        for index, read_end in enumerate(self._read_ends):
            if index == 0 and self._wire is not None:
                continue
            os.set_blocking(read_end, False)
            self._streams[read_end] = index
            self._narrow.add(read_end)
            spawner().watch(read_end, partial(self._read_on, read_end), owner)
        if self._stdin is not None:
            os.set_blocking(self._stdin, False)

    def feed(self, owner: Watched) -> None:
        """Write the input that is already queued."""
        if self._stdin is not None and (self._pending or not self._interactive):
            self._flush(owner)

    def drain(self) -> tuple[Capture, Capture]:
        """Read the rest of the pipes, within bounds, and close them. Return the output since the last `take`."""
        left = _DRAIN_BYTES
        for fd in list(self._streams):
            while left > 0 and (size := self._read(fd)) > 0:
                left -= size
            if fd in self._streams:
                self._close_stream(fd)
        for capture in self._captures:
            capture.close()
        return self._captures[0], self._captures[1]

    def close(self) -> None:
        """Close our ends that are still open; no input is taken from here on."""
        for fd in list(self._streams):
            self._close_stream(fd)
        with self._lock:
            self._interactive = False
            if self._stdin is not None:
                spawner().forget(self._stdin)
                os.close(self._stdin)
                self._stdin = None

    def _hand_over(self, wire: Wire, stdout: int) -> None:
        stdin, self._stdin = self._stdin, None
        assert stdin is not None
        os.set_blocking(stdout, False)
        os.set_blocking(stdin, False)
        _widen(stdout)
        wire(stdout, stdin)

    def _read_on(self, fd: int) -> None:
        size = self._read(fd)
        if 0 < size < BUFFER_BYTES // 8 and self._captures[self._streams[fd]].total > _CHATTY_BYTES:
            # Let the pipe fill: reading every few kilobytes as they come costs three times the processor time.
            time.sleep(_BREATH_SECONDS)

    def _read(self, fd: int) -> int:
        """Read once. Return the number of bytes; 0 at the end of the stream, -1 if there is no data now."""
        thread = spawner()
        try:
            size = os.readv(fd, [thread.buffer])
        except BlockingIOError:
            return -1
        if size == 0:
            self._close_stream(fd)
            return 0
        if size >= _FULL_BYTES and fd in self._narrow:
            self._narrow.discard(fd)
            _widen(fd)
        with self._lock:
            self._captures[self._streams[fd]].feed(thread.view[:size])
        return size

    def _close_stream(self, fd: int) -> None:
        spawner().forget(fd)
        self._streams.pop(fd)
        os.close(fd)

    def _flush(self, owner: Watched) -> None:
        with self._lock:
            if self._stdin is None:
                return
            try:
                while self._pending:
                    del self._pending[: os.write(self._stdin, bytes(self._pending[:65536]))]
            except BlockingIOError:
                spawner().watch(self._stdin, lambda: self._flush(owner), owner, write=True)
                return
            except OSError:
                self._interactive = False
                self._pending.clear()
            spawner().forget(self._stdin)
            if not self._interactive:
                os.close(self._stdin)
                self._stdin = None


def _widen(fd: int) -> None:
    """Increase the size of a pipe. Most commands print little, and never need it."""
    with contextlib.suppress(OSError, AttributeError):  # over the user's pipe quota, or not Linux
        import fcntl

        fcntl.fcntl(fd, fcntl.F_SETPIPE_SZ, BUFFER_BYTES)
