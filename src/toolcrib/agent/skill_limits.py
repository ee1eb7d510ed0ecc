"""While a skill is in use that names tools (`allowed-tools`), other tools do not run.

A skill is in use from the moment the model has read it until the person's next message. If several are in use, a call
must fit each of them. The entries are read as rules that allow: `read_file`, `Read`, `Bash(git diff *)`. They only
narrow: what they name still goes through the policy, and asks where it asks.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, cast

from ..core.dataclass import dataclass
from ..core.errors import ConfigError, ToolcribError
from ..policy.rules.rule_grammar import Rule, parse_rule
from ..policy.rules.ruleset import RuleSet
from .history import Entry, ModelCall, ModelTurn, ResultTurn, UserTurn
from .skills import ReadSkillTool, Skill
from .structured import NAME as FINAL_ANSWER

if TYPE_CHECKING:
    from ..core.context import ToolContext
    from ..toolbox import Toolbox

ALWAYS = frozenset({ReadSkillTool.name, "todo", "ask_user", "search_tools", FINAL_ANSWER})
"""Tools without effects outside of the session, which no skill takes away."""


@dataclass(frozen=True, slots=True)
class _Limit:
    skill: Skill
    rules: RuleSet


class SkillLimits:
    """What the skills of a session in use let run. `box` has the tools."""

    def __init__(self, skills: Iterable[Skill], box: Toolbox) -> None:
        self._box = box
        self._limits = {
            skill.name: _Limit(skill, self._rules(skill)) for skill in skills if skill.allowed and not skill.problem
        }

    def refusal(self, entries: Sequence[Entry], call: ModelCall, ctx: ToolContext) -> str:
        """Return why a call may not run now; empty if it may."""
        if not self._limits:
            return ""
        for limit in self._in_use(entries):
            if not self._fits(limit.rules, call, ctx):
                return (
                    f"{call.name} did not run: the skill {limit.skill.name!r} is in use, and allows only "
                    f"{', '.join(limit.skill.allowed)}. Do it with these, or tell the person what else it takes; the "
                    "limit ends with the person's next message."
                )
        return ""

    def _in_use(self, entries: Sequence[Entry]) -> list[_Limit]:
        names: list[str] = []
        asked: dict[str, str] = {}
        for entry in entries:
            if isinstance(entry, UserTurn) and entry.source == "user":
                names.clear()
            elif isinstance(entry, ModelTurn):
                asked = {call.id: skill for call in entry.calls if (skill := self._skill_read_by(call))}
            elif isinstance(entry, ResultTurn):
                names += [asked[each.call_id] for each in entry.results if not each.is_error and each.call_id in asked]
        return [self._limits[name] for name in dict.fromkeys(names)]

    def _skill_read_by(self, call: ModelCall) -> str:
        name, arguments = self._inner(call)
        named = isinstance(arguments, dict) and name == ReadSkillTool.name
        skill = cast("dict[str, Any]", arguments).get("name") if named else None
        return skill if isinstance(skill, str) and skill in self._limits else ""

    def _inner(self, call: ModelCall) -> tuple[str, Any]:
        try:
            _, name, arguments = self._box.registry.resolve_forward(call.name, call.object)
        except ToolcribError:  # refused by the pipeline, with the reason
            return call.name, call.object
        return name, arguments

    def _fits(self, rules: RuleSet, call: ModelCall, ctx: ToolContext) -> bool:
        name, arguments = self._inner(call)
        tool = self._box.registry.find(name)
        if not name:  # the question is whether anything is limited
            return False
        if tool is None or name in ALWAYS:
            return True
        try:
            bound = tool.bind(arguments)[0]
        except ToolcribError:  # refused by the pipeline, which says what is wrong
            return True
        return rules.match(tool, bound, ctx) is not None

    def _rules(self, skill: Skill) -> RuleSet:
        root, place = self._box.workspace.root, self._box.parts.house.ground.sandboxes.place
        return RuleSet(_parsed(skill.allowed), workspace=root, place=place)


def _parsed(entries: Iterable[str]) -> list[Rule]:
    """Return the entries as rules. One that is not a rule allows nothing."""
    rules: list[Rule] = []
    for entry in entries:
        try:
            rules.append(parse_rule(entry, "allow"))
        except ConfigError:
            continue
    return rules
