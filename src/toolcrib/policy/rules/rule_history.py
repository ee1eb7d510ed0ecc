"""What rules would have done to the calls of the record: which verdicts they change (`toolcrib rules try`), and which
rules would have spared the questions that a person always answered with yes (`toolcrib rules suggest`)."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal, cast

from ...core.context import ToolContext
from ...core.dataclass import dataclass
from ...core.registry import ToolRegistry
from ...core.tool import Tool, ToolOrigin, ToolSpec
from ...core.verdict import Verdict
from .rule_grammar import Rule, RuleSource, parse_rule
from .suggest import candidates_for

if TYPE_CHECKING:
    from ..policy import Policy
    from .ruleset import RuleSet

Person = Literal["yes", "no", ""]


@dataclass(frozen=True, slots=True)
class PastCall:
    """A call of the record that can be judged again. `person` is what a person answered, if one was asked."""

    call_id: str
    tool: Tool
    arguments: Mapping[str, Any]
    ctx: ToolContext
    person: Person = ""
    denied: bool = False
    """Whether it was refused, by a person or by the policy."""

    @property
    def text(self) -> str:
        """Its command line, or else its arguments."""
        return self.tool.command_in(self.arguments) or str(dict(self.arguments))

    @property
    def said(self) -> str:
        """What a person answered, in words."""
        return {"yes": "a person said yes", "no": "a person said no"}.get(self.person, "")


@dataclass(frozen=True, slots=True)
class Changed:
    """A call whose verdict other rules change."""

    call: PastCall
    before: Verdict
    after: Verdict


def past_call(
    registry: ToolRegistry, ctx: ToolContext, call_id: str, name: str, arguments: str | None, person: Person = "",
    denied: bool = False,
) -> PastCall | None:  # fmt: skip
    """Return a call of the record; None if its arguments are not there in full."""
    try:
        given = json.loads(arguments or "")
    except (ValueError, RecursionError):
        return None
    if not isinstance(given, dict):
        return None
    return PastCall(call_id, registry.find(name) or _gone(name), cast("dict[str, Any]", given), ctx, person, denied)


def _gone(name: str) -> Tool:
    """Return a tool that is not here now: of a server that is not connected, or of another agent."""
    server, found, own = name.removeprefix("mcp__").partition("__")
    origin = ToolOrigin("mcp", server, own) if name.startswith("mcp__") and found else None
    return Tool(ToolSpec(name=name, parameters={"type": "object"}, origin=origin, tested=True))


def changes(calls: Iterable[PastCall], policy: Policy, rules: Iterable[Rule]) -> list[Changed]:
    """Return the calls that get another verdict with these rules in addition."""
    assert policy.rules is not None
    other = replace(policy, rules=policy.rules.joined(rules))
    found: list[Changed] = []
    for call in calls:
        before = policy.check(call.tool, call.arguments, call.ctx).verdict
        after = other.check(call.tool, call.arguments, call.ctx).verdict
        if before != after:
            found.append(Changed(call, before, after))
    return found


# --- suggestions


@dataclass(frozen=True, slots=True)
class Suggestion:
    """A rule that would have spared questions. `calls` are those it is drawn from."""

    rule: Rule
    calls: tuple[PastCall, ...]


def suggestions(calls: Sequence[PastCall], policy: Policy) -> list[Suggestion]:
    """Return the fewest, narrowest allow rules that spare the questions that were answered with yes each time.

    No rule matches a call that was ever denied: each is tried on all calls. A rule that is wider than one call has
    spared at least two different ones.
    """
    assert policy.rules is not None
    base, source = policy.rules, RuleSource("suggested")
    refused = [call for call in calls if call.denied or call.person == "no"]
    never = {_same(call) for call in refused}
    open_calls = {_same(call): call for call in calls if call.person == "yes" and _same(call) not in never}
    candidates: dict[str, tuple[int, set[str]]] = defaultdict(lambda: (0, set()))
    for key, call in open_calls.items():
        for width, text in enumerate(candidates_for(call.tool, call.arguments)):
            known, keys = candidates[text]
            candidates[text] = max(width, known), keys | {key}
    usable: list[tuple[int, str, set[str]]] = []
    for text, (width, keys) in candidates.items():
        if width and len(keys) < 2:
            continue
        rule = parse_rule(text, "allow", source)
        alone, together = base.only([rule]), replace(policy, rules=base.joined([rule]))
        if any(_covers(alone, call) for call in refused):
            continue
        spared = {
            key for key, call in open_calls.items()
            if _covers(alone, call) and together.check(call.tool, call.arguments, call.ctx).verdict == "allow"
        }  # fmt: skip
        if spared and (not width or len(spared) > 1):
            usable.append((width, text, spared))
    found: list[Suggestion] = []
    left = set(open_calls)
    while left and usable:
        width, text, spared = max(usable, key=lambda each: (len(each[2] & left), -each[0], -len(each[1])))
        covered = spared & left
        if not covered:
            break
        found.append(Suggestion(parse_rule(text, "allow", source), tuple(open_calls[key] for key in sorted(covered))))
        left -= covered
        usable = [each for each in usable if each[1] != text]
    return found


def covered(calls: Iterable[PastCall], rules: RuleSet) -> list[PastCall]:
    """Return the calls that these rules alone would have allowed."""
    return [call for call in calls if _covers(rules, call)]


def _covers(rules: RuleSet, call: PastCall) -> bool:
    found = rules.match(call.tool, call.arguments, call.ctx)
    return found is not None and found.verdict == "allow"


def _same(call: PastCall) -> str:
    return f"{call.tool.name} {json.dumps(call.arguments, sort_keys=True)}"
