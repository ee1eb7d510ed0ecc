"""Which addresses are public, and what an IPv6 address embeds."""

from __future__ import annotations

from ipaddress import IPv4Address, IPv6Address, ip_address
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolcrib.boundary.network.special_addresses import (
    IPV4_SPECIAL,
    IPV6_NAMED,
    IPV6_SPECIAL,
    METADATA,
    RULE_METADATA,
    RULE_PRIVATE,
    embedded,
    is_public,
    parse_address,
    refusals,
)

ipv4 = st.integers(0, 2**32 - 1).map(IPv4Address)


@pytest.mark.parametrize("special", [*IPV4_SPECIAL, *IPV6_SPECIAL, *IPV6_NAMED], ids=lambda s: str(s[0]))
def test_every_range_is_refused_to_its_ends(special: tuple[Any, str]) -> None:
    network = special[0]
    if str(network) == "2001::/23":  # Teredo, inside it, is judged by what it embeds
        assert not is_public(ip_address("2001:1::"))
        assert not is_public(network[-1])
        return
    assert not is_public(network[0])
    assert not is_public(network[-1])


@pytest.mark.parametrize(
    "text",
    [
        "1.1.1.1", "8.8.8.8", "9.255.255.255", "11.0.0.0", "100.63.255.255", "100.128.0.0", "126.255.255.255",
        "128.0.0.0", "169.253.255.255", "169.255.0.0", "172.15.255.255", "172.32.0.0", "191.255.255.255", "192.0.1.0",
        "192.167.255.255", "192.169.0.0", "198.17.255.255", "198.20.0.0", "223.255.255.255", "2606:4700::1111",
        "2001:4860:4860::8888", "2a00::1", "2000::", "2620:4f:8000::1", "192.31.196.1", "2001:200::1",
        "::ffff:8.8.8.8", "64:ff9b::8.8.8.8", "2002:808:808::1",
    ],
)  # fmt: skip
def test_public(text: str) -> None:
    assert refusals(parse_address(text)) == []


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        ("168.63.129.16", RULE_METADATA), ("100.100.100.200", RULE_METADATA), ("192.0.0.192", RULE_METADATA),
        ("169.254.169.254", RULE_METADATA), ("fd00:ec2::254", RULE_METADATA), ("::ffff:a83f:8110", RULE_METADATA),
        ("64:ff9b::a83f:8110", RULE_METADATA), ("2002:a83f:8110::", RULE_METADATA), ("fe80::1%eth0", RULE_PRIVATE),
        ("::ffff:0:8.8.8.8", RULE_PRIVATE), ("64:ff9b:1::808:808", RULE_PRIVATE), ("::1", RULE_PRIVATE),
        ("1::1", RULE_PRIVATE), ("4000::1", RULE_PRIVATE), ("::2", RULE_PRIVATE), ("2001:10::1", RULE_PRIVATE),
    ],
)  # fmt: skip
def test_not_public(text: str, rule: str) -> None:
    found = refusals(parse_address(text))
    assert found
    assert found[0].rule == rule


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("::10.0.0.1", [("IPv4-compatible", "10.0.0.1")]),
        ("::ffff:10.0.0.1", [("IPv4-mapped", "10.0.0.1")]),
        ("64:ff9b::a00:1", [("NAT64", "10.0.0.1")]),
        ("2002:a00:1::5", [("6to4", "10.0.0.1")]),
        ("2001:0:4136:e378:8000:63bf:f5ff:fffe", [("Teredo server", "65.54.227.120"), ("Teredo client", "10.0.0.1")]),
        ("2606:4700::5efe:a00:1", [("ISATAP", "10.0.0.1")]),
        ("2606:4700::200:5efe:a00:1", [("ISATAP", "10.0.0.1")]),
        ("2002:808:808::5efe:a00:1", [("6to4", "8.8.8.8"), ("ISATAP", "10.0.0.1")]),
        ("::1", []),
        ("2606:4700::1", []),
    ],
)
def test_embedded(text: str, expected: list[tuple[str, str]]) -> None:
    address = ip_address(text)
    assert isinstance(address, IPv6Address)
    assert [(form, str(part)) for form, part in embedded(address)] == expected


def carried(address: IPv4Address) -> dict[str, IPv6Address]:
    """Every form in which an IPv6 address carries this IPv4 address."""
    number = int(address)
    return {
        "compatible": IPv6Address(number),
        "mapped": IPv6Address(0xFFFF << 32 | number),
        "nat64": IPv6Address(0x64FF9B << 96 | number),
        "6to4": IPv6Address(0x2002 << 112 | number << 80 | 1),
        "teredo client": IPv6Address(0x20010000 << 96 | 0x08080808 << 64 | number ^ 0xFFFFFFFF),
        "teredo server": IPv6Address(0x20010000 << 96 | number << 64 | 0x08080808 ^ 0xFFFFFFFF),
        "isatap": IPv6Address(0x2606 << 112 | 0x5EFE << 32 | number),
        "isatap, global": IPv6Address(0x2606 << 112 | 0x2005EFE << 32 | number),
    }


@given(ipv4)
def test_an_ipv6_address_is_as_public_as_what_it_embeds(address: IPv4Address) -> None:
    for form, whole in carried(address).items():
        assert is_public(whole) == is_public(address), form


@given(ipv4)
def test_nothing_that_the_standard_library_calls_private_is_public(address: IPv4Address) -> None:
    if is_public(address):
        assert address.is_global
        assert not address.is_multicast


def test_metadata_says_so_even_inside_another_range() -> None:
    assert {refusals(address)[0].rule for address in METADATA} == {RULE_METADATA}
