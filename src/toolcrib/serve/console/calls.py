"""Calls of the record: a list with filters, one call in full, and what an undo would restore."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, closing, suppress
from typing import Any

from ...builtin.diffs import bounded_diff
from ...core.dataclass import dataclass
from ...core.errors import ToolcribError, ToolError
from ...core.text import clip
from ...record.audit import Audit
from ...record.change import HASH_LIMIT, Change
from ...record.connection import Where
from ...record.filters import KNOWN, read_filters
from ...record.journal import Journal
from ...record.rows import TRACEBACK, ApprovalRow, CallRow
from ...record.undoing import UndoConflict, foresee, undo
from .acts import note_act
from .html import Child, Markup, el
from .page import Frame, arguments_of, choice, clock, exact, facts, form, link, one_line, page

OpenJournal = Callable[[], AbstractContextManager[Journal]]

PER_PAGE = 50
RUNNING_ROWS = 5_000
"""Calls that run now are looked for in the latest rows."""
TEXTS = {"text": "Arguments contain", "tool": "Tool, such as mcp__github__*", "session": "Session",
         "channel": "Channel", "since": "Since, such as 2h", "until": "Until"}  # fmt: skip
_ACTS = {"created": "remove", "changed": "restore", "deleted": "bring back", "ran": "take back what this did:"}


@dataclass(frozen=True, slots=True)
class CallList:
    """A page of calls, the newest first; those that run or were cut off; and the filters."""

    rows: list[CallRow]
    running: list[CallRow]
    given: Mapping[str, str]


def read_calls(record: Where, given: Mapping[str, str]) -> CallList:
    """Read a page of calls. Raises ConfigError for a filter that cannot be."""
    filters = {name: value.strip() for name, value in given.items() if name in (*TEXTS, *KNOWN) and value.strip()}
    wanted = read_filters(filters)
    before: tuple[float, int] | None = None
    with suppress(ValueError):
        time, _, seq = given.get("before", "").partition(",")
        before = float(time), int(seq)
    with closing(Audit(record)) as audit:
        rows = audit.page(before, PER_PAGE, **wanted)
        running: list[CallRow] = []
        if before is None and not wanted:
            for end in audit.heads():
                since = max(end.seq - RUNNING_ROWS, 0)
                running += audit.query(after=since, upto=end.seq, kind="intent", unfinished=True)
    return CallList(rows, running, filters)


def calls_page(calls: CallList, frame: Frame) -> str:
    """Return the list."""
    fields: list[Child] = [
        el("label", label, el("input", name=name, value=calls.given.get(name, ""), autocomplete="off"))
        for name, label in TEXTS.items()
    ]
    fields += [choice(name, ("", *known), calls.given.get(name, "")) for name, known in KNOWN.items()]
    older = None
    if len(calls.rows) == PER_PAGE:
        last = calls.rows[-1]
        older = link("Older calls", "calls", {**calls.given, "before": f"{last['time']!r},{last['seq']}"})
    none = el("li", "No call is like that." if calls.given else "No calls are recorded in this workspace yet.")
    return page(
        frame,
        "Calls",
        el("form", el("div", *fields, class_="fields"), el("button", "Search"), method="get", action="calls",
           role="search"),
        el("ul", [_line(row) for row in calls.running], id="running", class_="rows", data_live=True,
           aria_label="Calls that run or were cut off"),
        el("ul", [_line(row) for row in calls.rows] or none, id="calls", class_="rows", data_live=True,
           aria_label="Calls that ended"),
        el("p", older),
    )  # fmt: skip


def _line(row: CallRow) -> Markup:
    ended = row["kind"] != "intent"
    outcome = (row["outcome"] if ended else "runs, or was cut off") or row["kind"]
    took = f"{(row['duration'] or 0) * 1000:.0f} ms" if ended else ""
    error = (row["error"] or "").partition(TRACEBACK)[0]
    return el(
        "li",
        link(el("bdi", row["tool"] or row["kind"]), "call", {"id": row["call_id"]}, item=True),
        " ", clock(row["time"]), " ", el("strong", outcome, class_=None if outcome == "ok" else "bad"), f" {took} ",
        el("code", one_line(clip(row["arguments"] or "", 160))),
        el("span", " ", one_line(clip(error, 200)), class_="bad") if error else None,
        id=f"row-{row['seq']}",
    )  # fmt: skip


# --- one call


@dataclass(frozen=True, slots=True)
class OneCall:
    """All rows of a call, the request that it made or used, and what an undo would do: lines, each with a diff, and
    what stands in its way."""

    rows: list[CallRow]
    request: ApprovalRow | None
    lines: list[tuple[str, str]]
    conflicts: list[str]


def read_call(record: Where, open_journal: OpenJournal, call_id: str) -> OneCall:
    """Read one call. Raises ToolError if there is none."""
    with closing(Audit(record)) as audit:
        rows = audit.call(call_id)
        request = next(filter(None, map(audit.approval, rows)), None)
    if not rows:
        raise ToolError(f"the record of this workspace has no call {call_id}")
    lines: list[tuple[str, str]] = []
    conflicts: list[str] = []
    with open_journal() as journal, suppress(ToolcribError):  # it changed nothing, or is undone
        if journal.knows(call_id):
            changes, conflicts = foresee(journal, call_id)
            lines = [(f"{_ACTS[each.action]} {_what(each)}", _difference(journal, each)) for each in changes]
    return OneCall(rows, request, lines, conflicts)


def undo_call(record: Where, open_journal: OpenJournal, call_id: str, person: str) -> str:
    """Take back what a call changed, and return a sentence for the person."""
    try:
        note_act(record, person, "undo", call_id)
        with open_journal() as journal:
            done = undo(journal, call_id)
    except UndoConflict as error:
        return (
            f"Nothing was undone: {'; '.join(error.conflicts)}. At a terminal, `toolcrib undo --force` does it anyway."
        )
    except ToolcribError as error:
        return f"Nothing was undone: {error}."
    return f"Undone: {'; '.join(done.lines)}. `toolcrib undo {done.undo_id}` brings it back."


def call_page(call: OneCall, frame: Frame) -> str:
    """Return the page of one call."""
    row = call.rows[-1]
    request = call.request
    arguments = next((each["arguments"] for each in reversed(call.rows) if each["arguments"]), "")
    return page(
        frame,
        f"{row['tool'] or row['kind']} {row['call_id']}",
        [_facts(each) for each in call.rows],
        el("h2", "Arguments"),
        exact(arguments_of(arguments), diff=False),
        [el("h2", "Error"), exact(row["error"], diff=False)] if row["error"] else None,
        _request(request) if request is not None else None,
        _undo(call, frame, row["call_id"]) if call.lines else None,
    )  # fmt: skip


def _facts(row: CallRow) -> Markup:
    if row["kind"] == "intent":
        return facts({"about to run": clock(row["time"]), "row": f"{row['seq']}:{row['hash']}"})
    return facts({
        "when": clock(row["time"]),
        "outcome": el("strong", row["outcome"], class_=None if row["outcome"] == "ok" else "bad"),
        "category": row["category"],
        "verdict": row["verdict"],
        "rule": row["rule"],
        "approver": row["approver"],
        "session": row["session_id"] and link(row["session_id"], "calls", {"session": row["session_id"]}),
        "channel": row["channel"],
        "labels": row["labels"],
        "took": f"{(row['duration'] or 0) * 1000:.1f} ms",
        "output": f"{row['size'] or 0:,} characters",
        "row": f"{row['seq']}:{row['hash']}",
    })  # fmt: skip


def _request(request: ApprovalRow) -> list[Child]:
    by = f" by {request['approver']}" if request["approver"] else ""
    return [
        el("h2", "Approval"),
        el("p", f"{request['id']}: {request['state']}{by}"),
        facts({"why it asked": request["reason"], "answer": request["answer"]}),
        exact(request["preview"]),
    ]


def _undo(call: OneCall, frame: Frame, call_id: str) -> list[Child]:
    shown: list[Child] = [el("h2", "Undo"), el("p", "An undo would:")]
    for line, diff in call.lines:
        shown += [el("p", el("bdi", one_line(line))), exact(diff) if diff else None]
    if call.conflicts:
        return [*shown, el("p", "It is not possible here: ", "; ".join(call.conflicts), class_="bad")]
    return [*shown, form(frame, "undo", el("button", "Undo this call", class_="no"), id=call_id)]


def _what(change: Change) -> str:
    return (change.reason or "") if change.of_command else change.path


def _difference(journal: Journal, change: Change) -> str:
    """Return what an undo would change in a file, as a diff; "" where that cannot be shown."""
    if change.of_command or "dir" in (change.before_kind, change.after_kind):
        return ""

    def read(fd: Any) -> str:
        with open(fd, "rb") as file:
            found = file.read(HASH_LIMIT + 1)
        if len(found) > HASH_LIMIT or b"\0" in found:
            raise ToolError("too long, or no text")
        return found.decode("utf-8", "replace")

    shown = journal.ws.relative(os.path.join(change.root, change.path))
    try:
        before = read(journal.images.path(change)) if change.before_kind == "file" else None
        now = read(journal.ws.open_read(shown)) if change.after_kind == "file" else None
    except (ToolcribError, OSError):
        return ""
    return bounded_diff(now, before, shown)
