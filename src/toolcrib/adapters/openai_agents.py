"""Our tools for the OpenAI Agents SDK, and its tools as ours. A call that needs a person interrupts the run.

    agent = Agent("assistant", tools=openai_agents_tools(box))
    result = await Runner.run(agent, task)      # result.interruptions: `await question(box, item.call_id)`

An error is an ordinary result, which says what was wrong.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, cast

from agents import FunctionTool, RunContextWrapper, ToolOutputImage, ToolOutputText, default_tool_error_function
from agents.tool_context import ToolContext as CallContext

from ..core.context import ToolContext
from ..core.errors import ToolDefinitionError, ToolError
from ..core.output import ImageBlock, ToolOutput
from ..core.threads import shared_threads
from ..core.tool import Tool, encode
from ..policy.requests import Decision
from . import image_of
from .questions import answer_request, call_approved, open_request, question

if TYPE_CHECKING:
    from ..toolbox import Toolbox

__all__ = ["openai_agents_tools", "question", "tool_from_openai_agents"]

_APPROVER = "openai-agents"


def openai_agents_tools(box: Toolbox, context: ToolContext | None = None) -> list[Any]:
    """Return the tools of an open toolbox. `context` is that of all calls; give it a `session_id`."""
    context = context or replace(box.context, channel="openai-agents")
    return [_AgentsTool(box, context, each).tool for each in box.registry.definitions("flat")]


class _AgentsTool:
    """One tool. `_ran` has the outputs of calls that needed no question in the end, by id."""

    def __init__(self, box: Toolbox, context: ToolContext, definition: dict[str, Any]) -> None:
        self._box, self._base, self._name = box, context, definition["name"]
        self._ran: dict[str, ToolOutput] = {}
        self.tool = FunctionTool(
            name=self._name, description=definition["description"], params_json_schema=definition["input_schema"],
            on_invoke_tool=self._call, strict_json_schema=False, is_enabled=self._is_listed,
            needs_approval=self._needs_approval,
        )  # fmt: skip

    async def _is_listed(self, run: RunContextWrapper[Any], agent: Any) -> bool:
        """Return whether the session is shown this tool. First, what a person rejected is denied in the record."""
        context = self._context(run)
        for row in await shared_threads.run(self._box.approvals.pending):
            call_id = row["call_id"]
            if run.is_tool_approved(self._name, call_id) is False:
                mine = await open_request(self._box, call_id, context)
                if mine is not None:
                    reason = run.get_rejection_message(self._name, call_id) or ""
                    await answer_request(self._box, mine, Decision(False, reason, approver=_APPROVER))
        listed = self._box.definitions("flat", session_id=context.session_id)
        return any(each["name"] == self._name for each in listed)

    async def _needs_approval(self, run: RunContextWrapper[Any], arguments: dict[str, Any], call_id: str) -> bool:
        """Return whether a call must pause. The question is asked here, so that it is stored before the pause."""
        if call_id in self._ran or self._box.approval_service.approver is not None:  # the toolbox asks by itself
            return False
        context = self._context(run)
        row = await open_request(self._box, call_id, context, (self._name, arguments))
        if row is not None:
            return row["state"] == "pending"
        if (await self._box.check(self._name, arguments, context)).verdict != "ask":
            return False
        output = await self._box.call(self._name, arguments, context, call_id=call_id)
        if output.error_kind == "pending":
            return True
        self._ran[call_id] = output  # a stored yes covered it
        return False

    async def _call(self, run: CallContext[Any], arguments: str) -> Any:
        context, call_id = self._context(run), run.tool_call_id
        output = self._ran.pop(call_id, None)
        if output is None and run.is_tool_approved(self._name, call_id):
            yes = Decision(True, approver=_APPROVER)
            output = await call_approved(self._box, self._name, arguments, context, call_id, yes)
        return _result(output or await self._box.call(self._name, arguments, context, call_id=call_id))

    def _context(self, run: RunContextWrapper[Any]) -> ToolContext:
        return replace(self._base, deps=run.context)


def _result(output: ToolOutput) -> Any:
    images = [each for each in output.content if isinstance(each, ImageBlock)]
    if not images:
        return output.for_llm
    shown = [ToolOutputImage(image_url=f"data:{each.mime_type};base64,{each.base64()}") for each in images]
    return [ToolOutputText(text=output.for_llm), *shown]


def tool_from_openai_agents(tool: FunctionTool, **options: Any) -> Tool:
    """Return a function tool of the SDK as ours. `options` are those of `@tool`: without a `category` each call asks.

    It gets `ToolContext.deps` as its context, and the id of the call. If it may need approval, each call asks. Raises
    ToolDefinitionError for a tool with guardrails, which only the SDK runs.
    """
    if tool.tool_input_guardrails or tool.tool_output_guardrails:
        raise ToolDefinitionError(f"{tool.name} has guardrails, which only a run of the SDK obeys: make them hooks")

    async def call(arguments: dict[str, Any], /, ctx: ToolContext) -> Any:
        text = encode(arguments)
        run = CallContext[Any](ctx.deps, tool_name=tool.name, tool_call_id=ctx.call_id or "", tool_arguments=text)
        result = await tool.on_invoke_tool(run, text)
        if str(result).startswith(default_tool_error_function(run, Exception())):  # older ones add the error
            raise ToolError(f"{tool.name} failed; with failure_error_function=None it says why")
        return [*map(_ours, cast("list[Any]", result))] if isinstance(result, list) else _ours(result)

    asks = "it needs approval in the OpenAI Agents SDK" if tool.needs_approval else None
    limit = {} if tool.timeout_seconds is None else {"timeout": tool.timeout_seconds}
    given: dict[str, Any] = {
        "name": tool.name, "description": tool.description, "needs_review": asks, **limit, **options,
    }  # fmt: skip
    return Tool.from_schema(schema=tool.params_json_schema, handler=call, **given)


def _ours(part: Any) -> Any:
    if isinstance(part, ToolOutputImage):
        return image_of(part.image_url or "") or part
    return part.text if isinstance(part, ToolOutputText) else part
