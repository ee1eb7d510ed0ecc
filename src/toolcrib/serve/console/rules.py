"""The rules in force and where each comes from, a rule tried on the record and saved, suggestions, and trust."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager

from ...config import TextToTrust, TrustStore
from ...config.remembered import forget, remember
from ...core.dataclass import dataclass
from ...core.errors import ToolcribError, ToolError
from ...core.text import clip
from ...core.verdict import Verdict
from ...policy.rules.rule_grammar import VERDICTS, Rule, RuleSource, parse_rule
from ...policy.rules.rule_history import Changed, PastCall, Suggestion, changes, covered, suggestions
from ...record.connection import Where
from ...record.filters import read_time
from ...toolbox import Toolbox
from ...toolbox.past_calls import recorded_calls
from .acts import SentForm
from .html import Child, Markup, el
from .page import MAX_ARGUMENTS, Frame, check_sure, choice, exact, folded, form, link, live, one_line, page, sure

Build = Callable[[], AbstractContextManager[Toolbox]]
Untrusted = Callable[[], Sequence[TextToTrust]]
"""Reads the files of the project that count only if a person trusts them, and are not trusted."""

OWN = ("user", "remembered")
"""The layers of the rules that a person's own commands write."""
TRIED = 5_000
SINCE = "30d"
EXAMPLES, FIRST = 20, 5
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
    untrusted: Sequence[TextToTrust] = ()


def read_rules(build: Build, record: Where, untrusted: Untrusted, given: Mapping[str, str]) -> RuleReport:
    """Read the rules of the workspace, and try what the form names. Nothing is written."""
    texts = untrusted()
    with build() as box:
        rules = sorted(box.rules.rules, key=lambda rule: VERDICTS.index(rule.verdict))
        ignored = [str(item) for item in box.settings.origin.ignored if item.key.startswith(("rules.", "permissions."))]
        warnings = [
            *box.rules.warnings(box.registry),
            *(f"ignored until you trust the project: {each}" for each in ignored),
        ]
        written, wanted = given.get("rule", "").strip(), "suggest" in given
        if not written and not wanted:
            return RuleReport(rules, warnings, given, untrusted=texts)
        try:
            verdict: Verdict = _VERDICTS.get(given.get("as", ""), "allow")
            tried = parse_rule(written, verdict, RuleSource("tried")) if written else None
            calls, unread = recorded_calls(box, record, read_time(given.get("since") or SINCE), TRIED)
            changed = None if tried is None else changes(calls, box.policy, [tried])
            suggested = suggestions(calls, box.policy) if wanted else None
        except ToolcribError as error:
            return RuleReport(rules, warnings, given, fault=str(error), untrusted=texts)
    return RuleReport(rules, warnings, given, len(calls), unread, changed, suggested, untrusted=texts)


def allowed_by(build: Build, record: Where, rule: str, but: str) -> Child:
    """Return which calls of the record a rule alone would have allowed, besides one. Raises ToolcribError."""
    with build() as box:
        calls, _ = recorded_calls(box, record, read_time(SINCE), TRIED)
        only = box.rules.only([parse_rule(rule, "allow", RuleSource("tried"))])
        found = [each for each in covered(calls, only) if each.call_id != but]
    refused = sum(each.denied for each in found)
    return [
        el("p", f"Its rule would have allowed {len(found)} others of the last {len(calls)} "
           f"{'call' if len(calls) == 1 else 'calls'} ({refused} refused). ",
           link("Try it", "rules", {"rule": rule})),
        el("ul", [el("li", _call(each)) for each in found[:FIRST]], class_="rows") if found else None,
    ]  # fmt: skip


def rules_page(found: RuleReport, frame: Frame) -> str:
    """Return the page."""
    none = el("li", "No rules: the mode and the check of each call decide.")
    given = found.given
    return page(
        frame,
        "Rules",
        live(
            "in-force",
            [el("p", each, class_="fault") for each in found.warnings],
            [_to_trust(each, frame) for each in found.untrusted],
            el("ul", [_rule(each, frame) for each in found.rules] or none, class_="rows"),
            name="Rules in force, and files that are not trusted",
        ),
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
        _tried(found, frame) if found.changed is not None else None,
        el("p", link("Suggest rules from the record", "rules", {"suggest": "1"})),
        _suggested(found) if found.suggested is not None else None,
    )  # fmt: skip


def _rule(rule: Rule, frame: Frame) -> Markup:
    where = rule.source.where or rule.source.layer
    remove = form(
        frame, "rules", sure(), el("button", "Remove this rule", name="act", value="remove", class_="no"),
        rule=rule.text, verdict=rule.verdict, layer=rule.source.layer,
    )  # fmt: skip
    return el(
        "li", el("strong", rule.verdict, class_=rule.verdict), " ", el("code", one_line(rule.shown)), f" {where}",
        folded("Remove", remove) if rule.source.layer in OWN and frame.form else None,
    )  # fmt: skip


def _tried(found: RuleReport, frame: Frame) -> list[Child]:
    changed = found.changed or []
    unread = f" {found.unread} more are not in the record in full, and were not tried." if found.unread else ""
    rows = [
        el("li", f"{each.before} → ", el("strong", each.after, class_=each.after), " ", _call(each.call))
        for each in changed[:EXAMPLES]
    ]
    verdict = _VERDICTS.get(found.given.get("as", ""), "allow")
    written = found.given.get("rule", "").strip()
    return [
        el("p", f"{found.calls} calls: {len(changed)} would get another verdict.{unread}"),
        el("ul", rows, class_="rows"),
        form(
            frame, "rules",
            el("p", "This writes into your own settings, for this workspace: ", el("strong", verdict), " ",
               el("code", one_line(written))),
            sure(), el("button", "Save this rule", name="act", value="add"),
            rule=written, verdict=verdict,
        ),
    ]  # fmt: skip


def _suggested(found: RuleReport) -> Markup:
    rows = [
        el("li", "allow ", el("code", one_line(each.rule.text)), f" spares {len(each.calls)} "
           f"{'question' if len(each.calls) == 1 else 'questions'}, such as ",
           _call(each.calls[0]), " ", link("Try it", "rules", {"rule": each.rule.text}))
        for each in found.suggested or []
    ]  # fmt: skip
    return el("ul", rows or el("li", "No rule would have spared a question that you answered with yes."), class_="rows")


def _call(call: PastCall) -> Markup:
    said = f" ({call.said})" if call.said else ""
    shown = f"{call.tool.name} {one_line(clip(call.text, 160))}"
    return el("span", link(el("bdi", shown), "call", {"id": call.call_id}, item=True), said)


def _to_trust(text: TextToTrust, frame: Frame) -> Markup:
    path = str(text.file.path)
    whole = len(text.file.text) <= MAX_ARGUMENTS
    others = [el("p", "Files that belong to it are not shown, may be read or run, and may change later: ",
                 ", ".join(text.others))] if text.others else None  # fmt: skip
    return el(
        "article",
        el("h2", "Not trusted: ", el("bdi", path)),
        el("p", f"With trust, {text.what}."),
        others,
        folded("What it says", exact(text.file.text, diff=False)) if whole else None,
        form(
            frame, "rules", sure(), el("button", "Trust this file, as it is now", name="act", value="trust"),
            path=path, digest=text.file.digest,
        ) if whole else el("p", "It is too long to be shown here. Read it, then: toolcrib trust"),
    )  # fmt: skip


def act_on_rules(sent: SentForm, build: Build, untrusted: Untrusted) -> str:
    """Write or remove a rule, or trust a file exactly as it was shown. Raises ToolcribError."""
    act, written = sent.get("act"), sent.get("rule").strip()
    check_sure(sent.given, "to change rules or trust")
    if act == "trust":
        path, digest = sent.get("path"), sent.get("digest")
        found = [each.file for each in untrusted() if (str(each.file.path), each.file.digest) == (path, digest)]
        if not found:
            raise ToolError(f"{path} has changed since this page was made; look at it, and try once more")
        sent.note("trust", f"{path} (sha256 {digest})")
        TrustStore().trust(found[0])
        return f"Trusted {path}, as it was shown. A change of the file ends the trust."
    verdict = _VERDICTS.get(sent.get("verdict"))
    if act not in ("add", "remove") or verdict is None:
        raise ToolError("the form names no act")
    with build() as box:
        workspace = box.workspace.root
    parse_rule(written, verdict, RuleSource("tried"))
    sent.note(f"{act} the rule", f"{verdict} {written}")
    if act == "add":
        return f"Wrote {verdict} {written} to {remember(workspace, verdict, written)}."
    there = forget(None if sent.get("layer") == "user" else workspace, written, [verdict])
    return f"Removed {verdict} {written}." if there else f"{verdict} {written} is not among your own rules any more."
