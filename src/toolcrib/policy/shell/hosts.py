"""Does a word of a command lead to the cloud's metadata service, in whatever spelling?

What a host is, and which addresses are metadata services, the network's guard says (`boundary.network`). Commands are
held to more: they go past the guard, so that names and stand-ins that it would find out by resolving count here.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TYPE_CHECKING

from .table.wordlist import words

if TYPE_CHECKING:
    from ...boundary.network.special_addresses import Address

METADATA_NAMES = words(
    """
    metadata.google.internal metadata metadata.goog instance-data instance-data.ec2.internal
    metadata.azure.internal metadata.tencentyun.com
    """
)
# What is beside the services themselves, or answers in their place: AWS's resolver, Tencent's.
_BESIDE = words("169.254.169.253 169.254.0.23")
_WILDCARD_DNS = re.compile(r"(?:^|[.-])(169[.-]254[.-]169[.-]254|100[.-]100[.-]100[.-]200)(?:[.-]|$)")
_BARE_SCHEME = re.compile(r"https?:(?=[^/\\])", re.IGNORECASE)  # curl takes `http:host`


@lru_cache(maxsize=1024)
def is_metadata(text: str) -> bool:
    """Whether a URL, `host:port`, `user@host:path` or `host` names a metadata service. Looks nothing up."""
    text = _BARE_SCHEME.sub("", text.strip(), count=1)
    before, colon, _ = text.partition(":")
    return _leads_there(text) or (bool(colon) and _leads_there(before))  # `host:/path` could be a scheme, too


def _leads_there(text: str) -> bool:
    from ...boundary.network.host_names import host_in, parse_host
    from ...core.errors import AddressRefused

    try:
        host = parse_host(host_in(text).rstrip("."))
    except AddressRefused:
        return False
    if isinstance(host, str):
        return host in METADATA_NAMES or _WILDCARD_DNS.search(host) is not None
    return _is_service(host)


def _is_service(address: Address) -> bool:
    """Whether an address is a metadata service's, or carries one's in its last bits (NAT64 of any prefix)."""
    from ipaddress import IPv4Address

    from ...boundary.network.special_addresses import METADATA, RULE_METADATA, refusals

    last = IPv4Address(int(address) & 0xFFFFFFFF)
    return last in METADATA or str(last) in _BESIDE or any(each.rule == RULE_METADATA for each in refusals(address))
