"""Glob patterns: what they match, and that none of them is slow."""

from __future__ import annotations

import re
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolcrib.boundary.filename_globs import BadPattern, GlobMatcher, expand_braces, normalize, split_prefix


@pytest.mark.parametrize(
    ("pattern", "yes", "no"),
    [
        ("*.py", ["a.py", ".py"], ["x/a.py", "a.pyc"]),
        ("**/*.py", ["a.py", "x/y/b.py"], ["a.pyc", "py"]),
        ("src/**", ["src/a", "src/a/b"], ["src", "a/src/b"]),
        ("src/", ["src/a", "src/a/b"], ["src"]),
        ("**/x/**/y", ["x/y", "a/x/b/y", "x/x/c/d/y"], ["y", "x/yy"]),
        ("{a,b/**}/*.c", ["a/1.c", "b/1.c", "b/z/1.c"], ["c/1.c", "a/z/1.c"]),
        ("x{1,{2,3}}", ["x1", "x2", "x3"], ["x", "x{"]),
        ("a[!b]?c", ["axyc"], ["abyc", "axc"]),
        (r"\*.md", ["*.md"], ["a.md"]),
        ("**", ["a", "b/c"], []),
        ("./a//b", ["a/b"], ["a"]),
        ("[", ["["], ["a"]),
        ("a{b", ["a{b"], ["ab"]),
        ("é?.txt", ["éü.txt"], ["e.txt"]),
    ],
)
def test_what_patterns_match(pattern: str, yes: list[str], no: list[str]) -> None:
    match = GlobMatcher([normalize(pattern)]).match
    assert [path for path in yes if not match(path)] == []
    assert [path for path in no if match(path)] == []


@pytest.mark.parametrize("pattern", ["", "/etc/*", "../x", "a/../../x", "a\nb", "a\0b"])
def test_patterns_that_lead_elsewhere_are_refused(pattern: str) -> None:
    with pytest.raises(BadPattern):
        normalize(pattern)


def test_too_many_alternatives_are_refused() -> None:
    with pytest.raises(BadPattern, match="256 alternatives"):
        expand_braces("{a,b}" * 9)
    assert len(expand_braces("{a,b}" * 8)) == 256


def test_prefix_is_what_stands_before_the_first_wildcard() -> None:
    assert split_prefix("src/app/**/*.py") == ("src/app", "**/*.py")
    assert split_prefix("*.py") == ("", "*.py")
    assert split_prefix("a/b.py") == ("a", "b.py")


def test_no_pattern_is_slow() -> None:
    pattern = "/".join(["**", "*a*a*a*a*a*a*a*a*b"] * 20)
    path = "/".join(["a" * 200] * 100)
    start = time.process_time()
    assert not GlobMatcher([normalize(pattern)]).match(path)
    assert time.process_time() - start < 20  # with backtracking: for ever


_NAMES = st.text("ab.", min_size=1, max_size=4).filter(lambda name: name not in {".", ".."})
_PARTS = st.sampled_from(["*", "**", "?", "a", "b", "*a", "a*b", "[ab]", ".b"])


@given(st.lists(_PARTS, min_size=1, max_size=4), st.lists(_NAMES, min_size=1, max_size=5))
def test_matching_agrees_with_one_regular_expression(parts: list[str], names: list[str]) -> None:
    expression = ""
    for index, part in enumerate(parts):
        last = index == len(parts) - 1
        if part == "**":
            expression += ".+" if last else "(?:[^/]+/)*"
        else:
            expression += re.escape(part).replace(r"\*", "[^/]*").replace(r"\?", "[^/]").replace(r"\[ab\]", "[ab]")
            expression += "" if last else "/"
    path = "/".join(names)
    assert GlobMatcher([normalize("/".join(parts))]).match(path) == bool(re.fullmatch(expression, path))


@given(st.text(max_size=40), st.text(max_size=40))
def test_any_text_is_a_pattern_or_refused(pattern: str, path: str) -> None:
    try:
        matcher = GlobMatcher([normalize(pattern)])
    except BadPattern:
        return
    matcher.match(path)
