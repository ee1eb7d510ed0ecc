"""`toolcrib log`: show the calls, their outcomes, and why each was allowed."""

from __future__ import annotations

import dataclasses
import json
import re
import sys
from collections.abc import Sequence
from contextlib import closing, nullcontext, suppress
from datetime import datetime
from typing import Annotated, Any

from ..boundary.own_files import private
from ..core.dataclass import dataclass
from ..core.finish import HINT, HINT_TEXT
from ..core.json_values import as_object
from ..core.text import clip, lazy_regex
from ..policy.plain import plain, plain_line
from ..record import chain
from ..record.audit import Audit
from ..record.audit_reader import plain_data, plain_row
from ..record.connection import naming, shown
from ..record.database import connect
from ..record.filters import read_filters
from ..record.rows import TRACEBACK, ApprovalRow, CallRow
from . import show
from .exit_codes import Usage, of_success
from .options import RecordOptions
from .reader import Argument, CliCommand, Option, group

_KEPT = lazy_regex(r"(?:(\d+):)?([0-9a-f]{64})", re.IGNORECASE)
_COUNTED = ("tool", "outcome", "verdict", "session", "channel", "category", "rule")

Limit = Annotated[int, Option("--limit", "-n", minimum=1, help="Show this many, the latest ones.")]
Follow = Annotated[bool, Option("--follow", "-f", help="Keep showing new calls, until Ctrl-C.")]
Unfinished = Annotated[
    bool, Option("--unfinished", help="Show calls without an end: their process died, or they still run.")
]
By = Annotated[str, Option("--by", metavar="WHAT", help=f"Count by {', '.join(_COUNTED)}.")]
Output = Annotated[str | None, Option("--output", "-o", metavar="FILE", help="Write to this file, not to stdout.")]
Stored = Annotated[bool, Option("--stored", help="Write every row as stored, so that its hash can be checked.")]
Kept = Annotated[
    str | None,
    Option(
        "--from", metavar="HEAD", help="The end of the chain that an earlier run printed. The chain must contain it."
    ),
]
CallId = Annotated[str, Argument(metavar="CALL-ID", help="The id of the call.")]


@dataclass(frozen=True, slots=True)
class Filters:
    """Which calls."""

    tool: Annotated[str | None, Option(help="Only this tool. `mcp__github__*` means all tools of a server.")] = None
    outcome: Annotated[
        str | None,
        Option(help="Only this outcome: ok, tool, denied, pending, invalid, not_found, timeout, exception …"),
    ] = None
    verdict: Annotated[str | None, Option(help="Only this verdict: allow, ask, deny, none.")] = None
    rule: Annotated[str | None, Option(help="Only calls that this rule decided.")] = None
    category: Annotated[str | None, Option(help="Only this category: shell, network_read …")] = None
    session: Annotated[str | None, Option(help="Only this session.")] = None
    channel: Annotated[str | None, Option(help="Only calls that came this way: cli, mcp, library …")] = None
    label: Annotated[str | None, Option(help="Only outputs with this label: untrusted, private …")] = None
    text: Annotated[
        str | None, Option("--text", "-t", help="Only calls whose arguments contain this text, in any case.")
    ] = None
    since: Annotated[
        str | None, Option(metavar="TIME", help="Calls from this time on: 30m, 2h, 1d, 14:30, 2026-01-31T12:00.")
    ] = None
    until: Annotated[str | None, Option(metavar="TIME", help="Calls up to this time.")] = None

    def query(self) -> dict[str, Any]:
        """The filters that were given, as `Audit.query` takes them. Raises ConfigError."""
        return read_filters(dataclasses.asdict(self), "--")


def listed(
    options: RecordOptions, filters: Filters, *, limit: Limit = 50, follow: Follow = False,
    unfinished: Unfinished = False,
) -> None:  # fmt: skip
    """Show the record of calls, oldest first. With --json one object per line."""
    if follow and (filters.until or unfinished):
        raise Usage("--follow never ends; leave --until and --unfinished out")
    wanted = filters.query()
    with _opened(options) as audit:
        ends = audit.heads()  # --follow shows all later rows
        kind: dict[str, Any] = {"kind": "intent", "unfinished": True} if unfinished else {}
        rows = audit.query(**wanted, **kind, upto=max((end.seq for end in ends), default=0), limit=limit)
        _rows(list(reversed(rows)), options.json)
        if not rows and not options.json:
            wide = not wanted and not unfinished
            show.say("No calls are recorded in this workspace yet." if wide else "No call is like that.", "dim")
        if follow:
            wanted.pop("since", None)
            with suppress(KeyboardInterrupt):  # its end
                for row in audit.follow(after=ends, **wanted):
                    _rows([row], options.json)
                    sys.stdout.flush()
        elif len(rows) == limit and sys.stdout.isatty() and not options.json:
            earlier = datetime.fromtimestamp(rows[-1]["time"]).isoformat(timespec="seconds")
            show.say(f"the latest {limit}; -n shows more, --until {earlier} shows earlier ones", "dim")


def call(options: RecordOptions, call_id: CallId) -> None:
    """Show one call in full: its intent and its outcome."""
    with _opened(options) as audit:
        rows = audit.call(call_id)
        approvals = {row["seq"]: audit.approval(row) for row in rows}
    if not rows:
        raise Usage(f"the record of this workspace has no call {call_id}; `toolcrib log` lists them")
    if options.json:
        asked = [{"approval_request": request} if request else {} for request in approvals.values()]
        show.out_json([{**plain_row(row), **request} for row, request in zip(rows, asked, strict=True)])
        return
    intents = {row["seq"]: row for row in rows if row["kind"] == "intent"}
    for row in rows:
        if row["kind"] != "intent":
            _show(row, intents.pop(row["intent"] or 0, None), approvals[row["seq"]])
    for seq, intent in intents.items():
        if any(row["seq"] > seq and row["kind"] != "intent" for row in rows):  # a retry, or arguments that changed
            show.out(f"about to run at {show.clock(intent['time'])}, committed as row {seq}", "dim")
        else:
            _show(intent, intent, approvals[seq])


def export(options: RecordOptions, filters: Filters, *, output: Output = None, stored: Stored = False) -> None:
    """Write the record as JSON Lines, oldest first: one object per call.

    This includes notes of the record itself and calls without an end. --stored writes every row as stored.
    """
    wanted = filters.query()  # a wrong one leaves the file as it was
    written = nullcontext(sys.stdout) if output is None else open(output, "w", encoding="utf-8", opener=private)  # noqa: SIM115
    with _opened(options) as audit, written as file:
        count = 0
        for row in audit.rows(stored=stored, kind=None, once=not stored, **wanted):
            show.out_json(row if stored else plain_row(row), lines=True, file=file)
            count += 1
        if output is not None:
            show.say(f"{count:,} {'rows' if stored else 'calls and notes'} written to {output}")


def stats(options: RecordOptions, filters: Filters, *, by: By = "tool") -> None:
    """Count calls: all, denied, asked about and failed ones, and how long they took."""
    if by not in _COUNTED:
        raise Usage(f"--by takes {', '.join(_COUNTED)}")
    column = "session_id" if by == "session" else by
    with _opened(options) as audit:
        rows = audit.count(column, **filters.query())
    if options.json:
        show.out_json(rows)
        return
    cells = [
        [
            str(row[column] or "-"), f"{row['calls']:,}", f"{row['denied']:,}", f"{row['asked']:,}",
            f"{row['failed']:,}", f"{(row['mean'] or 0) * 1000:.1f} ms", show.clock(row["latest"]),
        ]
        for row in rows
    ]  # fmt: skip
    if not cells:
        show.say("No calls are recorded here that could be counted.", "dim")
    else:
        show.columns([[by, "calls", "denied", "asked", "not ok", "mean", "latest"], *cells], ("bold",))


def verify(options: RecordOptions, *, kept: Kept = None) -> int:
    """Check the hash chain of the record: no row was changed, removed or moved after it was written.

    Store the printed end of the chain elsewhere. Without it, a cut at the end or a rewrite of the whole file cannot be
    detected. On a fault the exit code is 1 and the first bad row is shown.
    """
    path = options.state().record
    wanted = _heads(kept)
    with naming(path), closing(connect(path)) as connection:
        found = chain.verify(connection, wanted, _progress if sys.stderr.isatty() else None)
    if sys.stderr.isatty():
        print("\r\x1b[K", end="", file=sys.stderr)
    if options.json:
        show.out_json({
            "ok": found.problem is None, "rows": found.rows, "first": found.first, "dropped": found.dropped,
            "head": found.end, "row": found.row, "problem": found.problem,
        })  # fmt: skip
    elif found.problem is not None:
        where = f"row {found.row}: " if found.row is not None else ""
        show.error(f"{shown(path)}: {where}{found.problem}")
        show.say(f"the {found.rows:,} rows before it are intact", "dim")
    else:
        gone = f"; {found.dropped:,} older ones were dropped by retention" if found.dropped else ""
        show.out(f"{found.rows:,} rows are intact{gone}")
        show.out(f"end of the chain: {found.end}")
    return of_success(found.problem is None)


def _heads(text: str | None) -> list[chain.KeptEnd]:
    wanted: list[chain.KeptEnd] = []
    for each in [] if text is None else text.split() or [text]:
        found = _KEPT.fullmatch(each)
        if found is None:
            raise Usage(
                f"--from takes the end of the chain as `toolcrib log verify` prints it (120:5f1d…), got {each!r}"
            )
        wanted.append(chain.KeptEnd(int(found[1]) if found[1] else None, bytes.fromhex(found[2])))
    return wanted


def _progress(rows: int) -> None:
    print(f"\r{rows:,} rows …", end="", file=sys.stderr, flush=True)


def _opened(options: RecordOptions) -> closing[Audit]:
    return closing(Audit(options.state().record))


def _rows(rows: Sequence[CallRow], as_json: bool) -> None:
    if as_json:
        for row in rows:
            show.out_json(plain_row(row), lines=True)
        return
    cells: list[list[str]] = []
    for row in rows:
        ended = row["kind"] != "intent"
        took = f"{(row['duration'] or 0) * 1000:.0f} ms" if ended else "-"
        outcome = row["outcome"] if ended else "unfinished"
        cells.append([row["call_id"], show.clock(row["time"]), outcome or row["kind"], took, row["tool"], _brief(row)])
    show.columns(cells, ("dim", "dim", None, "dim", "bold", None))


def _brief(row: CallRow) -> str:
    """Arguments and, for a refusal or failure, why; on one line."""
    arguments = row["arguments"] or ""
    error = (row["error"] or "").partition(TRACEBACK)[0].replace(HINT_TEXT, "").rstrip()
    return f"{clip(arguments, 160)}{'  — ' + error if error else ''}"


def _show(row: CallRow, intent: CallRow | None, approval: ApprovalRow | None) -> None:
    ended = row is not intent
    axes = as_object(plain_data(row["labels"]))
    facts = {
        "when": show.clock(row["time"]),
        "intent": f"about to run at {show.clock(intent['time'])}, committed as row {intent['seq']}" if intent else None,
        "outcome": row["outcome"] if ended else "none: its process died, or it is still running",
        "verdict": row["verdict"],
        "rule": row["rule"],
        "approver": row["approver"],
        "session": row["session_id"],
        "channel": row["channel"],
        "labels": ", ".join(str(value) for value in axes.values()),
        "took": f"{(row['duration'] or 0) * 1000:.1f} ms" if ended else None,
        "output": f"{row['size'] or 0:,} characters" if ended else None,
        "row": f"{row['seq']}:{row['hash']}",
    }
    show.out(plain_line(f"{row['tool']} ({row['category'] or 'no such tool'})" if row["tool"] else row["kind"]), "bold")
    show.facts(facts)
    arguments = plain_row(row)["arguments"]
    show.out(plain(arguments if isinstance(arguments, str) else json.dumps(arguments, indent=2, ensure_ascii=False)))
    if approval is not None:
        asked = f"approval {approval['id']}: {approval['state']}"
        show.out(plain_line(f"{asked} by {approval['approver']}" if approval["approver"] else asked), "bold")
        for text in (approval["reason"], approval["answer"], approval["preview"]):
            if text:
                show.out(plain(text))
    if row["error"]:
        show.out(plain(row["error"].replace(HINT, "")), "red")


COMMAND = group(
    listed,
    "The record of calls. Without a command: the latest calls. `toolcrib log CALL-ID` shows one call in full.",
    {
        "show": CliCommand(call),
        "export": CliCommand(export, without=("json",)),
        "stats": CliCommand(stats),
        "verify": CliCommand(verify),
    },
    otherwise="show",
)
