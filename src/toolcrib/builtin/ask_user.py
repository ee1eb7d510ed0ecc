"""The tool `ask_user`: the model asks the person. The agent and `toolcrib serve` offer it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

from pydantic import Field

from ..core.context import ToolContext
from ..core.errors import ToolError
from ..core.output import ToolOutput
from ..core.text import one_line
from ..core.tool import Tool, ToolCategory

CAN_PAUSE = "toolcrib_can_pause"
"""A key in `ToolContext.metadata`: the caller can stop at a question and go on after the answer."""
NOBODY = (
    "nobody can be asked here: this run has no person, or its client cannot show a question (an MCP client needs "
    "elicitation for that). Decide by yourself, or say in your answer what you need."
)


def chosen(text: str, options: Sequence[str]) -> str:
    """Return the option that an answer names by its number; else the answer itself."""
    number = int(text) if text.isascii() and text.isdigit() and len(text) < 3 and text not in options else 0
    return options[number - 1] if 0 < number <= len(options) else text


class AskUserTool(Tool):
    """Ask the person a question and wait for the answer. Use it only when you cannot go on without it.

    Do not ask for approval of a call: calls that need it ask by themselves.
    """

    name = "ask_user"
    category = ToolCategory.MEMORY  # a question goes to the caller, who reads all that the model says, in any mode
    read_only = True
    open_world = False
    sequential = True
    timeout = None
    title = "Ask the person"

    async def execute(
        self,
        question: Annotated[str, Field(min_length=1, max_length=4_000, description="The question.")],
        options: Annotated[
            list[Annotated[str, Field(max_length=200)]] | None,
            Field(max_length=10, description="Answers to choose from. Without them any text is an answer."),
        ] = None,
        *,
        ctx: ToolContext,
    ) -> ToolOutput:
        """Ask now, or stop the run until the answer comes."""
        if not question.strip():
            raise ToolError("question is blank: write what you want to know")
        choices = [one_line(option) for option in options or ()]  # they are shown as numbered lines
        if ctx.ask is not None:
            return ToolOutput(await ctx.ask(question, choices))
        if not ctx.metadata.get(CAN_PAUSE):
            return ToolOutput.error(NOBODY, "unavailable")
        return ToolOutput(
            f"Waiting for an answer to: {question}", pause_for_input=True,
            meta={"question": question, "options": tuple(choices)},
        )  # fmt: skip
