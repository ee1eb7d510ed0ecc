"""The only way out of a sandbox with `allowed_domains`: our proxy, on a port of the command's loopback interface."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from ..environment import proxy_variables, without_proxies
from .listeners import listeners

if TYPE_CHECKING:
    from ..network.address_guard import AddressGuard
    from ..proxy.thread import ThreadProxy

PORT = 3128  # squid's port, known for a proxy; no other program inside the sandbox can have it
_MAX_NAMED = 10


class Outlet:
    """The proxy of one command. It is created before the command, opened when the command's namespace exists, and
    closed at its end."""

    def __init__(self, domains: Sequence[str], guard: AddressGuard) -> None:
        from ..proxy.dialling import dialling
        from ..proxy.domains import only
        from ..proxy.thread import ThreadProxy

        listeners().ready()
        self._domains = domains
        self._proxy: ThreadProxy = ThreadProxy(only(domains, guard), dialling(guard.settings))

    def environment(self, env: Mapping[str, str]) -> dict[str, str]:
        """Return the command's environment, with our proxy as the only one."""
        return {**without_proxies(env), **proxy_variables(f"http://127.0.0.1:{PORT}", self._domains)}

    def open(self, pid: int) -> None:
        """Serve inside the network namespace of this process. Raises SandboxUnavailable if that fails."""
        self._proxy.serve(listeners().open(pid, PORT))

    def close(self) -> None:
        """Close the port and every connection."""
        self._proxy.close()

    def notes(self) -> list[str]:
        """Return notes for the command's output about the connections that were refused."""
        refused = self._proxy.refused
        if not refused:
            return []
        places: dict[str, list[str]] = {}  # by reason, in the order they came
        for each in refused[:_MAX_NAMED]:
            places.setdefault(each.reason, []).append(each.where)
        named = "; ".join(f"{', '.join(where)}: {reason}" for reason, where in places.items())
        more = f"; and {len(refused) - _MAX_NAMED} more" if len(refused) > _MAX_NAMED else ""
        return [f"[the sandbox's proxy refused {named}{more}]"]
