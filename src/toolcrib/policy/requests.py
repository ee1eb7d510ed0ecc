"""Define the question to a person (`ApprovalRequest`), the answer (`Decision`) and who asks (`Approver`); apply an
answer to a stored request: the same way from every interface, and only once."""

from __future__ import annotations

import json
import logging
from collections.abc import Awaitable, Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import field, replace
from hashlib import sha256
from typing import Any

from ..core.dataclass import dataclass
from ..core.output import ToolOutput
from ..core.tool import ToolCategory
from ..record.approvals import Approvals
from ..record.rows import SCOPES, ApprovalRow, Scope

log = logging.getLogger("toolcrib.policy")


@dataclass(frozen=True, slots=True)
class Question:
    """Why a call asks: `rule` is the source of the question, `hosts` are what a yes opens.

    `fixed` means that it asks even if rules allow the call (step 2): then no rule is offered. An approval for the
    session covers a setting's other questions, and otherwise those with the same reason. `insists`: it is no setting
    that asks so, but what the call does. Labels ask each time, because a value may come from an untrusted source.
    """

    reason: str
    rule: str | None
    fixed: bool = False
    hosts: tuple[str, ...] = ()
    insists: bool = False

    @property
    def asked_by(self) -> str | None:
        """Return the source that asks whatever rules allow; None if a rule would help."""
        return (self.rule or "policy") if self.fixed else None

    @property
    def is_of_setting(self) -> bool:
        """Return whether a setting asks, and not what the call does."""
        return self.fixed and not self.insists


@dataclass(frozen=True, slots=True)
class ApprovalRequest:
    """A question to a person: the call, why it asks, and the rule that would allow it. Times are Unix seconds.

    `preview`, `reason` and `rule` are safe to print: invisible characters are escaped. `arguments` are not. `rule`
    would allow this call; "" if no readable rule would. `scopes` are the possible scopes of an approval: "rule" is
    included only if `rule` is exactly the line that would be written. `asked_by` names the source that asks even if
    rules allow the call: a setting, an ask rule, a label. None if a rule would help. `hosts` are opened to the
    command by a yes, each as `host:port`, and no others. `wider` is the narrowest useful rule that would allow this
    call and others like it; "" if there is none.
    """

    id: str
    call_id: str
    tool: str
    category: str
    arguments: Mapping[str, Any] = field(repr=False)
    preview: str = field(repr=False)
    reason: str
    rule: str
    digest: str
    session_id: str | None
    created: float
    expires: float
    asked_by: str | None = None
    scopes: tuple[Scope, ...] = ("once", "session")
    hosts: tuple[str, ...] = ()
    wider: str = ""

    @property
    def about_rule(self) -> tuple[str, ...]:
        """Return the lines of a question about rules, and about the hosts that a yes opens."""
        return about_rule(self.tool, self.category, self.rule, self.asked_by, self.scopes, self.hosts)


@dataclass(frozen=True, slots=True)
class Decision:
    """A person's answer. `arguments` replace the call's own: they are validated and judged again.

    `scope` is "once", "session" (the same command, or every call of this tool, may run again in this session without a
    question) or "rule" (`ApprovalRequest.rule` is written into the person's own settings). `rule` is
    `ApprovalRequest.wider`, to write that rule instead. A scope that the request does not offer counts as once, and so
    does "rule" with other arguments: the person did not see the rule for those.
    """

    approve: bool
    reason: str = ""
    arguments: Mapping[str, Any] | None = None
    scope: Scope = "once"
    approver: str | None = None
    rule: str = ""


Approver = Callable[[ApprovalRequest], Awaitable["bool | Decision | None"]]
"""Asks a person. None means that it cannot ask here. If it has a method `tell(text)`, that shows where a rule was
stored."""

Remember = Callable[[str], object]
"""`remember(rule)` writes an allow rule into the person's own settings and returns the place, to show to the person."""

_approver: ContextVar[Approver | None] = ContextVar("toolcrib_approver", default=None)


@contextmanager
def use_approver(approver: Approver | None) -> Generator[None]:
    """Use `approver` for approvals within this block, and in tasks started in it."""
    token = _approver.set(approver)
    try:
        yield
    finally:
        _approver.reset(token)


def current_approver() -> Approver | None:
    """Return the approver that was set for this task; None if no approver was set."""
    return _approver.get()


def scopes_of(row: ApprovalRow) -> tuple[Scope, ...]:
    """Return the possible scopes of an approval for a stored request."""
    offered = row["scopes"].split()
    return tuple(scope for scope in SCOPES if scope in offered)


_HOST = "host:"
"""Begins a host among the stored scopes."""


def hosts_of(row: ApprovalRow) -> tuple[str, ...]:
    """Return the hosts that an approval of a stored request opens."""
    return tuple(each.removeprefix(_HOST) for each in row["scopes"].split() if each.startswith(_HOST))


def stored_scopes(scopes: Sequence[Scope], hosts: Sequence[str]) -> str:
    """Return how far a yes may reach, as the record has it."""
    return " ".join((*scopes, *(f"{_HOST}{each}" for each in hosts)))


FETCHES = "every command that only fetches from"


def host_rule(tool: str, hosts: Sequence[str]) -> str:
    """Return the rule that lets commands fetch from these hosts, and opens them to commands that other rules allow."""
    return f"{tool}(domain:{' '.join(hosts)})"


def rules_of(tool: str, rule: str, hosts: Sequence[str]) -> tuple[str, ...]:
    """Return the rules that "always" writes: one that allows the call, and one that opens its hosts."""
    opening = host_rule(tool, hosts)
    return (rule, opening) if hosts and rule != opening else (rule,)


def covers(tool: str, category: str, rule: str) -> str:
    """Return what a session approval covers: the same command, or every call of the tool. "" if it covers nothing."""
    return rule if category == ToolCategory.SHELL else tool


def about_rule(
    tool: str, category: str, rule: str | None, asked_by: str | None, scopes: Sequence[str], hosts: Sequence[str] = ()
) -> tuple[str, ...]:
    """Return the lines of a question about the hosts that a yes opens, about the rule that would allow a call, and
    about the reach of a session approval."""
    lines: list[str] = [f"a yes opens: {', '.join(hosts)}, to this command alone"] if hosts else []
    if rule and asked_by is None:
        allows, *opens = rules_of(tool, rule, hosts)
        lines.append(f"a rule that would allow it: {allows}")
        lines += (f"and a rule that opens the host: {each}" for each in opens)
    reach = covers(tool, category, rule or "")
    fetches = bool(hosts) and rule == host_rule(tool, hosts)
    if "session" in scopes and reach and (fetches or not (lines and reach == rule)):
        what = reach if category == ToolCategory.SHELL else f"every {reach} call for this reason"
        what = f"{FETCHES} {', '.join(hosts)}" if fetches else what
        lines.append(f"a yes for this session covers: {what}")
    return tuple(lines)


# --- applying an answer


REPEATED = "it runs once: now if its caller still waits, else when exactly this call is repeated"


@dataclass(frozen=True, slots=True)
class Answered:
    """The result of an answer. `kept`: it was accepted. `text` says so, or why not, in a sentence for the person."""

    kept: bool
    text: str
    row: ApprovalRow | None = None
    note: str = ""
    """Where a rule was written, or why it was not written."""


def answer(
    store: Approvals, request_id: str, decision: Decision, remember: Remember | None = None, then: str = REPEATED
) -> Answered:
    """Answer a pending request, and write its rule if the answer is "always". Blocks: it writes to disk.

    An answer that asks for more than the request offers changes nothing: the result says why, and the person may answer
    again. An approval that was not used yet can be taken back by a denial. `then` says what follows a yes.
    """
    row = store.get(request_id)
    if row is None:
        return Answered(False, f"there is no approval request {request_id}")
    taken_back = row["state"] == "approved" and not decision.approve
    if row["state"] != "pending" and not taken_back:
        return Answered(False, f"{request_id} is {row['state']}{_by(row)}; nothing was changed", row)
    wrong = _overreaches(decision, row, remember)
    if wrong:
        return Answered(False, f"{request_id}: {wrong}; nothing was changed", row)
    job = store.waiting_job(request_id)
    kept = store.resolve(
        request_id, decision.approve, approver=decision.approver, reason=decision.reason,
        arguments=decision.arguments if decision.approve else None,
        scope=decision.scope if decision.approve else "once",
    )  # fmt: skip
    if not kept:  # another process answered first
        row = store.get(request_id) or row
        return Answered(False, f"{request_id} is {row['state']}{_by(row)}; nothing was changed", row)
    if not decision.approve:
        return Answered(True, f"Denied {row['tool']} ({request_id}).", row)
    note = ""
    if decision.scope == "rule" and remember is not None:
        lines = rules_of(row["tool"], decision.rule or row["rule"] or "", hosts_of(row))
        note = " ".join(_written(remember, line) for line in lines)
    then = then if job is None else f"the job {job} goes on"
    text = f"Approved {row['tool']} ({request_id}): {then}."
    return Answered(True, f"{text} {note}".rstrip(), row, note)


def denial(tool: str, reason: str, **meta: Any) -> ToolOutput:
    """Return the output of a call that a person denied: the model reads other words than the person."""
    text = f"Tool {tool!r} was denied by user approval{f': {reason}' if reason else '.'}"
    said = f"{tool} was not run: {reason or 'the answer was no.'}"
    return ToolOutput.error(text, "denied", for_user=said, meta=meta)


def within(decision: Decision, scopes: tuple[Scope, ...], wider: str = "") -> Decision:
    """Return the decision, limited to the scopes and rules that were offered: see `Decision.scope`."""
    if decision.rule != wider:
        decision = replace(decision, rule="")
    reaches = decision.scope == "once" or (
        decision.scope in scopes and not (decision.scope == "rule" and decision.arguments is not None)
    )
    return decision if reaches else replace(decision, scope="once")


def _overreaches(decision: Decision, row: ApprovalRow, remember: Remember | None) -> str:
    if decision.approve and decision.arguments is not None and _keeps_mask(decision.arguments, row):
        return "a mask is in the arguments in place of a secret; write the secret there, or approve the call as it is"
    if not decision.approve or decision.scope == "once":
        return ""
    if decision.scope not in scopes_of(row):
        if row["asked_by"] is not None:
            return f"{row['asked_by']} asks whatever rules allow, so a yes holds once"
        return f"this request takes no answer for {'always' if decision.scope == 'rule' else 'the session'}"
    if decision.scope == "rule" and decision.arguments is not None:
        return "the rule was shown for the call as it was asked; approve other arguments once"
    if decision.scope == "rule" and remember is None:
        return "rules cannot be written from here"
    return ""


def _keeps_mask(arguments: Mapping[str, Any], row: ApprovalRow) -> bool:
    """Return whether a person edited the masked arguments that are stored, and left a mask: the call would use it."""
    stored = row["arguments"]
    if sha256(f"{row['tool']}\0{stored}".encode()).hexdigest() == row["digest"]:  # nothing is masked there
        return False
    edited = json.dumps(dict(arguments))
    return any(mark in stored and mark in edited for mark in ("***", "[secret:"))


def _written(remember: Remember, rule: str) -> str:
    try:
        where = remember(rule)
    except Exception as error:
        log.exception("the rule %s could not be written", rule)
        return f"The rule was not written ({error}); it was approved this once."
    return f"Wrote the rule `{rule}` to {where}." if where is not None else f"Stored the rule `{rule}`."


def _by(row: ApprovalRow) -> str:
    if not row["approver"]:
        return f" ({row['answer']})" if row["answer"] else ""
    return f" by {row['approver']}"
