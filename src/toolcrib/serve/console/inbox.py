"""The inbox: every call that waits for a person, in all sessions and workspaces, and the latest answers."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import field
from functools import partial
from typing import TYPE_CHECKING, cast

from ...config.remembered import remember
from ...core.dataclass import dataclass
from ...core.errors import ConfigError, ToolcribError
from ...policy.requests import Decision, about_rule, answer, hosts_of, scopes_of
from ...record.approvals import Approvals, find_request
from ...record.connection import Where, shown
from ...record.rows import ApprovalRow
from .html import Child, Markup, el
from .page import Frame, arguments_of, clock, exact, facts, form, link, page, sure
from .sessions import askers

if TYPE_CHECKING:
    from ...agent.store import SessionRow

MAX_SHOWN = 100
"""How many waiting calls a page has; the oldest first."""
ANSWERS = 20
CHOSEN, SEVERAL = "chosen:", "several"
"""How the boxes of calls begin their names, and the form that they belong to."""


@dataclass(frozen=True, slots=True)
class WaitingCalls:
    """What waits and what was answered, and the records that could not be read."""

    waiting: list[ApprovalRow]
    answered: list[ApprovalRow]
    faults: list[str]
    sessions: Mapping[str, Sequence[SessionRow]] = field(default_factory=dict[str, "Sequence[SessionRow]"])
    """The sessions of the agent that ask, by the ids of requests: each with those that began it, the nearest first."""
    here: frozenset[str] = frozenset()
    """The requests in the record of this workspace."""


def count_waiting(records: Iterable[Where]) -> int:
    """Return how many calls wait."""
    return len(read_inbox(records, count_only=True).waiting)


def read_inbox(records: Iterable[Where], here: Where | None = None, *, count_only: bool = False) -> WaitingCalls:
    """Read all records. `here` is that of this workspace."""
    waiting: list[ApprovalRow] = []
    answered: list[ApprovalRow] = []
    faults: list[str] = []
    sessions: dict[str, Sequence[SessionRow]] = {}
    mine: frozenset[str] = frozenset()
    for record in dict.fromkeys(records):
        try:
            with contextlib.closing(Approvals(record)) as approvals:
                found = approvals.pending()
                waiting += found
                if not count_only:
                    sessions |= askers(record, found[:MAX_SHOWN])
                    mine = frozenset(row["id"] for row in found) if record == here else mine
                    answered += [row for row in approvals.recent() if row["state"] != "pending"]
        except ToolcribError as error:
            faults.append(f"{shown(record)}: {error}")
    waiting.sort(key=lambda row: (row["created"], row["id"]))
    answered.sort(key=lambda row: (row["created"], row["id"]), reverse=True)
    return WaitingCalls(waiting, answered[:ANSWERS], faults, sessions, mine)


def answer_request(
    given: Mapping[str, str], records: Iterable[Where], continue_with: Callable[[ApprovalRow], str | None], person: str
) -> str:
    """Answer a request as a form says, and return a sentence for the person, whom the record names. Blocks."""
    ident = given.get("id", "")
    try:
        decision = _decision(given, person)
    except ConfigError as error:
        return f"Nothing was answered: {error}."
    with find_request(ident, records) as found:
        if found is None:
            return f"There is no approval request {ident}. It may have been removed."
        approvals, row = found
        workspace = row["workspace"]
        remembering = None if workspace is None else partial(remember, workspace, "allow")
        answered = answer(approvals, ident, decision, remembering)
    if not answered.kept or answered.row is None:
        return f"Not taken: {answered.text}."
    command = continue_with(answered.row)
    return answered.text if command is None else f"{answered.text} The agent goes on with: {command}"


def answer_several(
    given: Mapping[str, str], records: Iterable[Where], continue_with: Callable[[ApprovalRow], str | None], person: str
) -> str:
    """Answer all requests that a form names, each once, and return a sentence for each. Blocks."""
    chosen = [name for name in given if name.startswith(CHOSEN)][:MAX_SHOWN]
    if given.get("answer") not in ("once", "deny"):
        return "Nothing was answered: the form names no answer."
    if not chosen:
        return "Nothing was answered: no call was chosen."
    every = list(records)
    each = {"answer": given["answer"], "reason": given.get("reason", "")}
    return "\n".join(
        answer_request({"id": name.removeprefix(CHOSEN), **each}, every, continue_with, person) for name in chosen
    )


def _decision(given: Mapping[str, str], person: str) -> Decision:
    """Return what a form says. Raises ConfigError if that is not clear."""
    said = given.get("answer")
    if said == "deny":
        return Decision(False, given.get("reason", "").strip(), approver=person)
    if said == "once" or said == "session":
        return Decision(True, scope=said, approver=person)
    if said == "edited":
        try:
            arguments = json.loads(given.get("arguments", ""))
        except ValueError as error:
            raise ConfigError(f"the arguments are not JSON: {error}") from None
        if not isinstance(arguments, dict):
            raise ConfigError("the arguments should be a JSON object, in braces")
        return Decision(True, arguments=cast("dict[str, object]", arguments), approver=person)
    if said == "rule":
        if given.get("sure", "").strip().lower() != "yes":
            raise ConfigError("to write a rule, type yes")
        return Decision(True, scope="rule", approver=person)
    raise ConfigError("the form names no answer")


def inbox_page(inbox: WaitingCalls, frame: Frame) -> str:
    """Return the page."""
    left = len(inbox.waiting) - MAX_SHOWN
    return page(
        frame,
        "Inbox",
        [el("p", fault, class_="fault", role="alert") for fault in inbox.faults],
        el(
            "section",
            _several(frame) if len(inbox.waiting) > 1 and frame.form else None,
            [_waiting(row, inbox, frame) for row in inbox.waiting[:MAX_SHOWN]]
            or el("p", "No call waits for an answer."),
            el("p", f"{left} more wait; these are the oldest.") if left > 0 else None,
            id="waiting", data_live=True, aria_label="Calls that wait",
        ),
        el("h2", "Answered"),
        el(
            "ul",
            [_answered(row) for row in inbox.answered] or el("li", "No call was answered yet."),
            id="answered", data_live=True,
        ),
    )  # fmt: skip


def _several(frame: Frame) -> Markup:
    """Return the form that answers all chosen calls; their boxes are in the calls."""
    return el(
        "form",
        el("input", type="hidden", name="form", value=frame.form),
        el("p", "Chosen calls: "),
        el("button", "Approve each once", name="answer", value="once", class_="yes"),
        el("label", "Reason, for the model ", el("input", name="reason", autocomplete="off")),
        el("button", "Deny each", name="answer", value="deny", class_="no"),
        method="post", action="answers", id=SEVERAL, class_="several",
    )  # fmt: skip


def _waiting(row: ApprovalRow, inbox: WaitingCalls, frame: Frame) -> Markup:
    ident = row["id"]
    about = about_rule(row["tool"], row["category"], row["rule"], row["asked_by"], scopes_of(row), hosts_of(row))
    session = "session" in scopes_of(row)
    return el(
        "article",
        el("h2", el("bdi", row["tool"]), " wants to run ", el("small", f"({row['category']})"), id=f"{ident}-name"),
        el("label", el("input", type="checkbox", name=f"{CHOSEN}{ident}", form=SEVERAL, data_key="x"), " choose",
           class_="choose") if frame.form else None,
        exact(row["preview"]),
        el("p", el("strong", "why it asks: "), row["reason"], class_="why"),
        [el("p", line, class_="about") for line in about],
        el("p", link("What this rule would do to the calls of the record", "rules", {"rule": row["rule"]}))
        if row["rule"] and row["asked_by"] is None else None,
        facts({
            "who asks": who_asks(row),
            **_asking_session(row, inbox),
            "workspace": row["workspace"],
            "what asks": row["asked_by"],
            "asked": clock(row["created"]),
            "ends": clock(row["expires"]),
            "request": ident,
        }),
        el("details", el("summary", "All arguments"), exact(arguments_of(row["arguments"]), diff=False)),
        el(
            "div",
            form(
                frame, "answer",
                el("button", "Approve once", name="answer", value="once", class_="yes", data_key="a"),
                el("button", "Approve for this session", name="answer", value="session") if session else None,
                id=ident,
            ),
            form(
                frame, "answer",
                el("label", "Reason, for the model ", el("input", name="reason", autocomplete="off", data_key="d")),
                el("button", "Deny", name="answer", value="deny", class_="no"),
                id=ident,
            ),
            class_="answers",
        ),
        _more_answers(row, frame, about) if frame.form else None,
        id=ident, tabindex=0, data_item=True, aria_labelledby=f"{ident}-name",
    )  # fmt: skip


def _asking_session(row: ApprovalRow, inbox: WaitingCalls) -> dict[str, Child]:
    """Return the session that asks, and those that began it."""
    found = inbox.sessions.get(row["id"], ())
    if not found:
        return {"session": row["session_id"]}
    shown: list[Child] = [
        link(el("bdi", each.title or each.id), "session", {"id": each.id}) if row["id"] in inbox.here
        else el("bdi", each.title or each.id)
        for each in found
    ]  # fmt: skip
    return {"session": [shown[0], f" ({found[0].id})"], "begun by": [[each, " "] for each in shown[1:]]}


def _more_answers(row: ApprovalRow, frame: Frame, about: Iterable[str]) -> Markup:
    """Return the answers that need more than a press of a button: other arguments, and a rule."""
    writes = [
        form(
            frame, "answer",
            el("p", "Always: writes into your own settings, for this workspace", [[el("br"), each] for each in about]),
            sure(),
            el("button", "Always allow", name="answer", value="rule"),
            id=row["id"],
        )
    ]  # fmt: skip
    return el(
        "details",
        el("summary", "Other answers"),
        form(
            frame, "answer",
            el("label", "Other arguments, as JSON ", el("textarea", arguments_of(row["arguments"]), name="arguments",
               rows=6, cols=60, spellcheck="false")),
            el("button", "Approve once with these arguments", name="answer", value="edited"),
            id=row["id"],
        ),
        writes if "rule" in scopes_of(row) and row["workspace"] else None,
    )  # fmt: skip


def _answered(row: ApprovalRow) -> Markup:
    scope = " for the session" if row["scope"] == "session" else " with a rule" if row["scope"] == "rule" else ""
    by = f" by {row['approver']}" if row["approver"] else ""
    why = f": {row['answer']}" if row["answer"] else ""
    return el("li", clock(row["created"]), " ", el("bdi", row["tool"]), f" {row['id']} ",
              el("strong", row["state"], class_=row["state"]), f"{scope}{by}{why}")  # fmt: skip


def who_asks(row: ApprovalRow) -> Child:
    """Return the origin of a call: channel, chat, sender, agent, and named token."""
    try:
        origin = json.loads(row["caller"] or "[]")
    except ValueError:
        return row["caller"]
    names = ("channel", "chat", "sender", "agent", "token")
    return ", ".join(f"{name} {each}" for name, each in zip(names, origin, strict=False) if each)
