"""`toolcrib hookd`: keeps loaded what `toolcrib hook` needs, so that not every event loads it again.

It judges nothing and keeps nothing but code. For each event it forks a child, which does what `toolcrib hook` does with
the streams, the folder and the variables of its client: settings, rules and record are read anew. It ends when it has
nothing to do, when a file of its code changes, and when its socket is gone.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import os
import select
import signal
import socket
import struct
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import NoReturn

from ..boundary.own_files import lock_file
from ..boundary.programs import interpreter
from ..core.homes import hookd_folder
from . import hook_client
from .options import Options
from .reader import CliCommand

IDLE_SECONDS = 600.0
_LOOK_SECONDS = 15.0
_CLIENT_SECONDS = 2.0
_MAX_TEXT = 32 << 20
_CONFINED = ("NoNewPrivs", "Seccomp", "Seccomp_filters", "CapEff", "CapBnd")
_NAMESPACES = ("mnt", "user", "pid", "net", "ipc")

_client: socket.socket | None = None
"""Who waits for the exit code, in a child of the resident process."""


def hookd(options: Options) -> None:
    """Answer the events of `toolcrib hook` sooner. The first event starts it, and it ends after ten idle minutes."""
    folder = _own_folder()
    lock = _lock(folder) if _possible() else None
    if lock is None:  # there is one already
        return
    os.umask(0o077)
    os.chdir("/")
    for name in sys.stdin.read(1 << 20).split():
        with contextlib.suppress(Exception):
            importlib.import_module(name)
    from ..config import load_settings

    with contextlib.suppress(Exception):  # builds what is built once
        load_settings(workspace="/")
    if threading.active_count() > 1:  # a fork would take locks along that they hold
        return
    gc.collect()
    gc.freeze()
    _serve(folder)


def start() -> None:
    """Start the resident process, if there is none. It loads what this process has loaded."""
    if _client is not None or not hook_client.usable() or not _possible():
        return
    if (lock := _lock(_own_folder())) is None:
        return
    os.close(lock)
    child = subprocess.Popen(
        [interpreter(), "-I", "-m", "toolcrib", "hookd"], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL, cwd="/", start_new_session=True,
    )  # fmt: skip
    assert child.stdin is not None
    with contextlib.suppress(OSError), child.stdin as names:
        names.write("\n".join(name for name in sys.modules if name != "__main__").encode())
    child.returncode = 0  # it outlives us


def _lock(folder: int) -> int | None:
    return lock_file(Path(f"/proc/self/fd/{folder}/lock"), wait=False)


def _own_folder() -> int:
    os.makedirs(hookd_folder(), mode=0o700, exist_ok=True)
    return hook_client.private_folder()


def _possible() -> bool:
    """Return whether a confined client can be told from one that is not: not if we may be confined ourselves."""
    return sys.platform == "linux" and _confinement(os.getpid())["NoNewPrivs"] == "0"


def _confinement(pid: int) -> dict[str, str]:
    """Return how a process is confined. Raises OSError if it is gone."""
    found = {name: os.readlink(f"/proc/{pid}/ns/{name}") for name in _NAMESPACES}
    with open(f"/proc/{pid}/status", encoding="ascii", errors="replace") as file:
        lines = (line.partition(":") for line in file)
        return found | {name: value.strip() for name, _, value in lines if name in _CONFINED}


def _code() -> dict[str, tuple[int, int]]:
    """Return when each file of our code was changed, and its size."""
    files = {getattr(module, "__file__", None) for module in list(sys.modules.values())} | {interpreter()}
    found: dict[str, tuple[int, int]] = {}
    for file in files:
        if file is not None:
            with contextlib.suppress(OSError):
                status = os.stat(file)
                found[file] = status.st_mtime_ns, status.st_size
    return found


def _serve(folder: int) -> None:
    path = f"/proc/self/fd/{folder}/{hook_client.SOCKET}"
    with contextlib.suppress(FileNotFoundError):
        os.unlink(path)
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(path)
        listener.listen(64)
        _accept(listener, path)
    with contextlib.suppress(FileNotFoundError):
        os.unlink(path)  # the lock is still ours, so the socket is too


def _accept(listener: socket.socket, path: str) -> None:
    ours, code, own = _inode(path), _code(), _confinement(os.getpid())
    last = time.monotonic()
    while time.monotonic() - last < IDLE_SECONDS:
        ready, _, _ = select.select([listener], [], [], _LOOK_SECONDS)
        with contextlib.suppress(ChildProcessError):
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        if ours is None or _inode(path) != ours:
            return
        if not ready:
            continue
        client, _ = listener.accept()
        with client:
            if _code() != code:
                return  # the event goes without us, and starts another one
            if not _is_equal(client, own):
                continue
            last = time.monotonic()
            if os.fork() == 0:
                listener.close()
                _answer(client)


def _inode(path: str) -> int | None:
    try:
        return os.stat(path).st_ino
    except OSError:
        return None


def _is_equal(client: socket.socket, own: dict[str, str]) -> bool:
    """Return whether a client may do what we may: it has our user, and no walls that we have not. What we do for a
    command in a sandbox, its sandbox would not let it do."""
    pid, user, _ = struct.unpack("3i", client.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))
    try:
        return user == os.getuid() and pid > 0 and _confinement(pid) == own
    except OSError:
        return False


def _answer(client: socket.socket) -> None:
    """Do what `toolcrib hook` does, in a child: it never returns."""
    code = 1
    try:
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        client.settimeout(_CLIENT_SECONDS)
        client.sendall(hook_client.identity())
        if (words := _taken(client)) is None:
            os._exit(0)
        global _client
        _client = client
        from . import main

        try:
            main(words)
        except SystemExit as end:
            code = end.code if isinstance(end.code, int) else 1
        leave(code)
    finally:
        os._exit(code)


def leave(code: int) -> NoReturn:
    """End this process at once. A child of the resident process says its code to its client before."""
    with contextlib.suppress(OSError):
        sys.stdout.flush()
        sys.stderr.flush()
        if _client is not None:
            _client.settimeout(_CLIENT_SECONDS)
            _client.sendall(bytes([code & 0xFF]))
    os._exit(code)


def _taken(client: socket.socket) -> list[str] | None:
    """Take over a client's streams, folder and variables. Return the words of its command line; None if it has gone."""
    head, fds, _, _ = socket.recv_fds(client, 8, 4, socket.MSG_CMSG_CLOEXEC)
    if len(head) != 8 or len(fds) != 4 or not 0 < int(head) < _MAX_TEXT:
        return None
    text = bytearray()
    while len(text) < int(head):
        if not (more := client.recv(1 << 20)):
            return None
        text += more
    count, *parts = bytes(text).split(b"\0")
    os.fchdir(fds[3])
    for number, fd in enumerate(fds[:3]):
        os.dup2(fd, number)
    for fd in fds:
        os.close(fd)
    sys.stdin = open(0, closefd=False)  # noqa: SIM115
    sys.stdout = open(1, "w", encoding="utf-8", closefd=False)  # noqa: SIM115
    sys.stderr = open(2, "w", encoding="utf-8", closefd=False)  # noqa: SIM115
    words, pairs = parts[: int(count)], parts[int(count) :]
    os.environ.clear()
    for pair in pairs:
        name, _, value = pair.partition(b"=")
        os.environb[name] = value
    time.tzset()
    return [os.fsdecode(word) for word in words]


COMMAND = CliCommand(hookd)
