"""Run an SQLite transaction that other processes see completely or not at all."""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Generator


@contextlib.contextmanager
def transaction(connection: sqlite3.Connection, *, begun: bool = False) -> Generator[None]:
    """Run `BEGIN IMMEDIATE` (unless already begun), then COMMIT, or ROLLBACK after an exception."""
    if not begun:
        connection.execute("BEGIN IMMEDIATE")
    try:
        yield
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise
