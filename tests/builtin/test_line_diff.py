"""What differs is enough to make one text of the other, whatever they are."""

from hypothesis import given
from hypothesis import strategies as st

from toolcrib.builtin import line_diff
from toolcrib.builtin.line_diff import changes

LINES = st.lists(st.sampled_from("abcdefgh"), max_size=40)


def patched(a, b, found):
    """`a` with the changes; each must change something and come after the one before it."""
    made, at = [], 0
    for i1, i2, j1, j2 in found:
        assert at <= i1 <= i2
        assert (i1, j1) != (i2, j2)
        made += a[at:i1] + b[j1:j2]
        at = i2
    return made + a[at:]


@given(LINES, LINES)
def test_the_changes_make_one_of_the_other(a, b):
    assert patched(a, b, changes(a, b)) == b


@given(LINES, LINES)
def test_they_do_so_in_pieces_too(a, b):
    most, line_diff._MAX_PRODUCT = line_diff._MAX_PRODUCT, 20
    try:
        assert patched(a, b, changes(a, b)) == b
    finally:
        line_diff._MAX_PRODUCT = most
