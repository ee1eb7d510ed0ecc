"""Which host an address names, and whether a `domain:` rule means it.

Hosts are read as the address guard reads them, so that no other spelling of one leads past a rule.
"""

from __future__ import annotations

import re

from ...boundary.network.host_names import parse_host
from ...boundary.network.url import parse_url
from ...core.errors import AddressRefused

_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://")  # whichever it is: the guard alone says which may be dialled
# `https:example.com` is https://example.com to browsers; `example.com:8080` is a host and a port.
_SCHEME_ALONE = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:(?![0-9]+(?:[/?#]|\Z))")


def host_of(url: str) -> str | None:
    """The host of an address as rules are held against it; None where it has none that can be told for sure."""
    text = url.strip()
    if any(ord(c) <= 32 for c in text):  # browsers and libraries read these differently
        return None
    scheme = _SCHEME.match(text)
    if scheme is None and ("://" in text or _SCHEME_ALONE.match(text)):
        return None
    try:
        return str(parse_url(f"https://{text[scheme.end() :] if scheme else text}").host)
    except AddressRefused:
        return None


def domain_fits(pattern: str, host: str) -> bool:
    """`example.com` means that host alone, `*.example.com` its subdomains alone, `*` every host."""
    if pattern == "*":
        return True
    if pattern.startswith("*."):
        return host.endswith(pattern[1:])
    return host == pattern


def plain_domain(pattern: str) -> str | None:
    """The pattern of a rule, as hosts are written; None if it is none."""
    text = pattern.strip()
    if text == "*":
        return text
    star = "*." if text.startswith("*.") else ""
    host = _plain(text[len(star) :])
    return None if host is None else f"{star}{host}"


def _plain(host: str) -> str | None:
    """Lower case, in ASCII, without a dot at the end; an address as `ipaddress` writes it."""
    bare = host.removeprefix("[").removesuffix("]")
    try:
        return str(parse_host(f"[{bare}]" if ":" in bare else bare))
    except AddressRefused:
        return None
