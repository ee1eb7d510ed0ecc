"""The pipeline: every call of a tool runs through the same stages, whatever way it came in.

    bind → middleware and before-hooks → authorize → commit → run → redact and bound → after-hooks → event

The registry finds the tool; `Pipeline.run` does the rest. The stages are functions, one file each: `observe` (the
sequence of stages, and the events), `intercept` (loop guard, middleware, hooks), `authorize` (may it run, and the
commit before), `run_tool`, `finish` (labels, secrets, length). `stages` holds what they are filled with, `interfaces`
the types of that, `call` what they pass on. Without anything to do but run, a call skips all but `run_tool`.
"""

from __future__ import annotations

import itertools
import os
import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from .call import Call
from .context import EMPTY_CONTEXT, ToolContext
from .finish import clean, emit_refused
from .observe import observe
from .refusals import not_bound, with_hint
from .run_tool import run_tool
from .stages import Stages

if TYPE_CHECKING:
    from .output import ToolOutput
    from .tool import Tool


class Pipeline:
    """Runs calls through the stages."""

    def __init__(self) -> None:
        self.stages = Stages()
        self._prefix = f"call_{os.getpid():x}{time.time_ns() & 0xFFFFFFFF:08x}"
        self._count = itertools.count(1)

    def new_id(self) -> str:
        """Return a call id. Ids of different processes differ too."""
        return f"{self._prefix}{next(self._count):x}"

    async def run(
        self,
        tool: Tool,
        arguments: Mapping[str, Any] | str | bytes | None,
        ctx: ToolContext | None,
        call_id: str | None = None,
        waiting: Callable[[], None] | None = None,
    ) -> ToolOutput:
        """Run one call: from a model's JSON (or a dict) to a bounded output. Raises only cancellation.

        `waiting()` is called when the call begins to wait for a person.
        """
        stages = self.stages
        if ctx is None:
            ctx = EMPTY_CONTEXT
        if not stages.runs_freely(tool):
            return await observe(stages, Call(call_id or self.new_id(), tool, ctx, waiting), arguments)
        try:
            kwargs = tool.bind(arguments)[0]
        except Exception as error:
            return clean(stages, not_bound(tool, error))
        return await run_tool(stages, tool, kwargs, ctx, call_id or self.new_id())

    def refuse(
        self, name: str, arguments: Any, ctx: ToolContext | None, call_id: str | None, output: ToolOutput
    ) -> ToolOutput:
        """Return the outcome of a call that reached no tool. It is an event like any other."""
        output = clean(self.stages, with_hint(output))
        if self.stages.events.listeners:
            emit_refused(self.stages, call_id or self.new_id(), name, arguments, ctx or EMPTY_CONTEXT, output)
        return output
