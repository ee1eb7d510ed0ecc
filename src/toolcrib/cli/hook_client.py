"""Hands an event of `toolcrib hook` to `toolcrib hookd`, which has everything loaded. It loads almost nothing itself.

The resident process gets our standard streams, folder and variables, and forks a child that does what we would do.
"""

from __future__ import annotations

import os
import sys

from ..core.homes import hookd_folder

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

SOCKET = "socket"
OFF = "TOOLCRIB_HOOKD"
"""The variable that keeps events in their own processes, if it is "off"."""
FIRST_SECONDS = 3.0
"""How long the resident process may take to answer at all, on a busy machine too. Then we do it ourselves: that costs
more."""
LAST_SECONDS = 25.0
"""Longer than an event may take (`hook.DEADLINE`)."""
_INT = 4


def ask(words: Sequence[str]) -> int | None:
    """Return the exit code of an event; None if nobody has taken it, so that this process must judge it."""
    try:
        if not usable() or sys.path[0] == os.getcwd():  # a module of the folder could take the place of `_socket`
            return None
    except FileNotFoundError:  # the folder was removed
        return None
    import _socket

    try:
        folder = private_folder()
    except OSError:
        return None
    server = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM)
    try:
        server.settimeout(FIRST_SECONDS)
        server.connect(f"/proc/self/fd/{folder}/{SOCKET}")  # the name of a socket has 107 characters at most
        peer = server.getsockopt(_socket.SOL_SOCKET, _socket.SO_PEERCRED, 3 * _INT)
        if int.from_bytes(peer[_INT : 2 * _INT], sys.byteorder) != os.getuid():
            return None
        said = b""
        while not said.endswith(b"\n"):
            if not (more := server.recv(65536)):
                return None
            said += more
        if said != identity():
            return None
        work = os.open(".", os.O_PATH | os.O_DIRECTORY)
        fds = b"".join(fd.to_bytes(_INT, sys.byteorder) for fd in (0, 1, 2, work))
        pairs = [name + b"=" + value for name, value in os.environb.items()]
        text = b"\0".join([b"%d" % len(words), *map(os.fsencode, words), *pairs])
        server.sendmsg([b"%8d" % len(text)], [(_socket.SOL_SOCKET, _socket.SCM_RIGHTS, fds)])
    except OSError:
        return None
    late = False
    try:  # from here on the event is theirs: they may have read it
        server.settimeout(LAST_SECONDS)
        server.sendall(text)
        if code := server.recv(1):
            return code[0]
    except TimeoutError:
        late = True  # what takes so long may be the model's call itself
    except OSError:
        pass
    return _lost(words, late)


def usable() -> bool:
    """Return whether events may go through a resident process here: on Linux, in an environment that is ours alone.
    Not at a terminal: Ctrl-C would not reach that process."""
    off = os.environ.get(OFF) == "off" or "PYTHONPATH" in os.environ
    return sys.platform == "linux" and not off and not os.isatty(0)


def private_folder() -> int:
    """Return a descriptor of the folder with the socket. Raises OSError if it is not there, or not ours alone."""
    folder = os.open(hookd_folder(), os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    status = os.fstat(folder)
    if status.st_uid != os.getuid() or status.st_mode & 0o077:
        os.close(folder)
        raise PermissionError(f"{hookd_folder()} is open to others")
    return folder


def identity() -> bytes:
    """Return a line that is equal for processes that run the same code in the same way."""
    start = sorted(f"{name}={value}" for name, value in os.environ.items() if name.startswith(("PYTHON", "LD_")))
    return os.fsencode(repr((sys.prefix, sys.version, __file__, start))) + b"\n"


def _lost(words: Sequence[str], late: bool) -> int:
    """Answer for a process that ended without an answer: as if we had been killed, or a refusal. One that is too `late`
    is refused."""
    from ..hosts import HOSTS, HostName, refusal

    found: list[HostName] = [host for host in HOSTS if any(word == host for word in words)]
    host = found[0] if found else HOSTS[0]
    why = f"it took longer than {LAST_SECONDS:g} s" if late else "the process that judged it has ended"
    reply = refusal(host, why, late or "--closed" in words)
    for fd, text in ((1, reply.stdout), (2, reply.stderr)):
        if text:
            os.write(fd, text.encode() + b"\n")
    return reply.code
