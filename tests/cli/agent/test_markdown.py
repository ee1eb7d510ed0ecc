"""Markdown at a terminal: the same text whatever the pieces were, within the width, and nothing lost."""

from __future__ import annotations

import re
import time

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from toolcrib.cli.agent.markdown import MAX_HELD, MAX_ROW, MarkdownStream

STYLE = re.compile(r"\x1b\[[\d;]*m")
PARTS = ["word", " ", "**", "*", "_", "`", "```", "\n", "\n\n", "# ", "- ", "1. ", "> ", "|", "| a | b |\n|---|---|\n",
         "[x](http://y)", "[", "](", "~~", "\\", "---\n", "漢字", "é"]  # fmt: skip


def render(text: str, pieces: list[str] | None = None, *, width: int = 60, styled: bool = True) -> str:
    stream = MarkdownStream(lambda: width, styled=styled)
    return "".join(stream.feed(piece) for piece in pieces or [text]) + stream.end()


def plain(text: str, **more: int) -> str:
    return STYLE.sub("", render(text, **more))


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("a **b c** d", "a \x1b[1mb\x1b[0m \x1b[1mc\x1b[0m d\n"),
        ("*a* and _b_", "\x1b[3ma\x1b[0m and \x1b[3mb\x1b[0m\n"),
        ("`**x**`", "\x1b[36m**x**\x1b[0m\n"),
        ("snake_case_name 2 * 3 * 4", "snake_case_name 2 * 3 * 4\n"),
        ("**not closed", "**not closed\n"),
        (r"\*plain\*", "*plain*\n"),
        ("# Head", "\x1b[1;4mHead\x1b[0m\n"),
        ("[t](http://u)", "\x1b[4mt\x1b[0m \x1b[2m(http://u)\x1b[0m\n"),
        ("- [ ] open", "• [ ] open\n"),
        ("```py\n**a**\n```\n**b**", "\x1b[2m```py\x1b[0m\n\x1b[36m**a**\x1b[0m\n\x1b[2m```\x1b[0m\n\x1b[1mb\x1b[0m\n"),
    ],
)
def test_styles(text: str, shown: str) -> None:
    assert render(text) == shown


def test_words_of_a_list_are_wrapped_below_its_text() -> None:
    assert plain("- one two three four\n> five six seven", width=12) == (
        "• one two\n  three\n  four\n│ five six\n│ seven\n"
    )


def test_a_table_is_drawn_and_at_a_small_width_listed() -> None:
    table = "| name | what it does |\n|---|---|\n| **a** | first |\n| bcd | second |\nafter\n"
    assert plain(table) == "name │ what it does\n─────┼─────────────\na    │ first\nbcd  │ second\nafter\n"
    assert plain(table, width=18) == (
        "- name: a\n  what it does:\n    first\n- name: bcd\n  what it does:\n    second\nafter\n"
    )


def test_words_are_printed_as_soon_as_they_are_known() -> None:
    stream = MarkdownStream(lambda: 60)
    assert stream.feed("Some te") == "Some"
    assert stream.feed("xt **bo") == " text"
    assert stream.feed("ld** more") == " \x1b[1mbold\x1b[0m"
    assert stream.feed("*" * 2 + "x" * (MAX_HELD + 1)) == ""
    assert stream.feed(" y").startswith("\nmore**xx")
    assert stream.end() == "\ny\n"


@pytest.mark.parametrize(
    ("before", "sign"), [("", "-"), ("", " "), ("", "```"), ("", "|"), ("```\n", "x"), ("# ", "*")]
)
def test_a_line_without_end_is_not_held_for_ever(before: str, sign: str) -> None:
    stream = MarkdownStream(lambda: 60)
    printed = stream.feed(before) + "".join(stream.feed(sign * 10) for _ in range(MAX_ROW))
    assert len(stream._rest) <= MAX_ROW + 30  # pyright: ignore[reportPrivateUsage]
    text = STYLE.sub("", printed + stream.end())
    assert text.count(sign) == 10 * MAX_ROW + before.count(sign) or sign in " #*"


@example(["word", "| a | b |\n|---|---|\n", "```", "word"], 0, True)
@given(st.lists(st.sampled_from(PARTS), max_size=25), st.integers(0, 200), st.booleans())
def test_the_pieces_do_not_matter(parts: list[str], seed: int, styled: bool) -> None:
    text = "".join(parts)
    cuts = sorted({seed % (len(text) + 1), seed * 7 % (len(text) + 1)})
    pieces = [text[a:b] for a, b in zip([0, *cuts], [*cuts, len(text)], strict=True)]
    assert render(text, pieces, styled=styled) == render(text, styled=styled)
    assert render(text, list(text), styled=styled) == render(text, styled=styled)


@given(st.text(alphabet="ab *_`[]()#|->~\\\n1.", max_size=200))
def test_any_text_ends_and_keeps_its_letters(text: str) -> None:
    shown = plain(text, width=30)
    letters = re.sub(r"[^ab]", "", text)
    assert sorted(re.sub(r"[^ab]", "", shown)) == sorted(letters) or "|" in text


@given(st.lists(st.sampled_from(["word", "**bold**", "a", "- x", "\n", "`code`", "long-er-word"]), max_size=40))
def test_no_line_is_wider_than_the_terminal(parts: list[str]) -> None:
    for line in plain(" ".join(parts), width=40).splitlines():
        assert len(line) <= 40


def test_a_word_of_many_parts_takes_time_by_its_length() -> None:
    """Each part was joined to all before it: an answer of invisible characters without a blank stopped the chat."""
    began = time.process_time()
    assert plain("\\x" * 400_000) == "\\x" * 400_000 + "\n"
    assert time.process_time() - began < 8  # joined each time: half a minute
