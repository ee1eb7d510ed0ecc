"""Users' regular expressions: those that can take exponential time are refused, the usual ones are not."""

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from toolcrib.policy.regexes import SlowPattern, compile_pattern


@pytest.mark.parametrize(
    "text",
    [
        "(a+)+$", "(a*)*b", "(a|aa)+$", "(a|a)*b", "(.*,)*x", r"(\w+\s*)+$", "(?:a?){25}b", "(a+){20}b",
        "((ab)*)*c", "(?:x+x+)+y", "([a-z]+)*=", "(?P<n>(a+)+)", "(?=(a+)+b)a", "(?:aa|aaa)*b",
        r"(?:[a-z]{2,3})*!", "(.+)+x", "((a+)b?)*c",
    ],
)  # fmt: skip
def test_what_can_take_exponential_time_is_refused(text: str) -> None:
    with pytest.raises(SlowPattern, match="exponential"):
        compile_pattern(text)


@pytest.mark.parametrize(
    "text",
    [
        "rm -rf", r"\bsudo\b", "drop table", r"git (status|diff|log)( .*)?", r"^npm (run )?test$", "([^,]*,)*x",
        r"(\w+\.)*example\.com", r"(?:[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?\.)+[a-z]{2,}", r"\d{1,3}(\.\d{1,3}){3}",
        "[A-Fa-f0-9]{40}", "(?:[a-f0-9]{40}\n)*", r"AKIA[0-9A-Z]{16}", ".*curl.*[|].*sh",
        r"(?:--?\w+(?:=\S+)? +)*install",
        "(?:foo|bar|baz)+", "", "a{0,3}b", r"(?P<s>tok_\w+)", r"(a)\1+", "(?<!x)y+", "café(é)*", "(?:a|b)*c",
        "|".join(["word"] * 50), r"(\d|\w)*!", "(?i:(A|a)*)b",
        r"ghp_[A-Za-z0-9]{36,255}", "(?s:.)*end",
    ],
)  # fmt: skip
def test_the_usual_ones_pass(text: str) -> None:
    assert compile_pattern(text).pattern == text
    assert compile_pattern(text, re.IGNORECASE).pattern == text


def test_the_case_counts_as_the_pattern_takes_it() -> None:
    assert compile_pattern("(A|a)*b")
    with pytest.raises(SlowPattern):
        compile_pattern("(A|a)*b|(?:Ab|aB)*c|(a+)+", re.IGNORECASE)


@pytest.mark.parametrize("text", ["(", "a{2,1}", "[z-a]", "(?P<n>a)(?P<n>b)"])
def test_what_is_none_says_so(text: str) -> None:
    with pytest.raises(ValueError, match="is no regular expression"):
        compile_pattern(text)


_PIECES = st.recursive(
    st.sampled_from(["a", "b", ".", "[ab]", r"\w", "^", "$", ""]),
    lambda inner: st.one_of(
        st.tuples(inner, inner).map("".join),
        st.tuples(inner, inner).map("(?:{0[0]}|{0[1]})".format),
        st.tuples(inner, st.sampled_from(["*", "+", "?", "{1,3}", "{7}"])).map(lambda pair: f"(?:{pair[0]}){pair[1]}"),
    ),
    max_leaves=7,
).filter(lambda text: sum(map(text.count, ("*", "+", "{1,3}"))) <= 3)  # or 60 ** 4 steps are not the end


@settings(max_examples=300, deadline=None)
@given(_PIECES)
def test_what_passes_ends(text: str) -> None:
    """An exponential one would take for ever on 400 characters; the runner's limit would end it."""
    try:
        found = compile_pattern(text + "c")
    except ValueError:
        return
    for word in ("a" * 60, "ab" * 30, "a" * 59 + "!"):
        found.match(word)
