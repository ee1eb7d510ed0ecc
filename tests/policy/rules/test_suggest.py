"""The rule that allows exactly one call: read back, it means that call, and no other."""

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from toolcrib.core.context import EMPTY_CONTEXT
from toolcrib.core.tool import FunctionTool, ToolOrigin
from toolcrib.policy.rules.rule_grammar import parse_rule
from toolcrib.policy.rules.ruleset import RuleSet
from toolcrib.policy.rules.suggest import quoted, suggest, unquoted, widen

SCHEMA = {"type": "object", "additionalProperties": True, "properties": {}}


def made(name, **options):
    return FunctionTool(lambda args: None, name=name, category="shell", parameters=SCHEMA, **options)


EXEC = made("exec", command_argument="command")
FETCH = made("web_fetch")
ISSUE = made("create_issue", origin=ToolOrigin("mcp", "github", "create_issue"))

_hard = st.text(alphabet=st.sampled_from(list("ab *\\()='\"\n\t$;&|{}:\0\u202e\ud800")), max_size=12)
_command = _hard | st.text(max_size=20)
_value = st.one_of(
    st.none(), st.booleans(), st.integers(-3, 3), st.floats(allow_nan=False, allow_infinity=False), _hard
)
_arguments = st.dictionaries(st.sampled_from(["command", "working_dir", "timeout", "url"]), _value, max_size=3)


def allows(line, tool, arguments):
    rules = RuleSet([parse_rule(line, "allow")], workspace="/w", home="/h")
    found = rules.match(tool, arguments, EMPTY_CONTEXT)
    return found is not None and found.verdict == "allow"


@given(_command, _command)
def test_a_command_is_allowed_again_and_no_other_is(command, other):
    line = suggest(EXEC, {"command": command})
    assert line.isprintable()
    assert allows(line, EXEC, {"command": command})
    assert not allows(line, EXEC, {"command": command, "working_dir": "x"})
    assume(other != command)
    assert not allows(line, EXEC, {"command": other})
    assert not allows(line, EXEC, {"command": f"{command} && {command}"})
    assert not allows(line, FETCH, {"command": command})


@given(_arguments, _arguments, st.sampled_from([EXEC, FETCH, ISSUE]))
def test_other_calls_likewise(arguments, other, tool):
    line = suggest(tool, arguments)
    assert line.isprintable()
    assert allows(line, tool, arguments)
    same = {k: v for k, v in arguments.items() if v is not None} == {k: v for k, v in other.items() if v is not None}
    assume(not same)  # 1, 1.0 and True are the same to Python
    assert not allows(line, tool, other)


def test_one_is_not_true():
    line = suggest(FETCH, {"x": 1})
    assert allows(line, FETCH, {"x": 1, "y": None})
    assert not allows(line, FETCH, {"x": True})
    assert not allows(line, FETCH, {"x": 1.0})


def test_what_it_looks_like():
    assert suggest(EXEC, {"command": "npm test"}) == "exec(=npm test)"
    assert suggest(EXEC, {"command": "a\nb \\ *", "timeout": None}) == "exec(=a\\nb \\\\ *)"
    assert suggest(ISSUE, {"a": 1}) == '{"tool": "mcp__github__create_issue", "exactly": {"a": 1}}'
    assert suggest(made("x", origin=ToolOrigin("mcp", "a__b", "x")), {}) is None
    assert suggest(made("a*"), {}) is None
    assert widen(ISSUE, {"a": 1}) == "mcp__github__create_issue"


@pytest.mark.parametrize("name", ["*", "get*", "get(x)", "get x", "a)\n"])
def test_no_name_of_a_servers_tool_is_a_pattern(name):
    assert widen(made("x", origin=ToolOrigin("mcp", "github", name)), {"a": 1}) is None


@given(st.text())
def test_quoting_is_undone(text):
    assert quoted(text).isprintable()
    assert unquoted(quoted(text)) == text
