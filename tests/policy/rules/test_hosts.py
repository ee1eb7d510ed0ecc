"""Which host an address names, for rules."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolcrib.boundary.network.url import parse_url
from toolcrib.core.errors import AddressRefused
from toolcrib.policy.rules.names import domain_fits, domain_meets, host_of, plain_domain


@pytest.mark.parametrize(
    ("url", "host"),
    [
        ("https://EXAMPLE.com./x", "example.com"),
        ("example.com:8080/path", "example.com"),
        ("https://someone@example.com:80/", "example.com"),
        ("https://ⓔxample.com/", "example.com"),
        ("https://straße.de", "xn--strae-oqa.de"),
        ("https://i❤.ws", "xn--i-7iq.ws"),
        ("https://[::FFFF:1.2.3.4]/", "::ffff:102:304"),
        ("http://1572395042/", "93.184.216.34"),
        ("http://0x5d.184.55330/", "93.184.216.34"),
        ("localhost", "localhost"),
        ("ftp://example.com/x", "example.com"),
        ("postgres://me:pw@db.example.com:5432/x?a=b://c", "db.example.com"),
    ],
)
def test_a_host_is_the_same_in_every_spelling(url: str, host: str) -> None:
    assert host_of(url) == host


@pytest.mark.parametrize(
    "url",
    [
        "http:example.com", "https:/example.com", "https:///example.com", "mailto:a@b.c", "//example.com/x", "",
        "https://a b/", "https://a.b\\@c.d/", "https://ex%61mple.com", "https://example.com../", "http://1.2.3.4.5/",
        "example.com/?to=https://example.org", "https://example.com:99999/", "https://me<you@example.com/",
    ],
)  # fmt: skip
def test_what_two_programs_could_read_differently_is_not_told(url: str) -> None:
    assert host_of(url) is None


@pytest.mark.parametrize(
    ("pattern", "plain"),
    [
        ("*", "*"), ("*.Example.com.", "*.example.com"), ("1572395042", "93.184.216.34"), ("[::1]", "::1"),
        ("::1", "::1"), ("a/b", None), ("a*b", None), ("", None), ("*.", None), ("10.0.0.0/8", None),
        ("example.com:80", None),
    ],
)  # fmt: skip
def test_patterns_are_written_as_hosts_are(pattern: str, plain: str | None) -> None:
    assert plain_domain(pattern) == plain


@pytest.mark.parametrize(
    ("pattern", "host", "met"),
    [
        ("1.2.3.4", "::ffff:102:304", True), ("1.2.3.4", "64:ff9b::102:304", True),
        ("1.2.3.4", "2002:102:304::1", True),
        ("::ffff:102:304", "1.2.3.4", True), ("1.2.3.4", "1.2.3.4", True), ("1.2.3.4", "::ffff:102:305", False),
        ("1.2.3.4", "2001:4860::1", False), ("example.com", "::ffff:102:304", False), ("*", "::1", True),
    ],
)  # fmt: skip
def test_a_denied_address_is_denied_in_its_ipv6_forms(pattern: str, host: str, met: bool) -> None:
    assert domain_meets(pattern, host) is met
    assert domain_fits(pattern, host) is (pattern in (host, "*"))  # an allow rule means only what it says


@given(st.text(alphabet="http://ab.c@:[]01x%\\ ⓔ?#_-é", max_size=40))
def test_rules_and_the_guard_never_name_different_hosts(rest: str) -> None:
    url = f"https://{rest}".strip()
    try:
        dialled = str(parse_url(url).host)
    except AddressRefused:
        dialled = None
    assert host_of(url) == (None if " " in url else dialled)
