"""Find out whether a word of a command points to the cloud's metadata service, in any spelling.

The network's guard defines what a host is and which addresses are metadata services (`boundary.network`). The check
for commands is stricter, because commands do not pass the guard. The guard resolves names; this module does not, so
names and substitute addresses of the services count here, too.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TYPE_CHECKING

from ...core.text import lazy_regex
from .table.wordlist import words

if TYPE_CHECKING:
    from ...boundary.network.special_addresses import Address

METADATA_NAMES = words(
    """
    metadata.google.internal metadata metadata.goog instance-data instance-data.ec2.internal metadata.azure.internal
    metadata.tencentyun.com
    """
)
# Addresses of related services, or of services that answer for them: AWS's resolver, Tencent's.
_BESIDE = words("169.254.169.253 169.254.0.23")
_WILDCARD_DNS = lazy_regex(r"(?:^|[.-])(169[.-]254[.-]169[.-]254|100[.-]100[.-]100[.-]200)(?:[.-]|$)")
_BARE_SCHEME = lazy_regex(r"https?:(?=[^/\\])", re.IGNORECASE)  # curl accepts `http:host`


@lru_cache(maxsize=1024)
def is_metadata(text: str) -> bool:
    """Return whether a URL, `host:port`, `user@host:path` or `host` names a metadata service. Makes no look-up."""
    text = _BARE_SCHEME.sub("", text.strip(), count=1)
    before, colon, _ = text.partition(":")
    return _leads_there(text) or (bool(colon) and _leads_there(before))  # the start of `host:/path` looks like a scheme


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
    """Return whether an address is a metadata service's, or ends in the bits of one (NAT64 with any prefix)."""
    from ipaddress import IPv4Address

    from ...boundary.network.special_addresses import METADATA, RULE_METADATA, refusals

    last = IPv4Address(int(address) & 0xFFFFFFFF)
    return last in METADATA or str(last) in _BESIDE or any(each.rule == RULE_METADATA for each in refusals(address))
