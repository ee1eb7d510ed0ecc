"""Which host an address names, and whether a `domain:` rule means it."""

from __future__ import annotations

import ipaddress
from urllib.parse import urlsplit


def host_of(url: str) -> str | None:
    """The host of an address as rules are held against it; None where it has none that can be told for sure."""
    text = url.strip()
    if "\\" in text or any(ord(c) <= 32 for c in text):  # browsers and libraries read these differently
        return None
    if "://" not in text:
        text = f"https://{text}"
    try:
        parts = urlsplit(text)
        host = parts.hostname
    except ValueError:
        return None
    if not host or "%" in host:
        return None
    return plain_host(host)


def plain_host(host: str) -> str | None:
    """Lower case, in ASCII (IDNA 2008, UTS 46), without a trailing dot; an address as `ipaddress` has it."""
    host = host.strip().rstrip(".").removeprefix("[").removesuffix("]")
    if not host:
        return None
    try:
        return str(ipaddress.ip_address(host))
    except ValueError:
        pass
    if host.isascii():
        return host.lower()
    import idna

    try:
        return idna.encode(host, uts46=True).decode("ascii").lower()
    except idna.IDNAError:
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
    starred = text.startswith("*.")
    host = plain_host(text[2:] if starred else text)
    if host is None or "*" in host or "/" in host or (":" in host and not _is_address(host)):
        return None
    return f"*.{host}" if starred else host


def _is_address(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True
