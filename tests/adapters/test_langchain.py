"""Our tools in LangChain and LangGraph: the scenario, and its answers in our approvals."""

from __future__ import annotations

import asyncio
import pickle
import threading
from pathlib import Path
from typing import Any

import pytest
from langchain_core.messages import AIMessage, AnyMessage, ToolMessage
from langchain_core.tools import ToolException
from langchain_core.tools import tool as langchain_tool
from langchain_core.utils.function_calling import convert_to_openai_tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode, tools_condition
from langgraph.types import Command

from toolcrib import ImageBlock, Tool, ToolContext, ToolOutput, tool
from toolcrib.adapters import langchain
from toolcrib.adapters.langchain import langchain_tools, tool_from_langchain
from toolcrib.testing import temporary_toolbox
from toolcrib.toolbox import Toolbox

from .scenario import CALLS, DONE, in_two_processes

Calls = list[tuple[str, str, dict[str, Any]]]
CONFIG: Any = {"configurable": {"thread_id": "t"}}


def graph_of(box: Toolbox, calls: Calls = CALLS, saver: Any = None, context: ToolContext | None = None) -> Any:
    """A graph whose model makes these calls, one after the other."""

    def model(state: MessagesState) -> Any:
        done = sum(isinstance(each, ToolMessage) for each in state["messages"])
        if done == len(calls):
            return {"messages": [AIMessage(DONE)]}
        ident, name, arguments = calls[done]
        return {"messages": [AIMessage("", tool_calls=[{"id": ident, "name": name, "args": arguments}])]}

    graph: Any = StateGraph(MessagesState)
    graph.add_node("model", model)
    graph.add_node("tools", ToolNode(langchain_tools(box, context)))
    graph.add_edge(START, "model")
    graph.add_conditional_edges("model", tools_condition)
    graph.add_edge("tools", "model")
    return graph.compile(checkpointer=saver or InMemorySaver())


def texts(result: Any) -> list[str]:
    messages: list[AnyMessage] = result["messages"]
    return [str(each.content) for each in messages if isinstance(each, ToolMessage)]


START_WITH = {"messages": [("user", "Tidy up.")]}


async def begin(box: Toolbox, folder: Path) -> None:
    saver = InMemorySaver()
    result = await graph_of(box, saver=saver).ainvoke(START_WITH, CONFIG)
    (waits,) = result["__interrupt__"]
    assert "b.txt" in waits.value["preview"]
    stored = ({k: {n: dict(c) for n, c in v.items()} for k, v in saver.storage.items()}, saver.writes, saver.blobs)
    (folder / "graph").write_bytes(pickle.dumps((stored[0], dict(stored[1]), dict(stored[2]))))


async def resume(box: Toolbox, folder: Path) -> list[str]:
    saver = InMemorySaver()
    storage, writes, blobs = pickle.loads((folder / "graph").read_bytes())
    for thread, by_name in storage.items():
        for name, checkpoints in by_name.items():
            saver.storage[thread][name] = checkpoints
    saver.writes.update(writes)
    saver.blobs.update(blobs)
    result = await graph_of(box, saver=saver).ainvoke(Command(resume=True), CONFIG)
    assert result["messages"][-1].content == DONE
    return texts(result)


async def test_the_scenario(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    await in_two_processes("langchain", resume, tmp_path, monkeypatch)


RAN: list[str] = []


@tool(category="destructive")
def drop(table: str) -> str:
    """Drop a table."""
    RAN.append(table)
    return f"dropped {table}"


@pytest.fixture(autouse=True)
def _fresh() -> None:
    RAN.clear()


DROP: Calls = [("c", "drop", {"table": "a"})]


async def test_a_no_is_in_the_record_and_the_next_call_asks_again() -> None:
    calls = [*DROP, ("d", "drop", {"table": "a"})]
    async with temporary_toolbox(tools=[drop], builtin=False) as box:
        graph = graph_of(box, calls)
        await graph.ainvoke(START_WITH, CONFIG)
        result = await graph.ainvoke(Command(resume={"approve": False, "reason": "not today"}), CONFIG)
        assert texts(result) == ["Tool 'drop' was denied by user approval: not today"]
        newer, older = box.approvals.recent()
        assert (older["state"], older["answer"], older["approver"]) == ("denied", "not today", "langchain")
        assert (newer["state"], newer["call_id"], newer["session_id"]) == ("pending", "d", "t")
    assert RAN == []


@pytest.mark.parametrize("said", [False, "yes", 1, {"approve": 1}, {}, "approve"])
async def test_anything_but_a_yes_is_a_no(said: Any) -> None:
    async with temporary_toolbox(tools=[drop], builtin=False) as box:
        graph = graph_of(box, DROP)
        await graph.ainvoke(START_WITH, CONFIG)
        await graph.ainvoke(Command(resume=said), CONFIG)
    assert RAN == []


async def test_other_arguments_of_the_person_run() -> None:
    async with temporary_toolbox(tools=[drop], builtin=False) as box:
        graph = graph_of(box, DROP)
        await graph.ainvoke(START_WITH, CONFIG)
        yes = {"approve": True, "arguments": {"table": "b"}}
        assert texts(await graph.ainvoke(Command(resume=yes), CONFIG)) == ["dropped b"]


async def test_a_yes_to_a_request_that_has_ended_asks_again() -> None:
    async with temporary_toolbox(tools=[drop], builtin=False) as box:
        graph = graph_of(box, DROP)
        await graph.ainvoke(START_WITH, CONFIG)
        box.approvals.expire(box.approvals.pending()[0]["id"])
        assert "needs approval" in texts(await graph.ainvoke(Command(resume=True), CONFIG))[0]
    assert RAN == []


def two_calls_in_one_node(box: Toolbox) -> Any:
    """A graph whose model makes two calls in one message. The second asks first, and is found later."""
    second_was_asked = threading.Event()

    def preview_of_late(args: Any, ctx: Any) -> str:
        second_was_asked.wait(60)
        return "late"

    def preview_of_large(args: Any, ctx: Any) -> str:
        second_was_asked.set()
        return "large"

    def ran(arguments: Any) -> str:
        RAN.append(arguments["name"])
        return "done"

    schema = {"name": "string", "text": {"type": "string", "default": ""}}
    for name, preview in (("late", preview_of_late), ("large", preview_of_large)):
        box.registry.register(
            Tool.from_schema(name, name, schema, ran, category="network_write", preview=preview, idempotent=False)
        )
    calls = [
        {"id": "1", "name": "late", "args": {"name": "late"}},
        {"id": "2", "name": "large", "args": {"name": "large", "text": "x" * 500_000}},
    ]
    graph: Any = StateGraph(MessagesState)
    graph.add_node("model", lambda state: {"messages": [AIMessage("", tool_calls=calls)]})
    graph.add_node("tools", ToolNode(langchain_tools(box)))
    graph.add_edge(START, "model")
    graph.add_edge("model", "tools")
    return graph.compile(checkpointer=InMemorySaver())


@pytest.mark.parametrize("in_another_process", [False, True])
async def test_an_answer_is_only_for_the_question_that_was_shown(in_another_process: bool) -> None:
    async with temporary_toolbox(builtin=False) as box:
        graph = two_calls_in_one_node(box)
        before = asyncio.all_tasks()
        (waits,) = (await graph.ainvoke(START_WITH, CONFIG))["__interrupt__"]
        await asyncio.gather(*asyncio.all_tasks() - before, return_exceptions=True)  # the other call goes on
        assert len(box.approvals.pending()) == 2
        if in_another_process:
            langchain._shown.clear()
        result = await graph.ainvoke(Command(resume=True), CONFIG)
        shown = [] if in_another_process else [waits.value["tool"]]
        assert shown == RAN
        assert "__interrupt__" not in result
        assert all(text == "done" or "needs approval" in text for text in texts(result))


def test_a_graph_without_a_loop() -> None:
    async def opened() -> Any:
        return temporary_toolbox(tools=[drop], builtin=False)

    opening = asyncio.run(opened())
    with asyncio.Runner() as runner:
        box = runner.run(opening.__aenter__())
        graph = graph_of(box, DROP)
        assert graph.invoke(START_WITH, CONFIG)["__interrupt__"]
        assert texts(graph.invoke(Command(resume=True), CONFIG)) == ["dropped a"]
        runner.run(opening.__aexit__(None, None, None))
    assert RAN == ["a"]


async def test_outside_a_graph_a_question_is_an_error() -> None:
    async with temporary_toolbox(tools=[drop], builtin=False) as box:
        (alone,) = langchain_tools(box)
        message = await alone.ainvoke({"type": "tool_call", "id": "c", "name": "drop", "args": {"table": "a"}})
        assert message.status == "error"
        assert "needs approval" in message.content
        assert "needs approval" in await alone.ainvoke({"table": "a"})
    assert RAN == []


async def test_the_model_reads_our_definition_errors_and_images() -> None:
    @tool(category="filesystem_read")
    def look(config: str, self_: int = 1) -> ToolOutput:
        """Look."""
        return ToolOutput("a picture", content=(ImageBlock(b"\x89PNG\r\n\x1a\n", "image/png"),))

    async with temporary_toolbox(tools=[look], builtin=False) as box:
        (alone,) = langchain_tools(box)
        assert convert_to_openai_tool(alone)["function"]["parameters"]["properties"].keys() == {"config", "self_"}
        call = {"type": "tool_call", "id": "c", "name": "look", "args": {"config": "x"}}
        message = await alone.ainvoke(call)
        assert message.content[0] == {"type": "text", "text": "a picture"}
        assert message.content[1]["image_url"]["url"].startswith("data:image/png;base64,")
        wrong = await alone.ainvoke({**call, "args": {}})
        assert (wrong.status, "missing required config" in wrong.content) == ("error", True)


async def test_a_tool_of_langchain_is_ours() -> None:
    @langchain_tool
    async def divide(a: int, b: int = 2) -> str:
        """Divide."""
        if b == 0:
            raise ToolException("not by zero")
        return str(a // b)

    ours = tool_from_langchain(divide, category="memory")
    async with temporary_toolbox(tools=[ours], builtin=False) as box:
        assert (await box.call("divide", {"a": "7"})).for_llm == "3"
        failed = await box.call("divide", {"a": 7, "b": 0})
        assert (failed.error_kind, failed.for_llm.split("\n")[0]) == ("tool", "not by zero")
        assert (await box.call("divide", {})).error_kind == "invalid"
        box.registry.register(tool_from_langchain(divide, name="other"))
        assert (await box.call("other", {"a": 1})).error_kind == "pending"


async def test_a_loop_through_langchain_and_back() -> None:
    async with temporary_toolbox({"a.txt": "one\n"}) as box:
        theirs = next(each for each in langchain_tools(box) if each.name == "read_file")
        async with temporary_toolbox(tools=[tool_from_langchain(theirs, category="memory")], builtin=False) as outer:
            assert "1| one" in (await outer.call("read_file", {"path": "a.txt"})).for_llm
