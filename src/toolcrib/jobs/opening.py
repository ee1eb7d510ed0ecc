"""Which engine is it? DBOS and its database drivers are imported here only, when they are needed."""

from __future__ import annotations

import os

from .engine import JobEngine, JobError
from .memory import MemoryEngine

MEMORY = "memory"


def open_engine(where: str, *, create: bool = True) -> JobEngine:
    """Return the engine for `memory`, for a `postgresql://` address, or for the path of a SQLite file. It connects when
    it is first used; without `create` it makes no database. Raises JobError if the extra `jobs` is not installed, or
    the address is invalid."""
    if where == MEMORY:
        return MemoryEngine()
    try:
        from .durable import DurableEngine
    except ImportError as error:
        raise JobError(
            f"jobs that outlive the process need the extra `jobs` ({error}): pip install 'toolcrib[jobs]'; "
            "without it they are only in memory"
        ) from error
    return DurableEngine(where if "://" in where else f"sqlite:///{os.path.abspath(where)}", create=create)
