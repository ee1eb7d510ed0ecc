"""`toolcrib rules try` and `rules suggest`: rules and the calls of the record."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

from ..config.files import read_config_file
from ..config.rules import claude_rules
from ..core.text import clip
from ..core.verdict import Verdict
from ..policy.rules.rule_grammar import VERDICTS, Rule, RuleSource, parse_rule, written_form
from ..policy.rules.rule_history import Changed, PastCall, changes, covered, suggestions
from ..policy.rules.ruleset import RuleSet
from ..record.filters import read_time
from ..toolbox import Toolbox
from ..toolbox.past_calls import past_calls, recorded_calls
from . import show
from .exit_codes import Usage
from .options import RecordOptions
from .reader import Argument, Option

EXAMPLES = 5
TRIED = 1_000
"""The calls of the record on which a rule is tried while a person waits."""
Since = Annotated[str, Option(metavar="TIME", help="Calls from this time on: 2h, 7d, 2026-01-31.")]
Limit = Annotated[int, Option("--limit", "-n", help="At most this many calls, the newest.")]


def tried_on_record(
    options: RecordOptions,
    rule: Annotated[str | None, Argument(metavar="RULE", help="Like 'Bash(npm run *)'.")] = None,
    verdict: Annotated[Verdict, Option("--as", help="What the rule does.")] = "allow",
    file: Annotated[
        str | None, Option(metavar="FILE", help="Try all rules of a file: [rules] of ours, or Claude Code's settings.")
    ] = None,
    since: Since = "30d",
    limit: Limit = 5_000,
) -> None:
    """Show which calls of the record would get another verdict with a rule. Nothing runs, nothing is written.

    The calls are judged as they would be today, with and without it.
    """
    if (rule is None) == (file is None):
        raise Usage("which rule? `toolcrib rules try 'Bash(npm run *)'`, or --file FILE")
    rules = [parse_rule(rule, verdict, RuleSource("tried"))] if rule is not None else _rules_in(Path(file or ""))
    with options.build(options.settings(quiet=True)) as box:
        for warning in RuleSet(rules, workspace=box.workspace.root).warnings(box.registry) if rule is not None else ():
            show.warn(warning)
        calls, unread = recorded_calls(box, options.state(box.settings).record, read_time(since), limit)
        found = changes(calls, box.policy, rules)
    if options.json:
        show.out_json({"calls": len(calls), "unread": unread, "changed": [_as_json(each) for each in found]})
        return
    print(f"{len(calls)} calls (--since {since}): {len(found)} would get another verdict.")
    if unread:
        show.say(f"{unread} more are not in the record in full, and were not tried.", "dim")
    for after in ("allow", "ask", "deny"):
        some = [each for each in found if each.after == after]
        if some:
            print(f"newly {_SAID[after]}: {len(some)}")
            rows = [[each.before, after, each.call.tool.name, _brief(each.call), each.call.said] for each in some]
            show.columns(rows[:EXAMPLES], ("verdict", "verdict", None, None, "dim"), widest=70)


def suggested(options: RecordOptions, since: Since = "30d", limit: Limit = 5_000) -> None:
    """Suggest the fewest, narrowest allow rules that would have spared the questions that you always answered with yes.

    No suggested rule allows a call that was ever denied. Add one with `toolcrib rules add allow RULE`.
    """
    with options.build(options.settings(quiet=True)) as box:
        calls, _ = recorded_calls(box, options.state(box.settings).record, read_time(since), limit)
        found = suggestions(calls, box.policy)
    asked = sum(call.person == "yes" for call in calls)
    if options.json:
        rules = [{"rule": written_form(each.rule), "calls": [call.call_id for call in each.calls]} for each in found]
        show.out_json({"calls": len(calls), "answered_yes": asked, "rules": rules})
        return
    if not found:
        spared = f"No rule would have spared one of the {asked} questions" if asked else "There was no question"
        print(f"{spared} that a person answered with yes (--since {since}).")
        return
    for each in found:
        print(f"allow  {show.plain_line(each.rule.text)}")
        rows = [["", call.call_id, _brief(call)] for call in each.calls[:EXAMPLES]]
        show.columns(rows, (None, "dim", "dim"), widest=80)
        if len(each.calls) > EXAMPLES:
            show.say(f"  and {len(each.calls) - EXAMPLES} more", "dim")


_SAID = {"allow": "allowed", "ask": "asked about", "deny": "denied"}


def _rules_in(file: Path) -> list[Rule]:
    found = read_config_file(file.expanduser())
    table: Any = found.values.get("rules")
    source = RuleSource("tried", str(file))
    if isinstance(table, dict):
        given: Any = [(verdict, each) for verdict in VERDICTS for each in table.get(verdict, [])]  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]
        return [parse_rule(each, verdict, source) for verdict, each in given]
    rules = [parse_rule(written, verdict, source) for verdict, written, _ in claude_rules(found)]
    if not rules:
        raise Usage(f"{file} has no rules: neither a table [rules], nor Claude Code's permissions")
    return rules


def on_record(box: Toolbox, rule: str) -> str:
    """Return in a sentence which calls of the record a rule would have allowed. Blocks: it reads the record."""
    parsed = parse_rule(rule, "allow", RuleSource("tried"))
    calls = [each for each in past_calls(box, box.audit, box.approvals, None, TRIED) if each is not None]
    assert box.policy.rules is not None
    found = covered(calls, box.policy.rules.only([parsed]))
    if not found:
        return "no other call of the record"
    refused = sum(call.denied for call in found)
    examples = dict.fromkeys(clip(_brief(call), 40) for call in found)
    more = " …" if len(examples) > 2 else ""
    but = f" ({refused} of them refused)" if refused else ""
    return f"{len(found)} of the last {len(calls)} calls{but}: {', '.join(list(examples)[:2])}{more}"


def _brief(call: PastCall) -> str:
    return show.plain_line(call.text)


def _as_json(each: Changed) -> dict[str, Any]:
    call = each.call
    return {"call_id": call.call_id, "tool": call.tool.name, "arguments": dict(call.arguments), "before": each.before,
            "after": each.after, "person": call.person or None}  # fmt: skip
