"""Decide whether a client of the proxy may reach a host: first by the allowed domains, if any, then by the address
guard."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence

from ...core.errors import AddressRefused
from ...core.text import clip
from ..network.address_guard import AddressGuard
from ..network.host_names import bracketed, matches, parse_host, place_of
from ..network.settings import RULE_DOMAIN
from ..network.special_addresses import Address

_MAX_LISTED = 100  # characters

Admit = Callable[[str, int], Awaitable[Sequence[Address]]]
"""`await admit(host, port)` returns the addresses to dial, each judged. Raises AddressRefused. `AddressGuard.admit`
is one."""


def admits(patterns: Sequence[str], place: str) -> bool:
    """Return whether a host, as `host:port`, matches one of these patterns."""
    name = place.rpartition(":")[0].strip("[]")
    return any(matches(pattern, name) for pattern in patterns)


def only(patterns: Sequence[str], guard: AddressGuard, opened: Sequence[str] = ()) -> Admit:
    """Admit only hosts that match these patterns (as `domain_pattern` writes them), and those that were opened, each
    with its port; and of both only what the guard admits."""

    async def admit(host: str, port: int) -> Sequence[Address]:
        place = place_of(str(parse_host(bracketed(host))), port)
        if place not in opened and not admits(patterns, place):
            also = f", nor opened to this command ({clip(', '.join(opened), _MAX_LISTED)})" if opened else ""
            listed = clip(", ".join(patterns) or "it has no domain", _MAX_LISTED)
            raise AddressRefused(f"not in the setting {RULE_DOMAIN} ({listed}){also}", RULE_DOMAIN)
        return await guard.admit(host, port)

    return admit
