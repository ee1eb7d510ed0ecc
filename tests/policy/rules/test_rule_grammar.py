"""The grammar of rules: what is one, and that everything else is a configuration error that says why."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolcrib.core.errors import ConfigError
from toolcrib.policy.rules.match import why_never
from toolcrib.policy.rules.rule_grammar import VERDICTS, RuleSource, parse_rule, written_form
from toolcrib.policy.rules.selftest import check_examples


@pytest.mark.parametrize(
    ("text", "tool", "spec"),
    [
        ("Bash", "Bash", None),
        ("Bash(*)", "Bash", None),
        ("Bash(git diff *)", "Bash", "git diff *"),
        ("Bash(echo (a) b)", "Bash", "echo (a) b"),
        ("  Read(src/**)  ", "Read", "src/**"),
        ("mcp__github__*", "mcp__github__*", None),
        ("exec(=npm test)", "exec", "=npm test"),
    ],
)
def test_strings(text, tool, spec):
    rule = parse_rule(text, "allow")
    assert (rule.tool, rule.spec) == (tool, spec)


@pytest.mark.parametrize(
    ("written", "says"),
    [
        ("", "name of a tool"),
        ("(x)", "name of a tool"),
        ("a b", "name of a tool"),
        ("Bash(x", "nothing closes"),
        ("Bash(x) y", "nothing closes"),
        ("Bash()", "nothing in its parentheses"),
        ("Bash(a\0)", "NUL"),
        ("{", "not JSON"),
        (7, "should be text"),
        ({"tool": "x", "arg": {}}, "'arg' is not a key"),
        ({"tool": 1}, "tool should be"),
        ({"tool": "x", "verdict": "deny"}, "says 'deny'"),
        ({"tool": "x", "category": "fun"}, "category 'fun'"),
        ({"tool": "x", "hints": {"destructive": 1}}, "hints.destructive"),
        ({"tool": "x", "labels": {"integrity": "maybe"}}, "labels.integrity"),
        ({"tool": "x", "args": {"a": {}}}, "args.a"),
        ({"tool": "x", "args": []}, "args should be a table"),
        ({"tool": "x", "match": "git"}, "match should be a list"),
        ({"tool": "x(y)", "exactly": {}}, "exactly says it all"),
    ],
)
def test_errors_show_the_file_the_rule_and_what_is_wrong(written, says):
    with pytest.raises(ConfigError) as caught:
        parse_rule(written, "allow", RuleSource("user", "/home/me/config.toml:3"))
    assert says in str(caught.value)
    assert str(caught.value).startswith("/home/me/config.toml:3: rule ")


_json = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)
_keys = st.sampled_from(["tool", "args", "exactly", "category", "hints", "labels", "verdict", "reason", "match"])


@given(st.one_of(st.text(), st.dictionaries(_keys, _json), _json), st.sampled_from(VERDICTS))
def test_anything_is_a_rule_or_a_configuration_error(written, verdict):
    try:
        rule = parse_rule(written, verdict)
    except ConfigError:
        return
    why_never(rule)
    assert parse_rule(written_form(rule), verdict) == rule
    assert parse_rule(rule.text, verdict) == rule
    try:
        check_examples(rule, "/w", "/h")
    except ConfigError:
        pass


@pytest.mark.parametrize(
    "table",
    [
        {"tool": "Bash(git push *)", "match": ["git push origin main"], "not_match": ["git pull", "echo git push"]},
        {"tool": "exec(make *)", "match": ["make test", "make a && make b"], "not_match": ["make a; curl x"]},
        {"tool": "Read(src/**)", "match": ["src/a"], "not_match": ["lib/a"]},
        {"tool": "write_file(src/**)", "match": ["src/a"], "not_match": ["lib/a"]},
        {"tool": "WebFetch(domain:*.a.b)", "match": ["https://x.a.b"], "not_match": ["a.b"]},
        {"tool": "mcp__gh__*", "args": {"repo": "me/*"}, "match": [{"repo": "me/x"}], "not_match": [{"repo": "x"}]},
    ],
)
def test_examples_are_held_against_the_rule(table):
    check_examples(parse_rule(table, "allow"), "/w", "/h")
    swapped = {**table, "match": table["not_match"], "not_match": []}
    with pytest.raises(ConfigError, match="does not match"):
        check_examples(parse_rule(swapped, "allow"), "/w", "/h")
    swapped = {**table, "not_match": table["match"], "match": []}
    with pytest.raises(ConfigError, match="it matches"):
        check_examples(parse_rule(swapped, "allow"), "/w", "/h")


@pytest.mark.parametrize(
    ("verdict", "rule"),
    [
        ("allow", "*"), ("allow", "mcp__*"), ("allow", "Write(src/**)"), ("deny", "WebSearch(x)"),
        ("deny", "WebFetch(url:x)"), ("deny", "mcp__a__b(path:x)"), ("allow", "mcp__a__b(x:y)"),
        ("deny", "WebFetch(x)"),
    ],
)  # fmt: skip
def test_rules_that_can_never_match_say_so(verdict, rule):
    assert why_never(parse_rule(rule, verdict))


@pytest.mark.parametrize(
    ("verdict", "rule"),
    [("deny", "*"), ("deny", "mcp__*"), ("deny", "Write(src/**)"), ("deny", "WebFetch(method:POST)"),
     ("deny", "mcp__a__b(x:y)"), ("allow", "mcp__a__*"), ("allow", "Bash")],
)  # fmt: skip
def test_rules_that_can(verdict, rule):
    assert why_never(parse_rule(rule, verdict)) is None
