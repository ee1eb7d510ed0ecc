"""Lines, however they come in."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolcrib.sources.mcp.lines import Lines, LineTooLong


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


def test_a_line_without_end() -> None:
    lines = Lines(10)
    assert lines.feed(b"0123456789") == []
    with pytest.raises(LineTooLong):
        lines.feed(b"x")
