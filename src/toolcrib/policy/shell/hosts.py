"""Is this the cloud's metadata service, in whatever spelling?"""

from __future__ import annotations

import re
from functools import lru_cache

from .table.wordlist import words

METADATA_NAMES = words(
    """
    metadata.google.internal metadata metadata.goog instance-data instance-data.ec2.internal
    metadata.azure.internal metadata.tencentyun.com
    """
)
METADATA_ADDRESSES = words("169.254.169.254 169.254.170.2 169.254.169.253 169.254.0.23 100.100.100.200 192.0.0.192")
_METADATA_6 = ("fd00:ec2::254", "fd20:ce::254")
_WILDCARD_DNS = re.compile(r"(?:^|[.-])(169[.-]254[.-]169[.-]254|100[.-]100[.-]100[.-]200)(?:[.-]|$)")


@lru_cache(maxsize=1024)
def is_metadata(text: str) -> bool:
    """Whether a URL, `host:port` or `host` names a metadata service. Looks nothing up."""
    host = host_of(text)
    if host in METADATA_NAMES or _WILDCARD_DNS.search(host):
        return True
    if ":" in host:
        return _is_metadata_6(host)
    return _address_4(host) in METADATA_ADDRESSES


def host_of(text: str) -> str:
    """The host part of a URL or of `user@host:port/path`, lower case and without brackets."""
    rest = text.strip().lower()
    rest = (
        re.sub(r"\A[a-z][a-z0-9+.-]*:/*", "", rest) if "://" in rest or rest.startswith(("http:", "https:")) else rest
    )
    rest = re.split(r"[/?#\\]", rest, maxsplit=1)[0].rsplit("@", 1)[-1]
    if rest.startswith("["):
        return rest[1:].partition("]")[0]
    if rest.count(":") == 1:
        rest = rest.partition(":")[0]
    return rest.rstrip(".")


def _is_metadata_6(host: str) -> bool:
    import ipaddress

    try:
        address = ipaddress.IPv6Address(host.partition("%")[0])
    except ValueError:
        return False
    if any(address == ipaddress.IPv6Address(other) for other in _METADATA_6):
        return True
    embedded = ipaddress.IPv4Address(int(address) & 0xFFFFFFFF)
    return str(embedded) in METADATA_ADDRESSES


def _address_4(host: str) -> str | None:
    """A dotted address from inet_aton's spellings: decimal, octal, hexadecimal, one to four parts."""
    parts = host.split(".")
    if len(parts) > 4 or not all(re.fullmatch(r"0x[0-9a-f]{1,8}|\d{1,12}", part) for part in parts):
        return None
    try:
        numbers = [int(p, 16) if p[:2] == "0x" else int(p, 8) if p[0] == "0" and p != "0" else int(p) for p in parts]
    except ValueError:
        return None
    value = numbers[-1]
    for index, number in enumerate(numbers[:-1]):
        if number > 255:
            return None
        value += number << (8 * (3 - index))
    if value >= 2**32:
        return None
    return ".".join(str((value >> shift) & 255) for shift in (24, 16, 8, 0))
