"""The inbox: every call that waits for a person, in all sessions and workspaces, and the latest answers."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import cast

from ...config.remembered import remember
from ...core.dataclass import dataclass
from ...core.errors import ConfigError, ToolcribError
from ...policy.requests import Decision, about_rule, answer, hosts_of, scopes_of
from ...record.approvals import Approvals, find_request
from ...record.connection import Where, shown
from ...record.rows import ApprovalRow
from .html import Child, Markup, el
from .page import Frame, arguments_of, clock, exact, facts, form, link, page, sure

MAX_SHOWN = 100
"""How many waiting calls a page has; the oldest first."""
ANSWERS = 20


@dataclass(frozen=True, slots=True)
class WaitingCalls:
    """What waits and what was answered, and the records that could not be read."""

    waiting: list[ApprovalRow]
    answered: list[ApprovalRow]
    faults: list[str]


def read_inbox(records: Iterable[Where], *, answered_too: bool = True) -> WaitingCalls:
    """Read all records, what was answered only if wanted."""
    waiting: list[ApprovalRow] = []
    answered: list[ApprovalRow] = []
    faults: list[str] = []
    for record in dict.fromkeys(records):
        try:
            with contextlib.closing(Approvals(record)) as approvals:
                waiting += approvals.pending()
                if answered_too:
                    answered += [row for row in approvals.recent() if row["state"] != "pending"]
        except ToolcribError as error:
            faults.append(f"{shown(record)}: {error}")
    waiting.sort(key=lambda row: (row["created"], row["id"]))
    answered.sort(key=lambda row: (row["created"], row["id"]), reverse=True)
    return WaitingCalls(waiting, answered[:ANSWERS], faults)


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
            raise ConfigError(f"the arguments are no JSON: {error}") from None
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
            [_waiting(row, frame) for row in inbox.waiting[:MAX_SHOWN]] or el("p", "No call waits for an answer."),
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


def _waiting(row: ApprovalRow, frame: Frame) -> Markup:
    ident = row["id"]
    about = about_rule(row["tool"], row["category"], row["rule"], row["asked_by"], scopes_of(row), hosts_of(row))
    session = "session" in scopes_of(row)
    return el(
        "article",
        el("h2", el("bdi", row["tool"]), " wants to run ", el("small", row["category"]), id=f"{ident}-name"),
        exact(row["preview"]),
        el("p", el("strong", "why it asks: "), row["reason"], class_="why"),
        [el("p", line, class_="about") for line in about],
        el("p", link("What this rule would do to the calls of the record", "rules", {"rule": row["rule"]}))
        if row["rule"] and row["asked_by"] is None else None,
        facts({
            "who asks": who_asks(row),
            "session": row["session_id"],
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
