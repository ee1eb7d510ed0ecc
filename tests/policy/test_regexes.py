"""Users' regular expressions: no pattern takes longer than the text is long, and what Python's `re` means stays so."""

import re
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from toolcrib.policy.regexes import compile_pattern

SLOW = [
    "(a+)+$", "(a*)*b", "(a|aa)+$", "(a|a)*b", "(.*,)*x", r"(\w+\s*)+$", "(?:a?){25}b", "(a+){20}b",
    "((ab)*)*c", "(?:x+x+)+y", "([a-z]+)*=", "(?P<n>(a+)+)c", "(?:aa|aaa)*b", r"(?:[a-z]{2,3})*!", "(.+)+x",
    "((a+)b?)*c", ".*.*.*.*=", r"(\d|\w)*!",
]  # fmt: skip
USUAL = [
    "rm -rf", r"\bsudo\b", "drop table", r"git (status|diff|log)( .*)?", r"^npm (run )?test$", "([^,]*,)*x",
    r"(\w+\.)*example\.com", r"(?:[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?\.)+[a-z]{2,}", r"\d{1,3}(\.\d{1,3}){3}",
    "[A-Fa-f0-9]{40}", "(?:[a-f0-9]{40}\n)*", r"AKIA[0-9A-Z]{16}", ".*curl.*[|].*sh",
    r"(?:--?\w+(?:=\S+)? +)*install",
    "(?:foo|bar|baz)+", "", "a{0,3}b", r"(?P<s>tok_\w+)", "café(é)*", "(?:a|b)*c",
    "|".join(["word"] * 50), "(?i:(A|a)*)b", r"ghp_[A-Za-z0-9]{36,255}", "(?s:.)*end", r"[]\w]+", r"[^\s\d]$",
    r"\W\S\D",
]  # fmt: skip
TEXTS = [
    "", "\n", "rm -rf /", "sudo\n", "git diff", "npm test\n", "a,b,x", "www.example.com", "1.2.3.4", "naïve tok_é",
    "café", "caféé\n", "ABBAb", "install", "--x=y install", "٣", "word", "a\u00a0b", "]ж!", "é ", "end", "foobar",
]  # fmt: skip


@pytest.mark.parametrize("text", SLOW)
def test_what_would_take_exponential_time_elsewhere_takes_none(text: str) -> None:
    found = compile_pattern(text)
    begin = time.perf_counter()
    for word in ("a" * 100_000, "ab" * 50_000, "x" * 99_999 + "!", "a," * 50_000):
        found.search(word)
        found.fullmatch(word)
    assert time.perf_counter() - begin < 5


@pytest.mark.parametrize("text", USUAL)
def test_the_usual_ones_mean_what_they_mean_to_python(text: str) -> None:
    for ignore_case in (False, True):
        ours, theirs = (
            compile_pattern(text, ignore_case=ignore_case),
            re.compile(text, re.IGNORECASE if ignore_case else 0),
        )
        assert ours.text == text
        for word in TEXTS:
            assert ours.search(word) == bool(theirs.search(word)), (text, word)
            assert ours.fullmatch(word) == bool(theirs.fullmatch(word)), (text, word)
    ascii_only, theirs = compile_pattern(text, ascii_only=True), re.compile(text, re.ASCII)
    for word in TEXTS:
        assert ascii_only.fullmatch(word) == bool(theirs.fullmatch(word)), (text, word)


@pytest.mark.parametrize(
    "text", ["(", "a{2,1}", "[z-a]", "(?P<n>a", "a(?=b)", "(?<!x)y+", r"(a)\1+", "a++", "a{,3}", "\ud800"]
)
def test_what_is_none_says_so(text: str) -> None:
    with pytest.raises(ValueError, match="is not a valid regular expression here"):
        compile_pattern(text)


def test_what_cannot_be_matched_in_linear_time_is_named() -> None:
    with pytest.raises(ValueError, match="without look-around, back-references"):
        compile_pattern("a(?=b)")
    with pytest.raises(ValueError, match=r"write \{0,3\}"):
        compile_pattern("a{,3}")


def test_where_it_occurs() -> None:
    text = "é\udc80 tok_abc, tok_é €tok_x"
    found = compile_pattern(r"tok_(?P<s>\w+)", ascii_only=True).spans(text, "s")
    assert [text[start:end] for start, end in found] == ["abc", "x"]
    found = compile_pattern(r"tok_\w*", ascii_only=True).spans(text, "s")
    assert [text[start:end] for start, end in found] == ["tok_abc", "tok_", "tok_x"]


_PIECES = st.recursive(
    st.sampled_from(["a", "b", ".", "[ab]", r"\w", "^", "$", ""]),
    lambda inner: st.one_of(
        st.tuples(inner, inner).map("".join),
        st.tuples(inner, inner).map("(?:{0[0]}|{0[1]})".format),
        st.tuples(inner, st.sampled_from(["*", "+", "?", "{1,3}", "{7}"])).map(lambda pair: f"(?:{pair[0]}){pair[1]}"),
    ),
    max_leaves=7,
)


@settings(max_examples=300, deadline=None)
@given(_PIECES)
def test_every_pattern_ends(text: str) -> None:
    """In Python's `re` many of these would not end before the test runner does."""
    found = compile_pattern(text + "c")
    for word in ("a" * 5_000, "ab" * 2_500, "a" * 4_999 + "!"):
        found.search(word)
        list(found.spans(word, "s"))


@settings(max_examples=200, deadline=None)
@given(st.text(), st.sampled_from([r"\w+", r"[^\s]x?", "é", "."]))
def test_any_text_can_be_searched(text: str, pattern: str) -> None:
    found = compile_pattern(pattern)
    assert found.search(text) or not list(found.spans(text, "s"))
    assert all(0 <= start <= end <= len(text) for start, end in found.spans(text, "s"))
