import re

from hypothesis import given
from hypothesis import strategies as st

from toolcrib.core.text import in_lines, size, wildcard

TEXT = st.text("ab/", max_size=4)


@given(st.lists(TEXT, min_size=1, max_size=5), st.text("ab/", max_size=14))
def test_a_wildcard_is_what_an_expression_would_say(pieces: list[str], text: str) -> None:
    expression = ".*".join(map(re.escape, pieces))
    assert wildcard(pieces, text) == (re.fullmatch(expression, text, re.DOTALL) is not None)


def test_a_wildcard_takes_no_time_even_for_hostile_pieces() -> None:
    assert not wildcard(["a"] * 2_000 + ["b"], "a" * 100_000)


def test_numbers_in_words():
    assert [size(0), size(1023), size(1536), size(64 * 2**30)] == ["0 B", "1023 B", "1.5 KiB", "64.0 GiB"]
    assert [in_lines(0), in_lines(1), in_lines(2_000, "more ")] == ["0 lines", "1 line", "2,000 more lines"]
