"""Build the SQL of queries to the record. A call with effects has two rows; queries nearly always want its outcome."""

from __future__ import annotations

import json
from typing import Any

from .chain import COLUMNS

Select = tuple[str, list[Any]]

NEWEST = "newest"

# An outcome with the same arguments as its intent does not repeat them.
_FROM_INTENT = ("arguments", "approval")
_COLUMNS = ", ".join(
    f"coalesce(r.{column}, i.{column}) AS {column}" if column in _FROM_INTENT else f"r.{column}" for column in COLUMNS
)
_STORED = ", ".join(f"r.{column}" for column in COLUMNS)
_FROM = "FROM record r LEFT JOIN record i ON i.seq = r.intent"
_UNFINISHED = (
    "NOT EXISTS (SELECT 1 FROM record o WHERE o.call_id = r.call_id AND o.kind = 'outcome'"
    " AND (o.intent = r.seq OR o.intent IS NULL AND o.seq > r.seq))"  # hosts may reuse an id
)
_GROUPS = ("tool", "outcome", "verdict", "session_id", "channel", "category", "rule")
"""Columns that calls are counted by, and compared with."""


def select(
    *,
    since: float | None = None,
    until: float | None = None,
    label: str | None = None,
    text: str | None = None,
    after: int | None = None,
    upto: int | None = None,
    before: tuple[float, int] | None = None,
    unfinished: bool = False,
    once: bool = False,
    kind: str | None = "outcome",
    order: str = NEWEST,
    limit: int | None = None,
    stored: bool = False,
    by: str | None = None,
    **columns: str | None,
) -> Select:
    """Return the statement and its values.

    `columns` are texts by column: tool, outcome, verdict, session_id, channel, category, rule, call_id. They are
    compared as they are, or as a pattern if they contain a `*`; None is any. `text` is searched in the arguments,
    ignoring case. `since` and `until` are Unix seconds, `after` and `upto` row numbers, `before` the time
    and number of a row that comes later. `kind=None` returns intents and
    notes too; `unfinished` only intents without an outcome; `once` leaves out intents that have an outcome. `order` is
    "newest", "seq", or "time" for the newest where the numbers of rows do not say it. `stored` returns rows as they are
    in the file; `by` counts by a column instead.
    """
    clauses: list[str] = []
    values: list[Any] = []
    if kind == "outcome":  # a literal: the indexes cover outcomes, and a parameter could have any value
        clauses.append("r.kind = 'outcome'")
    elif kind is not None:
        clauses.append("r.kind = ?")
        values.append(kind)
    outcome = columns.get("outcome") or "ok"
    if outcome != "ok" and "*" not in outcome:
        clauses.append("r.outcome <> 'ok'")  # there is an index for these
    for column, value in columns.items():
        if column not in _GROUPS and column != "call_id":
            raise TypeError(f"calls have no {column!r} to compare")
        if value is not None:
            clauses.append(f"glob(?, r.{column})" if "*" in value else f"r.{column} = ?")
            values.append(
                value.replace("[", "[[]").replace("?", "[?]") if "*" in value else value
            )  # only `*` is special
    for comparison, number in (
        ("r.time >= ?", since), ("r.time <= ?", until), ("r.seq > ?", after), ("r.seq <= ?", upto),
    ):  # fmt: skip
        if number is not None:
            clauses.append(comparison)
            values.append(number)
    if before is not None:
        clauses.append("(r.time, r.seq) < (?, ?)")
        values += before
    if label is not None:
        clauses.append(r"r.labels LIKE ? ESCAPE '\'")
        values.append(_contains(json.dumps(label)))
    if text is not None:  # arguments are JSON, so the text may be escaped in them
        clauses.append(r"coalesce(r.arguments, i.arguments) LIKE ? ESCAPE '\'")
        values.append(_contains(json.dumps(text, ensure_ascii=False)[1:-1]))
    if unfinished:
        clauses.append(_UNFINISHED)
    if once:
        clauses.append(f"(r.kind <> 'intent' OR {_UNFINISHED})")
    where = f"WHERE {' AND '.join(clauses)}" if clauses else ""
    if by is not None:
        return _counted(by, where), values
    if order == "seq":
        by_what = "r.seq ASC"
    else:
        by_time = order == "time" or columns.get("tool") or since is not None or until is not None
        by_what = "r.time DESC, r.seq DESC" if by_time else "r.seq DESC"
    sql = f"SELECT {_STORED if stored else _COLUMNS}, r.hash AS hash {_FROM} {where} ORDER BY {by_what}"
    if limit is not None:
        sql += " LIMIT ?"
        values.append(limit)
    return sql, values


def _counted(by: str, where: str) -> str:
    if by not in _GROUPS:
        raise ValueError(f"calls can be counted by {', '.join(_GROUPS)}, not by {by!r}")
    return (
        f"SELECT r.{by} AS {by}, count(*) AS calls, count(*) FILTER (WHERE r.outcome <> 'ok') AS failed,"
        " count(*) FILTER (WHERE r.verdict = 'deny') AS denied, count(*) FILTER (WHERE r.verdict = 'ask') AS asked,"
        " count(r.approver) AS approved, avg(r.duration) AS mean, max(r.duration) AS longest,"
        f" CAST(sum(r.size) AS BIGINT) AS size, max(r.time) AS latest {_FROM} {where}"
        f" GROUP BY r.{by} ORDER BY calls DESC"
    )


def _contains(written: str) -> str:
    """Return a LIKE pattern for texts that contain this one."""
    for special in ("\\", "%", "_"):
        written = written.replace(special, f"\\{special}")
    return f"%{written}%"
