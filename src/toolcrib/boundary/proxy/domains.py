"""Decide whether a client of the proxy may reach a host: first by the allowed domains, if any, then by the address
guard."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence

from ...core.errors import AddressRefused
from ...core.text import clip
from ..network.address_guard import AddressGuard
from ..network.host_names import matches, parse_host
from ..network.special_addresses import Address

RULE_DOMAIN = "sandbox.allowed_domains"
_MAX_LISTED = 100  # characters

Admit = Callable[[str, int], Awaitable[Sequence[Address]]]
"""`await admit(host, port)` returns the addresses to dial, each judged. Raises AddressRefused. `AddressGuard.admit`
is one."""


def only(patterns: Sequence[str], guard: AddressGuard) -> Admit:
    """Admit only hosts that match these patterns (as `domain_pattern` writes them) and that the guard admits."""

    async def admit(host: str, port: int) -> Sequence[Address]:
        name = str(parse_host(f"[{host}]" if ":" in host else host))
        if not any(matches(pattern, name) for pattern in patterns):
            listed = clip(", ".join(patterns), _MAX_LISTED)
            raise AddressRefused(f"not in the setting {RULE_DOMAIN} ({listed})", RULE_DOMAIN)
        return await guard.admit(host, port)

    return admit
