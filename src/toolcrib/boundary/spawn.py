"""Describe what to start: a command that a sandbox has prepared, and the protocol between sandbox and launcher."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import field
from typing import Protocol

from ..core.dataclass import dataclass


class Handshake(Protocol):
    """The protocol with a launcher: it reports the leader of the process tree, and holds it until limits are set."""

    @property
    def fd(self) -> int:
        """Return a file descriptor that becomes readable when the launcher has a message."""
        ...

    @property
    def ready(self) -> int:
        """Return a file descriptor that becomes readable when the launcher has prepared everything."""
        ...

    def feed(self, data: bytes) -> int | None:
        """Read the launcher's message. Return the leader's pid once it is known, after confining the leader."""
        ...

    def release(self) -> None:
        """Let the leader run the command, when the launcher is ready. Raises SandboxUnavailable if it must not run."""
        ...

    def close(self) -> None: ...


@dataclass
class Spawn:
    """The program to start. A sandbox makes it, and it is used once. `child_fds` are ours; we close them when the
    child has them."""

    argv: Sequence[str]
    cwd: str
    env: Mapping[str, str]
    child_fds: tuple[int, ...] = ()
    nothing: str = os.devnull
    """What it reads if it has no input: a device, so that programs (`rg x`) do not take it for one."""
    handshake: Handshake | None = None
    outlives_thread: bool = False
    """Whether any thread may spawn it: it does not end with that thread, and has nothing to `prepare`."""
    cleanup: Callable[[], None] = field(default=lambda: None)
    prepare: Callable[[], None] = field(default=lambda: None)  # called in the thread that spawns, just before
    confined: Callable[[Callable[[], subprocess.Popen[bytes]], Future[subprocess.Popen[bytes]]], None] | None = None
    """A function that lets a thread that has restricted itself for good call another one, which spawns. The future gets
    its result, and its callbacks run in that thread: they must start no other thread."""
    started: Callable[[int], None] = field(default=lambda pid: None)  # called with the new process's pid
    appeared: Callable[[], list[str]] = field(default=list[str])  # after the end: protected names that are new
    notes: list[str] = field(default_factory=list[str])  # further lines for the reader, added by `appeared`
    refused: list[str] = field(default_factory=list[str])
    """Hosts that it asked for and that no setting allows, each as `host:port`, added by `appeared`."""
    failure: Callable[[str, int], Exception | None] = field(default=lambda stderr, code: None)
    """After the end with this stderr and exit code: the error if the command never ran, None if it did."""
    stop: Callable[[], None] | None = None
    """A function that ends it early, for launchers that would end alone after a signal to the process group. It is
    called in the thread that spawns, perhaps more than once; it must not block. The group gets a signal if that does
    not help."""

    def discard(self) -> None:
        """Release all resources of a spawn that will not be started, or has ended. Safe to call twice, also after an
        error in it: the numbers of closed descriptors may be somebody else's."""
        handshake, self.handshake = self.handshake, None
        cleanup, self.cleanup = self.cleanup, lambda: None
        self.close_child_fds()
        try:
            if handshake is not None:
                handshake.close()
        finally:
            cleanup()

    def close_child_fds(self) -> None:
        fds, self.child_fds = self.child_fds, ()
        for fd in fds:
            os.close(fd)


def memory_file(content: bytes) -> int:
    """Return a descriptor of a file without a name that has this content, at its beginning."""
    fd = os.memfd_create("toolcrib")
    os.write(fd, content)
    os.lseek(fd, 0, os.SEEK_SET)
    return fd
