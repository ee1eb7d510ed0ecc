"""The inbox: every call that waits for a person, in all sessions and workspaces, and the latest answers."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import field, replace
from functools import partial
from typing import TYPE_CHECKING

from ...config.remembered import remember
from ...core.dataclass import dataclass
from ...core.errors import ConfigError, ToolcribError, UnknownName
from ...policy.requests import Decision, about_rule, answer, hosts_of, scopes_of
from ...record.approvals import Approvals, find_request
from ...record.connection import Where, shown
from ...record.rows import ApprovalRow
from .acts import SentForm
from .calls import has_read
from .html import Child, Markup, el
from .page import Frame, arguments_of, check_sure, clock, exact, facts, folded, form, link, page, read_arguments, sure
from .rules import Build, allowed_by
from .sessions import askers

if TYPE_CHECKING:
    from ...agent.session_rows import SessionRow

PER_PAGE = 50
"""How many waiting calls a page has; the oldest first."""
ANSWERS = 20
LISTED_ARGUMENTS = 10_000
"""How many characters the arguments of a call may have in the list; longer ones are on the page of the call."""
UNKNOWN = "there is no approval request {}; it may have been removed"
CHOSEN, SEVERAL = "chosen:", "several"
"""How the boxes of calls begin their names, and the form that they belong to."""


@dataclass(frozen=True, slots=True)
class WaitingCalls:
    """A page of what waits, what was answered, and the records that could not be read. `later` is how many wait after
    those of the page, and `more` what is known of the only one."""

    waiting: Sequence[ApprovalRow]
    answered: Sequence[ApprovalRow] = ()
    faults: Sequence[str] = ()
    later: int = 0
    first: bool = True
    more: Child = None
    sessions: Mapping[str, Sequence[SessionRow]] = field(default_factory=dict[str, "Sequence[SessionRow]"])
    """The sessions of the agent that ask, by the ids of requests: each with those that began it, the nearest first."""
    here: frozenset[str] = frozenset()
    """The requests in the record of this workspace."""


def count_waiting(records: Iterable[Where]) -> int:
    """Return how many calls wait."""
    found = 0
    for record in dict.fromkeys(records):
        with contextlib.suppress(ToolcribError), contextlib.closing(Approvals(record)) as approvals:
            found += approvals.count_pending()
    return found


def _pending(records: Iterable[Where], faults: list[str]) -> list[tuple[ApprovalRow, Where]]:
    """Return what waits, the oldest first, each with its record."""
    found: list[tuple[ApprovalRow, Where]] = []
    for record in dict.fromkeys(records):
        try:
            with contextlib.closing(Approvals(record)) as approvals:
                found += [(row, record) for row in approvals.pending()]
        except ToolcribError as error:
            faults.append(f"{shown(record)}: {error}")
    return sorted(found, key=lambda each: _place(each[0]))


def _place(row: ApprovalRow) -> str:
    """Return where a request is in the list: an older one has a smaller place."""
    return f"{row['created']:020.6f},{row['id']}"


def read_inbox(records: Iterable[Where], here: Where | None = None, after: str = "") -> WaitingCalls:
    """Read a page of what waits in all records, after a place in the list. `here` is the record of this workspace."""
    faults: list[str] = []
    answered: list[ApprovalRow] = []
    every = list(dict.fromkeys(records))
    pending = [each for each in _pending(every, faults) if _place(each[0]) > after]
    for record in every:
        with contextlib.suppress(ToolcribError), contextlib.closing(Approvals(record)) as approvals:
            answered += approvals.recent(ANSWERS, answered=True)
    answered.sort(key=_place, reverse=True)
    found = _with_sessions(pending[:PER_PAGE], here)
    return replace(found, answered=answered[:ANSWERS], faults=faults, later=len(pending[PER_PAGE:]), first=not after)


def _with_sessions(found: Sequence[tuple[ApprovalRow, Where]], here: Where | None) -> WaitingCalls:
    sessions: dict[str, Sequence[SessionRow]] = {}
    for record in dict.fromkeys(record for _, record in found):
        with contextlib.suppress(ToolcribError):  # who began it is not known
            sessions |= askers(record, [row for row, its in found if its == record])
    mine = frozenset(row["id"] for row, record in found if record == here)
    return WaitingCalls([row for row, _ in found], sessions=sessions, here=mine)


def read_request(records: Iterable[Where], here: Where, build: Build, ident: str) -> WaitingCalls:
    """Read one request, with what its rule would have allowed and what its session has read. Raises UnknownName."""
    for record in dict.fromkeys(records):
        with find_request(ident, [record]) as found:
            if found is None:
                continue
            row = found[1]
        if row["state"] != "pending":
            return WaitingCalls((), [row], first=False)
        more: list[Child] = [el("p", "Its session has read: ", has_read(record, row["session_id"]))]
        if record == here and row["rule"] and row["asked_by"] is None:
            with contextlib.suppress(ToolcribError):  # the rule was written by another version
                more.insert(0, allowed_by(build, here, row["rule"], row["call_id"]))
        return replace(_with_sessions([(row, record)], here), first=False, more=el("div", more, data_more=True))
    raise UnknownName(UNKNOWN.format(ident))


def answer_request(sent: SentForm, records: Iterable[Where], continue_with: Callable[[ApprovalRow], str | None]) -> str:
    """Answer a request as a form says, and return a sentence for the person, whom the record names. Blocks. Raises
    ToolcribError."""
    ident, decision = sent.get("id"), _decision(sent)
    with find_request(ident, records) as found:
        if found is None:
            raise UnknownName(UNKNOWN.format(ident))
        approvals, row = found
        workspace = row["workspace"]
        remembering = None if workspace is None else partial(remember, workspace, "allow")
        answered = answer(approvals, ident, decision, remembering)
    if not answered.kept or answered.row is None:
        return f"Not taken: {answered.text}."
    command = continue_with(answered.row)
    return answered.text if command is None else f"{answered.text} The agent goes on with: {command}"


def answer_several(sent: SentForm, records: Iterable[Where], continue_with: Callable[[ApprovalRow], str | None]) -> str:
    """Answer all requests that a form names, each once, and return a sentence for each. Blocks. Raises ConfigError."""
    chosen = [name.removeprefix(CHOSEN) for name in sent.given if name.startswith(CHOSEN)][:PER_PAGE]
    if sent.get("answer") not in ("once", "deny"):
        raise ConfigError("the form names no answer")
    if not chosen:
        raise ConfigError("no call was chosen")
    every, said = list(records), list[str]()
    for ident in chosen:
        try:
            said.append(answer_request(replace(sent, given={**sent.given, "id": ident}), every, continue_with))
        except ToolcribError as error:
            said.append(f"{error}.")
    return "\n".join(said)


def _decision(sent: SentForm) -> Decision:
    """Return what a form says. Raises ConfigError if that is not clear."""
    said, person = sent.get("answer"), sent.person
    if said == "deny":
        return Decision(False, sent.get("reason").strip(), approver=person)
    if said == "once" or said == "session":
        return Decision(True, scope=said, approver=person)
    if said == "edited":
        return Decision(True, arguments=read_arguments(sent.given), approver=person)
    if said == "rule":
        check_sure(sent.given, "to write a rule")
        return Decision(True, scope="rule", approver=person)
    raise ConfigError("the form names no answer")


def inbox_page(inbox: WaitingCalls, frame: Frame) -> str:
    """Return the page."""
    older = None if inbox.first else el("p", link("All that wait, the oldest first", "inbox", {}))
    return page(
        frame,
        "Inbox",
        [el("p", fault, class_="fault", role="alert") for fault in inbox.faults],
        el(
            "section",
            older,
            _several(frame) if len(inbox.waiting) > 1 and frame.form else None,
            [_waiting(row, inbox, frame) for row in inbox.waiting]
            or el("p", "No call waits for an answer." if inbox.first else "Nothing waits here any more."),
            el("p", f"{inbox.later} more wait. ", link("The next ones", "inbox", {"after": _place(inbox.waiting[-1])}))
            if inbox.later else None,
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
    whole = inbox.more is not None or len(row["arguments"]) <= LISTED_ARGUMENTS
    return el(
        "article",
        el("h2", el("bdi", row["tool"]), " wants to run ", el("small", f"({row['category']})"), id=f"{ident}-name"),
        el("label", el("input", type="checkbox", name=f"{CHOSEN}{ident}", form=SEVERAL, data_key="x"), " choose",
           class_="choose") if frame.form else None,
        exact(row["preview"]),
        el("p", el("strong", "why it asks: "), row["reason"], class_="why"),
        [el("p", line, class_="about") for line in about],
        inbox.more or folded(
            "What its rule would have allowed, and what its session has read",
            el("p", link("On a page of its own", "inbox", {"id": ident})), data_from=f"inbox?id={ident}",
        ),
        facts({
            "who asks": who_asks(row),
            **_asking_session(row, inbox),
            "workspace": row["workspace"],
            "what asks": row["asked_by"],
            "asked": clock(row["created"]),
            "ends": clock(row["expires"]),
            "request": ident,
        }),
        folded("All arguments", exact(arguments_of(row["arguments"]), diff=False)) if whole
        else el("p", link("All arguments, and other answers, on a page of its own", "inbox", {"id": ident})),
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
        _more_answers(row, frame, about) if frame.form and whole else None,
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
    state = "approved" if row["state"] == "used" else row["state"]
    scope = " for the session" if row["scope"] == "session" else " with a rule" if row["scope"] == "rule" else ""
    by = f" by {row['approver']}" if row["approver"] else ""
    why = f": {row['answer']}" if row["answer"] else ""
    used = ", and used" if row["state"] == "used" else ""
    return el("li", clock(row["created"]), " ", el("bdi", row["tool"]), f" {row['id']} ",
              el("strong", state, class_=state), f"{scope}{by}{used}{why}")  # fmt: skip


def who_asks(row: ApprovalRow) -> Child:
    """Return the origin of a call: channel, chat, sender, agent, and named token."""
    try:
        origin = json.loads(row["caller"] or "[]")
    except ValueError:
        return row["caller"]
    names = ("channel", "chat", "sender", "agent", "token")
    return ", ".join(f"{name} {each}" for name, each in zip(names, origin, strict=False) if each)
