"""How verdicts combine: the steps of the specification, one by one, and that nothing turns a denial."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolcrib.core.caller import Caller
from toolcrib.core.context import ToolContext
from toolcrib.core.errors import ConfigError, SandboxUnavailable
from toolcrib.core.registry import ToolRegistry
from toolcrib.core.tool import FunctionTool, ToolCategory, tool
from toolcrib.core.verdict import Judgement
from toolcrib.policy.checker import bare_check
from toolcrib.policy.policy import APPROVAL_POLICIES, MODES, Policy
from toolcrib.policy.rules.rule_grammar import parse_rule
from toolcrib.policy.rules.ruleset import RuleSet


def made(category="memory", judgement=None, **options):
    def fn(x: int = 0) -> str:
        return "ran"

    judge = None if judgement is None else (lambda args, ctx: judgement)
    return FunctionTool(fn, name=options.pop("name", "t"), category=category, judge=judge, **options)


class OneRule:
    def __init__(self, verdict):
        self.verdict = verdict

    def match(self, tool, arguments, ctx):
        return Judgement(self.verdict, "by the rule", "the-rule")


def test_each_mode_says_what_the_table_of_the_specification_says():
    looked = {mode: {c: Policy(mode).check(made(c), {}).verdict for c in ToolCategory} for mode in MODES}
    reads = {ToolCategory.FILESYSTEM_READ, ToolCategory.NETWORK_READ, ToolCategory.MEMORY}
    asks = {ToolCategory.SHELL, ToolCategory.HARDWARE, ToolCategory.DESTRUCTIVE, ToolCategory.NETWORK_WRITE}
    assert {c for c, v in looked["observer"].items() if v == "allow"} == reads
    assert {c for c, v in looked["observer"].items() if v == "deny"} == set(ToolCategory) - reads
    assert {c for c, v in looked["assistant"].items() if v == "ask"} == asks
    assert {c for c, v in looked["assistant"].items() if v == "allow"} == set(ToolCategory) - asks
    assert set(looked["autonomous"].values()) == {"allow"}


@pytest.mark.parametrize("wrong", ["Assistant", "", "yolo"])
def test_an_unknown_mode_is_an_error_and_never_a_fallback(wrong):
    with pytest.raises(ConfigError, match="observer"):
        Policy(wrong)


def test_an_unknown_approval_policy_is_an_error():
    with pytest.raises(ConfigError, match="require_for_dangerous"):
        Policy(approval="sometimes")


def test_a_tool_without_category_asks_and_says_how_to_give_it_one():
    check = Policy().check(made(None), {})
    assert check.verdict == "ask"
    assert '@tool(category="network_read")' in check.reason


def test_a_denying_judgement_beats_everything():
    judged = made("memory", Judgement("deny", "outside", "path"))
    for mode, approval in itertools.product(("assistant", "autonomous"), APPROVAL_POLICIES):
        check = Policy(mode, approval=approval, yes=True, rules=OneRule("allow")).check(judged, {})
        assert (check.verdict, check.reason) == ("deny", "outside")


def test_a_judge_that_raises_denies():
    def judge(args, ctx):
        raise RuntimeError("boom")

    check = Policy("autonomous", yes=True).check(
        FunctionTool(lambda: "x", name="t", category="memory", judge=judge), {}
    )
    assert check.verdict == "deny"
    assert "boom" in check.reason


def test_asked_for_tools_ask_under_any_name_they_have():
    named = made("memory", name="exec", names=("shell",))
    assert Policy(ask_for=["shell"]).check(named, {}).verdict == "ask"
    assert Policy(ask_for=["ex*"]).check(named, {}).verdict == "ask"
    assert Policy(ask_for=["read*"]).check(named, {}).verdict == "allow"
    renamed = next(iter(ToolRegistry([named]).view(prefix="my_")))
    for name in ("exec", "shell", "my_exec"):
        assert Policy(ask_for=[name]).check(renamed, {}).verdict == "ask", name


def test_always_require_asks_for_reads_too_and_a_trusted_rule_does_not_help():
    policy = Policy("autonomous", approval="always_require", rules=OneRule("allow"))
    assert policy.check(made("filesystem_read"), {}).verdict == "ask"


def test_a_trusted_rule_allows_what_the_table_asks_for():
    check = Policy(rules=OneRule("allow")).check(made("destructive"), {})
    assert (check.verdict, check.rule, check.step) == ("allow", "the-rule", 3)


def test_the_mode_denies_before_a_rule_can_allow():
    assert Policy("observer", rules=OneRule("allow")).check(made("shell"), {}).verdict == "deny"


def test_only_an_unknown_ask_is_allowed_behind_walls():
    unknown = made("shell", Judgement("ask", "cannot be known", unknown=True))
    known = made("shell", Judgement("ask", "writes outside"))
    assert Policy(sandboxed=lambda: True).check(unknown, {}).verdict == "allow"
    assert Policy(sandboxed=lambda: False).check(unknown, {}).verdict == "ask"
    assert Policy(sandboxed=lambda: True).check(known, {}).verdict == "ask"


def test_a_missing_sandbox_refuses_and_does_not_ask_for_nothing():
    def sandboxed():
        raise SandboxUnavailable("install bubblewrap")

    check = Policy(sandboxed=sandboxed).check(made("shell", Judgement("ask", "cannot be known", unknown=True)), {})
    assert (check.verdict, check.reason) == ("deny", "install bubblewrap")


def test_a_shell_tool_that_judges_a_command_harmless_does_not_ask():
    assert Policy().check(made("shell", Judgement("allow", "only reads")), {}).verdict == "allow"


def test_a_judgement_can_only_tighten_other_tools():
    assert Policy().check(made("destructive", Judgement("allow")), {}).verdict == "ask"
    assert Policy().check(made("filesystem_read", Judgement("ask", "a key file")), {}).verdict == "ask"


@pytest.mark.parametrize("options", [{"approval": "always_allow"}, {"enabled": False}, {"yes": True}])
def test_switching_approvals_off_turns_asks_and_no_denials(options):
    assert Policy(**options).check(made("destructive"), {}).verdict == "allow"
    assert Policy(ask_for=["t"], **options).check(made(), {}).verdict == "allow"
    assert Policy("observer", **options).check(made("destructive"), {}).verdict == "deny"


def test_bare_hears_only_the_arguments():
    assert bare_check(made("shell", Judgement("ask", "unknown", unknown=True)), {}).verdict == "ask"
    assert bare_check(made("destructive"), {}).verdict == "allow"


@given(
    st.sampled_from(sorted(MODES)),
    st.sampled_from(list(ToolCategory)),
    st.booleans(),
    st.sampled_from(APPROVAL_POLICIES),
)
def test_what_is_cleared_without_a_look_is_what_would_be_allowed(mode, category, named, approval):
    policy = Policy(mode, approval=approval, ask_for=["t"] if named else [])
    subject = made(category)
    assert policy.clears(subject) == (policy.check(subject, {"x": 1}).verdict == "allow")
    assert not policy.clears(made(category, Judgement("allow")))


async def test_a_denied_call_says_why_and_does_not_run():
    ran = []

    @tool(category="destructive")
    def wipe() -> str:
        """Wipe."""
        ran.append(1)
        return "gone"

    registry = ToolRegistry([wipe], policy=Policy("observer"))
    output = await registry.execute("wipe", {})
    assert (output.error_kind, ran) == ("denied", [])
    assert "observer mode" in output.for_llm


async def test_without_an_approver_an_ask_is_refused():
    registry = ToolRegistry([made("destructive")], policy=Policy())
    output = await registry.execute("t", {})
    assert output.error_kind == "denied"
    assert "no person can be asked" in output.for_llm


async def test_a_changed_policy_is_heard_after_policy_changed():
    policy = Policy()
    registry = ToolRegistry([made("memory")], policy=policy)
    assert not (await registry.execute("t", {})).is_error
    policy.ask_for = ("t",)
    registry.policy_changed()
    assert (await registry.execute("t", {})).is_error


def test_what_usually_happens_is_what_happens_to_harmless_arguments():
    unknown = made("shell", Judgement("ask", "cannot be known", unknown=True))
    assert Policy(sandboxed=lambda: True).usual(unknown).verdict == "allow"
    assert Policy(sandboxed=lambda: False).usual(unknown).verdict == "ask"
    assert Policy("observer").usual(unknown).verdict == "deny"
    assert Policy(ask_for=["t"]).usual(made("memory")).verdict == "ask"
    assert Policy(ask_for=["t"], yes=True).usual(made("memory")).verdict == "allow"
    for category in ToolCategory:
        assert Policy().usual(made(category)).verdict == Policy().check(made(category), {}).verdict


def test_a_doubt_asks_whatever_rules_allow() -> None:
    """What a server changed since it was accepted asks: under an allow rule, in autonomous mode; not under `yes`."""
    noted = FunctionTool(lambda: "done", name="note", category="memory")
    noted.needs_review = "it reads differently since Monday"
    rules = RuleSet([parse_rule("note", "allow")], workspace="/w")
    for mode in ("assistant", "autonomous"):
        policy = Policy(mode, rules=rules)
        assert not policy.clears(noted)
        check = policy.check(noted, {})
        assert (check.verdict, check.rule, check.reason) == ("ask", "doubt", noted.needs_review)
    assert Policy("assistant", yes=True).check(noted, {}).verdict == "allow"
    noted.needs_review = None
    assert Policy("assistant", rules=rules).check(noted, {}).verdict == "allow"


@pytest.mark.parametrize(("approval", "table"), [("require_for_tools", "allow"), ("require_for_dangerous", "ask")])
def test_the_lists_ask_and_the_modes_table_where_it_counts(approval: str, table: str) -> None:
    policy = Policy(approval=approval, ask_for=("note",))
    assert policy.check(made("memory", name="note"), {}).verdict == "ask"
    assert policy.check(made("destructive", name="other"), {}).verdict == table
    assert policy.usual(made("destructive", name="other")).verdict == table
    assert policy.check(made("memory", name="other"), {}).verdict == "allow"


def test_where_only_named_tools_ask_rules_still_ask_and_modes_still_deny() -> None:
    rules = RuleSet([parse_rule("asked", "ask"), parse_rule("never", "deny")])
    policy = Policy(approval="require_for_tools", rules=rules)
    assert policy.check(made("memory", name="asked"), {}).verdict == "ask"
    assert policy.check(made("memory", name="never"), {}).verdict == "deny"
    assert Policy("observer", approval="require_for_tools").check(made("destructive"), {}).verdict == "deny"
    assert Policy(approval="require_for_tools", never_ask=True).check(made("destructive"), {}).verdict == "deny"
    assert Policy(approval="require_for_tools").would_ask is False


@pytest.mark.parametrize("options", [{}, {"yes": True}, {"enabled": False}, {"approval": "always_allow"}])
def test_never_ask_refuses_what_would_ask_whoever_says_yes(options):
    policy = Policy(never_ask=True, rules=RuleSet([parse_rule("good", "allow")]), **options)
    found = policy.check(made("destructive"), {})
    assert (found.verdict, found.rule) == ("deny", "approval.never_ask")
    assert "approval.never_ask" in policy.usual(made("destructive")).reason
    assert policy.check(made("memory"), {}).verdict == "allow"
    assert policy.check(made("destructive", name="good"), {}).verdict == "allow"
    assert Policy("autonomous", never_ask=True).check(made("destructive"), {}).verdict == "allow"
    assert Policy("autonomous", never_ask=True, ask_for=("*",)).check(made(), {}).verdict == "deny"


# --- callers


_VERDICTS = ("allow", "ask", "deny")
_RULES = st.lists(
    st.sampled_from([parse_rule(text, verdict) for text in ("t", "other") for verdict in ("deny", "ask")]), max_size=3
)


@given(
    base=st.sampled_from(list(MODES)),
    own=st.none() | st.sampled_from(list(MODES)),
    category=st.sampled_from(list(ToolCategory)),
    general=st.lists(st.sampled_from([parse_rule("t", verdict) for verdict in _VERDICTS]), max_size=2),
    rules=_RULES,
    tools=st.lists(st.sampled_from(["t", "t*", "other"]), max_size=2),
)
def test_a_caller_may_never_do_more_than_everybody(base, own, category, general, rules, tools):
    policy = Policy(base, rules=RuleSet(general))
    caller = Caller("alice", own, tuple(tools), tuple(rules))
    for_all = policy.check(made(category), {}).verdict
    for_one = policy.check(made(category), {}, ToolContext(caller=caller)).verdict
    assert _VERDICTS.index(for_one) >= _VERDICTS.index(for_all)
    if tools == ["other"]:
        assert for_one == "deny"
        assert policy.of(caller).hides(made(category))
    assert policy.check(made(category), {}).verdict == for_all, "nobody else is limited by it"


def test_a_caller_follows_the_policy_of_everybody():
    rules = RuleSet()
    policy, caller = Policy("autonomous", rules=rules), Caller("alice", rules=(parse_rule("other", "deny"),))
    ctx = ToolContext(caller=caller)
    assert policy.check(made("shell"), {}, ctx).verdict == "allow"
    rules.add("t", "deny")
    assert policy.check(made("shell"), {}, ctx).verdict == "deny"
    rules.remove("t", "deny")
    policy.use_mode("observer")
    assert policy.check(made("shell"), {}, ctx).verdict == "deny"
    assert policy.of(caller) is policy.of(caller)


async def test_a_cleared_tool_is_judged_for_a_caller():
    registry = ToolRegistry([made("memory")])
    policy = registry.stages.authorizer = Policy("assistant", rules=RuleSet())
    registry.stages.of_caller = policy.of
    assert (await registry.execute("t")).for_llm == "ran"
    refused = await registry.execute("t", None, ToolContext(caller=Caller("alice", tools=("other",))))
    assert refused.error_kind == "denied"
    assert (await registry.execute("t")).for_llm == "ran"
