"""`toolcrib log`: show the calls, their outcomes, and why each was allowed."""

from __future__ import annotations

import json
import sys
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Any

from ..core.text import clip
from . import logged, show
from .exit_codes import OK, Usage
from .filters import Filters
from .options import Options
from .reader import Argument, Command, Option, group
from .verify import verify

if TYPE_CHECKING:
    from ..record.audit import Audit
    from ..record.rows import CallRow

_COUNTED = ("tool", "outcome", "verdict", "session", "channel", "category", "rule")

Limit = Annotated[int, Option("--limit", "-n", minimum=1, help="Show this many, the latest ones.")]
Follow = Annotated[bool, Option("--follow", "-f", help="Keep showing new calls, until Ctrl-C.")]
Unfinished = Annotated[
    bool, Option("--unfinished", help="Show calls without an end: their process died, or they still run.")
]
By = Annotated[str, Option("--by", metavar="WHAT", help=f"Count by {', '.join(_COUNTED)}.")]
Output = Annotated[str | None, Option("--output", "-o", metavar="FILE", help="Write to this file, not to stdout.")]
Stored = Annotated[bool, Option("--stored", help="Write every row as stored, so that its hash can be checked.")]
CallId = Annotated[str, Argument(metavar="CALL-ID", help="The id of the call.")]


def listed(
    options: Options, filters: Filters, *, limit: Limit = 50, follow: Follow = False,
    unfinished: Unfinished = False,
) -> int:  # fmt: skip
    """Show the record of calls, oldest first. With --json one object per line."""
    if follow and (filters.until or unfinished):
        raise Usage("--follow never ends; leave --until and --unfinished out")
    wanted = filters.query()
    with opened(options) as audit:
        end = audit.head().seq  # --follow shows all later rows
        kind: dict[str, Any] = {"kind": "intent", "unfinished": True} if unfinished else {}
        rows = audit.query(**wanted, **kind, upto=end, limit=limit)
        _rows(list(reversed(rows)), options.json)
        if follow:
            wanted.pop("since", None)
            for row in audit.follow(after=end, **wanted):
                _rows([row], options.json)
                sys.stdout.flush()
        elif len(rows) == limit and sys.stdout.isatty() and not options.json:
            earlier = datetime.fromtimestamp(rows[-1]["time"]).isoformat(timespec="seconds")
            show.say(f"the latest {limit}; -n shows more, --until {earlier} shows earlier ones", "dim")
        return OK


def call(options: Options, call_id: CallId) -> int:
    """Show one call in full: its intent and its outcome."""
    with opened(options) as audit:
        return logged.one(audit, call_id, options.json)


def export(options: Options, filters: Filters, *, output: Output = None, stored: Stored = False) -> int:
    """Write the record as JSON Lines, oldest first: one object per call.

    This includes notes of the record itself and calls without an end. --stored writes every row as stored.
    """
    with opened(options) as audit, _file(output) as file:
        count = 0
        for row in audit.rows(stored=stored, kind=None, once=not stored, **filters.query()):
            file.write(json.dumps(row if stored else logged.plain(row), ensure_ascii=False) + "\n")
            count += 1
        if output is not None:
            show.say(f"{count:,} {'rows' if stored else 'calls and notes'} written to {output}")
        return OK


def stats(options: Options, filters: Filters, *, by: By = "tool") -> int:
    """Count calls: all, denied, asked about and failed ones, and how long they took."""
    if by not in _COUNTED:
        raise Usage(f"--by takes {', '.join(_COUNTED)}")
    column = "session_id" if by == "session" else by
    with opened(options) as audit:
        rows = audit.count(column, **filters.query())
    if options.json:
        show.out_json(rows)
        return OK
    cells = [
        [
            str(row[column] or "-"), f"{row['calls']:,}", f"{row['denied']:,}", f"{row['asked']:,}",
            f"{row['failed']:,}", f"{(row['mean'] or 0) * 1000:.1f} ms", show.clock(row["latest"]),
        ]
        for row in rows
    ]  # fmt: skip
    if cells:
        show.columns([[by, "calls", "denied", "asked", "not ok", "mean", "latest"], *cells], ("bold",))
    return OK


@contextmanager
def opened(options: Options) -> Generator[Audit]:
    """The record of the workspace."""
    from ..record.audit import Audit

    audit = Audit(options.state().record_db)
    try:
        yield audit
    finally:
        audit.close()


@contextmanager
def _file(name: str | None) -> Generator[Any]:
    if name is None:
        yield sys.stdout
        return
    with open(name, "w", encoding="utf-8") as file:
        yield file


def _rows(rows: Sequence[CallRow], as_json: bool) -> None:
    if as_json:
        for row in rows:
            show.out_json(logged.plain(row), lines=True)
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
    return f"{clip(arguments, 160)}{'  — ' + row['error'] if row['error'] else ''}"


COMMAND = group(
    listed,
    "The record of calls. Without a command: the latest calls. `toolcrib log CALL-ID` shows one call in full.",
    {
        "show": Command(call),
        "export": Command(export, without=("json",)),
        "stats": Command(stats),
        "verify": Command(verify),
    },
    otherwise="show",
)
