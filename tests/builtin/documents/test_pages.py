"""`pages=` to numbers and back, whatever was written."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolcrib.builtin.documents.document import Refused
from toolcrib.builtin.documents.work import in_words, parse_pages


@pytest.mark.parametrize(
    ("asked", "numbers"),
    [
        (None, [1, 2, 3, 4, 5]), ("", [1, 2, 3, 4, 5]), ("3", [3]), ("1-3,5", [1, 2, 3, 5]), ("4-", [4, 5]),
        ("-2", [1, 2]), (" 2 - 3 ", [2, 3]), ("5,1,5", [5, 1]), ("4-900", [4, 5]),
        ("2..3", [2, 3]), ("2–3", [2, 3]), ("5,9", [5]),
    ],
)  # fmt: skip
def test_what_is_meant(asked, numbers):
    assert parse_pages(asked, 5, "page") == numbers


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ("0", "from 1"), ("3-2", "smaller number first"), ("x", "not understood"), ("1,,2", "not understood"),
        ("-", "not understood"), ("6", "it has 5 pages"), ("1" * 2000, "longer"), ("9999999999", "not understood"),
    ],
)  # fmt: skip
def test_what_is_not(asked, said):
    with pytest.raises(Refused, match=said):
        parse_pages(asked, 5, "page")


@given(st.sets(st.integers(1, 60), min_size=1))
def test_words_and_back(numbers):
    assert parse_pages(in_words(sorted(numbers)), 60, "page") == sorted(numbers)


@given(st.text(alphabet="0123456789-,. :x", max_size=30), st.integers(0, 40))
def test_any_text_gives_pages_that_are_there_or_is_refused(text, count):
    try:
        numbers = parse_pages(text, count, "page")
    except Refused:
        return
    assert set(numbers) <= set(range(1, count + 1))
    assert len(set(numbers)) == len(numbers)
