"""Calls of the record: a list with filters, one call in full, and what an undo would restore."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, closing, suppress
from pathlib import Path

from ...builtin.diffs import bounded_diff
from ...core.call import inner_id
from ...core.dataclass import dataclass
from ...core.errors import ConfigError, ToolcribError, UnknownName
from ...core.finish import HINT, HINT_TEXT
from ...core.json_values import as_object
from ...core.text import clip
from ...record.audit import Audit
from ...record.audit_reader import plain_data, plain_row
from ...record.change import HASH_LIMIT, Change
from ...record.connection import Where
from ...record.filters import KNOWN, read_filters
from ...record.journal import Journal
from ...record.rows import TRACEBACK, ApprovalRow, CallRow
from ...record.spill import spilled
from ...record.state import StateFolder
from ...record.undoing import UndoConflict, foresee, undo
from .acts import SentForm
from .html import Child, Markup, el
from .page import VIEWS, Frame, arguments_of, choice, clock, exact, facts, form, link, live, number_of, one_line, page
from .rules import Build

OpenJournal = Callable[[], AbstractContextManager[Journal]]

PER_PAGE = 50
PART = 1 << 16
"""Bytes of a long output that are shown at once."""
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
    fault: str = ""


def read_calls(record: Where, given: Mapping[str, str]) -> CallList:
    """Read a page of calls."""
    filters = _filters(given)
    try:
        wanted = read_filters(filters)
    except ConfigError as error:
        return CallList([], [], filters, str(error))
    before: tuple[float, int] | None = None
    with suppress(ValueError):
        time, _, seq = given.get("before", "").partition(",")
        before = float(time), number_of(seq, 1 << 62)
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
    none = el(
        "li", calls.fault or "No call is like that." if calls.given else "No calls are recorded in this workspace yet."
    )
    return page(
        frame,
        "Calls",
        el("form", el("div", *fields, class_="fields"), el("button", "Search"), method="get", action="calls",
           role="search"),
        el("ul", [_line(row) for row in calls.running], id="running", class_="rows", data_live=True,
           aria_label="Calls that run or were cut off"),
        el("ul", [_line(row) for row in calls.rows] or none, id="calls", class_="rows", data_live=True,
           aria_label="Calls that ended"),
        el("p", older, " ", link("Export these calls", "export", calls.given)),
    )  # fmt: skip


def export_calls(record: Where, given: Mapping[str, str]) -> Iterator[str]:
    """Yield the calls that meet the filters of the list, oldest first, each as a line of JSON. Raises ConfigError for a
    filter that cannot be."""
    wanted = read_filters(_filters(given))

    def lines() -> Iterator[str]:
        with closing(Audit(record)) as audit:
            for row in audit.rows(kind=None, once=True, **wanted):
                yield json.dumps(plain_row(row), ensure_ascii=False) + "\n"

    return lines()


def _filters(given: Mapping[str, str]) -> dict[str, str]:
    return {name: value.strip() for name, value in given.items() if name in (*TEXTS, *KNOWN) and value.strip()}


def _line(row: CallRow) -> Markup:
    ended = row["kind"] != "intent"
    outcome = (row["outcome"] if ended else "runs, or was cut off") or row["kind"]
    bad = ended and outcome not in ("ok", "pending")
    took = f"{(row['duration'] or 0) * 1000:.0f} ms" if ended else ""
    error = (row["error"] or "").partition(TRACEBACK)[0].replace(HINT_TEXT, "").rstrip()
    return el(
        "li",
        link(el("bdi", row["tool"] or row["kind"]), "call", {"id": row["call_id"]}, item=True),
        " ", clock(row["time"]), " ", el("strong", outcome, class_="bad" if bad else None), f" {took} ",
        el("code", one_line(clip(row["arguments"] or "", 160))),
        el("span", " ", one_line(clip(error, 200)), class_="bad" if bad else None) if error else None,
        id=f"row-{row['seq']}",
    )  # fmt: skip


# --- one call


@dataclass(frozen=True, slots=True)
class OneCall:
    """All rows of a call, the request that it made or used, and what an undo would do: lines, each with a diff, and
    what stands in its way. `inner` are the latest calls of its script, `files` those with its whole output. `part` is
    the part of one of these that is read now, and `judged` what would decide about the call now."""

    rows: list[CallRow]
    request: ApprovalRow | None
    lines: list[tuple[str, str]]
    conflicts: list[str]
    inner: Sequence[CallRow] = ()
    files: Sequence[Path] = ()
    part: FilePart | None = None
    judged: Sequence[str] | None = None


@dataclass(frozen=True, slots=True)
class FilePart:
    """A part of a file: the file's number, where the part begins, its text, and the size of the file in bytes."""

    file: int
    at: int
    text: str
    size: int


def read_call(state: StateFolder, build: Build, open_journal: OpenJournal, given: Mapping[str, str]) -> OneCall:
    """Read one call. Raises ToolError if there is none."""
    call_id = given.get("id", "")
    with closing(Audit(state.record)) as audit:
        rows = audit.call(call_id)
        request = next(filter(None, map(audit.approval, rows)), None)
        inner = audit.query(call_id=inner_id(call_id, "*"), limit=PER_PAGE) if "*" not in call_id else []
    if not rows:
        raise UnknownName(f"the record of this workspace has no call {call_id}")
    lines: list[tuple[str, str]] = []
    conflicts: list[str] = []
    with open_journal() as journal, suppress(ToolcribError):  # it changed nothing, or is undone
        if journal.knows(call_id):
            changes, conflicts = foresee(journal, call_id)
            lines = [(f"{_ACTS[each.action]} {_what(each)}", _difference(journal, each)) for each in changes]
    files = spilled(state.spill, call_id)
    judged = _judged(build, rows) if given.get("judge") else None
    return OneCall(rows, request, lines, conflicts, inner, files, _part(files, given), judged)


def _part(files: Sequence[Path], given: Mapping[str, str]) -> FilePart | None:
    """Read the part of a file that is wanted; None if none is."""
    number = number_of(given.get("file"), len(files))
    if number == len(files) or not given.get("at", "0").isdecimal():
        return None
    with open(os.open(files[number], os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC), "rb") as file:
        size = os.fstat(file.fileno()).st_size
        start = number_of(given.get("at", "0"), size) // PART * PART
        file.seek(start)
        return FilePart(number, start, file.read(PART).decode("utf-8", "replace"), size)


def _judged(build: Build, rows: Sequence[CallRow]) -> list[str]:
    """Return the steps that would decide about a call now: each part of a command, the rules that apply, and the
    verdict. Names of hosts are not looked up."""
    row, arguments = rows[-1], _arguments(rows)
    with build() as box:
        tool = box.registry.find(row["tool"])
        if tool is None:
            return ["the tool does not exist any more"]
        checker = box.checker()
        try:
            bound = json.loads(tool.bind(json.loads(arguments))[1])
            steps = [f"{part}: {each.verdict}, {each.reason}" for part, each in checker.parts(tool.name, bound)]
            steps += [
                f"the rule {rule.verdict} {rule.shown} ({rule.source.where or rule.source.layer}) "
                f"{'matches' if sure else 'may match'}"
                for rule, sure in box.rules.speaking(tool, bound, box.context)
            ]
            found = checker.check_now(tool.name, bound)
        except (ValueError, ToolcribError) as error:
            return [f"it cannot be judged from the record: {error}"]
        verdict = "a host name has to be looked up first" if found is None else f"{found.verdict}: {found.reason}"
        return [*steps, f"the verdict: {verdict}"]


def has_read(record: Where, session: str | None) -> Child:
    """Return the labels of what a session has read, each with the call that brought it first."""
    found: list[Child] = []
    with closing(Audit(record)) as audit:
        for label in ("untrusted", "private"):
            for row in audit.query(session_id=session, label=label, after=0, limit=1) if session else ():
                found += [f"{label}, first by ", link(el("bdi", row["tool"]), "call", {"id": row["call_id"]}), " at ",
                          clock(row["time"]), " "]  # fmt: skip
    return found or "nothing untrusted or private, as far as the record knows"


def _arguments(rows: Sequence[CallRow]) -> str:
    return next((each["arguments"] for each in reversed(rows) if each["arguments"]), "")


def undo_call(sent: SentForm, open_journal: OpenJournal) -> str:
    """Take back what a call changed, and return a sentence for the person. Raises ToolcribError."""
    sent.note("undo", sent.get("id"))
    try:
        with open_journal() as journal:
            done = undo(journal, sent.get("id"))
    except UndoConflict as error:
        return (
            f"Nothing was undone: {'; '.join(error.conflicts)}. At a terminal, `toolcrib undo --force` does it anyway."
        )
    return f"Undone: {'; '.join(done.lines)}. `toolcrib undo {done.undo_id}` brings it back."


def call_page(call: OneCall, frame: Frame) -> str:
    """Return the page of one call."""
    row = call.rows[-1]
    ident, request = row["call_id"], call.request
    parts: dict[str, Child] = {
        "rows": [_facts(each) for each in call.rows],
        "arguments": [el("h2", "Arguments"), exact(arguments_of(_arguments(call.rows)), diff=False)],
        "error": [el("h2", "Error"), exact(row["error"].replace(HINT, ""), diff=False)] if row["error"] else None,
        "output": _files(call, ident) if call.files else None,
        "judged": _steps(call.judged, ident),
        "request": _request(request) if request is not None else None,
        "inner": [el("h2", "Calls of its script"), el("ul", [_line(each) for each in call.inner], class_="rows")]
        if call.inner else None,
        "undo": _undo(call, frame, ident) if call.lines else None,
    }  # fmt: skip
    versions = {"rows": len(call.rows), "request": request and request["state"], "inner": len(call.inner),
                "undo": "; ".join(call.conflicts), "output": len(call.files)}  # fmt: skip
    return page(
        frame,
        f"{row['tool'] or row['kind']} {ident}",
        live(
            "call",
            [el("div", part, id=f"call-{name}", data_version=versions.get(name)) for name, part in parts.items()
             if part],
            name="This call",
        ),
    )  # fmt: skip


def _files(call: OneCall, ident: str) -> list[Child]:
    """Return links to the parts of the whole output, and the part that is read."""
    shown: list[Child] = [el("h2", "Whole output")]
    for number, file in enumerate(call.files):
        shown.append(el("p", link(el("bdi", file.name), "call", {"id": ident, "file": str(number)})))
    if (part := call.part) is not None:
        end = min(part.at + PART, part.size)
        around = {"earlier": part.at - PART, "later": part.at + PART}
        links = [
            [link(f"The {name} part", "call", {"id": ident, "file": str(part.file), "at": str(at)}), " "]
            for name, at in around.items()
            if 0 <= at < part.size
        ]
        shown += [
            el("p", f"{call.files[part.file].name}: bytes {part.at:,} to {end:,} of {part.size:,}. ", links),
            exact(part.text, diff=False),
        ]
    return shown


def _steps(judged: Sequence[str] | None, ident: str) -> Child:
    if judged is None:
        return el("p", link("How it would be judged now, step by step", "call", {"id": ident, "judge": "1"}))
    return [
        el("h2", "How it would be judged now"),
        el("p", "By the rules, settings and files of today. What was decided then is above."),
        el("ol", [el("li", one_line(each)) for each in judged]),
    ]


def _facts(row: CallRow) -> Markup:
    if row["kind"] == "intent":
        return facts({"about to run": clock(row["time"]), "row": f"{row['seq']}:{row['hash']}"})
    return facts({
        "when": clock(row["time"]),
        "outcome": el("strong", row["outcome"], class_=None if row["outcome"] == "ok" else "bad"),
        "call of": _outer(row["call_id"]),
        "category": row["category"],
        "verdict": row["verdict"],
        "rule": row["rule"],
        "approver": row["approver"],
        "session": row["session_id"] and [
            link(row["session_id"], "calls", {"session": row["session_id"]}), " ",
            link("transcript", "session", {"id": row["session_id"]}) if _is_agents(row) else None,
        ],
        "channel": row["channel"],
        "labels of its output": ", ".join(map(str, as_object(plain_data(row["labels"])).values())),
        "took": f"{(row['duration'] or 0) * 1000:.1f} ms",
        "output": f"{row['size'] or 0:,} characters",
        "row": f"{row['seq']}:{row['hash']}",
    })  # fmt: skip


def _outer(call_id: str) -> Child:
    """Return the call of the script that made this call; None if no script did."""
    outer = call_id.rpartition("#")[0]
    return link(el("bdi", outer), "call", {"id": outer}) if outer else None


def _is_agents(row: CallRow) -> bool:
    """Return whether the call was made in a session of the agent: these name their calls after themselves."""
    return "sessions" in VIEWS and row["call_id"].startswith(f"{row['session_id']}.")


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
    if change.of_command:
        return ""
    try:
        contents = journal.contents(change, HASH_LIMIT)
    except (ToolcribError, OSError):
        return ""
    if any(each and b"\0" in each for each in contents):
        return ""
    before, now = (None if each is None else each.decode("utf-8", "replace") for each in contents)
    return bounded_diff(now, before, journal.ws.relative(os.path.join(change.root, change.path)))
