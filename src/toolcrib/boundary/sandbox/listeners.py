"""A listening socket inside a command's network namespace, for a proxy outside: the only way out of it.

The namespace has nothing but a loopback interface. A socket stays in the namespace it was opened in, so whoever is
handed this one answers there without being there. No address, file or bridge leads from one to the other.
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
_ANSWER_SECONDS = 5.0  # everybody's commands wait meanwhile


class Listeners:
    """The process that opens them (`opener.py`): one for all commands, started at the first use, again if it ends."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._socket: socket.socket | None = None

    def ready(self) -> None:
        """Have it running: starting takes some 30 ms, which is better done before a command waits for it.

        Raises SandboxUnavailable or OSError.
        """
        with self._lock:
            self._start()

    def open(self, pid: int, port: int) -> socket.socket:
        """A socket that listens on 127.0.0.1 in the network namespace of this process. Raises SandboxUnavailable.

        The process must be one of ours that waits: a number alone may be another's by then.
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
        """After a fork, in the child: the process is the parent's."""
        if self._socket is not None:
            self._socket.close()
        self._socket = None
        if self._process is not None:
            self._process.returncode = 0

    def close(self) -> None:
        """End it."""
        with self._lock:
            self._stop()


_lock = threading.Lock()
_shared: Listeners | None = None


def listeners() -> Listeners:
    """Those of this process."""
    global _shared
    with _lock:
        if _shared is None:
            import atexit

            _shared = Listeners()
            atexit.register(_shared.close)
        return _shared


def _after_fork() -> None:
    """The child makes its own: two that ask over one socket would take each other's answers."""
    global _shared, _lock
    if _shared is not None:
        _shared.abandon()
    _shared, _lock = None, threading.Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
