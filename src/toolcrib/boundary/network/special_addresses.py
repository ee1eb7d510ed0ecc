"""Decide whether an address is public. Ranges are data, each with its source; an IPv4 address inside an IPv6 one is
judged, too.

The standard library's `is_global` lets NAT64, 6to4, multicast and more through; these tables follow IANA's registries
of special-purpose addresses instead (https://www.iana.org/assignments/iana-ipv4-special-registry and -ipv6-).
"""

from __future__ import annotations

from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network

from ...core.dataclass import dataclass

Address = IPv4Address | IPv6Address
Network = IPv4Network | IPv6Network

RULE_METADATA = "address:metadata"
RULE_PRIVATE = "address:private"


def _table(*rows: tuple[str, str, str]) -> tuple[tuple[Network, str], ...]:
    return tuple((ip_network(text), f"{what} ({text}, {source})") for text, what, source in rows)


# Ranges that are not part of the public internet: what each is, and the document that says so.
IPV4_SPECIAL = _table(
    ("0.0.0.0/8", "this host", "RFC 1122"),
    ("10.0.0.0/8", "a private network", "RFC 1918"),
    ("100.64.0.0/10", "carrier-grade NAT", "RFC 6598"),
    ("127.0.0.0/8", "loopback", "RFC 1122"),
    ("169.254.0.0/16", "link-local", "RFC 3927"),
    ("172.16.0.0/12", "a private network", "RFC 1918"),
    ("192.0.0.0/24", "for protocols", "RFC 6890"),
    ("192.0.2.0/24", "for documentation", "RFC 5737"),
    ("192.88.99.0/24", "the old 6to4 relay", "RFC 7526"),
    ("192.168.0.0/16", "a private network", "RFC 1918"),
    ("198.18.0.0/15", "for benchmarks", "RFC 2544"),
    ("198.51.100.0/24", "for documentation", "RFC 5737"),
    ("203.0.113.0/24", "for documentation", "RFC 5737"),
    ("224.0.0.0/4", "multicast", "RFC 5771"),
    ("240.0.0.0/4", "reserved or broadcast", "RFC 1112"),
)

# Of IPv6 only 2000::/3 was ever given out (RFC 4291); these lie inside it but are not public.
IPV6_SPECIAL = _table(
    ("2001::/23", "for protocols", "RFC 2928"),
    ("2001:db8::/32", "for documentation", "RFC 3849"),
    ("3fff::/20", "for documentation", "RFC 9637"),
)

# Outside 2000::/3 everything is refused; these are the names of what people meet there.
IPV6_NAMED = _table(
    ("::/128", "this host", "RFC 4291"),
    ("::1/128", "loopback", "RFC 4291"),
    ("64:ff9b:1::/48", "NAT64 of a local network", "RFC 8215"),
    ("100::/64", "the discard prefix", "RFC 6666"),
    ("5f00::/16", "segment routing", "RFC 9602"),
    ("fc00::/7", "a private network", "RFC 4193"),
    ("fe80::/10", "link-local", "RFC 4291"),
    ("fec0::/10", "site-local", "RFC 3879"),
    ("ff00::/8", "multicast", "RFC 4291"),
)
_NEVER_GIVEN_OUT = "not given out for public use (RFC 4291)"

# Services that give credentials to every program on a cloud machine that asks. Some of them are public addresses.
METADATA: dict[Address, str] = {
    ip_address(address): what
    for address, what in (
        ("100.100.100.200", "Alibaba Cloud"),
        ("168.63.129.16", "Azure"),
        ("169.254.169.254", "AWS, Azure, Google and others"),
        ("169.254.170.2", "AWS container credentials"),
        ("169.254.170.23", "AWS pod credentials"),
        ("192.0.0.192", "Oracle Cloud"),
        ("fd00:ec2::23", "AWS pod credentials"),
        ("fd00:ec2::254", "AWS"),
        ("fd20:ce::254", "Google"),
        ("fd00:c1::a9fe:a9fe", "Oracle Cloud"),
    )
}


@dataclass(frozen=True, slots=True)
class AddressRefusal:
    """The reason why an address may not be dialled. `at` is the address that causes it: the given one, or one
    embedded in it."""

    at: Address
    reason: str
    rule: str


def _within(address: Address, table: tuple[tuple[Network, str], ...]) -> str | None:
    return next((text for network, text in table if address in network), None)


# --- what an IPv6 address embeds

# The first 96 bits of the forms whose last 32 bits are an IPv4 address.
_CARRIERS = {
    0: "IPv4-compatible",  # ::/96, RFC 4291 §2.5.5.1
    0xFFFF: "IPv4-mapped",  # ::ffff:0:0/96, RFC 4291 §2.5.5.2
    0x0064FF9B << 64: "NAT64",  # 64:ff9b::/96, RFC 6052
}
_TEREDO = 0x20010000
_ISATAP = (0x00005EFE, 0x02005EFE)


def embedded(address: IPv6Address) -> tuple[tuple[str, IPv4Address], ...]:
    """Return the IPv4 addresses that an IPv6 address carries, with the form: packets to it may end there."""
    value = int(address)
    top, low = value >> 32, value & 0xFFFFFFFF
    if value <= 1:  # :: and ::1 embed no address
        return ()
    if top in _CARRIERS:
        return ((_CARRIERS[top], IPv4Address(low)),)
    found: list[tuple[str, IPv4Address]] = []
    if value >> 112 == 0x2002:
        found.append(("6to4", IPv4Address(value >> 80 & 0xFFFFFFFF)))  # RFC 3056
    elif value >> 96 == _TEREDO:  # RFC 4380 §4: the server, and the client with its bits turned over
        found.append(("Teredo server", IPv4Address(value >> 64 & 0xFFFFFFFF)))
        found.append(("Teredo client", IPv4Address(low ^ 0xFFFFFFFF)))
    if value >> 32 & 0xFFFFFFFF in _ISATAP:
        found.append(("ISATAP", IPv4Address(low)))  # RFC 5214 §6.1
    return tuple(found)


# --- the judgement


def special_range(address: Address) -> str | None:
    """Return why an address is not public, by its own number alone, with the source; None for a public address.

    Forms that only carry an IPv4 address (mapped, compatible, NAT64, 6to4, Teredo) have no separate range.
    """
    value = int(address)
    if isinstance(address, IPv4Address):
        return _within(address, IPV4_SPECIAL)
    if value >> 125 == 1:  # 2000::/3
        return None if value >> 96 == _TEREDO else _within(address, IPV6_SPECIAL)  # Teredo lies inside 2001::/23
    if value > 1 and value >> 32 in _CARRIERS:
        return None
    return _within(address, IPV6_NAMED) or _NEVER_GIVEN_OUT


def refusals(address: Address) -> list[AddressRefusal]:
    """Return all reasons against dialling an address or the addresses that it embeds; empty for a public one."""
    found = _refusal(address)
    if isinstance(address, IPv6Address):
        for form, part in embedded(address):
            found += _refusal(part, form)
    return found


def _refusal(address: Address, form: str = "") -> list[AddressRefusal]:
    """Return the reason against an address by itself, if there is one. `form` is how another address carries it."""
    if address in METADATA:
        what, rule = f"a cloud metadata service ({METADATA[address]})", RULE_METADATA
    elif (special := special_range(address)) is not None:
        what, rule = f"not public: {special}", RULE_PRIVATE
    else:
        return []
    begin = f"the address carries {address} ({form}), which is" if form else f"{address} is"
    return [AddressRefusal(address, f"{begin} {what}", rule)]


def is_public(address: Address) -> bool:
    """Return whether an address, and every address that it embeds, belongs to the public internet."""
    return not refusals(address)


def parse_address(text: str) -> Address:
    """Parse an address as a resolver writes it; a zone (`fe80::1%eth0`) is dropped. Raises ValueError for anything
    else."""
    text = text.partition("%")[0]
    return IPv6Address(text) if ":" in text else IPv4Address(text)
