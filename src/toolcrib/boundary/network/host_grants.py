"""What was granted: private networks, addresses and names that may be dialled all the same."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from ipaddress import ip_network

from ...core.errors import AddressRefused, ConfigError
from .host_names import matches, parse_host
from .special_addresses import RULE_METADATA, Address, AddressRefusal, Network

_WITH_PORT = re.compile(r"(?P<host>\[[^\]]*\]|[^:]+):(?P<port>[0-9]+)")


@dataclass(frozen=True, slots=True)
class HostGrant:
    """One entry of `web.allow_private`: a network, or the pattern of a name; on one port, or on the usual ones."""

    network: Network | None
    pattern: str
    port: int | None

    def covers(self, port: int) -> bool:
        """Whether it speaks of this port."""
        return self.port is None or self.port == port

    def names(self, host: Address | str) -> bool:
        """Whether it speaks of this address or name."""
        if isinstance(host, str):
            return bool(self.pattern) and matches(self.pattern, host)
        return self.network is not None and host in self.network


@dataclass(frozen=True, slots=True)
class HostGrants:
    """All of them. A metadata service is granted by its own address alone, never by a range or a name."""

    entries: tuple[HostGrant, ...] = ()

    @classmethod
    def parse(cls, entries: Iterable[str]) -> HostGrants:
        """From the entries of `web.allow_private`. Raises ConfigError for a wrong one."""
        try:
            return cls(tuple(map(parse_grant, entries)))
        except ValueError as error:
            raise ConfigError(f"web.allow_private: {error}") from None

    def port(self, host: Address | str, port: int) -> bool:
        """Whether a port besides the usual ones was granted for this host, by an entry that names it."""
        return any(entry.port == port and entry.names(host) for entry in self.entries)

    def name(self, host: str, port: int) -> bool:
        """Whether this name was granted."""
        return any(entry.covers(port) and entry.names(host) for entry in self.entries)

    def address(self, refusal: AddressRefusal, port: int, *, by_name: bool) -> bool:
        """Whether what was refused was granted; `by_name` says that the name which led to it was."""
        at = refusal.at
        networks = [entry.network for entry in self.entries if entry.network is not None and entry.covers(port)]
        if refusal.rule == RULE_METADATA:
            return any(network.num_addresses == 1 and at in network for network in networks)
        return by_name or any(at in network for network in networks)


def parse_grant(text: str) -> HostGrant:
    """From `10.0.0.0/8`, `192.168.1.5`, `nas.lan` or `*.lan`, each with `:port` if need be; ValueError if wrong."""
    given = text.strip()
    try:
        return HostGrant(ip_network(given.strip("[]"), strict=False), "", None)
    except ValueError:
        pass
    host, port = given, None
    found = _WITH_PORT.fullmatch(given)
    if found:
        host, port = found["host"], int(found["port"])
        if not 1 <= port <= 65_535:
            raise ValueError(f"there is no port {port} ({text!r})")
        try:
            return HostGrant(ip_network(host.strip("[]"), strict=False), "", port)
        except ValueError:
            pass
    return HostGrant(None, domain_pattern(host), port)


def domain_pattern(text: str) -> str:
    """A name, or `*.` and a name, as hosts are compared; ValueError for what is neither."""
    given = text.strip()
    star = "*." if given.startswith("*.") else ""
    if given == "*":
        return given
    try:
        host = parse_host(given[len(star) :])
    except AddressRefused as error:
        raise ValueError(f"{text!r} should be a host name, an address or a range: {error}") from None
    if not isinstance(host, str) and star:
        raise ValueError(f"{text!r}: a range of addresses is written as 10.0.0.0/8")
    return f"{star}{host}"
