"""`toolcrib log`: what was called, what became of it, and why it was allowed."""

from __future__ import annotations

import json
import re
import time
from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Any

import typer

from . import show
from .options import FAILED, OK, Options, Usage, single

if TYPE_CHECKING:
    from ..record.audit import Audit

_AGO = re.compile(r"(\d+)\s*([smhdw])")
_UNIT = {"s": 1, "m": 60, "h": 3600, "d": 86400, "w": 604800}


def log(
    options: Options,
    call_id: Annotated[str | None, typer.Argument(metavar="CALL-ID", help="One call, in full.")] = None,
    tool: Annotated[str | None, typer.Option(help="Only this tool.")] = None,
    outcome: Annotated[
        str | None,
        typer.Option(help="Only this outcome: ok, tool, denied, pending, invalid, not_found, timeout, exception …"),
    ] = None,
    session: Annotated[str | None, typer.Option(help="Only this session.")] = None,
    since: Annotated[
        str | None, typer.Option(metavar="TIME", help="From then on: 30m, 2h, 1d, 14:30, 2026-01-31T12:00.")
    ] = None,
    until: Annotated[str | None, typer.Option(metavar="TIME", help="Up to then.")] = None,
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, help="The latest so many.")] = 50,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Go on as calls come, until Ctrl-C.")] = False,
) -> int:
    """Show the record of calls, oldest first. With --json one object a line."""
    from ..record.audit import Audit

    state = options.state()
    audit = Audit(state.record_db)
    filters: dict[str, Any] = {"tool": tool, "outcome": outcome, "session_id": session}
    try:
        if call_id is not None:
            return _one(audit, call_id, options.json)
        rows = audit.query(**filters, since=_time(since), until=_time(until), limit=limit)
        _rows(list(reversed(rows)), options.json)
        if follow:
            for row in audit.follow(**filters):
                _rows([row], options.json)
        return OK
    finally:
        audit.close()


def _rows(rows: list[dict[str, Any]], as_json: bool) -> None:
    if as_json:
        for row in rows:
            show.out_json(_plain(row), lines=True)
        return
    cells: list[list[str]] = []
    for row in rows:
        took = f"{(row['duration'] or 0) * 1000:.0f} ms"
        outcome = row["outcome"] or row["kind"]
        cells.append([row["call_id"], show.clock(row["time"]), outcome, took, row["tool"], _brief(row)])
    show.columns(cells, ("dim", "dim", None, "dim", "bold", None))


def _brief(row: dict[str, Any]) -> str:
    """Arguments and, for a refusal or failure, why; on one line."""
    arguments = row["arguments"] or ""
    return f"{arguments[:160]}{'…' if len(arguments) > 160 else ''}{'  — ' + row['error'] if row['error'] else ''}"


def _plain(row: dict[str, Any]) -> dict[str, Any]:
    """A row with its arguments as data where they are whole."""
    try:
        return {**row, "arguments": json.loads(row["arguments"] or "{}")}
    except ValueError:
        return row


def _one(audit: Audit, call_id: str, as_json: bool) -> int:
    rows = audit.query(call_id=call_id, kind=None, limit=1000)
    if not rows:
        show.error(f"no call {call_id} is in this workspace's record")
        return FAILED
    rows.reverse()
    if as_json:
        show.out_json([_plain(row) for row in rows])
        return OK
    for row in rows:
        when = show.clock(row["time"])
        if row["kind"] == "intent":
            show.out(f"{when}  about to run", "dim")
            continue
        show.out(f"{row['tool']} ({row['category']})", "bold")
        facts = {
            "when": when,
            "outcome": row["outcome"],
            "verdict": row["verdict"],
            "rule": row["rule"],
            "approver": row["approver"],
            "session": row["session_id"],
            "channel": row["channel"],
            "took": f"{(row['duration'] or 0) * 1000:.1f} ms",
            "output": f"{row['size'] or 0:,} characters",
        }
        show.columns([[f"  {key}", str(value)] for key, value in facts.items() if value], ("dim", None))
        show.out(json.dumps(_plain(row)["arguments"], indent=2, ensure_ascii=False))
        if row["error"]:
            show.out(row["error"], "red")
    return OK


def _time(text: str | None) -> float | None:
    """A moment: so long ago, a time today, or an ISO date and time; local unless it says otherwise."""
    if text is None:
        return None
    if found := _AGO.fullmatch(text.strip()):
        return time.time() - int(found[1]) * _UNIT[found[2]]
    try:
        if re.fullmatch(r"\d{1,2}:\d{2}(:\d{2})?", text):
            return datetime.combine(
                datetime.now().date(), datetime.strptime(text.zfill(5)[:5], "%H:%M").time()
            ).timestamp()
        return datetime.fromisoformat(text).timestamp()
    except ValueError:
        raise Usage(f"{text!r} is no time; write 30m, 2h, 1d, 14:30 or 2026-01-31T12:00") from None


app = single("log", log)
