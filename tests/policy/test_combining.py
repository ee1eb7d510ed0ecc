"""Every combination of what may speak for and against a call, against the specification's 6.0 written down again."""

import itertools

from toolcrib.core.errors import SandboxUnavailable
from toolcrib.core.tool import FunctionTool, ToolCategory
from toolcrib.core.verdict import Judgement
from toolcrib.policy.policy import APPROVAL_POLICIES, Policy

READS = {ToolCategory.FILESYSTEM_READ, ToolCategory.NETWORK_READ, ToolCategory.MEMORY}
ASKS = {ToolCategory.SHELL, ToolCategory.HARDWARE, ToolCategory.DESTRUCTIVE, ToolCategory.NETWORK_WRITE}

RULES = (None, "deny", "ask", "allow")
JUDGEMENTS = (None, "deny", "ask", "unknown", "allow")
LABELS = (False, True)
WALLS = (True, False, "missing")


class Fixed:
    """Rules, and labels, that say the same of every call."""

    def __init__(self, verdict):
        self.judgement = Judgement(verdict, "", "it") if verdict else None

    def match(self, tool, arguments, ctx):
        return self.judgement

    question = match

    def touches(self, tool):
        return True

    watches = touches


def made(category, judgement):
    said = Judgement("ask" if judgement == "unknown" else judgement, "", None, judgement == "unknown")

    def fn() -> str:
        return ""

    judge = None if judgement is None else (lambda args, ctx: said)
    return FunctionTool(fn, name="t", category=category, judge=judge)


def walls(state):
    def sandboxed():
        if state == "missing":
            raise SandboxUnavailable("no sandbox")
        return state

    return sandboxed


def expected(mode, category, rule, judgement, label, approval, named, quiet, sandboxed):
    if rule == "deny" or judgement == "deny" or (mode == "observer" and category not in READS):  # step 1
        return "deny"
    quiet = quiet or approval == "always_allow"
    if rule == "ask" or label or approval == "always_require" or named:  # step 2
        return "allow" if quiet else "ask"
    if rule == "allow":  # step 3
        return "allow"
    if judgement in ("ask", "unknown"):  # step 4: by the arguments, for any tool that judges them
        if judgement == "unknown" and sandboxed == "missing":
            return "deny"
        asks = not (judgement == "unknown" and sandboxed)
    elif category == ToolCategory.SHELL and judgement == "allow":
        asks = False
    else:
        asks = mode == "assistant" and category in ASKS
    quiet = quiet or approval == "require_for_tools"
    return "ask" if asks and mode != "autonomous" and not quiet else "allow"


def test_every_combination():
    seen = {"allow": 0, "ask": 0, "deny": 0}
    tools = {(c, j): made(c, j) for c in ToolCategory for j in JUDGEMENTS}
    settings = itertools.product(
        ("observer", "assistant", "autonomous"), RULES, LABELS, APPROVAL_POLICIES, (False, True),
        ((True, False), (True, True), (False, False)), WALLS,
    )  # fmt: skip
    for mode, rule, label, approval, named, (enabled, yes), sandboxed in settings:
        policy = Policy(
            mode, approval=approval, enabled=enabled, yes=yes, ask_for=("t",) if named else (),
            sandboxed=walls(sandboxed), rules=Fixed(rule), flow=Fixed("ask" if label else None),
        )  # fmt: skip
        quiet = yes or not enabled
        for (category, judgement), tool in tools.items():
            verdict = policy.check(tool, {}).verdict
            case = (mode, category, rule, judgement, label, approval, named, quiet, sandboxed)
            assert verdict == expected(*case), case
            seen[verdict] += 1
    assert min(seen.values()) > 1000


def test_nothing_turns_a_deny():
    for mode, approval, deny in itertools.product(
        ("assistant", "autonomous"), APPROVAL_POLICIES, ("rule", "judgement", "mode")
    ):
        tool = made(ToolCategory.DESTRUCTIVE, "deny" if deny == "judgement" else None)
        policy = Policy(
            "observer" if deny == "mode" else mode, approval=approval, enabled=False, yes=True,
            rules=Fixed("deny" if deny == "rule" else "allow"),
        )  # fmt: skip
        assert policy.check(tool, {}).verdict == "deny"
