"""Grants of private targets."""

from __future__ import annotations

import pytest

from toolcrib.boundary.network.address_guard import AddressGuard
from toolcrib.boundary.network.settings import GuardSettings
from toolcrib.core.errors import ConfigError

from .judging import judged


def guard(*entries: str, ports: frozenset[int] = frozenset()) -> AddressGuard:
    return AddressGuard(GuardSettings(tuple(entries), ports))


async def verdict(who: AddressGuard, url: str, **answers: list[str]) -> str:
    return (await judged(who, url, {name.replace("_", "."): found for name, found in answers.items()})).verdict


@pytest.mark.parametrize(
    ("grant", "url", "expected"),
    [
        ("10.0.0.0/8", "http://10.1.2.3/", "allow"),
        ("10.0.0.0/8", "http://11.1.2.3/", "allow"),
        ("10.0.0.0/8", "http://192.168.0.1/", "deny"),
        ("10.1.2.3", "http://10.1.2.3/", "allow"),
        ("10.1.2.3", "http://10.1.2.4/", "deny"),
        ("10.0.0.0/8", "http://[::ffff:10.1.2.3]/", "allow"),
        ("10.0.0.0/8", "http://[64:ff9b::a00:1]/", "allow"),
        ("fd00::/8", "http://[fd12::1]/", "allow"),
        ("fd00::/8", "http://[fe80::1]/", "deny"),
        ("10.0.0.0/8", "http://10.1.2.3:22/", "deny"),
        ("10.1.2.3:22", "http://10.1.2.3:22/", "allow"),
        ("10.1.2.3:22", "http://10.1.2.3/", "deny"),
        ("[fd00::1]:6000", "http://[fd00::1]:6000/", "allow"),
        ("0.0.0.0/0", "http://169.254.169.254/", "deny"),
        ("169.254.0.0/16", "http://169.254.169.254/", "deny"),
        ("169.254.169.254", "http://169.254.169.254/", "allow"),
        ("169.254.0.0/16", "http://169.254.1.1/", "allow"),
        ("127.0.0.1", "http://localhost/", "deny"),
    ],
)
async def test_addresses(grant: str, url: str, expected: str) -> None:
    assert await verdict(guard(grant), url) == expected


async def test_names() -> None:
    who = guard("nas.lan", "*.corp", "db.lan:5432", "localhost")
    assert await verdict(who, "http://nas.lan/", nas_lan=["192.168.1.2"]) == "allow"
    assert await verdict(who, "http://NAS.lan./", nas_lan=["192.168.1.2"]) == "allow"
    assert await verdict(who, "http://nas.lan/", nas_lan=["192.168.1.2", "169.254.169.254"]) == "deny"
    assert await verdict(who, "http://a.corp/", a_corp=["10.0.0.1"]) == "allow"
    assert await verdict(who, "http://other.lan/", other_lan=["192.168.1.2"]) == "deny"
    assert await verdict(who, "http://db.lan:5432/", db_lan=["10.0.0.1"]) == "allow"
    assert await verdict(who, "http://db.lan/", db_lan=["10.0.0.1"]) == "deny"
    assert await verdict(who, "http://nas.lan:5432/", nas_lan=["10.0.0.1"]) == "deny"
    assert await verdict(who, "http://localhost/", localhost=["127.0.0.1", "::1"]) == "allow"
    assert await verdict(who, "http://pub.example/", pub_example=["192.168.1.2"]) == "deny"


async def test_ports() -> None:
    assert await verdict(guard(), "http://8.8.8.8:22/") == "deny"
    assert await verdict(guard(ports=(22,)), "http://8.8.8.8:22/") == "allow"
    for port in (80, 443, 8000, 9999):
        assert await verdict(guard(), f"http://8.8.8.8:{port}/") == "allow"
    for port in (79, 7999, 10_000, 65_535):
        assert await verdict(guard(), f"http://8.8.8.8:{port}/") == "deny"


@pytest.mark.parametrize(
    "entry", ["", "a b", "10.0.0.0/99", "nas.lan:0", "nas.lan:99999", "http://nas.lan", "*.1.2.3.4"]
)
def test_what_is_no_grant(entry: str) -> None:
    with pytest.raises(ConfigError):
        guard(entry)
