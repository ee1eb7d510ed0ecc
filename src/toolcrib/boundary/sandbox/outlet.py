"""The only way out of a sandbox with `allowed_domains`: our proxy, on a port of the command's loopback interface.

The command's network namespace has only that interface. A socket stays in the namespace in which it was opened: so a
helper (`opener.py`) opens a listening socket inside, and the proxy outside, which receives the socket, answers there
without being there. No address, file or bridge leads from one to the other.
"""

from __future__ import annotations

import asyncio
import atexit
import contextlib
import functools
import inspect
import logging
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Coroutine, Mapping
from typing import Any

from ...core.errors import SandboxUnavailable
from ..environment import proxy_variables, without_proxies
from ..network.address_guard import AddressGuard
from ..network.settings import RULE_DOMAIN
from ..per_process import PerProcess
from ..proxy.dialling import dialling
from ..proxy.domains import only
from ..proxy.proxy_server import FilteringProxy
from . import opener
from .settings import SandboxSettings

log = logging.getLogger(__name__)

PORT = 3128  # squid's port, known for a proxy; no other program inside the sandbox can have it
_AUTHORITIES = (
    "SSL_CERT_FILE", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "GIT_SSL_CAINFO", "NODE_EXTRA_CA_CERTS", "AWS_CA_BUNDLE",
    "PIP_CERT", "CARGO_HTTP_CAINFO", "DENO_CERT", "NIX_SSL_CERT_FILE",
)  # fmt: skip
"""The variables by which programs find the authorities that they trust."""
_MAX_NAMED = 10
_ANSWER_SECONDS = 5.0  # all commands wait meanwhile


class Outlet:
    """The proxy of one command. It is created before the command, opened when the command's namespace exists, and
    closed at its end."""

    def __init__(self, settings: SandboxSettings, guard: AddressGuard) -> None:
        listeners.ready()
        domains, opened = settings.domains, settings.opened
        self._hosts = (*domains, *(place.rpartition(":")[0].strip("[]") for place in opened))
        egress = None
        if settings.egress:
            from ..network.resolve import tls_context
            from ..proxy.authority import authority
            from ..proxy.egress import Egress

            egress = Egress(settings.egress, tls_context(guard.settings.proxy_ca))
            self.authorities = authority().bundle()
        self._proxy = FilteringProxy(only(domains, guard, opened), dial=dialling(guard.settings), egress=egress)

    authorities: tuple[str, bytes] | None = None
    """If the proxy opens TLS: a file of the system, and what the command finds in its place."""

    def environment(self, env: Mapping[str, str]) -> dict[str, str]:
        """Return the command's environment, with our proxy as the only one."""
        env = {**without_proxies(env), **proxy_variables(f"http://127.0.0.1:{PORT}", self._hosts)}
        return {**env, **dict.fromkeys(_AUTHORITIES, self.authorities[0])} if self.authorities else env

    def open(self, pid: int) -> None:
        """Serve inside the network namespace of this process. Raises SandboxUnavailable if that fails."""
        _run(self._proxy.serve(listeners.open(pid, PORT)))

    def close(self) -> None:
        """Close the port and every connection."""
        _run(self._proxy.close())

    def refused(self) -> list[str]:
        """Return the hosts that no setting allows and that were asked for, each as `host:port`."""
        return [each.where for each in self._proxy.refused.values() if each.rule == RULE_DOMAIN]

    def notes(self) -> list[str]:
        """Return notes for the command's output about the connections that were refused."""
        refused = list(self._proxy.refused.values())
        if not refused:
            return []
        places: dict[str, list[str]] = {}  # by reason, in the order they came
        for each in refused[:_MAX_NAMED]:
            places.setdefault(each.reason, []).append(each.where)
        named = "; ".join(f"{', '.join(where)}: {reason}" for reason, where in places.items())
        more = f"; and {len(refused) - _MAX_NAMED} more" if len(refused) > _MAX_NAMED else ""
        return [f"[the sandbox's proxy refused {named}{more}]"]


def _run(work: Coroutine[Any, Any, None]) -> None:
    """Run a coroutine without waiting for it. All proxies share one thread, so that none waits for the host's loop."""
    asyncio.run_coroutine_threadsafe(_logged(work), _shared_loop())


async def _logged(work: Coroutine[Any, Any, None]) -> None:
    try:
        await work
    except Exception:  # nothing waits for it
        log.exception("the proxy of a command failed")


def _new_loop() -> asyncio.AbstractEventLoop:
    loop = asyncio.new_event_loop()
    threading.Thread(target=loop.run_forever, name="toolcrib-proxy", daemon=True).start()
    return loop


_shared_loop = PerProcess(_new_loop)


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
        command = [_own_python(), "-I", "-S", "-c", _opener_source()]
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
def _opener_source() -> str:
    """Return the helper's text, which it is started with: no file is read in its own process."""
    try:
        return inspect.getsource(opener)
    except OSError:
        raise SandboxUnavailable(f"{opener.__name__} is not installed as a source file, so it cannot be run.") from None


def _own_python() -> str:
    """Return this interpreter, without its virtual environment. Raises SandboxUnavailable."""
    bundled = getattr(sys, "frozen", False)  # in a frozen program sys.executable is that program, not an interpreter
    for program in () if bundled else (getattr(sys, "_base_executable", ""), sys.executable):
        if program and os.access(program, os.X_OK):
            return program
    raise SandboxUnavailable(
        "sandbox.allowed_domains needs a Python interpreter, and this program does not know where its own is (it is "
        "bundled, or embeds Python)."
    )


listeners = Listeners()
"""Those of this process."""

atexit.register(listeners.close)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=listeners.abandon)
