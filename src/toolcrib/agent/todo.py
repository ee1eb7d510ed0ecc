"""The tool `todo`: the plan of a session, which the model keeps and the person sees."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Annotated, Any, Literal

from pydantic import Field
from typing_extensions import TypedDict

from ..core.context import ToolContext
from ..core.output import ToolOutput
from ..core.tool import Tool, ToolCategory

MARKS = {"pending": "[ ]", "doing": "[~]", "done": "[x]"}


class TodoItem(TypedDict):
    """One step."""

    text: Annotated[str, Field(min_length=1, max_length=300, description="The step, in a few words.")]
    status: Annotated[Literal["pending", "doing", "done"], Field(description="At most one step is `doing`.")]


class TodoTool(Tool):
    """Write the plan for a task of several steps, and keep it up to date: it replaces the plan before.

    Give all steps each time. Mark a step as `doing` before you begin it, and as `done` as soon as it is done.
    """

    name = "todo"
    category = ToolCategory.MEMORY
    read_only = False
    idempotent = True
    open_world = False
    loop_exempt = True
    title = "Plan"

    def __init__(self, store: Callable[[str, list[dict[str, Any]]], Awaitable[object]]) -> None:
        super().__init__()
        self._store = store

    async def execute(
        self,
        items: Annotated[list[TodoItem], Field(max_length=50, description="All steps of the plan, in order.")],
        *,
        ctx: ToolContext,
    ) -> ToolOutput:
        """Store the plan of the session."""
        if ctx.session_id is None:
            return ToolOutput.error("a plan belongs to a session, and this call has none", "unavailable")
        await self._store(ctx.session_id, [dict(item) for item in items])
        return ToolOutput(plan_text([dict(item) for item in items]) or "The plan is empty.")


def plan_text(items: list[dict[str, Any]]) -> str:
    """Return a plan as text, one step a line."""
    return "\n".join(f"{MARKS.get(str(item.get('status')), '[ ]')} {item.get('text', '')}" for item in items)
