"""Which engine is it? DBOS and its database drivers are imported here only, when they are needed."""

from __future__ import annotations

import contextlib
import os
import platform
import struct
from collections.abc import Generator

from ..core.extras import how_to_add
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
        with _asking_no_program():
            from .durable import DurableEngine
    except ImportError as error:
        raise JobError(
            f"jobs that outlive the process need the extra `jobs` ({error}): {how_to_add('jobs')}; "
            "without it they are only in memory"
        ) from error
    return DurableEngine(where if "://" in where else f"sqlite:///{os.path.abspath(where)}", create=create)


def no_workers(engine: str) -> str:
    """Return that no worker runs, and how to start one with this engine of the settings."""
    if engine == MEMORY:
        return 'There are no workers: jobs.engine is "memory". With jobs.engine = "dbos": toolcrib worker'
    return "No worker runs now. Start one: toolcrib worker"


@contextlib.contextmanager
def _asking_no_program() -> Generator[None]:
    """Answer croniter, which DBOS imports, how many bits this interpreter has: `platform.architecture` would ask the
    first `file` on PATH, and a tool could have put it there."""
    asking, bits = platform.architecture, struct.calcsize("P") * 8
    setattr(platform, "architecture", lambda: (f"{bits}bit", ""))  # noqa: B010
    try:
        yield
    finally:
        setattr(platform, "architecture", asking)  # noqa: B010
