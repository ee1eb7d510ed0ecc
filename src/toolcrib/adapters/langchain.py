"""Our tools for LangChain and LangGraph. A call that needs a person interrupts its graph.

    graph = create_agent(model, langchain_tools(box), checkpointer=saver)
    graph.invoke(Command(resume=True), config)      # or False, or {"approve": False, "reason": "…"}

An error is a `ToolMessage` with the status "error". Outside a graph nobody can be asked, so a question is an error.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping
from contextvars import ContextVar
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from langchain_core.runnables import RunnableConfig
from langchain_core.runnables.config import ensure_config
from langchain_core.tools import BaseTool, ToolException
from langchain_core.utils.function_calling import convert_to_openai_tool
from langgraph.types import interrupt

from ..core.context import ToolContext
from ..core.errors import ToolError
from ..core.json_values import as_object
from ..core.output import ImageBlock, ToolOutput
from ..core.threads import shared_threads
from ..core.tool import Tool
from ..policy.requests import Decision, denial
from .questions import Question, answer_request, call_approved, open_request, question_of, shown

if TYPE_CHECKING:
    from ..toolbox import Toolbox


class _Asked(NamedTuple):
    """The call that runs now. `id` is None if it came without one."""

    arguments: dict[str, Any]
    id: str | None
    context: ToolContext


class _Answer(NamedTuple):
    """What a person has answered. `is_unsure`: another process has shown the question, perhaps that of another call."""

    decision: Decision
    is_unsure: bool


_SENT = ("__pregel_push",)
"""How LangGraph marks a run of a node that one `Send` has begun."""
_asked: ContextVar[_Asked] = ContextVar("toolcrib_langchain_call")
MAX_SHOWN = 10_000
_shown: dict[str, str] = {}
"""The question that each run of a node has shown, by the id of the run. Several calls may be in one, and LangGraph
gives the answer to the one that asks for it first: so only the one that was shown may ask."""
_shown_lock = threading.Lock()


def langchain_tools(box: Toolbox, context: ToolContext | None = None) -> list[BaseTool]:
    """Return the tools of an open toolbox. `context` is that of all calls; its session is by default the thread."""
    context = context or replace(box.context, channel="langchain")
    return [
        LangchainTool(
            name=each["name"], description=each["description"], args_schema=each["input_schema"],
            handle_tool_error=True, box=box, context=context,
        )
        for each in box.registry.definitions("flat")
    ]  # fmt: skip


class LangchainTool(BaseTool):
    """One tool of a toolbox."""

    box: Any
    context: Any

    async def ainvoke(self, input: Any, config: RunnableConfig | None = None, **kwargs: Any) -> Any:  # noqa: A002
        """Run a call."""
        token = _asked.set(self._read(input, config))
        try:
            return await super().ainvoke(input, config, **kwargs)
        finally:
            _asked.reset(token)

    def invoke(self, input: Any, config: RunnableConfig | None = None, **kwargs: Any) -> Any:  # noqa: A002
        """Run a call, on the loop thread of the toolbox."""
        token = _asked.set(self._read(input, config))
        try:
            return super().invoke(input, config, **kwargs)
        finally:
            _asked.reset(token)

    async def _arun(self, *args: Any, **kwargs: Any) -> Any:
        asked = _asked.get()
        output, waits, is_new = await self._call(asked)
        if waits is not None and (said := _ask(waits)) is not None and not is_new:
            output = await self._answer(asked, said, waits) or output
        return _result(output)

    def _run(self, *args: Any, **kwargs: Any) -> Any:
        asked = _asked.get()
        output, waits, is_new = self.box.run_sync(self._call(asked))
        if waits is not None and (said := _ask(waits)) is not None and not is_new:
            output = self.box.run_sync(self._answer(asked, said, waits)) or output
        return _result(output)

    def _read(self, given: Any, config: RunnableConfig | None) -> _Asked:
        thread = ensure_config(config).get("configurable", {}).get("thread_id")
        session = self.context.session_id or (None if thread is None else str(thread))
        context = replace(self.context, session_id=session)
        call = as_object(given)
        if call.get("type") == "tool_call":
            return _Asked(call["args"], call.get("id"), context)
        return _Asked(call, None, context)

    async def _call(self, asked: _Asked) -> tuple[ToolOutput, Question | None, bool]:
        """Return the output; the question if the call waits; and whether it is new, so that no answer can be to it.

        A graph that goes on comes here once more: then the question is there already."""
        box: Toolbox = self.box
        call = self.name, asked.arguments
        if asked.id is not None and (row := await open_request(box, asked.id, asked.context, call)) is not None:
            text = f"{self.name} was not run: it needs approval, and another call was asked about. Make the call again."
            return ToolOutput.error(text, "pending"), shown(row), False
        since = time.time()
        output = await box.call(self.name, asked.arguments, asked.context, call_id=asked.id)
        waits = await question_of(box, output)
        return output, waits, waits is not None and waits["created"] >= since

    async def _answer(self, asked: _Asked, answer: _Answer, waits: Question) -> ToolOutput | None:
        """Pass an answer on. None if it may be for another question."""
        box, call_id, said = self.box, asked.id or "", answer.decision
        if answer.is_unsure:
            rows = await shared_threads.run(box.approvals.pending)
            if any(r["session_id"] == asked.context.session_id and r["id"] != waits["approval_id"] for r in rows):
                return None
        if said.approve:
            return await call_approved(box, self.name, asked.arguments, asked.context, call_id, said)
        row = await open_request(box, call_id, asked.context, (self.name, asked.arguments))
        if row is not None:
            await answer_request(box, row, said)
        return denial(self.name, said.reason)


def _ask(waits: Question) -> _Answer | None:
    """Interrupt the graph, or return what a person has answered. None outside a graph, and for a call that runs in one
    node with another one, whose question was shown."""
    config = ensure_config()
    run: Any = config.get("configurable", {}).get("checkpoint_ns")
    by_itself = config.get("metadata", {}).get("langgraph_path", ())[:1] == _SENT
    with _shown_lock:
        is_new = run not in _shown
        if run and _shown.setdefault(run, waits["approval_id"]) != waits["approval_id"]:
            return None
        if len(_shown) > MAX_SHOWN:
            del _shown[next(iter(_shown))]
    try:
        said: Any = interrupt(waits)
    except (RuntimeError, KeyError):  # which of them depends on the version
        return None
    decision = Decision(said is True, approver="langchain")
    if isinstance(said, Mapping):
        given = cast("Mapping[str, Any]", said)
        reason, arguments = str(given.get("reason", "")), given.get("arguments")
        decision = Decision(given.get("approve") is True, reason, arguments, approver="langchain")
    return _Answer(decision, is_new and not by_itself)


def _result(output: ToolOutput) -> Any:
    if output.is_error:
        raise ToolException(output.for_llm)
    images = [each for each in output.content if isinstance(each, ImageBlock)]
    if not images:
        return output.for_llm
    urls = [f"data:{each.mime_type};base64,{each.base64()}" for each in images]
    return [
        {"type": "text", "text": output.for_llm},
        *({"type": "image_url", "image_url": {"url": url}} for url in urls),
    ]


def tool_from_langchain(tool: BaseTool, **options: Any) -> Tool:
    """Return a tool of LangChain as ours. `options` are those of `@tool`: without a `category` each call asks."""
    described = convert_to_openai_tool(tool)["function"]

    async def call(arguments: dict[str, Any], /, ctx: ToolContext) -> Any:
        asked = {"type": "tool_call", "id": ctx.call_id, "name": tool.name, "args": arguments}
        try:
            message = await tool.ainvoke(asked)
        except ToolException as error:
            raise ToolError(str(error)) from error
        text = message.text if hasattr(message, "text") else str(message)
        if getattr(message, "status", "success") == "error":
            raise ToolError(str(text))
        return str(text)

    given = {"name": tool.name, "description": described["description"], **options}
    return Tool.from_schema(schema=described["parameters"], handler=call, **given)
