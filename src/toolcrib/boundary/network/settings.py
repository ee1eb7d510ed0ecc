"""The settings of requests: where they may go besides the public internet on the usual ports."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated
from urllib.parse import urlsplit

from ...core.settings import AnyPath, Bounds, Checked, Section
from ...core.tightening import Fewer
from .host_grants import domain_pattern, parse_grant


def _private_target(text: str) -> str:
    parse_grant(text)
    return text


def _proxy(url: str) -> str | None:
    try:
        parts = urlsplit(url)
        usable = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        usable = False
    if url and not usable:
        raise ValueError("should be a URL like http://proxy.example:3128")
    return url or None


Domain = Annotated[str, Checked(domain_pattern)]
"""A pattern of host names: `api.example.com`, `*.myco.com` (the domain itself, too), or `*`."""
Port = Annotated[int, Bounds(ge=1, le=65_535)]


@dataclass(frozen=True, slots=True)
class GuardSettings(Section):
    """Which requests may leave this machine, and where they may go."""

    allow_private: Annotated[tuple[Annotated[str, Checked(_private_target)], ...], Fewer()] = ()
    """Private targets that may be dialled: CIDR ranges or host names."""
    ports: Annotated[tuple[Port, ...], Fewer()] = ()
    """Ports besides 80, 443 and 8000-9999."""
    allowed_domains: Annotated[tuple[Domain, ...], Fewer()] = ()
    """Domains that tools may send to without a question."""
    proxy: Annotated[str, Checked(_proxy)] | None = None
    """An HTTP proxy that requests go through."""
    proxy_ca: AnyPath | None = None
    """A PEM file with the authority that the proxy signs with."""
