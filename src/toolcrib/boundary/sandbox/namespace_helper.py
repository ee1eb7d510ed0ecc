"""The process that works inside the namespaces of sandboxes that wait (`inside_namespaces.py`)."""

from __future__ import annotations

import atexit
import contextlib
import ctypes
import errno
import functools
import inspect
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Iterable

from ...core.errors import SandboxUnavailable
from ..spawn import memory_file
from . import inside_namespaces

_ANSWER_SECONDS = 5.0  # all commands wait meanwhile
_MAKING_MOUNTS = (428, 442)  # the system calls open_tree and mount_setattr
_NO_FLAG = 1 << 31


def can_bind() -> bool:
    """Return whether `NamespaceHelper.bind` works here, which needs Linux 5.12. It then runs."""
    with contextlib.suppress(SandboxUnavailable, OSError):
        if _has_calls():
            namespace_helper.ready()
            return True
    return False


@functools.cache
def _has_calls() -> bool:
    """Return whether the kernel has the system calls, and no filter forbids them."""
    libc = ctypes.CDLL(None, use_errno=True)

    def is_there(number: int) -> bool:
        return libc.syscall(number, -1, b"", ctypes.c_uint(_NO_FLAG)) == -1 and ctypes.get_errno() == errno.EINVAL

    return all(map(is_there, _MAKING_MOUNTS))


class NamespaceHelper:
    """The process. All commands share it; it starts at the first use, and again if it ends.

    The processes whose namespaces it enters must be ours, and wait: a number alone may belong to another by then.
    """

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

    def listen(self, pid: int, port: int) -> socket.socket:
        """Return a socket that listens on 127.0.0.1 in the network namespace of this process. Raises SandboxUnavailable
        if that fails."""
        fds = self._ask(f"listen {pid} {port}", (), "The sandbox could not be given a network")
        return socket.socket(fileno=fds[0])

    def bind(self, pid: int, paths: Iterable[tuple[str, bool]]) -> None:
        """Bind paths, as a process of a sandbox sees them, onto themselves, each with whether it should be read-only;
        the process is the sandbox's first one. Raises SandboxUnavailable if that fails."""
        listed = b"".join(b"%c%b\0" % (b"-" if read_only else b"+", os.fsencode(path)) for path, read_only in paths)
        fd = memory_file(listed)
        try:
            self._ask(f"bind {pid}", (fd,), "What a command must not change could not be protected")
        finally:
            os.close(fd)

    def _ask(self, request: str, given: tuple[int, ...], failed: str) -> list[int]:
        """Return the descriptors of the answer. Raises SandboxUnavailable, whose text begins with `failed`."""
        with self._lock:
            ours = self._start()
            try:
                socket.send_fds(ours, [request.encode()], given)
                answer, fds, _, _ = socket.recv_fds(ours, 600, 1, socket.MSG_CMSG_CLOEXEC)
            except OSError as error:
                self._stop()
                raise SandboxUnavailable(f"{failed}: {error}") from None
            if answer != b"ok":
                if not answer:
                    self._stop()
                said = answer.decode(errors="replace").removeprefix("error ") or "its helper ended"
                raise SandboxUnavailable(f"{failed}: {said}")
            return fds

    def _start(self) -> socket.socket:
        if self._socket is not None and self._process is not None and self._process.poll() is None:
            return self._socket
        self._stop()
        command = [_own_python(), "-I", "-S", "-c", _source()]
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            try:
                self._process = subprocess.Popen(
                    [*command, str(theirs.fileno())],
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.DEVNULL,
                    stderr=subprocess.DEVNULL,
                    cwd="/",
                    env={},
                    pass_fds=(theirs.fileno(),),
                    start_new_session=True,
                )
            except BaseException:
                ours.close()
                raise
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
        """Forget the process after a fork, in the child: it belongs to the parent. Two users of one socket would take
        each other's answers."""
        if self._socket is not None:
            self._socket.close()
        if self._process is not None:
            self._process.returncode = 0
        self._socket = self._process = None
        self._lock = threading.Lock()

    def close(self) -> None:
        """End the process."""
        with self._lock:
            self._stop()


@functools.cache
def _source() -> str:
    """Return the helper's text, which it is started with: no file is read in its own process."""
    try:
        return inspect.getsource(inside_namespaces)
    except OSError:
        name = inside_namespaces.__name__
        raise SandboxUnavailable(f"{name} is not installed as a source file, so it cannot be run.") from None


def _own_python() -> str:
    """Return this interpreter, without its virtual environment. Raises SandboxUnavailable."""
    bundled = getattr(sys, "frozen", False)  # in a frozen program sys.executable is that program, not an interpreter
    for program in () if bundled else (getattr(sys, "_base_executable", ""), sys.executable):
        if program and os.access(program, os.X_OK):
            return program
    raise SandboxUnavailable(
        "sandbox.allowed_domains, and a workspace with very many protected files, need a Python interpreter, and this "
        "program does not know where its own is (it is bundled, or embeds Python)."
    )


namespace_helper = NamespaceHelper()
"""That of this process."""

atexit.register(namespace_helper.close)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=namespace_helper.abandon)
