"""Read the host of an address, and match it with a `domain:` rule.

Hosts are read as the address guard reads them, so that a different spelling of a host cannot avoid a rule.
"""

from __future__ import annotations

import re

from ...boundary.network.host_names import parse_host
from ...boundary.network.url import parse_url
from ...core.errors import AddressRefused

_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://")  # any scheme: only the guard decides which may be used
# `https:example.com` is https://example.com to browsers; `example.com:8080` is a host and a port.
_SCHEME_ALONE = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:(?![0-9]+(?:[/?#]|\Z))")


def host_of(url: str) -> str | None:
    """Return the host of an address in the form that rules are compared with; None if it has no certain host."""
    text = url.strip()
    if any(ord(c) <= 32 for c in text):  # browsers and libraries read these characters differently
        return None
    scheme = _SCHEME.match(text)
    if scheme is None and ("://" in text or _SCHEME_ALONE.match(text)):
        return None
    try:
        return str(parse_url(f"https://{text[scheme.end() :] if scheme else text}").host)
    except AddressRefused:
        return None


def domain_fits(pattern: str, host: str) -> bool:
    """Return whether a pattern matches: `example.com` that host alone, `*.example.com` only its subdomains, `*` every
    host."""
    if pattern == "*":
        return True
    if pattern.startswith("*."):
        return host.endswith(pattern[1:])
    return host == pattern


def plain_domain(pattern: str) -> str | None:
    """Return the pattern of a rule in the form of hosts; None if it is invalid."""
    text = pattern.strip()
    if text == "*":
        return text
    star = "*." if text.startswith("*.") else ""
    host = _plain(text[len(star) :])
    return None if host is None else f"{star}{host}"


def _plain(host: str) -> str | None:
    """Return a host in lower case, in ASCII, without a dot at the end; an address as `ipaddress` writes it."""
    bare = host.removeprefix("[").removesuffix("]")
    try:
        return str(parse_host(f"[{bare}]" if ":" in bare else bare))
    except AddressRefused:
        return None
