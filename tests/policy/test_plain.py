"""Text for a person who decides: all of it shows, and none of it moves."""

import unicodedata

from hypothesis import given
from hypothesis import strategies as st

from toolcrib.policy.plain import plain, plain_line


@given(st.text(st.characters(codec=None), max_size=50))
def test_nothing_invisible_is_left(text):
    shown = plain(text)
    assert all(c in "\n\t" or c.isprintable() for c in shown)
    assert not any(unicodedata.category(c) in ("Cc", "Cf", "Cs", "Zl", "Zp") for c in shown if c not in "\n\t")
    assert plain_line(text).isprintable()


def test_what_does_not_show_is_spelled():
    assert plain("a\rb") == "a\\rb"
    assert plain("\x1b[2J\x85") == "\\x1b[2J\\x85"
    assert plain("a\u200bb\u202ec\u2028\u3164\ufe0f") == "a\\u200bb\\u202ec\\u2028\\u3164\\ufe0f"
    assert plain("a\u17b5\U0001d159") == "a\\u17b5\\U0001d159"
    assert plain("\U000e0041\ud800") == "\\U000e0041\\ud800"
    assert plain_line("a\n\tb") == "a\\n\\tb"


def test_ordinary_text_stands_as_it_is():
    text = "Grüße, 世界 — naïve 🎉\n\tif x:\n"
    assert plain(text) == text
