"""Work inside the namespaces of a sandbox that waits, for the host that asks: open a listening socket, or make mounts.

This runs in a separate small interpreter (`python -I -S`), because a process that enters a user namespace must have one
thread, and cannot come back: each request is a fork. Nothing here is imported from the rest of Toolcrib. The process
ends when the other end of its socket is closed.

A request is `listen PID PORT`, or `bind PID` with a file of paths; the answer is `ok`, for `listen` with the socket, or
`error TEXT`.
"""

from __future__ import annotations

import ctypes
import fcntl
import os
import socket
import stat
import struct
import sys
import time

_NEWNS, _NEWUSER, _NEWNET = 0x00020000, 0x10000000, 0x40000000  # linux/sched.h
_GET_USERNS = 0xB701  # linux/nsfs.h: the user namespace that owns a namespace
_IP_FREEBIND = 15  # linux/in.h: the loopback interface need not be up yet
_BACKLOG = 128

# linux/mount.h, linux/fcntl.h; the numbers of the system calls are the same on every architecture.
_OPEN_TREE, _MOVE_MOUNT, _MOUNT_SETATTR = 428, 429, 442
_EMPTY_PATH, _RECURSIVE, _CLONE, _CLOEXEC = 0x1000, 0x8000, 1, os.O_CLOEXEC
_FROM_EMPTY, _TO_EMPTY = 0x4, 0x40
_READ_ONLY = struct.pack("=QQQQ", 1, 0, 0, 0)  # struct mount_attr: MOUNT_ATTR_RDONLY is set
_PAUSE = 0.0005  # seconds

libc = ctypes.CDLL(None, use_errno=True)


def main(fd: int) -> None:
    """Answer requests on a SOCK_SEQPACKET socket."""
    with socket.socket(fileno=fd) as requests:
        requests.set_inheritable(False)
        while True:
            request, fds, _, _ = socket.recv_fds(requests, 100, 1)
            if not request:
                return
            child = os.fork()
            if child == 0:
                _answer(requests, request.decode().split(), fds)
            for each in fds:
                os.close(each)
            if os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) != 0:
                requests.send(b"error it could not answer")


def _answer(requests: socket.socket, request: list[str], fds: list[int]) -> None:
    try:
        try:
            if request[0] == "listen":
                listener = _listen(int(request[1]), int(request[2]))
                socket.send_fds(requests, [b"ok"], [listener.fileno()])
            else:
                with open(fds[0], "rb") as file:
                    _bind(int(request[1]), file.read().split(b"\0")[:-1])
                requests.send(b"ok")
        except OSError as error:
            where = f"{os.fsdecode(error.filename)}: " if error.filename else ""
            requests.send(f"error {where}{error.strerror or error}".encode(errors="replace")[:500])
        os._exit(0)
    finally:
        os._exit(1)


def _listen(pid: int, port: int) -> socket.socket:
    net, owner = _namespace(pid, "net")
    _enter(owner, _NEWUSER)
    _enter(net, _NEWNET)
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    listener.setsockopt(socket.IPPROTO_IP, _IP_FREEBIND, 1)
    listener.bind(("127.0.0.1", port))
    listener.listen(_BACKLOG)
    return listener


def _bind(pid: int, paths: list[bytes]) -> None:
    """Bind each path, as it is seen inside, onto itself with all that is mounted there: `+PATH` as it is, `-PATH`
    read-only."""
    mounts, owner = _namespace(pid, "mnt")
    # bubblewrap moves to its new root before it makes the user namespace of the command, which is its last step.
    while os.stat(f"/proc/{pid}/ns/user").st_ino == os.fstat(owner).st_ino:
        time.sleep(_PAUSE)
    _enter(owner, _NEWUSER)
    _enter(mounts, _NEWNS)
    for path in paths:
        place = os.open(path[1:], os.O_PATH | os.O_NOFOLLOW | _CLOEXEC)
        if stat.S_ISLNK(os.fstat(place).st_mode):
            raise OSError(0, "it was changed meanwhile", path[1:])
        tree = _checked(libc.syscall(_OPEN_TREE, place, b"", _CLONE | _CLOEXEC | _RECURSIVE | _EMPTY_PATH), path)
        if path.startswith(b"-"):
            size = ctypes.c_size_t(len(_READ_ONLY))
            _checked(libc.syscall(_MOUNT_SETATTR, tree, b"", _RECURSIVE | _EMPTY_PATH, _READ_ONLY, size), path)
        _checked(libc.syscall(_MOVE_MOUNT, tree, b"", place, b"", _FROM_EMPTY | _TO_EMPTY), path)
        os.close(tree)
        os.close(place)


def _namespace(pid: int, kind: str) -> tuple[int, int]:
    """Open a namespace of a process, and the user namespace that owns it."""
    namespace = os.open(f"/proc/{pid}/ns/{kind}", os.O_RDONLY | _CLOEXEC)
    owner = fcntl.ioctl(namespace, _GET_USERNS)
    if os.fstat(owner).st_ino == os.stat("/proc/self/ns/user").st_ino:
        raise OSError(0, "that is not the namespace of a sandbox")  # ours, or the number is another process's by now
    return namespace, owner


def _enter(namespace: int, kind: int) -> None:
    _checked(libc.setns(namespace, kind), b" setns")


def _checked(answer: int, path: bytes) -> int:
    if answer < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), path[1:])
    return answer


if __name__ == "__main__":
    main(int(sys.argv[1]))
