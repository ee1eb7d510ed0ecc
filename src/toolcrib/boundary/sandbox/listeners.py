"""Open a listening socket inside a command's network namespace, for a proxy outside. It is the only way out of the
namespace.

The namespace has only a loopback interface. A socket stays in the namespace in which it was opened, so a process that
receives this socket answers there without being there. No address, file or bridge leads from one to the other.
"""

from __future__ import annotations

import contextlib
import marshal
import os
import socket
import subprocess
import threading

from ...core.errors import SandboxUnavailable
from ..spawn import memory_file
from .interpreter import code_of, own_python

_LOADER = (
    "import marshal,sys;f=open(int(sys.argv[1]),'rb');c=marshal.load(f);f.close();"
    "n={};exec(c,n);n['main'](int(sys.argv[2]))"
)
_ANSWER_SECONDS = 5.0  # all commands wait meanwhile


class Listeners:
    """The process that opens the sockets (`opener.py`). All commands share it; it starts at the first use, and again
    if it ends."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._socket: socket.socket | None = None

    def ready(self) -> None:
        """Start the process if it does not run. That takes some 30 ms, so it is better done before a command waits for
        it.

        Raises SandboxUnavailable or OSError.
        """
        with self._lock:
            self._start()

    def open(self, pid: int, port: int) -> socket.socket:
        """Return a socket that listens on 127.0.0.1 in the network namespace of this process. Raises SandboxUnavailable
        if that fails.

        The process must be one of our waiting processes: a number alone may belong to another process by then.
        """
        with self._lock:
            ours = self._start()
            try:
                ours.send(f"{pid} {port}".encode())
                answer, fds, _, _ = socket.recv_fds(ours, 600, 1, socket.MSG_CMSG_CLOEXEC)
            except OSError as error:
                self._stop()
                raise SandboxUnavailable(f"The sandbox could not be given a network: {error}") from None
            if not fds:
                if not answer:
                    self._stop()
                said = answer.decode(errors="replace").removeprefix("error ") or "its helper ended"
                raise SandboxUnavailable(f"The sandbox could not be given a network: {said}")
            return socket.socket(fileno=fds[0])

    def _start(self) -> socket.socket:
        if self._socket is not None and self._process is not None and self._process.poll() is None:
            return self._socket
        self._stop()
        python = own_python("sandbox.allowed_domains needs a Python interpreter")
        code = memory_file(marshal.dumps(code_of("opener")))
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            try:
                self._process = subprocess.Popen(
                    [python, "-I", "-S", "-c", _LOADER, str(code), str(theirs.fileno())],
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.DEVNULL,
                    stderr=subprocess.DEVNULL,
                    cwd="/",
                    env={},
                    pass_fds=(code, theirs.fileno()),
                    start_new_session=True,
                )
            except BaseException:
                ours.close()
                raise
            finally:
                os.close(code)
        ours.settimeout(_ANSWER_SECONDS)
        self._socket = ours
        return ours

    def _stop(self) -> None:
        if self._socket is not None:
            self._socket.close()
        if self._process is not None:
            self._process.kill()
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(1)
        self._socket = self._process = None

    def abandon(self) -> None:
        """Forget the process after a fork, in the child: it belongs to the parent."""
        if self._socket is not None:
            self._socket.close()
        self._socket = None
        if self._process is not None:
            self._process.returncode = 0

    def close(self) -> None:
        """End the process."""
        with self._lock:
            self._stop()


_lock = threading.Lock()
_shared: Listeners | None = None


def listeners() -> Listeners:
    """Return the listeners of this process."""
    global _shared
    with _lock:
        if _shared is None:
            import atexit

            _shared = Listeners()
            atexit.register(_shared.close)
        return _shared


def _after_fork() -> None:
    """Let the child start its own process: two users of one socket would take each other's answers."""
    global _shared, _lock
    if _shared is not None:
        _shared.abandon()
    _shared, _lock = None, threading.Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
