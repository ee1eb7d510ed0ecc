"""Are lines whole however their chunks are cut, and is their length bounded?"""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolcrib.boundary.lines import Lines, LineTooLong


@given(st.binary(max_size=300), st.lists(st.integers(1, 40), max_size=20))
def test_chunks_do_not_matter(data: bytes, sizes: list[int]) -> None:
    lines = Lines(1_000)
    found: list[bytes] = []
    rest = data
    for size in sizes:
        found += lines.feed(rest[:size])
        rest = rest[size:]
    found += lines.feed(rest)
    assert [*found, lines.rest()] == data.split(b"\n")


@pytest.mark.parametrize("end", [b"x", b"x\n", b"x\nnext\n"])
def test_a_line_that_is_too_long(end: bytes) -> None:
    lines = Lines(10)
    assert lines.feed(b"0123456789") == []
    with pytest.raises(LineTooLong):
        lines.feed(end)
    assert lines.rest() == b"0123456789x"


@given(st.lists(st.binary(max_size=30)), st.integers(1, 12), st.integers(1, 20))
def test_lines_are_cut_whatever_the_pieces(parts: list[bytes], step: int, limit: int) -> None:
    whole = [part.replace(b"\n", b"") for part in parts]
    text = b"\n".join(whole)
    lines = Lines(limit, cut=True)
    found = [line for start in range(0, len(text), step) for line in lines.feed(text[start : start + step])]
    if rest := lines.rest():
        found.append(rest)
    expected = whole if not whole or whole[-1] else whole[:-1]
    assert found == [line[: limit + 1] for line in expected]
