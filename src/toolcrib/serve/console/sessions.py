"""Sessions of the agent: a list, and the transcript of one, in which calls are folded."""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping, Sequence
from contextlib import ExitStack, closing, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ...core.dataclass import dataclass
from ...core.errors import ToolcribError, ToolError, UnknownName
from ...core.text import clip, lazy_regex
from ...core.threads import shared_threads
from ...core.wings import has_wing
from ...policy.preview import fit
from ...record.approvals import Approvals
from ...record.connection import Where
from ...record.rows import ApprovalRow
from ...record.state import StateFolder, state_path
from .acts import SentForm
from .calls import has_read
from .html import Child, Markup, el
from .jobs import OpenJobs, send_by_worker
from .page import (
    MAX_ARGUMENTS,
    Frame,
    arguments_of,
    clock,
    exact,
    facts,
    folded,
    form,
    link,
    live,
    number_of,
    one_line,
    page,
    told,
)  # fmt: skip
from .rules import Build

if TYPE_CHECKING:
    from ...agent.history import CallResult, Entry, ModelCall
    from ...agent.session_rows import SessionRow, Stop
    from ...agent.store import SessionStore
    from ...agent.waiting import Waits

MAX_SESSIONS = 100
TURNS = 100
"""Turns on a page, the latest ones."""
MAX_PARENTS = 20
STOPS: Mapping[str, tuple[Stop, str, str]] = {
    "pause": ("pause", "Pause before the next step", "It pauses before its next step."),
    "resume": ("", "Resume", "It goes on."),
    "cancel": ("cancel", "Cancel this turn", "Its turn ends within seconds. It goes on with the next message."),
}
"""What each act asks of a turn that runs, its button, and what to say then."""
_IDENT = lazy_regex(r"\d{8}-\d{6}-[0-9a-f]{4}")


@dataclass(frozen=True, slots=True)
class ListedSession:
    """A session in the list, and how many subagents it has."""

    row: SessionRow
    state: str
    subagents: int


def read_sessions(state: StateFolder) -> list[ListedSession]:
    """Read the sessions of a workspace, the one used last first."""
    from ...agent.store import SessionStore

    with closing(SessionStore(state)) as store:
        rows = store.list(MAX_SESSIONS, subagents=False)
        return [ListedSession(row, store.state_of(row), len(store.children(row.id))) for row in rows]


def sessions_page(sessions: Sequence[ListedSession], frame: Frame) -> str:
    """Return the list."""
    none = el("p", "There are no sessions in this workspace yet. `toolcrib chat` and `toolcrib run` make some.")
    rows = [_line(each) for each in sessions]
    return page(
        frame, "Sessions",
        live("sessions", el("ul", rows, class_="rows") if rows else none, name="Sessions, the one used last first"),
    )  # fmt: skip


def _line(session: ListedSession) -> Markup:
    row = session.row
    return el(
        "li",
        link(el("bdi", row.title or row.id), "session", {"id": row.id}, item=True), " ", clock(row.updated), " ",
        el("strong", session.state, class_="bad" if session.state == "interrupted" else None),
        f" {row.model} {_used(row)}",
        f" {session.subagents} subagents" if session.subagents else None,
    )  # fmt: skip


def _used(row: SessionRow) -> str:
    cost = "cost not known" if row.cost is None else f"${row.cost:.4f}"
    return f"{row.usage.input + row.usage.output:,} tokens, {cost}"


# --- one session


@dataclass(frozen=True, slots=True)
class OneSession:
    """A session with some of its turns, `first` being the position of the earliest; those that began it, the nearest
    first; its subagents; and what it waits for."""

    row: SessionRow
    state: str
    entries: Sequence[Entry]
    first: int
    parents: Sequence[SessionRow]
    children: Sequence[SessionRow]
    waiting: Sequence[Mapping[str, Any]]
    read: Child = None
    """The labels of what it has read."""


def read_session(state: StateFolder, given: Mapping[str, str]) -> OneSession:
    """Read one session. Raises ToolError if there is none."""
    from ...agent.store import SessionStore
    from ...agent.waiting import waits_of

    with closing(SessionStore(state)) as store:
        row = _found(store, given.get("id", ""))
        entries = store.turns(row.id)
        end = number_of(given.get("before"), len(entries))
        first = max(end - TURNS, 0)
        children = store.children(row.id)
        waits = [{**each, "answer": result and result.text} for each in waits_of(store, row.id)
                 for result in (store.result(each["run_id"]),)]  # fmt: skip
        waits += _asked(state.record, row, children, {each.get("approval") for each in waits})
        return OneSession(
            row, store.state_of(row), entries[first:end], first, parents_of(store, row), children, waits,
            has_read(state.record, row.id),
        )  # fmt: skip


def _asked(record: Where, row: SessionRow, children: Iterable[SessionRow], known: Container[object]) -> list[Waits]:
    """Return the other calls that wait for approval: the turn of a session that runs waits there itself."""
    titles = {row.id: None, **{each.id: each.title for each in children}}
    with closing(Approvals(record)) as approvals:
        return [
            {"kind": "approval", "run_id": asks["call_id"], "tool": asks["tool"], "approval": asks["id"],
             "subagent": titles[asks["session_id"]]}
            for asks in approvals.pending() if asks["session_id"] in titles and asks["id"] not in known
        ]  # fmt: skip


def parents_of(store: SessionStore, row: SessionRow) -> list[SessionRow]:
    """Return the sessions that began this one, the nearest first."""
    from ...agent.session_lock import NoSuchSession

    found: list[SessionRow] = []
    try:
        while row.parent and len(found) < MAX_PARENTS:
            row = store.get(row.parent)
            found.append(row)
    except NoSuchSession:  # it was removed
        pass
    return found


def askers(record: Where, rows: Iterable[ApprovalRow]) -> dict[str, list[SessionRow]]:
    """Return the sessions of the agent that ask, by the ids of the requests: each with those that began it."""
    asking = [row for row in rows if _IDENT.fullmatch(row["session_id"] or "")]
    if not asking or not has_wing("agent"):
        return {}
    from ...agent.store import SessionStore

    found: dict[str, list[SessionRow]] = {}
    stores: dict[str, SessionStore] = {}
    with ExitStack() as closing_all:
        for row in asking:
            where = row["workspace"] or ""
            if where not in stores:
                state = StateFolder(record.parent) if isinstance(record, Path) else StateFolder(
                    state_path(where), record)  # fmt: skip
                stores[where] = closing_all.enter_context(closing(SessionStore(state)))
            with suppress(ToolcribError):  # it is not a session of the agent, or was removed
                session = stores[where].get(row["session_id"] or "")
                found[row["id"]] = [session, *parents_of(stores[where], session)]
    return found


def _found(store: SessionStore, ident: str) -> SessionRow:
    row = store.get(ident) if ident else None
    if row is None or row.id != ident:
        raise UnknownName(f"there is no session {ident!r} in this workspace")
    return row


def session_page(session: OneSession, frame: Frame) -> str:
    """Return the page of one session."""
    row, last = session.row, session.first + len(session.entries)
    earlier = link("Earlier turns", "session", {"id": row.id, "before": str(session.first)}) if session.first else None
    results = _results(session.entries)
    return page(
        frame,
        row.title or row.id,
        live("about", _about(session), _stops(session, frame), name="About this session"),
        live("waits", [_waits(each, frame, row.id) for each in session.waiting], name="What it waits for"),
        el("h2", "Transcript"),
        el("p", earlier),
        live(
            "transcript",
            [_turn(row.id, session.first + at, each, results, frame) for at, each in enumerate(session.entries)]
            or el("p", "Nothing was said yet."),
            name="Transcript",
        ),
        el("h2", "Go on") if frame.form else None,
        _acts(row.id, last, frame),
    )  # fmt: skip


def _about(session: OneSession) -> Markup:
    row, usage = session.row, session.row.usage
    return facts({
        "state": el("strong", session.state, class_="bad" if session.state == "interrupted" else None),
        "session": row.id,
        "model": row.model,
        "cost": _used(row),
        "tokens": f"{usage.input:,} in ({usage.cache_read:,} of them from the cache), {usage.output:,} out",
        "begun": clock(row.created),
        "used": clock(row.updated),
        "begun by": [[link(el("bdi", each.title or each.id), "session", {"id": each.id}), " "] for each in
                     session.parents],
        "subagents": [[link(el("bdi", each.title or each.id), "session", {"id": each.id}), f" {each.state} "]
                      for each in session.children],
        "copy of": row.extra.get("forked_from")
        and link(str(row.extra["forked_from"]), "session", {"id": str(row.extra["forked_from"])}),
        "job": row.extra.get("job") and link(str(row.extra["job"]), "job", {"id": str(row.extra["job"])}),
        "has read": session.read,
        "calls": link("in the record", "calls", {"session": row.id}),
    })  # fmt: skip


def _stops(session: OneSession, frame: Frame) -> Markup:
    """Return what ends or pauses the turn that runs, in whatever process."""
    acts = {"running": ("pause", "cancel"), "paused": ("resume", "cancel")}.get(session.state, ())
    buttons = [el("button", STOPS[act][1], name="act", value=act) for act in acts]
    return form(frame, "session", *buttons, id=session.row.id) if acts else Markup()


def _waits(waits: Mapping[str, Any], frame: Frame, ident: str) -> Markup:
    who = f"The subagent {waits['subagent']}" if waits.get("subagent") else "The session"
    if waits.get("answer") is not None:
        return el("p", f"{who} has an answer: ", el("bdi", one_line(clip(waits["answer"], 200))))
    if waits["kind"] == "approval":
        request = link(str(waits["tool"]), "inbox", {"id": str(waits["approval"])})
        return el("p", f"{who} waits for your answer: ", request)
    run = str(waits["run_id"])
    options = [f"  {number}. {one_line(str(each))}" for number, each in enumerate(waits.get("options") or (), 1)]
    return el(
        "article",
        el("h2", f"{who} asks you"),
        exact("\n".join([str(waits.get("question") or ""), *options]), diff=False),
        form(
            frame, "session",
            el("label", "Your answer ", el("input", name="text", autocomplete="off")),
            el("button", "Answer", name="act", value="answer"),
            id=ident, run=run,
        ),
        id=f"asks-{run}",
    )  # fmt: skip


def _results(entries: Sequence[Entry]) -> dict[str, CallResult]:
    from ...agent.history import ResultTurn

    return {result.call_id: result for each in entries if isinstance(each, ResultTurn) for result in each.results}


def _turn(ident: str, at: int, entry: Entry, results: Mapping[str, CallResult], frame: Frame) -> Child:
    from ...agent.history import Compaction, ModelCall, ModelTurn, ResultTurn, Text

    if isinstance(entry, ResultTurn):  # they are with their calls
        return None
    if isinstance(entry, Compaction):
        before, after = entry.tokens
        return el("p", f"The history was made shorter: {before:,} → {after:,} tokens.", id=f"turn-{at}")
    fork = form(
        frame, "session", el("button", "Fork before this", name="act", value="fork"), id=ident, turn=str(at)
    )  # fmt: skip
    if not isinstance(entry, ModelTurn):
        texts = [told(part.text) if isinstance(part, Text) else el("p", "(an image)")
                 for part in entry.content]  # fmt: skip
        return el("article", el("h3", entry.source), texts, fork, id=f"turn-{at}", class_="said")
    parts: list[Child] = []
    for part in entry.parts:
        if isinstance(part, ModelCall):
            parts.append(_call(f"{ident}.{at}.{part.id}", part, results.get(part.id)))
        elif isinstance(part, Text):
            parts.append(told(part.text))
        elif part.text:
            parts.append(folded("reasoning", told(part.text)))
    answered = sum(call.id in results for call in entry.calls)
    return el("article", el("h3", "agent"), parts, fork, id=f"turn-{at}", data_version=answered)


def _call(run_id: str, call: ModelCall, result: CallResult | None) -> Markup:
    state = el("strong", "runs, waits, or was cut off") if result is None else None
    if result is not None and result.is_error:
        state = el("strong", "failed", class_="bad")
    return folded(
        [el("bdi", call.name), " ", el("code", one_line(clip(call.arguments, 120))), " ", state],
        exact(arguments_of(call.arguments), diff=False),
        None if result is None else exact(fit(result.text, MAX_ARGUMENTS), diff=False),
        el("p", link("This call in the record", "call", {"id": run_id})),
    )


def _acts(ident: str, turns: int, frame: Frame) -> list[Child]:
    return [
        form(
            frame, "session",
            el("label", "Message ", el("textarea", name="text", rows=3, cols=60, data_once=True)),
            el("button", "Send", name="act", value="send"),
            el("button", "Send, and let a worker go on", name="act", value="work"),
            id=ident,
        ),
        form(frame, "session", el("button", "Fork with all turns", name="act", value="fork"), id=ident,
             turn=str(turns)),
    ]  # fmt: skip


async def act_on_session(sent: SentForm, state: StateFolder, jobs: OpenJobs, engine: str, build: Build) -> str:
    """Do what a form says, and return a sentence for the person. Raises ToolcribError."""
    if sent.get("act") == "work":
        return await send_by_worker(sent, jobs, engine, build)
    return await shared_threads.run(_act, sent, state)


def _act(sent: SentForm, state: StateFolder) -> str:
    from ...agent.session import AgentSession
    from ...agent.store import SessionStore

    ident, act, text = sent.get("id"), sent.get("act"), sent.get("text").strip()
    with closing(SessionStore(state)) as store:
        row = _found(store, ident)
        if act == "fork":
            sent.note("fork", ident)
            turns = len(store.turns(row.id))
            copy = store.fork(row.id, number_of(sent.given.get("turn"), turns))
            return f"Forked as {copy.id}. It goes on with: toolcrib run --session {copy.id} '…'"
        session = AgentSession(store, row)
        if act in STOPS:
            sent.note(act, ident)
            stop, _, said = STOPS[act]
            return said if session.ask_to_stop(stop, sent.person) else f"No turn of {ident} runs; nothing was changed."
        if not text:
            raise ToolError("there is no text to send")
        if act == "answer":
            sent.note("answer", f"{ident}: {text}")
            try:
                session.answer_question(sent.get("run"), text)
            except KeyError:
                raise ToolError(f"{ident} does not wait for this answer any more") from None
            return f"Answered. Where nothing waits for it, it goes on with: toolcrib run --session {ident}"
        if act == "send":
            sent.note("send", f"{ident}: {text}")
            runs = session.steer(text)
            return "Sent." if runs else f"No turn runs. It waits for the next one: toolcrib run --session {ident}"
    raise ToolError("the form names no act")
