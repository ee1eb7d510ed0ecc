from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import anyio
import pytest
from mcp import Client
from mcp.shared.exceptions import MCPError
from mcp.shared.memory import create_client_server_memory_streams
from mcp.shared.message import SessionMessage
from mcp_types import ElicitResult, jsonrpc_message_adapter

from toolcrib.core.context import ToolContext
from toolcrib.core.output import AudioBlock, ImageBlock, ResourceBlock, TextBlock, ToolOutput
from toolcrib.core.registry import ToolRegistry
from toolcrib.core.tool import Tool, tool
from toolcrib.policy.loops import LoopGuard
from toolcrib.serve import calls as calls_module
from toolcrib.serve.mcp import McpServer
from toolcrib.serve.peer import peer_of
from toolcrib.toolbox import Toolbox

from ..waiting import until

Connect = Callable[..., Client]


def text_of(result: Any) -> str:
    return "\n".join(block.text for block in result.content if block.type == "text")


@pytest.fixture
def registry() -> ToolRegistry:
    @tool(category="memory", read_only=True)
    async def echo(text: str, times: int = 1) -> str:
        """Say it again.

        Args:
            text: What to say.
            times: How often.
        """
        return text * times

    @tool(category="filesystem_write", destructive=False, idempotent=True, title="Note", open_world=False)
    def note(text: str) -> str:
        """Keep a note."""
        return "kept"

    return ToolRegistry([echo, note])


async def test_lists_tools_with_hints(registry: ToolRegistry, connect: Connect, era: str) -> None:
    async with connect(registry, era) as client:
        tools = {listed.name: listed for listed in (await client.list_tools()).tools}
        assert client.protocol_version == ("2025-11-25" if era == "legacy" else era)
    assert list(tools) == ["echo", "note"]
    assert tools["echo"].description == "Say it again."
    assert tools["echo"].input_schema["properties"]["text"] == {"type": "string", "description": "What to say."}
    assert tools["echo"].input_schema["required"] == ["text"]
    assert tools["echo"].annotations is not None
    assert tools["echo"].annotations.read_only_hint is True
    hints = tools["note"].annotations
    assert hints is not None
    assert (hints.read_only_hint, hints.destructive_hint, hints.idempotent_hint, hints.open_world_hint) == (
        False, False, True, False,
    )  # fmt: skip
    assert tools["note"].title == "Note"


async def test_calls_and_coerces(registry: ToolRegistry, connect: Connect, era: str) -> None:
    async with connect(registry, era) as client:
        result = await client.call_tool("echo", {"text": "ab", "times": "2"})
    assert text_of(result) == "abab"
    assert not result.is_error


async def test_bad_arguments_are_an_error_result_with_every_violation(
    registry: ToolRegistry, connect: Connect, era: str
) -> None:
    async with connect(registry, era) as client:
        result = await client.call_tool("echo", {"txt": "ab", "times": "often"})
    assert result.is_error
    assert "times" in text_of(result)
    assert "txt" in text_of(result)
    assert result.meta is not None
    assert result.meta["toolcrib/error"] == "invalid"


async def test_an_unknown_tool_is_a_protocol_error_with_the_closest_name(
    registry: ToolRegistry, connect: Connect, era: str
) -> None:
    async with connect(registry, era) as client:
        with pytest.raises(MCPError) as caught:
            await client.call_tool("ecco", {})
    assert caught.value.error.code == -32602
    assert "echo" in str(caught.value)
    assert len(str(caught.value)) <= 500


async def test_a_cursor_that_we_never_gave_is_refused(registry: ToolRegistry, connect: Connect, era: str) -> None:
    async with connect(registry, era) as client:
        with pytest.raises(MCPError) as caught:
            await client.list_tools(cursor="2")
    assert caught.value.error.code == -32602


async def test_an_exception_in_a_tool_is_an_error_result(connect: Connect, era: str) -> None:
    @tool(category="memory")
    async def broken() -> str:
        """Breaks."""
        raise ValueError("broken on purpose")

    async with connect(ToolRegistry([broken]), era) as client:
        result = await client.call_tool("broken")
    assert result.is_error
    assert "broken on purpose" in text_of(result)


async def test_the_pipeline_timeout_applies(connect: Connect, era: str) -> None:
    @tool(category="memory", timeout=0.1)
    async def slow() -> str:
        """Takes too long."""
        await asyncio.sleep(30)
        return "late"

    async with connect(ToolRegistry([slow]), era) as client:
        with anyio.fail_after(60):
            result = await client.call_tool("slow")
    assert result.is_error
    assert "0.1 s" in text_of(result)


# --- content


async def test_blocks_arrive_in_order(connect: Connect, era: str) -> None:
    @tool(category="memory")
    def mixed() -> list[Any]:
        """Everything."""
        return [
            TextBlock("first"), ImageBlock(b"\x89PNG1", "image/png"), AudioBlock(b"RIFF", "audio/wav"),
            ResourceBlock("test://a", "text/plain", "inside"), ResourceBlock("test://b", data=b"\0\1"),
            ResourceBlock("test://c", name="a link"),
        ]  # fmt: skip

    async with connect(ToolRegistry([mixed]), era) as client:
        content: list[Any] = list((await client.call_tool("mixed")).content)
    assert [block.type for block in content] == ["text", "image", "audio", "resource", "resource", "resource_link"]
    assert content[0].text == "first"
    assert (content[1].data, content[1].mime_type) == ("iVBORzE=", "image/png")
    assert (content[2].data, content[2].mime_type) == ("UklGRg==", "audio/wav")
    assert content[3].resource.text == "inside"
    assert content[4].resource.blob == "AAE="
    assert (content[5].uri, content[5].name) == ("test://c", "a link")


async def test_structured_output_with_its_schema(connect: Connect, era: str) -> None:
    schema = {"type": "object", "properties": {"sum": {"type": "integer"}}, "required": ["sum"]}

    @tool(category="memory", output_schema=schema)
    def add(a: int, b: int) -> dict[str, int]:
        """Add."""
        return {"sum": a + b}

    async with connect(ToolRegistry([add]), era) as client:
        listed = (await client.list_tools()).tools[0]
        result = await client.call_tool("add", {"a": 1, "b": 2})
    assert listed.output_schema == schema
    assert result.structured_content == {"sum": 3}
    assert text_of(result) == '{"sum":3}'


@pytest.mark.parametrize("answer", [{"sum": "three"}, "no structure at all"])
async def test_a_broken_promise_of_structure_is_an_error_the_model_can_read(
    connect: Connect, era: str, answer: Any
) -> None:
    schema = {"type": "object", "properties": {"sum": {"type": "integer"}}, "required": ["sum"]}

    @tool(category="memory", output_schema=schema)
    def add() -> Any:
        """Add."""
        return answer

    async with connect(ToolRegistry([add]), era) as client:
        await client.list_tools()  # with the schema known, the SDK's client throws on results that do not fit
        result = await client.call_tool("add")
    assert result.is_error
    assert "output schema" in text_of(result)


async def test_structure_that_is_no_object_only_where_the_protocol_has_it(connect: Connect, era: str) -> None:
    @tool(category="memory", output_schema={"type": "array", "items": {"type": "integer"}})
    def primes() -> list[int]:
        """Primes."""
        return [2, 3, 5]

    async with connect(ToolRegistry([primes]), era) as client:
        listed = (await client.list_tools()).tools[0]
        result = await client.call_tool("primes")
    assert not result.is_error
    if era == "legacy":  # 2025-11-25 knows objects only; anything else would fail the whole listing
        assert listed.output_schema is None
        assert result.structured_content is None
    else:
        assert listed.output_schema is not None
        assert result.structured_content == [2, 3, 5]


async def test_a_warning_added_to_blocks_is_not_lost(connect: Connect, era: str) -> None:
    @tool(category="memory", read_only=True)
    def picture() -> ImageBlock:
        """A picture."""
        return ImageBlock(b"\x89PNG1", "image/png")

    registry = ToolRegistry([picture])
    registry.stages.guard = LoopGuard()
    async with connect(registry, era) as client:
        results = [await client.call_tool("picture") for _ in range(3)]
    assert [block.type for block in results[0].content] == ["image"]
    assert [block.type for block in results[2].content] == ["image", "text"]
    assert "Loop warning" in text_of(results[2])


# --- context, loop guard


async def test_tools_see_channel_session_and_client(connect: Connect, era: str) -> None:
    seen: list[ToolContext] = []

    @tool(category="memory")
    async def look(ctx: ToolContext) -> str:
        """Look around."""
        seen.append(ctx)
        return "seen"

    server = McpServer(ToolRegistry([look]))
    for _ in range(2):
        async with connect(server, era) as client:
            await client.call_tool("look")
            await client.call_tool("look")
    assert {ctx.channel for ctx in seen} == {"mcp"}
    assert seen[0].session_id == seen[1].session_id != seen[2].session_id == seen[3].session_id
    assert "mcp" in str(seen[0].metadata["client"])
    assert seen[0].ask is None
    peer = peer_of(seen[0])
    assert peer is not None
    assert not peer.can("sampling")


async def test_the_loop_guard_counts_and_a_pause_forgives(
    connect: Connect, era: str, registry: ToolRegistry, monkeypatch: pytest.MonkeyPatch
) -> None:
    registry.stages.guard = LoopGuard()
    async with connect(registry, era) as client:
        for _ in range(5):
            await client.call_tool("echo", {"text": "x"})
        assert (await client.call_tool("echo", {"text": "x"})).is_error
        monkeypatch.setattr(calls_module, "QUIET_SECONDS", -1.0)
        assert not (await client.call_tool("echo", {"text": "x"})).is_error


# --- progress, cancellation


async def test_progress_arrives_in_order_and_only_increasing(connect: Connect, era: str) -> None:
    @tool(category="memory")
    async def work(ctx: ToolContext) -> str:
        """Work."""
        for done in (1, 2, 2, 1, 3):
            await ctx.progress(done, 3, f"step {done}")
            await asyncio.sleep(0)
        return "done"

    got: list[tuple[float, float | None, str | None]] = []

    async def progressed(done: float, total: float | None, message: str | None) -> None:
        got.append((done, total, message))

    async with connect(ToolRegistry([work]), era) as client:
        await client.call_tool("work", progress_callback=progressed)
        await until(lambda: len(got) >= 3)
        await client.call_tool("work")  # no token: nothing is sent
        await asyncio.sleep(0.05)
    assert got == [(1, 3, "step 1"), (2, 3, "step 2"), (3, 3, "step 3")]


async def test_cancelling_ends_the_call_and_lets_it_clean_up(connect: Connect, era: str) -> None:
    started, steps = asyncio.Event(), list[str]()

    @tool(category="memory")
    async def hang() -> str:
        """Hang."""
        started.set()
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            for step in ("one", "two", "three"):  # a scope that cancels again and again would stop this
                await asyncio.sleep(0.02)
                steps.append(step)
            raise
        return "slept"

    async with connect(ToolRegistry([hang]), era) as client:
        call = asyncio.create_task(client.call_tool("hang"))
        await asyncio.wait_for(started.wait(), 60)
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
        await until(lambda: len(steps) == 3)
        assert steps == ["one", "two", "three"]


async def test_leaving_ends_what_still_runs(connect: Connect, era: str, hang: Any) -> None:
    async with connect(ToolRegistry([hang.tool]), era) as client:
        call = asyncio.create_task(client.call_tool("hang"))
        await asyncio.wait_for(hang.started.wait(), 60)
        call.cancel()
        await asyncio.gather(call, return_exceptions=True)
    assert hang.ended.is_set()


async def test_calls_run_at_the_same_time(connect: Connect, era: str) -> None:
    both = asyncio.Barrier(2)

    @tool(category="memory")
    async def meet() -> str:
        """Wait for the other."""
        await asyncio.wait_for(both.wait(), 60)
        return "met"

    async with connect(ToolRegistry([meet]), era) as client:
        results = await asyncio.gather(client.call_tool("meet"), client.call_tool("meet"))
    assert [text_of(result) for result in results] == ["met", "met"]


# --- changes


def _later() -> Tool:
    return Tool.from_schema("later", "Came later.", {"type": "object"}, lambda args: "x", category="memory")


async def test_changes_are_announced_once_in_the_handshake_era(registry: ToolRegistry, connect: Connect) -> None:
    messages: list[str] = []

    async def heard(message: Any) -> None:
        messages.append(getattr(message, "method", ""))

    async with connect(registry, "legacy", message_handler=heard) as client:
        assert client.server_capabilities.tools is not None
        assert client.server_capabilities.tools.list_changed is True
        await client.list_tools()
        registry.register(_later())
        registry.unregister("note")
        await until(lambda: "notifications/tools/list_changed" in messages)
        await asyncio.sleep(0.1)
        assert messages.count("notifications/tools/list_changed") == 1
        assert [listed.name for listed in (await client.list_tools()).tools] == ["echo", "later"]


async def test_changes_from_another_thread_are_announced(registry: ToolRegistry, connect: Connect) -> None:
    messages: list[str] = []

    async def heard(message: Any) -> None:
        messages.append(getattr(message, "method", ""))

    async with connect(registry, "legacy", message_handler=heard) as client:
        await client.list_tools()
        await asyncio.to_thread(registry.register, _later())
        await until(lambda: "notifications/tools/list_changed" in messages)


async def test_changes_reach_who_listens_in_2026(registry: ToolRegistry, connect: Connect) -> None:
    async with connect(registry, "2026-07-28") as client, client.listen(tools_list_changed=True) as events:
        registry.register(_later())
        with anyio.fail_after(60):
            async for event in events:
                assert type(event).__name__ == "ToolsListChanged"
                break


async def test_a_closed_connection_is_forgotten(registry: ToolRegistry, connect: Connect) -> None:
    server = McpServer(registry)
    async with connect(server, "legacy") as client:
        await client.list_tools()
    registry.register(_later())  # nobody is there: nothing to send, nothing to break
    await until(lambda: not registry._listeners)  # pyright: ignore[reportPrivateUsage]


# --- questions from a tool


@pytest.fixture
def asking() -> tuple[ToolRegistry, list[str]]:
    steps: list[str] = []

    @tool(category="memory")
    async def choose(ctx: ToolContext) -> str:
        """Ask twice, with an effect before each question."""
        assert ctx.ask is not None
        steps.append("first")
        color = await ctx.ask("Which color?", ["red", "blue"])
        steps.append("second")
        size = await ctx.ask("How big?", [])
        steps.append("third")
        return f"{color} {size}"

    return ToolRegistry([choose]), steps


async def test_a_tool_asks_and_goes_on_where_it_stopped(
    asking: tuple[ToolRegistry, list[str]], connect: Connect, era: str
) -> None:
    registry, steps = asking
    asked: list[Any] = []

    async def answer(_: Any, params: Any) -> ElicitResult:
        asked.append(params)
        return ElicitResult(action="accept", content={"answer": "blue" if len(asked) == 1 else "huge"})

    async with connect(registry, era, answer) as client:
        result = await client.call_tool("choose")
    assert text_of(result) == "blue huge"
    assert steps == ["first", "second", "third"]  # nothing was done twice
    assert [params.message for params in asked] == ["Which color?", "How big?"]
    assert asked[0].requested_schema["properties"]["answer"]["enum"] == ["red", "blue"]


@pytest.mark.parametrize(
    "said",
    [
        ElicitResult(action="decline"),
        ElicitResult(action="cancel"),
        ElicitResult(action="accept", content={"answer": "green"}),
        ElicitResult(action="accept", content={}),
    ],
)
async def test_no_answer_is_an_error_for_the_model(
    asking: tuple[ToolRegistry, list[str]], connect: Connect, era: str, said: ElicitResult
) -> None:
    async def answer(_: Any, params: Any) -> ElicitResult:
        return said

    async with connect(asking[0], era, answer) as client:
        result = await client.call_tool("choose")
    assert result.is_error
    assert "Which color?" in text_of(result)
    assert asking[1] == ["first"]


async def test_where_nobody_can_be_asked_a_tool_knows(connect: Connect, era: str) -> None:
    @tool(category="memory")
    async def maybe(ctx: ToolContext) -> str:
        """Ask if possible."""
        return "nobody" if ctx.ask is None else "somebody"

    async with connect(ToolRegistry([maybe]), era) as client:
        assert text_of(await client.call_tool("maybe")) == "nobody"


async def test_a_question_works_once_and_only_for_its_call(
    asking: tuple[ToolRegistry, list[str]], connect: Connect
) -> None:
    async def never(_: Any, params: Any) -> ElicitResult:
        raise AssertionError("driven by hand")

    registry, steps = asking
    async with connect(registry, "2026-07-28", never) as client:
        first: Any = await client.session.call_tool("choose", {}, allow_input_required=True)
        key = next(iter(first.input_requests))
        yes = {key: ElicitResult(action="accept", content={"answer": "red"})}

        # an answer under another key is no answer: the same question again, and the call still waits
        again: Any = await client.session.call_tool(
            "choose", {}, input_responses={"other": yes[key]}, request_state=first.request_state,
            allow_input_required=True,
        )  # fmt: skip
        assert again.result_type == "input_required"
        assert list(again.input_requests) == [key]
        assert steps == ["first"]

        second: Any = await client.session.call_tool(
            "choose", {}, input_responses=yes, request_state=again.request_state, allow_input_required=True
        )
        assert second.result_type == "input_required"
        assert steps == ["first", "second"]

        for state in (first.request_state, again.request_state, "v1.e30", "nonsense", second.request_state + "x"):
            with pytest.raises(MCPError, match="requestState") as caught:
                await client.session.call_tool(
                    "choose", {}, input_responses=yes, request_state=state, allow_input_required=True
                )
            assert caught.value.error.code == -32602
        assert steps == ["first", "second"]


async def test_a_question_nobody_answers_ends_the_call(
    asking: tuple[ToolRegistry, list[str]], connect: Connect
) -> None:
    async def never(_: Any, params: Any) -> ElicitResult:
        raise AssertionError("driven by hand")

    server = McpServer(asking[0])
    server.calls.question_seconds = 0.05
    async with connect(server, "2026-07-28", never) as client:
        first: Any = await client.session.call_tool("choose", {}, allow_input_required=True)
        await until(lambda: not [task for task in asyncio.all_tasks() if "_run_call" in repr(task.get_coro())])
        key = next(iter(first.input_requests))
        with pytest.raises(MCPError, match="requestState"):
            await client.session.call_tool(
                "choose", {}, request_state=first.request_state, allow_input_required=True,
                input_responses={key: ElicitResult(action="accept", content={"answer": "red"})},
            )  # fmt: skip
    assert asking[1] == ["first"]


async def test_too_many_waiting_calls_are_refused(
    asking: tuple[ToolRegistry, list[str]], connect: Connect, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def never(_: Any, params: Any) -> ElicitResult:
        raise AssertionError("driven by hand")

    monkeypatch.setattr(calls_module, "MAX_WAITING", 2)
    async with connect(asking[0], "2026-07-28", never) as client:
        for _ in range(2):
            await client.session.call_tool("choose", {}, allow_input_required=True)
        with pytest.raises(MCPError, match="too many"):
            await client.session.call_tool("choose", {}, allow_input_required=True)


async def test_outputs_that_pause_are_results(connect: Connect, era: str) -> None:
    @tool(category="memory")
    def later() -> ToolOutput:
        """Starts something."""
        return ToolOutput.async_task("started; it will report")

    async with connect(ToolRegistry([later]), era) as client:
        result = await client.call_tool("later")
    assert text_of(result) == "started; it will report"
    assert not result.is_error


async def test_a_tool_that_ignores_its_end_is_left_behind_and_named(
    connect: Connect, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    from toolcrib.serve import running_call

    monkeypatch.setattr(running_call, "END_SECONDS", 0.05)
    started, release = asyncio.Event(), asyncio.Event()

    @tool(category="memory", timeout=None)
    async def stubborn() -> str:
        """Does not listen."""
        started.set()
        while not release.is_set():
            try:
                await release.wait()
            except asyncio.CancelledError:
                pass
        return "at last"

    with caplog.at_level(logging.ERROR, "toolcrib.serve"):
        async with connect(ToolRegistry([stubborn]), "legacy") as client:
            call = asyncio.create_task(client.call_tool("stubborn"))
            await asyncio.wait_for(started.wait(), 60)
            call.cancel()
            await asyncio.gather(call, return_exceptions=True)
            await until(lambda: "left behind" in caplog.text)
        release.set()
        await asyncio.sleep(0)
    assert "left behind" in caplog.text


async def test_cancelling_a_command_ends_its_processes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, connect: Connect, era: str
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    work = tmp_path / "work"
    work.mkdir()
    config = tmp_path / "toolcrib.toml"
    config.write_text('[sandbox]\nbackend = "none"\n')  # in a sandbox the pids would be of another namespace
    async with Toolbox.open(workspace=work, config=config, yes=True) as box, connect(box, era) as client:
        command = "sleep 1003 & echo $! > child; echo $$ > shell; wait"
        call = asyncio.create_task(client.call_tool("exec", {"command": command}))
        await until(lambda: (work / "shell").exists() and (work / "shell").read_text().strip())
        pids = [int((work / name).read_text()) for name in ("child", "shell")]
        assert all(Path(f"/proc/{pid}").exists() for pid in pids)
        call.cancel()
        await asyncio.gather(call, return_exceptions=True)
        await until(lambda: not any(_alive(pid) for pid in pids))


def _alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


async def test_a_client_sees_what_it_found(connect: Connect, era: str, tmp_path: Path) -> None:
    """Of many tools few are listed; a search adds to the list of the session that made it, and tells its client."""

    def painter(n: int) -> Tool:
        async def paint(coats: int = 1) -> str:
            return f"fence {n}: {coats}"

        return tool(paint, name=f"paint_{n}", description=f"Paint fence number {n}.", category="memory")

    (tmp_path / "work").mkdir()
    async with Toolbox.open(workspace=tmp_path / "work", tools=[painter(n) for n in range(50)]) as box:
        async with connect(box, era) as client:
            before = {listed.name for listed in (await client.list_tools()).tools}
            assert {"search_tools", "call_tool", "read_file"} <= before
            assert "paint_7" not in before
            found = await client.call_tool("search_tools", {"query": "paint fence 7", "limit": 1})
            assert text_of(found).startswith("paint_7: Paint fence number 7.")
            after = {listed.name for listed in (await client.list_tools()).tools}
            assert after - before == {"paint_7"}
            assert text_of(await client.call_tool("paint_7", {"coats": 2})) == "fence 7: 2"
            called = await client.call_tool("call_tool", {"name": "paint_9", "arguments": {"coats": 3}})
            assert text_of(called) == "fence 9: 3"
        async with connect(box, era) as other:
            listed = {found.name for found in (await other.list_tools()).tools}
            assert "paint_7" not in listed or era != "legacy"  # without sessions, a client is who it says it is


async def test_a_second_request_with_the_id_of_one_that_runs_is_refused() -> None:
    began: list[int] = []

    @tool(category="memory", timeout=None)
    async def slow(number: int) -> str:
        """Wait."""
        began.append(number)
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            began.append(-number)
            raise
        return "ended"

    server = McpServer(ToolRegistry([slow])).sdk
    async with create_client_server_memory_streams() as ((answers, requests), theirs):
        running = asyncio.create_task(server.run(*theirs, server.create_initialization_options()))

        async def send(**message: Any) -> None:
            await requests.send(SessionMessage(jsonrpc_message_adapter.validate_python({"jsonrpc": "2.0", **message})))

        info = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "a", "version": "1"}}
        await send(id=1, method="initialize", params=info)
        await answers.receive()
        await send(method="notifications/initialized")
        for number in (1, 2):
            await send(id=7, method="tools/call", params={"name": "slow", "arguments": {"number": number}})
        refused = await answers.receive()
        assert "runs already" in str(refused.message)
        await until(lambda: began == [1])
        await send(method="notifications/cancelled", params={"requestId": 7})
        await until(lambda: began == [1, -1])
        running.cancel()
