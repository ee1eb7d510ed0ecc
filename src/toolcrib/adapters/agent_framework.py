"""Our tools for the Microsoft Agent Framework, and its tools as ours. A call that needs a person ends the run with an
approval request.

    tools = AgentFrameworkTools(box)
    agent = Agent(client, tools=tools.functions, middleware=tools.middleware)
    response = await agent.run(task, session=session)     # response.user_input_requests

An error is an ordinary result, which says what was wrong.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, cast

from agent_framework import (
    SKIP_PARSING,
    AgentContext,
    AgentMiddleware,
    Content,
    FunctionInvocationContext,
    FunctionMiddleware,
    FunctionTool,
)

from ..core.context import ToolContext
from ..core.errors import ToolDefinitionError
from ..core.output import ImageBlock, ToolOutput
from ..core.tool import Tool
from ..policy.requests import Decision
from . import image_of
from .questions import answer_request, call_approved, open_request, question_of

if TYPE_CHECKING:
    from ..toolbox import Toolbox

_APPROVER = "agent-framework"
QUESTION = "toolcrib"
"""The key in `additional_properties` of an approval request, with the question that a person reads."""


class AgentFrameworkTools:
    """The tools of an open toolbox, and the middleware that they need. `context` is that of all calls; its session is
    by default that of the agent."""

    def __init__(self, box: Toolbox, context: ToolContext | None = None) -> None:
        self.box = box
        self.context = context or replace(box.context, channel="agent-framework")
        self.functions = [
            FunctionTool(
                name=each["name"], description=each["description"], input_model=each["input_schema"],
                func=partial(self._call, each["name"]), result_parser=SKIP_PARSING,
            )
            for each in box.registry.definitions("flat")
        ]  # fmt: skip
        self.middleware = [_Answers(self), _Arguments(self)]

    def context_of(self, session: Any) -> ToolContext:
        """Return the context of calls in a session of the agent."""
        return replace(self.context, session_id=self.context.session_id or (session and session.session_id))

    async def _call(self, name: str, ctx: FunctionInvocationContext, **arguments: Any) -> Any:
        """Run a call, or return the request for approval."""
        context, call_id = self.context_of(ctx.session), ctx.metadata.get("call_id")
        if call_id is not None and ctx.metadata.get("approval_response") is not None:
            yes = Decision(True, approver=_APPROVER)
            output = await call_approved(self.box, name, arguments, context, call_id, yes)
        else:
            output = await self.box.call(name, arguments, context, call_id=call_id)
        asked = await question_of(self.box, output)
        if asked is None or call_id is None:
            return _contents(output)
        ident = ctx.metadata.get("function_call_occurrence_id") or call_id
        call = Content.from_function_call(call_id, name, arguments=arguments, id=ident)
        return Content.from_function_approval_request(ident, call, additional_properties={QUESTION: asked})


class _Answers(AgentMiddleware):
    """Denies in the record what a person denied, and begins a turn with a message of the user."""

    def __init__(self, tools: AgentFrameworkTools) -> None:
        self._tools = tools

    async def process(self, context: AgentContext, call_next: Callable[[], Awaitable[None]]) -> None:
        """Look at what comes in."""
        box, ours = self._tools.box, self._tools.context_of(context.session)
        answers = list(_responses(context.messages))
        for each in answers:
            call = each.function_call
            if each.approved is not True and call is not None and call.call_id is not None:
                row = await open_request(box, call.call_id, ours)
                if row is not None:
                    await answer_request(box, row, Decision(False, approver=_APPROVER))
        if not answers and ours.session_id is not None:
            box.new_turn(ours.session_id)
        await call_next()


class _Arguments(FunctionMiddleware):
    """Says what is wrong with arguments: the framework would not tell the model."""

    def __init__(self, tools: AgentFrameworkTools) -> None:
        self._tools = tools

    async def process(self, context: FunctionInvocationContext, call_next: Callable[[], Awaitable[None]]) -> None:
        """Answer a call whose arguments are wrong."""
        box, name, given = self._tools.box, context.function.name, context.arguments
        tool = box.registry.find(name) if context.function in self._tools.functions else None
        if tool is None or not isinstance(given, Mapping) or not tool.validate_params(arguments := dict(given)):
            await call_next()
            return
        ours, call_id = self._tools.context_of(context.session), context.metadata.get("call_id")
        context.result = _contents(await box.call(name, arguments, ours, call_id=call_id))


def _responses(messages: Any) -> Iterator[Content]:
    for message in messages:
        for content in message.contents:
            if content.type == "function_approval_response":
                yield content


def _contents(output: ToolOutput) -> list[Content]:
    images = [each for each in output.content if isinstance(each, ImageBlock)]
    return [Content.from_text(output.for_llm), *(Content.from_data(each.data, each.mime_type) for each in images)]


def tool_from_agent_framework(tool: FunctionTool, **options: Any) -> Tool:
    """Return a function of the framework as ours. `options` are those of `@tool`: without a `category` each call asks.

    If it requires approval, each call asks. Raises ToolDefinitionError for one that only a client runs.
    """
    if tool.declaration_only:
        raise ToolDefinitionError(f"{tool.name} is only a declaration: there is no function to call")

    async def call(arguments: dict[str, Any], /, ctx: ToolContext) -> Any:
        asked = FunctionInvocationContext(tool, arguments)
        result: Any = await tool.invoke(context=asked, tool_call_id=ctx.call_id)
        found: list[Any] = cast("list[Any]", result) if isinstance(result, list) else []
        if not found or not all(isinstance(part, Content) for part in found):  # it is not parsed
            return cast("Any", result)
        parts = [image_of(part.uri or "") or part.text or str(part) for part in found]
        return parts[0] if len(parts) == 1 else parts

    asks = "it requires approval in the Microsoft Agent Framework" if tool.approval_mode == "always_require" else None
    given: dict[str, Any] = {"name": tool.name, "description": tool.description, "needs_review": asks, **options}
    return Tool.from_schema(schema=tool.parameters(), handler=call, **given)
