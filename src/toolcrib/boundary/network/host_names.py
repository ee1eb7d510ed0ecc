"""Parse the host of a URL: an address in one of its many forms, or a name. Decide whether a name is refused.

`parse_host` reads a host by WHATWG's URL standard (https://url.spec.whatwg.org/#host-parsing), so that the judged host
is the one that any client would dial. A host that two clients could read differently is refused.
"""

from __future__ import annotations

import re
import unicodedata
from ipaddress import IPv4Address, IPv6Address, ip_address
from urllib.parse import unquote

from ...core.errors import AddressRefused
from ...core.text import clip, lazy_regex
from .special_addresses import Address, is_public

Host = Address | str
"""An address, or a name in lower-case ASCII (A-labels) without a dot at its end."""

RULE_MALFORMED = "address:malformed"
RULE_NAME = "address:name"

# Domains that never lead to the public internet, each with its source.
LOCAL_DOMAINS = {
    "localhost": "RFC 6761",
    "localdomain": "the usual /etc/hosts",
    "local": "RFC 6762",
    "internal": "reserved by ICANN in 2024",
    "svc": "Kubernetes services",
    "home.arpa": "RFC 8375",
    "lan": "RFC 6762 appendix G",
    "intranet": "RFC 6762 appendix G",
    "private": "RFC 6762 appendix G",
    "corp": "RFC 6762 appendix G",
    "home": "RFC 6762 appendix G",
}

_NAME = lazy_regex(r"[a-z0-9_-]{1,63}(?:\.[a-z0-9_-]{1,63})*")
_NUMBER = lazy_regex(r"(?:[0-9]+|0x[0-9a-f]*)", re.ASCII)
_MAX_NAME = 253  # characters of a name (RFC 1035 §2.3.4)
_MAX_SPELLING = 2_000  # what is longer cannot come down to a name, and would only cost time


def parse_host(text: str) -> Host:
    """Return the host of a URL's authority, brackets included. Raises AddressRefused if it is not one host."""
    if not text:
        raise AddressRefused("the URL names no host", RULE_MALFORMED)
    if text.startswith("["):
        return _bracketed(text)
    name = text.lower() if text.isascii() else _ascii(text)
    name = name.removesuffix(".")
    if len(name) > _MAX_NAME or not _NAME.fullmatch(name):
        raise AddressRefused(_what_is_wrong(text, name), RULE_MALFORMED)
    if _NUMBER.fullmatch(name[name.rfind(".") + 1 :]):  # WHATWG's "ends in a number" checker
        return _ipv4(text, name)
    return name


def _what_is_wrong(text: str, name: str) -> str:
    shown = _shown(text)
    if "%" in name:
        return f"the host {shown} is percent-encoded; write it plainly"
    if ":" in name:
        return f"{shown} is not a host name; an IPv6 address needs brackets"
    if len(name) > _MAX_NAME:
        return f"a host of {len(name):,} characters is too long; {_MAX_NAME} are possible"
    return f"{shown} is not a host name"


def _shown(text: str) -> str:
    return ascii(clip(text, 80))


def _bracketed(text: str) -> IPv6Address:
    try:
        if not text.endswith("]") or "%" in text:
            raise ValueError
        return IPv6Address(text[1:-1])
    except ValueError:
        reason = f"{_shown(text)} is not an IPv6 address" + ("; zones are not supported" if "%" in text else "")
        raise AddressRefused(reason, RULE_MALFORMED) from None


def _ascii(text: str) -> str:
    """Return a host with other letters in ASCII, as UTS 46 maps it (full-width digits, soft hyphens, look-alike
    dots)."""
    import idna

    if len(text) > _MAX_SPELLING:
        raise AddressRefused(f"a host of {len(text):,} characters is too long", RULE_MALFORMED)
    try:
        mapped = idna.uts46_remap(unicodedata.normalize("NFKC", text), std3_rules=False, transitional=False)
        return ".".join(label if label.isascii() else _alabel(label) for label in mapped.lower().split("."))
    except (idna.IDNAError, UnicodeError) as error:
        raise AddressRefused(f"{_shown(text)} is not an international host name: {error}", RULE_MALFORMED) from None


def _alabel(label: str) -> str:
    """Return a label in its DNS form. Symbols (`i❤.ws`) are encoded as browsers do, although IDNA 2008 does not
    allow them."""
    import idna

    try:
        return idna.alabel(label).decode("ascii")
    except idna.InvalidCodepoint:
        return f"xn--{label.encode('punycode').decode('ascii')}"


# --- all forms of IPv4


def _ipv4(text: str, name: str) -> IPv4Address:
    """Return the address for one to four decimal, octal (0…) or hexadecimal (0x…) numbers, as inet_aton reads them."""
    parts = name.split(".")
    value = _number_of(parts, octal=True)
    if value is None:
        raise AddressRefused(f"{_shown(text)} looks like an IPv4 address but is not valid", RULE_MALFORMED)
    address = IPv4Address(value)
    plain = _number_of(parts, octal=False) if any(part[0] == "0" for part in parts) else None
    if plain is not None and plain != value and is_public(address) and not is_public(IPv4Address(plain)):
        reason = f"{_shown(text)} is {address} to some programs and {IPv4Address(plain)} to others; write it plainly"
        raise AddressRefused(reason, RULE_MALFORMED)
    return address


def _number_of(parts: list[str], *, octal: bool) -> int | None:
    """Return the value; None if it is not an address. Without `octal`, numbers that begin with 0 are read as
    decimal."""
    if len(parts) > 4 or max(map(len, parts)) > 16:
        return None
    try:
        numbers = [_number(part, octal) for part in parts]
    except ValueError:
        return None
    *front, last = numbers
    if any(number > 255 for number in front) or last >= 256 ** (5 - len(numbers)):
        return None
    return last + sum(number << 8 * (3 - place) for place, number in enumerate(front))


def _number(part: str, octal: bool) -> int:
    if not _NUMBER.fullmatch(part):
        raise ValueError(part)
    if part.startswith("0x"):
        return int(part[2:] or "0", 16)
    return int(part, 8 if octal and part.startswith("0") else 10)


# --- names


def refused_name(name: str) -> str | None:
    """Return why a name is refused, whatever it resolves to; None for a name that has to be looked up."""
    for domain, source in LOCAL_DOMAINS.items():
        if name.endswith(domain) and (name == domain or name[-len(domain) - 1] == "."):
            return f"{name} is a name of the local machine or network (.{domain}, {source})"
    if "." not in name:
        return f"{name} has no domain, so it is a name of the local network"
    return None


def matches(pattern: str, name: str) -> bool:
    """Return whether a name matches the pattern (`example.com`), or is below it (`*.example.com`, which includes the
    domain)."""
    if pattern == "*":
        return True
    if pattern.startswith("*."):
        return name == pattern[2:] or name.endswith(pattern[1:])
    return name == pattern


# --- how a host is written


def bracketed(host: str) -> str:
    """Return a host as a URL has it: an IPv6 address in brackets."""
    return f"[{host}]" if ":" in host else host


def place_of(host: str, port: int) -> str:
    """Return a host and its port in the form in which they are granted."""
    return f"{bracketed(host)}:{port}"


# --- words of a command

_LEADING = lazy_regex(r"[A-Za-z][A-Za-z0-9+.-]*:[/\\]+|[/\\]{2,}")


def host_in(text: str) -> str:
    """Return the host in a word, read as leniently as the most lenient client would."""
    leading = _LEADING.match(text)
    rest = text[leading.end() :] if leading else text
    authority = re.split(r"[/\\?#]", rest, maxsplit=1)[0].rpartition("@")[2]
    if not authority.startswith("[") and authority.count(":") > 1:
        authority = f"[{authority}]"
    if authority.startswith("["):
        return authority.partition("]")[0].partition("%")[0] + "]"
    return unquote(authority.partition(":")[0])


def is_loopback(host: str) -> bool:
    """Return whether only this machine can reach a server bound to this address."""
    if host == "localhost":
        return True
    try:
        return ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False
