"""The only way out of a sandbox with `allowed_domains`: our proxy, on a port of the command's loopback interface.

The command's network namespace has only that interface. A socket stays in the namespace in which it was opened: so a
helper (`namespace_helper.py`) opens a listening socket inside, and the proxy outside, which receives the socket,
answers there without being there. No address, file or bridge leads from one to the other.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Coroutine, Mapping
from typing import Any

from ..environment import proxy_variables, without_proxies
from ..network.address_guard import AddressGuard
from ..network.settings import RULE_DOMAIN
from ..per_process import PerProcess
from ..proxy.dialling import dialling
from ..proxy.domains import only
from ..proxy.proxy_server import FilteringProxy
from .namespace_helper import namespace_helper
from .settings import SandboxSettings

log = logging.getLogger(__name__)

PORT = 3128  # squid's port, known for a proxy; no other program inside the sandbox can have it
_AUTHORITIES = (
    "SSL_CERT_FILE", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "GIT_SSL_CAINFO", "NODE_EXTRA_CA_CERTS", "AWS_CA_BUNDLE",
    "PIP_CERT", "CARGO_HTTP_CAINFO", "DENO_CERT", "NIX_SSL_CERT_FILE",
)  # fmt: skip
"""The variables by which programs find the authorities that they trust."""
_MAX_NAMED = 10


class Outlet:
    """The proxy of one command. It is created before the command, opened when the command's namespace exists, and
    closed at its end."""

    def __init__(self, settings: SandboxSettings, guard: AddressGuard) -> None:
        namespace_helper.ready()
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
        _run(self._proxy.serve(namespace_helper.listen(pid, PORT)))

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
