"""What to start: a command as a sandbox has prepared it, and the protocol between sandbox and launcher."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol


class Handshake(Protocol):
    """The protocol with a launcher: it names the leader of the process tree, and holds it until limits are set."""

    @property
    def fd(self) -> int:
        """A file descriptor that becomes readable when the launcher has news."""
        ...

    def feed(self, data: bytes) -> int | None:
        """Take what the launcher wrote. Returns the leader's pid once known, after confining and releasing it."""
        ...

    def failure(self, stderr: str, code: int) -> Exception | None:
        """After the launcher's own end with this exit code: the error if the command never ran, None if it did."""
        ...

    def close(self) -> None: ...


@dataclass
class Spawn:
    """What to start. Made by a sandbox, used once: `child_fds` are ours to close when the child has them."""

    argv: Sequence[str]
    cwd: str
    env: Mapping[str, str]
    child_fds: tuple[int, ...] = ()
    handshake: Handshake | None = None
    outlives_thread: bool = False
    """It does not end with the thread that spawns it, and has nothing to `prepare`: any thread may."""
    cleanup: Callable[[], None] = field(default=lambda: None)
    prepare: Callable[[], None] = field(default=lambda: None)  # called in the thread that spawns, just before
    appeared: Callable[[], list[str]] = field(default=list[str])  # after the end: protected names that are new
    notes: list[str] = field(default_factory=list[str])  # further lines for the reader, added by `appeared`
    stop: Callable[[], None] | None = None
    """How to end it before its time, where a signal to its process group would end the launcher alone. Called in
    the thread that spawns, perhaps more than once; must not block. The group is signalled if that does not help."""

    def discard(self) -> None:
        """Release everything of a spawn that is not going to be started, or is over."""
        self.close_child_fds()
        if self.handshake is not None:
            self.handshake.close()
        self.cleanup()

    def close_child_fds(self) -> None:
        fds, self.child_fds = self.child_fds, ()
        for fd in fds:
            os.close(fd)


def memory_file(content: bytes) -> int:
    """A descriptor of a file without a name that has this content, at its beginning."""
    fd = os.memfd_create("toolcrib")
    os.write(fd, content)
    os.lseek(fd, 0, os.SEEK_SET)
    return fd
