"""Upgrade a record of an older schema to this one. Its rows are preserved, and chained in their order."""

from __future__ import annotations

import json
import sqlite3
import time
from collections.abc import Iterator
from typing import Any

from . import chain
from .transaction import transaction

_BATCH = 5_000


def migrate(connection: sqlite3.Connection, schema: str, version: int) -> None:
    """Make the tables, in one transaction. If several processes do it at once, only the first one does."""
    with transaction(connection):
        if connection.execute("PRAGMA user_version").fetchone()[0] < version:
            _bring_up(connection, schema)
            connection.execute(f"PRAGMA user_version={version}")


def note(kind: str, said: dict[str, Any]) -> chain.Row:
    """Return a row about the record itself, not about a call."""
    given = {
        "kind": kind, "time": time.time(), "call_id": "", "tool": "", "category": "", "verdict": "none",
        "arguments": json.dumps(said, separators=(",", ":")),
    }  # fmt: skip
    return tuple(given.get(column) for column in chain.COLUMNS[1:])


def _bring_up(connection: sqlite3.Connection, schema: str) -> None:
    columns = {row["name"] for row in connection.execute("PRAGMA table_info(record)")}
    unchained = bool(columns) and "hash" not in columns
    if unchained:
        connection.execute("ALTER TABLE record RENAME TO record_unchained")
        for name in ("record_tool_time", "record_call"):
            connection.execute(f"DROP INDEX IF EXISTS {name}")
    for statement in schema.split(";\n"):  # executescript would end the transaction; comments may contain a ";"
        connection.execute(statement)
    if unchained:
        count = 0
        for rows in _old_rows(connection):
            chain.append(connection, rows)
            count += len(rows)
        chain.append(connection, [note("migration", {"chained": count})])
        connection.execute("DROP TABLE record_unchained")


def _old_rows(connection: sqlite3.Connection) -> Iterator[list[chain.Row]]:
    """Yield rows without a chain, oldest first; missing columns are NULL."""
    after = 0
    while True:
        found = connection.execute("SELECT * FROM record_unchained WHERE seq > ? ORDER BY seq LIMIT ?", [after, _BATCH])
        rows = [dict(row) for row in found]
        if not rows:
            return
        yield [tuple(row.get(column) for column in chain.COLUMNS[1:]) for row in rows]
        after = rows[-1]["seq"]
