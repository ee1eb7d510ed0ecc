"""The hash chain of the record: each row contains a hash over its content and the hash of the row before.

    hash(n) = SHA-256(hash(n - 1) + content(n)), where hash(0) is 32 zero bytes

`content` is a JSON array of the row's columns in the order of COLUMNS, ASCII, without spaces. It contains `seq`, so
that rows cannot be removed or reordered unnoticed. There is no key: anyone with access to the account could read it. A
row of the chain itself states which beginning of the record was deleted (retention.py).

An SQLite file has one chain. On Postgres each process that writes at the same time has its own: row `n` of chain `c`
has the number `c * WIDTH + n`, so numbers of rows are unique and each chain begins like the one of a file. A chain that
no process has any more is continued by the next one. There is no gap between the numbers of chains.
"""

from __future__ import annotations

import functools
import json
import sqlite3
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from hashlib import sha256
from itertools import compress
from json import encoder
from operator import is_not
from typing import Any, NamedTuple, cast

from ..core.dataclass import dataclass
from .connection import Database
from .rows import CallRow

COLUMNS = tuple(column for column in CallRow.__annotations__ if column != "hash")

GENESIS = bytes(32)

WIDTH = 2**40
"""The rows that a chain can have. JSON readers with 53 bits can read the numbers of 8,192 chains."""

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
def _insert_next(shape: _Shape, number: int) -> str:
    """Return an INSERT that fails if another row was appended meanwhile, because a hash is never NULL. `seq` alone
    would not show this: retention may have deleted those rows again."""
    columns = list(compress(COLUMNS, shape))
    marks = "".join(f"?{n}, " for n in range(1, len(columns) + 1))
    later = f"EXISTS (SELECT 1 FROM record WHERE seq BETWEEN ?1 AND {bounds(number)[1]})"  # noqa: S608
    value = f"CASE WHEN {later} THEN NULL ELSE ?{len(columns) + 1} END"
    return f"INSERT INTO record ({', '.join(columns)}, hash) VALUES ({marks}{value})"  # noqa: S608


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


def bounds(number: int) -> tuple[int, int]:
    """Return the first and the last number that a row of a chain could have. The first one is not a correct number."""
    return number * WIDTH if number else -(2**63), number * WIDTH + WIDTH - 1


def count(connection: Database) -> int:
    """Return how many chains there are. The record of a file has one, even if it is empty."""
    last = connection.execute("SELECT max(seq) FROM record").fetchone()[0]
    return (last or 0) // WIDTH + (last is not None or not connection.shared)


def head(connection: Database, number: int = 0) -> Head:
    """Return the end of a chain as committed, or as in the open transaction."""
    sql = "SELECT seq, hash FROM record WHERE seq BETWEEN ? AND ? ORDER BY seq DESC LIMIT 1"
    row = connection.execute(sql, bounds(number)).fetchone()
    return Head(row[0], row[1]) if row else Head(number * WIDTH, GENESIS)


def append(connection: Database, rows: Sequence[Row], number: int = 0) -> Head:
    """Append rows to a chain inside a transaction. Returns the new end. Raises IntegrityError if another connection has
    appended meanwhile, which is impossible in a file: the transaction holds its lock."""
    last = head(connection, number)
    linked: dict[_Shape, list[tuple[Any, ...]]] = {}
    for row in rows:
        last, shape, bound = _linked(last, row)
        linked.setdefault(shape, []).append(bound)
    for shape, together in linked.items():  # rows have numbers already, so the order of the INSERTs does not matter
        connection.executemany(_insert(shape), together)
    return last


def append_next(cursor: Any, last: Head, row: Row, number: int = 0) -> Head:
    """Append one row after `last` in its own transaction. Raises IntegrityError if `last` is not the end any more."""
    end, shape, bound = _linked(last, row)
    cursor.execute(_insert_next(shape, number), bound)
    return end


def note(kind: str, said: dict[str, Any]) -> Row:
    """Return a row about the record itself, not about a call."""
    given = {
        "kind": kind, "time": time.time(), "call_id": "", "tool": "", "category": "", "verdict": "none",
        "arguments": json.dumps(said, separators=(",", ":")),
    }  # fmt: skip
    return tuple(given.get(column) for column in COLUMNS[1:])


def _linked(last: Head, row: Row) -> tuple[Head, _Shape, tuple[Any, ...]]:
    """Return the new end of the chain, the shape of a row that follows `last`, and its values with the hash."""
    values = (last[0] + 1, *row)
    digest = link(last[1], values)
    shape = tuple(map(is_not, values, _NULLS))
    # A bytearray: for `bytes`, sqlite3 looks for an adapter, which takes a microsecond.
    return _new_head(Head, (values[0], digest)), shape, (*compress(values, shape), bytearray(digest))


# --- verification


class KeptEnd(NamedTuple):
    """An end of a chain that was stored elsewhere; `seq` is None if only its hash is known."""

    seq: int | None
    hash: bytes


@dataclass(frozen=True, slots=True)
class Verification:
    """The result of a check. `problem` is None if every row is correct; `row` is the first wrong one."""

    rows: int
    first: int
    """The first row that is not dropped, of the first chain."""
    heads: tuple[Head, ...]
    """The end of each chain."""
    dropped: int = 0
    """How many rows retention has deleted."""
    row: int | None = None
    problem: str | None = None

    @property
    def end(self) -> str:
        """The ends of all chains, as a text to store elsewhere."""
        return " ".join(map(str, self.heads))

    def then(self, other: Verification) -> Verification:
        """Return the result for this and another chain; `rows` are those before the first wrong one."""
        return Verification(
            self.rows + other.rows, self.first, (*self.heads, *other.heads), self.dropped + other.dropped,
            other.row, other.problem,
        )  # fmt: skip


def verify(
    connection: Database, kept: Sequence[KeptEnd] = (), progress: Callable[[int], None] | None = None
) -> Verification:
    """Check every row of all chains, in one read transaction. `kept` are ends of chains that were stored elsewhere:
    their rows must be there. `progress` is called with the number of checked rows."""
    connection.snapshot()
    try:
        met: set[KeptEnd] = set()
        found: Verification | None = None
        for number in range(count(connection)):
            part = _verify(connection, number, kept, met, progress)
            found = part if found is None else found.then(part)
            if found.problem is not None:
                return found
        if found is None:  # nobody has written yet
            found = Verification(0, 1, (Head(0, GENESIS),))
        for each in kept:
            if each not in met and (problem := _absent(connection, each, found.heads)) is not None:
                return replace(found, row=each.seq, problem=problem)
        return found
    finally:
        connection.commit()


def _verify(
    connection: Database,
    number: int,
    kept: Sequence[KeptEnd],
    met: set[KeptEnd],
    progress: Callable[[int], None] | None,
) -> Verification:
    """Check one chain, and add to `met` which kept ends it has."""
    through, last = dropped(connection, number)
    end, gone = Head(through, bytes.fromhex(last) if last else GENESIS), through - number * WIDTH
    left = _misfit_left(connection, end, number)
    if left is not None:
        return Verification(0, through + 1, (end,), gone, *left)
    checked, problem = 0, None
    sql = f"SELECT {_NAMES}, hash FROM record WHERE seq > ? AND seq <= ? ORDER BY seq"  # noqa: S608
    rows = iter(connection.stream(sql, [through, bounds(number)[1]]))
    while problem is None:
        try:
            row = next(rows, None)
        except sqlite3.OperationalError as error:  # a text column with invalid text
            problem = f"it cannot be read: {error}"
            break
        if row is None:
            break
        problem = _misfit(row, end)
        if problem is None:
            end = Head(row[0], row[-1])
            if kept:
                met |= {each for each in kept if each.hash == end.hash and each.seq in (None, end.seq)}
            checked += 1
            if progress is not None and checked % 10_000 == 0:
                progress(checked)
    if problem is None and not checked and connection.shared:
        problem = f"it and all other rows of chain {number} are missing"
    return Verification(checked, through + 1, (end,), gone, end.seq + 1 if problem else None, problem)


def _misfit(row: Any, last: Head) -> str | None:
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


def _misfit_left(connection: Database, end: Head, number: int) -> tuple[int, str] | None:
    """Return the first bad row of those that count as deleted but still exist, and what is wrong with it.

    If retention is interrupted, the latest of these rows remain, so they lead to `end`, the last deleted row. The row
    before the first one is gone, so the first cannot be checked alone. Row numbers start at 1.
    """
    before: Head | None = None
    try:
        sql = f"SELECT {_NAMES}, hash FROM record WHERE seq BETWEEN ? AND ? ORDER BY seq"  # noqa: S608
        for row in connection.execute(sql, [bounds(number)[0], end.seq]):
            if row[0] <= number * WIDTH:
                return row[0], "no row has this number: it was put in"
            if row[0] == number * WIDTH + 1:
                before = Head(number * WIDTH, GENESIS)
            problem = _misfit(row, before) if before is not None else None
            if problem is not None and before is not None:
                return before.seq + 1, problem
            before = Head(row[0], row[-1])
    except sqlite3.OperationalError as error:  # a text column with invalid text
        return (before.seq if before is not None else 0) + 1, f"it cannot be read: {error}"
    if before is not None and before != end:
        return before.seq, "it counts as dropped, and does not lead up to what retention dropped"
    return None


def dropped(connection: Database, number: int = 0) -> tuple[int, str]:
    """Return the last row of a chain that retention has deleted and its hash in hex, as the record itself states it;
    the number before the first row and "" if none."""
    none = number * WIDTH, ""
    row = connection.execute(
        "SELECT arguments, seq FROM record WHERE kind NOT IN ('intent', 'outcome') AND kind = 'retention'"
        " AND seq BETWEEN ? AND ? ORDER BY seq DESC LIMIT 1", bounds(number)
    ).fetchone()  # fmt: skip
    if row is None:
        return none
    try:
        said = json.loads(row[0])
        through, digest = int(said["through"]), bytes.fromhex(said["hash"]).hex()
        # the statement is about rows before it, so the statement itself is one of the checked rows
        return (through, digest) if number * WIDTH < through < row[1] else none
    except (ValueError, KeyError, TypeError, OverflowError):  # changed: the rows before it count as missing
        return none


def _absent(connection: Database, kept: KeptEnd, heads: Sequence[Head]) -> str | None:
    """Return why the row that was stored elsewhere was not found, or None if that is correct."""
    seq, digest = kept
    if seq is not None:
        number = seq // WIDTH
        through, last = dropped(connection, number)
        end = heads[number].seq if number < len(heads) else heads[-1].seq
        if seq == through and digest.hex() != last:
            return "the hash given is not the hash of this row"
        if seq <= through:
            return None  # deleted by retention: there is nothing left to compare
        if seq > end:
            return f"the row given is missing: the record ends at row {end}, so its end was cut off or it was rewritten"
    return "no row has the hash given: the record was rewritten, or its end was cut off"
