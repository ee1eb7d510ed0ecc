"""robots.txt as RFC 9309 reads it."""

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolcrib.builtin.web.robots import allowed, fits, parse


@pytest.mark.parametrize(
    ("text", "path", "may"),
    [
        ("", "/x", True),
        ("User-agent: *\nDisallow: /", "/x", False),
        ("User-agent: *\nDisallow:", "/x", True),
        ("user-AGENT : *\nDISALLOW : /a # why", "/ab", False),
        ("User-agent: *\nDisallow: /a\nAllow: /a/b", "/a/b/c", True),
        ("User-agent: *\nAllow: /a\nDisallow: /a", "/a", True),
        ("User-agent: toolcrib\nDisallow: /a\n\nUser-agent: *\nDisallow: /", "/b", True),
        ("User-agent: *\nDisallow: /\n\nUser-agent: Toolcrib/1.0\nDisallow: /a", "/b", True),
        ("User-agent: other\nUser-agent: toolcrib\nDisallow: /a", "/a", False),
        ("User-agent: other\nDisallow: /", "/a", True),
        ("User-agent: *\nDisallow: /*.pdf$", "/x/y.pdf", False),
        ("User-agent: *\nDisallow: /*.pdf$", "/x/y.pdf?z", True),
        ("User-agent: *\nDisallow: /a*b*c", "/a1b2c3", False),
        ("User-agent: *\nDisallow: /%7Eme", "/~me/x", False),
        ("User-agent: *\nDisallow: /", "/robots.txt", True),
        ("\ufeffUser-agent: *\r\nDisallow: /a\r\n", "/a", False),
        ("Disallow: /\nUser-agent: *\nSitemap: x", "/a", True),
    ],
)
def test_rules(text, path, may):
    assert allowed(parse(text), path) is may


@given(st.text(max_size=500), st.text(max_size=50))
def test_any_text_is_read(text, path):
    assert allowed(parse(text), "/" + path) in (True, False)


def test_no_pattern_takes_long():
    started = time.process_time()
    assert not fits("/" + "*a" * 5_000 + "b$", "/" + "a" * 20_000)
    assert time.process_time() - started < 30
