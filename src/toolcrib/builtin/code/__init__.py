"""Code mode: the tool `run_code` runs a script in which each tool is an async function.

`script` makes the calls of a script, and `stored_scripts` keeps its state while it waits for a person. `stubs` writes
the tools as typed Python functions. `monty` runs a script, `interpreter` has what it answers.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import TYPE_CHECKING

from ...boundary.programs import packaged
from ..outgoing import why_missing
from .monty import MontyInterpreter
from .script import MAX_CODE, NAME, RunCodeTool, ScriptServices
from .stored_scripts import ScriptStore
from .stubs import described

if TYPE_CHECKING:
    from ...core.registry import ToolRegistry
    from ...core.tool import Tool
    from ...policy.flow import LabelFlow
    from ...record.approvals import Approvals
    from ...record.audit import Audit
    from ...record.state import StateFolder


__all__ = ["MAX_CODE", "NAME", "code_tools", "described"]


def code_tools(
    registry: ToolRegistry,
    state: StateFolder,
    *,
    audit: Audit,
    approvals: Approvals,
    flow: LabelFlow,
    missing: list[tuple[str, str]],
    closers: list[Callable[[], object]],
    ends: list[Callable[[str | None], object]],
) -> list[Tool]:
    """Return `run_code` for the tools of a registry; nothing without the interpreter, which then is in `missing`.
    `ends` gets what is to be done at the end of a session."""
    binary = next(packaged("monty"), None)
    why = why_missing("pydantic_monty", extra="code") or (None if binary else "the program `monty` is not installed")
    if why is not None or binary is None:
        missing.append(("run_code", why or ""))
        return []

    def began(call_id: str) -> bool:
        rows = audit.query(call_id=call_id, kind=None, after=0, limit=1_000)
        begun = {row["seq"] if row["kind"] == "intent" else row["intent"] for row in rows} - {None}
        return bool(begun - {row["intent"] for row in rows if row["outcome"] == "pending"})  # these wait to be applied

    interpreter, store = MontyInterpreter(binary), ScriptStore(state)
    closers += [interpreter.close, store.close]
    ends.append(store.end_session)
    inherit = functools.partial(flow.inherit, elsewhere=True)
    return [RunCodeTool(ScriptServices(registry, interpreter, store, began, approvals.get, inherit, audit.flush))]
