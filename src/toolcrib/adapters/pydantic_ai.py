"""Our tools as a toolset of pydantic-ai. A call that needs a person ends the run with `DeferredToolRequests`.

    agent = Agent(model, toolsets=[PydanticAiToolset(box)], output_type=[str, DeferredToolRequests])

An error that other arguments may repair becomes a `ModelRetry`; a refusal is an ordinary result.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, cast

from pydantic_ai import ApprovalRequired, BinaryContent, ModelRetry, RunContext, ToolDefinition, ToolReturn
from pydantic_ai import Tool as PydanticTool
from pydantic_ai.messages import ModelRequest, ModelResponse, ToolCallPart, ToolReturnPart
from pydantic_ai.models.test import TestModel
from pydantic_ai.toolsets import AbstractToolset, FunctionToolset, ToolsetTool
from pydantic_ai.usage import RunUsage
from pydantic_core import SchemaValidator, core_schema

from ..core.context import ToolContext
from ..core.errors import ToolError
from ..core.output import ImageBlock, ToolOutput
from ..core.tool import Tool
from ..policy.requests import Decision
from .questions import answer_request, call_approved, open_request, question_of

if TYPE_CHECKING:
    from ..toolbox import Toolbox

REPAIRABLE = ("invalid", "not_found", "tool", "exception", "timeout")
"""Kinds of errors after which the model should try again."""
MAX_RETRIES = 10
"""Failed calls of one tool after which pydantic-ai ends the run. The loop guard of the toolbox refuses repetitions."""
_APPROVER = "pydantic-ai"
_ANY = SchemaValidator(core_schema.any_schema())  # the toolbox validates the arguments


class PydanticAiToolset(AbstractToolset[Any]):
    """The tools of an open toolbox. `context` is that of all calls; its session is by default the conversation."""

    def __init__(self, box: Toolbox, context: ToolContext | None = None) -> None:
        self.box = box
        self.context = context or replace(box.context, channel="pydantic-ai")

    @property
    def id(self) -> str:
        """The name of this toolset among those of an agent."""
        return "toolcrib"

    async def for_run(self, ctx: RunContext[Any]) -> AbstractToolset[Any]:
        """Begin a turn if a message of the user begins the run."""
        session = self._context(ctx).session_id
        if ctx.prompt is not None and session is not None:
            self.box.new_turn(session)
        return self

    async def get_tools(self, ctx: RunContext[Any]) -> dict[str, ToolsetTool[Any]]:
        """Return the tools that the session is shown. First, calls that a person denied are denied in the record."""
        last = ctx.messages[-1] if ctx.messages else None
        for part in last.parts if isinstance(last, ModelRequest) else ():
            if isinstance(part, ToolReturnPart) and part.outcome == "denied":
                row = await open_request(self.box, part.tool_call_id, self._context(ctx))
                if row is not None:
                    await answer_request(self.box, row, Decision(False, str(part.content), approver=_APPROVER))
        session = self._context(ctx).session_id
        found = [
            ToolDefinition(
                name=each["name"], description=each["description"], parameters_json_schema=each["input_schema"]
            )
            for each in self.box.definitions("flat", session_id=session)
        ]
        return {
            each.name: ToolsetTool(toolset=self, tool_def=each, max_retries=MAX_RETRIES, args_validator=_ANY)
            for each in found
        }

    async def call_tool(
        self, name: str, tool_args: dict[str, Any], ctx: RunContext[Any], tool: ToolsetTool[Any]
    ) -> Any:
        """Run a call through the toolbox. Raises ApprovalRequired and ModelRetry."""
        context, call_id = self._context(ctx), ctx.tool_call_id
        if ctx.tool_call_approved and call_id is not None:
            asked = _asked(ctx, call_id) or tool_args
            yes = Decision(True, arguments=None if asked == tool_args else tool_args, approver=_APPROVER)
            output = await call_approved(self.box, name, asked, context, call_id, yes)
        else:
            output = await self.box.call(name, tool_args, context, call_id=call_id)
        if output.error_kind == "pending":
            raise ApprovalRequired(metadata=await question_of(self.box, output))
        if output.error_kind in REPAIRABLE:
            raise ModelRetry(output.for_llm)
        return _result(output)

    def _context(self, ctx: RunContext[Any]) -> ToolContext:
        session = self.context.session_id or ctx.conversation_id
        return replace(self.context, session_id=session, deps=ctx.deps)


def _asked(ctx: RunContext[Any], call_id: str) -> dict[str, Any] | None:
    """Return the arguments that the model gave: a person may have approved others."""
    for message in reversed(ctx.messages):
        for part in message.parts if isinstance(message, ModelResponse) else ():
            if isinstance(part, ToolCallPart) and part.tool_call_id == call_id:
                return part.args_as_dict()
    return None


def _result(output: ToolOutput) -> str | ToolReturn:
    images = [
        BinaryContent(each.data, media_type=each.mime_type) for each in output.content if isinstance(each, ImageBlock)
    ]
    return ToolReturn(output.for_llm, content=cast("Any", images)) if images else output.for_llm


def tool_from_pydantic_ai(tool: PydanticTool[Any], **options: Any) -> Tool:
    """Return a tool of pydantic-ai as ours. `options` are those of `@tool`: without a `category` each call asks.

    Its `RunContext` has the `deps` and the id of the call, and no messages. If it requires approval, each call asks.
    """
    toolset = FunctionToolset[Any]([tool])
    described = tool.tool_def

    async def call(arguments: dict[str, Any], /, ctx: ToolContext) -> Any:
        run: RunContext[Any] = RunContext(
            deps=ctx.deps, model=TestModel(), usage=RunUsage(), tool_name=tool.name, tool_call_id=ctx.call_id,
            tool_call_approved=True,
        )  # fmt: skip
        found = (await toolset.get_tools(run))[tool.name]
        try:
            result = await toolset.call_tool(tool.name, found.args_validator.validate_python(arguments), run, found)
        except ModelRetry as error:
            raise ToolError(error.message) from error
        return result.return_value if isinstance(result, ToolReturn) else result

    asks = "it requires approval in pydantic-ai" if tool.requires_approval else None
    given: dict[str, Any] = {
        "name": tool.name, "description": described.description or "", "needs_review": asks, **options,
    }  # fmt: skip
    return Tool.from_schema(schema=described.parameters_json_schema, handler=call, **given)
