"""The rules in force and where each comes from, a rule tried on the record, and suggestions."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager

from ...core.dataclass import dataclass
from ...core.errors import ToolcribError
from ...core.text import clip
from ...core.verdict import Verdict
from ...policy.rules.grammar import VERDICTS, Rule, RuleSource, parse_rule
from ...policy.rules.history import Changed, PastCall, Suggestion, changes, suggestions
from ...record.connection import Where
from ...record.filters import read_time
from ...toolbox import Toolbox
from ...toolbox.past_calls import recorded_calls
from .html import Child, Markup, el
from .page import Frame, choice, facts, link, one_line, page

Build = Callable[[], AbstractContextManager[Toolbox]]

TRIED = 5_000
SINCE = "30d"
EXAMPLES = 20
_VERDICTS: Mapping[str, Verdict] = {"allow": "allow", "ask": "ask", "deny": "deny"}


@dataclass(frozen=True, slots=True)
class RuleReport:
    """The rules, the strictest first, and what is wrong with some. `changed` are the calls of the record to which the
    tried rule would give another verdict, `suggested` rules that would have spared questions; None if not asked for."""

    rules: list[Rule]
    warnings: list[str]
    given: Mapping[str, str]
    calls: int = 0
    unread: int = 0
    changed: list[Changed] | None = None
    suggested: list[Suggestion] | None = None
    fault: str = ""


def read_rules(build: Build, record: Where, given: Mapping[str, str]) -> RuleReport:
    """Read the rules of the workspace, and try what the form names. Nothing is written."""
    with build() as box:
        rules = sorted(box.rules.rules, key=lambda rule: VERDICTS.index(rule.verdict))
        ignored = [str(item) for item in box.settings.origin.ignored if item.key.startswith(("rules.", "permissions."))]
        warnings = [
            *box.rules.warnings(box.registry),
            *(f"ignored until you trust the project: {each}" for each in ignored),
        ]
        written, wanted = given.get("rule", "").strip(), "suggest" in given
        if not written and not wanted:
            return RuleReport(rules, warnings, given)
        try:
            verdict: Verdict = _VERDICTS.get(given.get("as", ""), "allow")
            tried = parse_rule(written, verdict, RuleSource("tried")) if written else None
            calls, unread = recorded_calls(box, record, read_time(given.get("since") or SINCE), TRIED)
            changed = None if tried is None else changes(calls, box.policy, [tried])
            suggested = suggestions(calls, box.policy) if wanted else None
        except ToolcribError as error:
            return RuleReport(rules, warnings, given, fault=str(error))
    return RuleReport(rules, warnings, given, len(calls), unread, changed, suggested)


def rules_page(found: RuleReport, frame: Frame) -> str:
    """Return the page."""
    none = el("li", "No rules: the mode and the check of each call decide.")
    given = found.given
    return page(
        frame,
        "Rules",
        [el("p", each, class_="fault") for each in found.warnings],
        el("ul", [_rule(each) for each in found.rules] or none, class_="rows", aria_label="Rules in force"),
        el("h2", "Try a rule on the record"),
        el("p", "Nothing is written, and nothing runs. Each call is judged as it would be today."),
        el(
            "form",
            el("label", "Rule", el("input", name="rule", value=given.get("rule", ""), size=40, autocomplete="off")),
            choice("as", VERDICTS, given.get("as", "allow")),
            el("label", "Since", el("input", name="since", value=given.get("since") or SINCE, size=8)),
            el("button", "Try"),
            method="get", action="rules",
        ),
        el("p", found.fault, class_="fault", role="alert") if found.fault else None,
        _tried(found) if found.changed is not None else None,
        el("p", link("Suggest rules from the record", "rules", {"suggest": "1"})),
        _suggested(found) if found.suggested is not None else None,
    )  # fmt: skip


def _rule(rule: Rule) -> Markup:
    where = rule.source.where or rule.source.layer
    return el("li", el("strong", rule.verdict, class_=rule.verdict), " ", el("code", one_line(rule.shown)), f" {where}")


def _tried(found: RuleReport) -> list[Child]:
    changed = found.changed or []
    unread = f" {found.unread} more are not in the record in full, and were not tried." if found.unread else ""
    rows: list[Child] = [
        el("li", f"{each.before} → ", el("strong", each.after, class_=each.after), " ", _call(each.call))
        for each in changed[:EXAMPLES]
    ]
    if len(changed) > EXAMPLES:
        rows.append(el("li", f"and {len(changed) - EXAMPLES} more"))
    return [
        el("p", f"{found.calls} calls: {len(changed)} would get another verdict.{unread}"),
        el(
            "ul",
            rows,
            el("li", f"and {len(changed) - EXAMPLES} more") if len(changed) > EXAMPLES else None,
            class_="rows",
        ),
        facts({"to add it": f"toolcrib rules add {found.given.get('as', 'allow')} RULE"}),
    ]


def _suggested(found: RuleReport) -> Markup:
    rows = [
        el("li", "allow ", el("code", one_line(each.rule.text)), f" spares {len(each.calls)} questions, such as ",
           _call(each.calls[0]), " ", link("Try it", "rules", {"rule": each.rule.text}))
        for each in found.suggested or []
    ]  # fmt: skip
    return el("ul", rows or el("li", "No rule would have spared a question that you answered with yes."), class_="rows")


def _call(call: PastCall) -> Markup:
    command = call.arguments.get(call.tool.command_argument or "")
    text = command if isinstance(command, str) else str(dict(call.arguments))
    said = {"yes": " (a person said yes)", "no": " (a person said no)"}.get(call.person, "")
    shown = f"{call.tool.name} {one_line(clip(text, 160))}"
    return el("span", link(el("bdi", shown), "call", {"id": call.call_id}, item=True), said)
