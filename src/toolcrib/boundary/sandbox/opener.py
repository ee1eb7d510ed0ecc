"""Open listening sockets inside other network namespaces, for the host that asks.

This runs in a separate small interpreter (`python -I -S`), because a process that enters a user namespace must have one
thread, and cannot come back: each request is a fork. Nothing here is imported from the rest of Toolcrib. The process
ends when the other end of its socket is closed.

A request is `PID PORT`; the answer is `ok` with the socket, or `error TEXT`.
"""

from __future__ import annotations

import ctypes
import fcntl
import os
import socket
import sys

_NEWUSER, _NEWNET = 0x10000000, 0x40000000  # linux/sched.h
_GET_USERNS = 0xB701  # linux/nsfs.h: the user namespace that owns a namespace
_IP_FREEBIND = 15  # linux/in.h: the loopback interface need not be up yet
_BACKLOG = 128

libc = ctypes.CDLL(None, use_errno=True)


def main(fd: int) -> None:
    """Answer requests on a SOCK_SEQPACKET socket."""
    with socket.socket(fileno=fd) as requests:
        requests.set_inheritable(False)
        while request := requests.recv(100):
            child = os.fork()
            if child == 0:
                _answer(requests, request)
            if os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) != 0:
                requests.send(b"error it could not answer")


def _answer(requests: socket.socket, request: bytes) -> None:
    try:
        pid, port = map(int, request.split())
        try:
            listener = _open(pid, port)
        except OSError as error:
            requests.send(f"error {error.strerror or error}".encode()[:500])
        else:
            socket.send_fds(requests, [b"ok"], [listener.fileno()])
        os._exit(0)
    finally:
        os._exit(1)


def _open(pid: int, port: int) -> socket.socket:
    net = os.open(f"/proc/{pid}/ns/net", os.O_RDONLY | os.O_CLOEXEC)
    owner = fcntl.ioctl(net, _GET_USERNS)
    if os.fstat(owner).st_ino == os.stat("/proc/self/ns/user").st_ino:
        raise OSError(0, "that is not the namespace of a sandbox")  # ours, or the number is another process's by now
    for fd, kind in ((owner, _NEWUSER), (net, _NEWNET)):
        if libc.setns(fd, kind) != 0:
            number = ctypes.get_errno()
            raise OSError(number, f"setns: {os.strerror(number)}")
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    listener.setsockopt(socket.IPPROTO_IP, _IP_FREEBIND, 1)
    listener.bind(("127.0.0.1", port))
    listener.listen(_BACKLOG)
    return listener


if __name__ == "__main__":
    main(int(sys.argv[1]))
