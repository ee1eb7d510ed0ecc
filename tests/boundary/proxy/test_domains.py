from ipaddress import ip_address

import pytest

from toolcrib.boundary.network.address_guard import AddressGuard
from toolcrib.boundary.network.settings import RULE_DOMAIN
from toolcrib.boundary.network.special_addresses import Address
from toolcrib.boundary.proxy.domains import only
from toolcrib.core.errors import AddressRefused

PUBLIC = (ip_address("93.184.215.14"),)


async def lookup(name: str, seconds: float) -> tuple[Address, ...]:
    return PUBLIC


@pytest.mark.parametrize(
    ("patterns", "host", "goes"),
    [
        (("example.com",), "example.com", True),
        (("example.com",), "EXAMPLE.com.", True),
        (("example.com",), "www.example.com", False),
        (("example.com",), "example.com.evil.org", False),
        (("*.example.com",), "example.com", True),
        (("*.example.com",), "a.b.example.com", True),
        (("*.example.com",), "notexample.com", False),
        (("93.184.215.14",), "93.184.215.14", True),
        (("93.184.215.14",), "0x5db8d70e", True),
        (("93.184.215.14",), "93.184.215.15", False),
        (("*",), "anything.org", True),
        ((), "anything.org", False),
    ],
)
async def test_patterns(patterns: tuple[str, ...], host: str, goes: bool) -> None:
    admit = only(patterns, AddressGuard(lookup=lookup))
    if goes:
        assert await admit(host, 443) == PUBLIC
    else:
        with pytest.raises(AddressRefused, match="not in the setting") as caught:
            await admit(host, 443)
        assert caught.value.rule == RULE_DOMAIN


@pytest.mark.parametrize(("host", "port"), [("10.0.0.1", 80), ("::1", 80), ("localhost", 80), ("example.org", 22)])
async def test_the_guard_has_the_last_word(host: str, port: int) -> None:
    with pytest.raises(AddressRefused) as caught:
        await only(("*",), AddressGuard(lookup=lookup))(host, port)
    assert caught.value.rule != RULE_DOMAIN
