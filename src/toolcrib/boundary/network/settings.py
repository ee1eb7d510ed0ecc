"""The settings of requests, with the grants in them: where requests may go besides the public internet on the usual
ports."""

from __future__ import annotations

from ipaddress import ip_network
from typing import Annotated

from ...core.dataclass import dataclass
from ...core.errors import AddressRefused
from ...core.settings import AnyPath, Bounds, Checked, Converted, Section
from ...core.text import is_web_url, lazy_regex
from ...core.tightening import Fewer
from .host_names import matches, parse_host
from .special_addresses import Address, Network

RULE_DOMAIN = "sandbox.allowed_domains"
"""The setting for commands, as the rule of a judgement."""

_WITH_PORT = lazy_regex(r"(?P<host>\[[^\]]*\]|[^:]+):(?P<port>[0-9]+)")


@dataclass(frozen=True, slots=True)
class HostGrant:
    """One entry of `web.allow_private`: a network, or the pattern of a name; on one port, or on the usual ones."""

    network: Network | None
    pattern: str
    port: int | None

    def covers(self, port: int) -> bool:
        """Return whether the grant covers this port."""
        return self.port is None or self.port == port

    def names(self, host: Address | str) -> bool:
        """Return whether the grant covers this address or name."""
        if isinstance(host, str):
            return bool(self.pattern) and matches(self.pattern, host)
        return self.network is not None and host in self.network


def parse_grant(text: str) -> HostGrant:
    """Parse `10.0.0.0/8`, `192.168.1.5`, `nas.lan` or `*.lan`, each with an optional `:port`. Raises ValueError if
    it is wrong."""
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
    """Return a name, or `*.` and a name, in the form in which hosts are compared. Raises ValueError for anything
    else."""
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


def _proxy(url: str) -> str | None:
    if url and not is_web_url(url):
        raise ValueError("should be a URL like http://proxy.example:3128")
    return url or None


Domain = Annotated[str, Converted(domain_pattern)]
"""A pattern of host names: `api.example.com`, `*.myco.com` (the domain itself, too), or `*`."""
Port = Annotated[int, Bounds(ge=1, le=65_535)]


@dataclass(frozen=True, slots=True)
class GuardSettings(Section):
    """Which requests may leave this machine, and where they may go."""

    allow_private: Annotated[tuple[Annotated[str, Checked(parse_grant)], ...], Fewer()] = ()
    """Private targets that may be dialled: CIDR ranges or host names."""
    ports: Annotated[tuple[Port, ...], Fewer()] = ()
    """Ports besides 80, 443 and 8000-9999."""
    allowed_domains: Annotated[tuple[Domain, ...], Fewer()] = ()
    """Domains that tools may send to without a question."""
    proxy: Annotated[str, Converted(_proxy)] | None = None
    """An HTTP proxy that requests go through."""
    proxy_ca: AnyPath | None = None
    """A PEM file with the authority that the proxy signs with."""
