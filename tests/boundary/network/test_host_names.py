"""Hosts in all their spellings."""

from __future__ import annotations

from ipaddress import IPv4Address, IPv6Address, ip_address

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolcrib.boundary.network.host_names import host_in, matches, parse_host, refused_name
from toolcrib.boundary.network.special_addresses import is_public
from toolcrib.core.errors import AddressRefused

ipv4 = st.integers(0, 2**32 - 1).map(IPv4Address)
_DIGITS = ("０１２３４５６７８９", "⓪①②③④⑤⑥⑦⑧⑨", "𝟎𝟏𝟐𝟑𝟒𝟓𝟔𝟕𝟖𝟗")


@st.composite
def spelled(draw: st.DrawFn, address: IPv4Address) -> str:
    """An IPv4 address in one of the ways that some client understands."""
    number = int(address)
    count = draw(st.integers(1, 4))
    parts = [number >> 8 * (3 - place) & 255 for place in range(count - 1)]
    parts.append(number & (1 << 8 * (5 - count)) - 1)
    words: list[str] = []
    for part in parts:
        form = draw(st.sampled_from(["{}", "0x{:x}", "0X{:X}", "0x{:08x}", "0{:o}", "00{:o}"]))
        words.append(form.format(part))
    text = draw(st.sampled_from([".", "。", "．", "｡"])).join(words)
    if draw(st.booleans()) and "x" not in text.lower():
        digits = draw(st.sampled_from(_DIGITS))
        text = "".join(digits[int(c)] if c.isdigit() and c.isascii() else c for c in text)
    return text + draw(st.sampled_from(["", "."]))


@given(st.data(), ipv4)
def test_every_spelling_of_an_address_is_that_address_or_refused(data: st.DataObject, address: IPv4Address) -> None:
    text = data.draw(spelled(address))
    try:
        host = parse_host(text)
    except AddressRefused as error:
        assert "to others" in str(error), text  # 010.…: octal to some, decimal to others, and one of the two is private
    else:
        assert host == address, text


@given(ipv4)
def test_the_usual_spelling_is_never_refused(address: IPv4Address) -> None:
    assert parse_host(str(address)) == address
    assert parse_host(str(int(address))) == address


@given(st.integers(0, 2**128 - 1).map(IPv6Address), st.booleans())
def test_ipv6(address: IPv6Address, exploded: bool) -> None:
    assert parse_host(f"[{address.exploded.upper() if exploded else address}]") == address


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("EXAMPLE.com.", "example.com"),
        ("münchen.example", "xn--mnchen-3ya.example"),
        ("ｅxample．com", "example.com"),
        ("a_b.example.com", "a_b.example.com"), ("loc\u00adalhost", "localhost"), ("ℓocalhost", "localhost"),
        ("0x7f.example", "0x7f.example"), ("127.0.0.1.example.com", "127.0.0.1.example.com"),
        ("xn--i-7iq.ws", "xn--i-7iq.ws"), ("faß.de", "xn--fa-hia.de"), ("i❤.ws", "xn--i-7iq.ws"),
        ("1.2.3.com", "1.2.3.com"),
    ],
)  # fmt: skip
def test_names(text: str, expected: str) -> None:
    assert parse_host(text) == expected


@pytest.mark.parametrize(
    "text",
    [
        "", ".", "..", "a..b", ".a", "a b", "a%20b", "%31", "a/b.com", "a／b.com", "a＠b.com", "a：80", "a?b", "a#b",
        "[::1", "[::1]x", "[127.0.0.1]", "[fe80::1%25eth0]", "[fe80::1%eth0]", "[v1.x]", "[]", "::1", "256.1.1.1",
        "1.2.3.4.5", "1.2.3.256", "4294967296", "08.1.1.1", "1.2.3.08", "0x1.0xg.3.4.0x", "127.0.0.1..", "a" * 64,
        ".".join(["a" * 60] * 5), "\u202elocal", "a\x00b", "a\tb", "a\\b", "a<b", "é" * 3000, "9" * 5000, "a|b", "a^b",
        "localhost\u3002\u3002",
    ],
)  # fmt: skip
def test_what_is_no_host(text: str) -> None:
    with pytest.raises(AddressRefused):
        parse_host(text)


def test_no_other_letter_becomes_a_separator() -> None:
    for number in range(0x80, 0x10000, 3):
        try:
            host = parse_host(f"a{chr(number)}b.example.com")
        except AddressRefused:
            continue
        assert isinstance(host, str)
        assert set(host) <= set("abcdefghijklmnopqrstuvwxyz0123456789-_.")


@pytest.mark.parametrize(
    "name",
    [
        "localhost", "a.localhost", "printer.local", "x.internal", "metadata.google.internal", "localhost.localdomain",
        "nas.lan", "kubernetes.default.svc", "x.svc.cluster.local", "router.home.arpa", "intranet", "ip6-localhost",
        "wiki.corp", "host.docker.internal",
    ],
)  # fmt: skip
def test_local_names_are_refused(name: str) -> None:
    assert refused_name(name)


@pytest.mark.parametrize(
    "name", ["example.com", "localhost.example.com", "mylocal.example", "xlocalhost.com", "a.lan.de"]
)
def test_public_names_are_not(name: str) -> None:
    assert refused_name(name) is None


def test_matches() -> None:
    assert matches("example.com", "example.com")
    assert not matches("example.com", "a.example.com")
    assert matches("*.example.com", "a.b.example.com")
    assert matches("*.example.com", "example.com")
    assert not matches("*.example.com", "badexample.com")
    assert matches("*", "anything.at.all")


@pytest.mark.parametrize(
    ("text", "host"),
    [
        ("http://169.254.169.254/latest", "169.254.169.254"), ("169.254.169.254", "169.254.169.254"),
        ("user@10.0.0.5:/srv", "10.0.0.5"), ("localhost:3000", "localhost"), ("http://0x7f.1", "127.0.0.1"),
        ("http:/\\127.0.0.1/", "127.0.0.1"), ("[::1]:80", "::1"), ("::1", "::1"), ("fe80::1%eth0", "fe80::1"),
        ("http://%31%32%37.0.0.1/", "127.0.0.1"), ("ftp://user:pw@127.1:21/x", "127.0.0.1"),
        ("//127.0.0.1/x", "127.0.0.1"), ("http:////127.0.0.1", "127.0.0.1"), ("2130706433", "127.0.0.1"),
        ("gopher://[::ffff:10.0.0.1]:70/", "::ffff:a00:1"), ("http://a@b@127.0.0.1/", "127.0.0.1"),
        ("http://127.0.0.1#@example.com", "127.0.0.1"), ("rsync://nas.lan/x", "nas.lan"),
        ("https://example.com/127.0.0.1", "example.com"), ("git@github.com:a/b", "github.com"),
    ],
)  # fmt: skip
def test_the_host_in_a_word_of_a_command(text: str, host: str) -> None:
    assert str(parse_host(host_in(text))) == host


@given(st.text())
def test_nothing_raises(text: str) -> None:
    host_in(text)
    try:
        host = parse_host(text)
    except AddressRefused:
        return
    if isinstance(host, str):
        assert host == parse_host(host), "a name is its own spelling"
    else:
        assert is_public(host) == is_public(ip_address(str(host)))
