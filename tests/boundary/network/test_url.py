"""URLs, read strictly."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolcrib.boundary.network.url import Target, join, parse_url
from toolcrib.core.errors import AddressRefused


@pytest.mark.parametrize(
    ("text", "url"),
    [
        ("http://example.com", "http://example.com/"),
        ("HTTPS://EXAMPLE.COM:443/A?b#c", "https://example.com/A?b"),
        ("https://user:pw@example.com:8443/", "https://example.com:8443/"),
        ("https://example.com?x=1", "https://example.com/?x=1"),
        ("https://example.com#@127.0.0.1", "https://example.com/"),
        ("https://münchen.example/ä ö?q=ü%20x", "https://xn--mnchen-3ya.example/%C3%A4%20%C3%B6?q=%C3%BC%20x"),
        ("http://0x8.8.2056/", "http://8.8.8.8/"),
        ("https://[2606:4700:0:0::1111]:8080/x", "https://[2606:4700::1111]:8080/x"),
        ("http://example.com:/", "http://example.com/"),
        ("http://example.com:00080/", "http://example.com/"),
    ],
)
def test_targets(text: str, url: str) -> None:
    assert parse_url(text).url == url


@pytest.mark.parametrize(
    "text",
    [
        "", "example.com", "127.0.0.1", "//example.com/", "http:example.com", "http:/example.com", "http:///x",
        "http://", "https://:80/", "ftp://example.com/", "file:///etc/passwd", "data:text/html,hi", "javascript:x",
        "http:\\\\example.com", "http://example.com\\@evil.com/", "http://exa\nmple.com/",
        "http://example.com/\r\nX: y",
        "http://example.com/\x00", "\thttp://example.com/", " http://example.com/", "http://example.com/ ",
        "http://exa mple.com/", "http://example.com:0/", "http://example.com:99999/", "http://example.com:65536/",
        "http://example.com:-1/", "http://example.com:+80/", "http://example.com:8o/", "http://example.com:８０/",
        "http://example.com:80:80/", "http://a@b@example.com/", "http://a b@example.com/", "http://[::1/", "http://[]/",
        "http://[::1]8080/", "http://[::1%25lo]/", "http://ex%61mple.com/", "http://example.com\ud800/", "http://\x85a.com/",
        "http://a.com/\u2028", "h\u0000ttp://a.com/", "http://" + "a" * 70_000, "http://example.com:" + "1" * 50,
        "jar:http://example.com!/", "view-source:http://example.com/", "http ://example.com/", "http://?example.com/",
        "http://#example.com/", "http://@/", "http://user@/", "blob:https://example.com/x",
    ],
)  # fmt: skip
def test_refused(text: str) -> None:
    with pytest.raises(AddressRefused) as caught:
        parse_url(text)
    assert caught.value.rule in ("address:malformed", "address:scheme")


@pytest.mark.parametrize("text", ["example.com", "example.com/a?b=c", "localhost:8080", "example.com:8080/x"])
def test_an_address_without_a_scheme_is_given_one_to_write(text: str) -> None:
    with pytest.raises(AddressRefused, match=f"write https://{re.escape(text)}$"):
        parse_url(text)


@pytest.mark.parametrize(
    ("location", "url"),
    [
        ("https://b.example/x", "https://b.example/x"),
        ("//b.example/x", "http://b.example/x"),
        ("/x", "http://a.example:8080/x"),
        ("y?z", "http://a.example:8080/dir/y?z"),
        ("?z", "http://a.example:8080/dir/page?z"),
        ("../y", "http://a.example:8080/y"),
        ("#f", "http://a.example:8080/dir/page?q=1"),
        ("", "http://a.example:8080/dir/page?q=1"),
        ("//127.0.0.1/x", "http://127.0.0.1/x"),
        ("/\u00fc", "http://a.example:8080/%C3%BC"),
    ],
)
def test_redirects(location: str, url: str) -> None:
    assert join(Target("http", "a.example", 8080, "/dir/page?q=1"), location).url == url


@pytest.mark.parametrize(
    "location", ["file:///etc/passwd", "gopher://a/", "http:/\\b/", "/\\b", "\\\\b", "///", "http:b", "/\r\nx", "\tx"]
)
def test_redirects_that_are_refused(location: str) -> None:
    with pytest.raises(AddressRefused):
        join(Target("http", "a.example", 80, "/"), location)


_pieces = st.sampled_from(
    ["http", "https", ":", "//", "/", "@", "example.com", "127.0.0.1", "[::1]", "0x7f.1", "?", "#", "%", ".", "80"]
)  # fmt: skip


@given(st.one_of(st.text(max_size=40), st.lists(_pieces, max_size=9).map("".join)))
def test_what_is_read_is_read_the_same_again(text: str) -> None:
    try:
        target = parse_url(text)
    except AddressRefused:
        return
    assert target.url.isascii()
    assert parse_url(target.url) == target


@given(st.text(max_size=30))
def test_a_relative_redirect_stays_with_its_host(path: str) -> None:
    base = Target("https", "a.example", 443, "/x/y")
    try:
        found = join(base, "/x" + path)
    except AddressRefused:
        return
    assert (found.scheme, found.host, found.port) == ("https", "a.example", 443)
