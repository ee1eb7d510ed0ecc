"""`toolcrib log verify`: check that the record has not been changed."""

from __future__ import annotations

import re
import sys
from typing import Annotated, Any

from . import show
from .exit_codes import Usage, of_success
from .options import Options
from .reader import Option

_KEPT = re.compile(r"(?:(\d+):)?([0-9a-f]{64})", re.IGNORECASE)

Kept = Annotated[
    str | None,
    Option(
        "--from", metavar="HEAD", help="The end of the chain that an earlier run printed. The chain must contain it."
    ),
]


def verify(options: Options, *, kept: Kept = None) -> int:
    """Check the hash chain of the record: no row was changed, removed or moved after it was written.

    Store the printed end of the chain elsewhere. Without it, a cut at the end or a rewrite of the whole file cannot be
    detected. On a fault the exit code is 1 and the first bad row is shown.
    """
    import sqlite3

    from ..record import chain
    from ..record.database import connect, unusable

    path = options.state().record_db
    wanted = _head(kept)
    connection = connect(path)
    try:
        found = chain.verify(connection, wanted, _progress() if sys.stderr.isatty() else None)
    except sqlite3.Error as error:
        raise unusable(path, error) from error
    finally:
        connection.close()
    if sys.stderr.isatty():
        print("\r\x1b[K", end="", file=sys.stderr)
    if options.json:
        show.out_json(_data(found))
    elif found.problem is not None:
        where = f"row {found.row}: " if found.row is not None else ""
        show.error(f"{path}: {where}{found.problem}")
        show.say(f"the {found.rows:,} rows before it are intact", "dim")
    else:
        gone = f"; {found.dropped:,} older ones were dropped by retention" if found.dropped else ""
        show.out(f"{found.rows:,} rows are intact{gone}")
        show.out(f"end of the chain: {found.head}")
    return of_success(found.problem is None)


def _data(found: Any) -> dict[str, Any]:
    return {
        "ok": found.problem is None,
        "rows": found.rows,
        "first": found.first,
        "dropped": found.dropped,
        "head": str(found.head),
        "row": found.row,
        "problem": found.problem,
    }


def _head(text: str | None) -> tuple[int | None, bytes] | None:
    if text is None:
        return None
    found = _KEPT.fullmatch(text.strip())
    if found is None:
        raise Usage(f"--from takes the end of the chain as `toolcrib log verify` prints it (120:5f1d…), got {text!r}")
    return int(found[1]) if found[1] else None, bytes.fromhex(found[2])


def _progress() -> Any:
    def tell(rows: int) -> None:
        print(f"\r{rows:,} rows …", end="", file=sys.stderr, flush=True)

    return tell
