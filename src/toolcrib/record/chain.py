"""The hash chain of the record: each row contains a hash over its content and the hash of the row before.

    hash(n) = SHA-256(hash(n - 1) + content(n)), where hash(0) is 32 zero bytes

`content` is a JSON array of the row's columns in the order of COLUMNS, ASCII, without spaces. It contains `seq`, so
that rows cannot be removed or reordered unnoticed. There is no key: anyone with access to the account could read it. A
row of the chain itself states which beginning of the record was deleted (retention.py).
"""

from __future__ import annotations

import functools
import json
import sqlite3
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from hashlib import sha256
from itertools import compress
from json import encoder
from operator import is_not
from typing import Any, NamedTuple, cast

from .rows import CallRow

COLUMNS = tuple(column for column in CallRow.__annotations__ if column != "hash")

GENESIS = bytes(32)

Row = tuple[Any, ...]
"""The values of a row in the order of COLUMNS, without `seq`."""

_NAMES = ", ".join(COLUMNS)


_NULLS = (None,) * len(COLUMNS)
_SHAPES = 64  # different combinations of NULLs in rows; a record has about a dozen

_Shape = tuple[bool, ...]
"""For each column, whether it has a value. NULLs are left out: sqlite3 takes a microsecond to bind a None."""


@functools.lru_cache(_SHAPES)
def _insert(shape: _Shape) -> str:
    columns = list(compress(COLUMNS, shape))
    return f"INSERT INTO record ({', '.join(columns)}, hash) VALUES ({'?,' * len(columns)} ?)"  # noqa: S608


@functools.lru_cache(_SHAPES)
def _insert_next(shape: _Shape) -> str:
    """Return an INSERT that fails if another row was appended meanwhile, because a hash is never NULL. `seq` alone
    would not show this: retention may have deleted those rows again."""
    columns = list(compress(COLUMNS, shape))
    marks = "".join(f"?{n}, " for n in range(1, len(columns) + 1))
    last = f"iif((SELECT max(seq) FROM record) >= ?1, NULL, ?{len(columns) + 1})"  # noqa: S608
    return f"INSERT INTO record ({', '.join(columns)}, hash) VALUES ({marks}{last})"  # noqa: S608


# `json.dumps` makes this object at every call, which takes half of its time; it exists in CPython only.
_make: Any = getattr(encoder, "c_make_encoder", None)
_encode: Any = _make and _make(None, None, encoder.encode_basestring_ascii, None, ":", ",", False, False, True)


class Head(NamedTuple):
    """The end of the chain: the last row's number and hash. Number 0 means an empty record."""

    seq: int
    hash: bytes

    def __str__(self) -> str:
        return f"{self.seq}:{self.hash.hex()}"


_new_head = cast("Any", tuple).__new__  # without the extra call in a NamedTuple's own `__new__`


def content(values: Sequence[Any]) -> str:
    """Return the canonical text of a row, `seq` first: `json.dumps(values, separators=(",", ":"))`."""
    if _encode is None:
        return json.dumps(values, separators=(",", ":"))
    return "".join(_encode(values, 0))


def link(previous: bytes, values: Sequence[Any]) -> bytes:
    """Return the hash of a row that follows the row with the hash `previous`."""
    return sha256(previous + content(values).encode("ascii")).digest()


def head(connection: sqlite3.Connection) -> Head:
    """Return the end of the chain as committed, or as in the open transaction."""
    row = connection.execute("SELECT seq, hash FROM record ORDER BY seq DESC LIMIT 1").fetchone()
    return Head(row[0], row[1]) if row else Head(0, GENESIS)


def append(connection: sqlite3.Connection, rows: Sequence[Row]) -> Head:
    """Append rows inside a transaction that holds the write lock. Returns the new end."""
    last = head(connection)
    linked: dict[_Shape, list[tuple[Any, ...]]] = {}
    for row in rows:
        last, shape, bound = _linked(last, row)
        linked.setdefault(shape, []).append(bound)
    for shape, together in linked.items():  # rows have numbers already, so the order of the INSERTs does not matter
        connection.executemany(_insert(shape), together)
    return last


def append_next(cursor: sqlite3.Connection | sqlite3.Cursor, last: Head, row: Row) -> Head:
    """Append one row after `last` in its own transaction. Raises IntegrityError if `last` is not the end any more."""
    end, shape, bound = _linked(last, row)
    cursor.execute(_insert_next(shape), bound)
    return end


def _linked(last: Head, row: Row) -> tuple[Head, _Shape, tuple[Any, ...]]:
    """Return the new end of the chain, the shape of a row that follows `last`, and its values with the hash."""
    values = (last[0] + 1, *row)
    digest = link(last[1], values)
    shape = tuple(map(is_not, values, _NULLS))
    # A bytearray: for `bytes`, sqlite3 looks for an adapter, which takes a microsecond.
    return _new_head(Head, (values[0], digest)), shape, (*compress(values, shape), bytearray(digest))


# --- verification


@dataclass(frozen=True, slots=True)
class Verification:
    """The result of a check of the chain. `problem` is None if every row is correct; `row` is the first wrong one."""

    rows: int
    first: int
    head: Head
    dropped: int = 0
    """Retention deleted rows up to this one."""
    row: int | None = None
    problem: str | None = None


def verify(
    connection: sqlite3.Connection, kept: tuple[int | None, bytes] | None = None,
    progress: Callable[[int], None] | None = None,
) -> Verification:  # fmt: skip
    """Check every row, in one read transaction. `kept` is an end of the chain that was stored elsewhere, as (seq or
    None, hash): its row must be there. `progress` is called with the number of checked rows."""
    connection.execute("BEGIN")
    try:
        return _verify(connection, kept, progress)
    finally:
        connection.execute("COMMIT")


def _verify(
    connection: sqlite3.Connection, kept: tuple[int | None, bytes] | None, progress: Callable[[int], None] | None
) -> Verification:
    through, last = dropped(connection)
    end = Head(through, bytes.fromhex(last) if last else GENESIS)
    left = _misfit_left(connection, end)
    if left is not None:
        return Verification(0, through + 1, end, through, *left)
    count, met, problem = 0, False, None
    rows = connection.execute(f"SELECT {_NAMES}, hash FROM record WHERE seq > ? ORDER BY seq", [through])  # noqa: S608
    while problem is None:
        try:
            row = rows.fetchone()
        except sqlite3.OperationalError as error:  # a text column with invalid text
            problem = f"it cannot be read: {error}"
            break
        if row is None:
            break
        problem = _misfit(row, end)
        if problem is None:
            end = Head(row[0], row[-1])
            met = met or (kept is not None and end.hash == kept[1] and kept[0] in (None, end.seq))
            count += 1
            if progress is not None and count % 10_000 == 0:
                progress(count)
    if problem is not None:
        return Verification(count, through + 1, end, through, end.seq + 1, problem)
    if kept is not None and not met:
        problem = _absent(kept[0], through, last, kept[1], end.seq)
    return Verification(count, through + 1, end, through, kept[0] if problem and kept else None, problem)


def _misfit(row: sqlite3.Row, last: Head) -> str | None:
    """Return what is wrong with a row that should follow `last`; None if it is correct."""
    values = tuple(row)
    if values[0] != last.seq + 1:
        first, upto = last.seq + 1, values[0] - 1
        missing = f"row {first} is" if first == upto else f"rows {first} to {upto} are"
        return f"{missing} missing, and no retention accounts for that"
    try:
        fits = link(last.hash, values[:-1]) == values[-1]
    except (TypeError, ValueError):  # bytes instead of text
        fits = False
    return None if fits else "its content does not fit its hash: it, or what the chain says before it, was changed"


def _misfit_left(connection: sqlite3.Connection, end: Head) -> tuple[int, str] | None:
    """Return the first bad row of those that count as deleted but still exist, and what is wrong with it.

    If retention is interrupted, the latest of these rows remain, so they lead to `end`, the last deleted row. The row
    before the first one is gone, so the first cannot be checked alone. Row numbers start at 1.
    """
    before: Head | None = None
    try:
        for row in connection.execute(f"SELECT {_NAMES}, hash FROM record WHERE seq <= ? ORDER BY seq", [end.seq]):  # noqa: S608
            if row[0] < 1:
                return row[0], "no row has this number: it was put in"
            if row[0] == 1:
                before = Head(0, GENESIS)
            problem = _misfit(row, before) if before is not None else None
            if problem is not None and before is not None:
                return before.seq + 1, problem
            before = Head(row[0], row[-1])
    except sqlite3.OperationalError as error:  # a text column with invalid text
        return (before.seq if before is not None else 0) + 1, f"it cannot be read: {error}"
    if before is not None and before != end:
        return before.seq, "it counts as dropped, and does not lead up to what retention dropped"
    return None


def dropped(connection: sqlite3.Connection) -> tuple[int, str]:
    """Return the last row that retention has deleted and its hash in hex, as the record itself states it; (0, "") if
    none."""
    row = connection.execute(
        "SELECT arguments, seq FROM record WHERE kind NOT IN ('intent', 'outcome') AND kind = 'retention'"
        " ORDER BY seq DESC LIMIT 1"
    ).fetchone()
    if row is None:
        return 0, ""
    try:
        said = json.loads(row[0])
        through, digest = int(said["through"]), bytes.fromhex(said["hash"]).hex()
        # the statement is about rows before it, so the statement itself is one of the checked rows
        return (through, digest) if 0 < through < row[1] else (0, "")
    except (ValueError, KeyError, TypeError, OverflowError):  # changed: the rows before it count as missing
        return 0, ""


def _absent(seq: int | None, through: int, last: str, digest: bytes, end: int) -> str | None:
    """Return why the row that was stored elsewhere was not found, or None if that is correct."""
    if seq is not None and seq <= through:
        if seq == through and digest.hex() != last:
            return "the hash given is not the hash of this row"
        return None  # deleted by retention: there is nothing left to compare
    if seq is not None and seq > end:
        return f"the row given is missing: the record ends at row {end}, so its end was cut off or it was rewritten"
    return "no row has the hash given: the record was rewritten, or its end was cut off"
