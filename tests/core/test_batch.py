"""Calls of one model turn: in order, together where they only read, and waiting where a person is asked."""

from __future__ import annotations

import asyncio
import gc
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from toolcrib.core.answering import to_call
from toolcrib.core.call import Call, ToolCall
from toolcrib.core.errors import ToolExecutionDenied
from toolcrib.core.events import CallFinished
from toolcrib.core.finish import HINT_TEXT
from toolcrib.core.interfaces import Grant, Hook
from toolcrib.core.output import ToolOutput
from toolcrib.core.registry import ToolRegistry
from toolcrib.core.tool import Tool, tool


@pytest.mark.parametrize(
    "value",
    [
        ToolCall("c1", "t", {"x": 1}),
        {"id": "c1", "name": "t", "arguments": {"x": 1}},
        {"id": "c1", "name": "t", "input": {"x": 1}},
        {"id": "c1", "type": "function", "function": {"name": "t", "arguments": {"x": 1}}},
        {"type": "function_call", "id": "fc_9", "call_id": "c1", "name": "t", "arguments": {"x": 1}},
        {"type": "tool_use", "id": "c1", "name": "t", "input": {"x": 1}},
        {"id": "c1", "name": "t", "args": {"x": 1}, "type": "tool_call"},
        SimpleNamespace(id="c1", type="function", function=SimpleNamespace(name="t", arguments={"x": 1})),
        SimpleNamespace(id="fc_9", call_id="c1", name="t", arguments={"x": 1}),
        SimpleNamespace(type="tool_use", id="c1", name="t", input={"x": 1}),
    ],
)
def test_to_call_knows_the_shapes(value: Any) -> None:
    assert to_call(value) == ToolCall("c1", "t", {"x": 1})


def test_to_call_takes_text_and_gives_ids() -> None:
    assert to_call({"name": "t", "arguments": '{"x": 1}'}).arguments == '{"x": 1}'
    assert to_call({"name": "t"}).arguments == {}
    assert to_call({"name": "t", "arguments": {}, "input": {"x": 1}}).arguments == {}
    assert to_call({"name": "t"}).id != to_call({"name": "t"}).id


@pytest.mark.parametrize("value", [{}, {"name": ""}, {"name": 3}, None, "t", 3, {"function": {}}, {"x": "y" * 10**6}])
def test_what_is_no_call(value: Any) -> None:
    with pytest.raises(ValueError, match="not a tool call") as caught:
        to_call(value)
    assert len(str(caught.value)) < 300


class Bench:
    """Tools that note when they begin and end."""

    def __init__(self, policy: Any = None) -> None:
        self.log: list[str] = []
        self.now = self.most = 0

        async def work(n: int) -> str:
            self.now += 1
            self.most = max(self.most, self.now)
            self.log.append(f"+{n}")
            await asyncio.sleep(0.003)
            self.log.append(f"-{n}")
            self.now -= 1
            return str(n)

        self.registry = ToolRegistry(
            [
                tool(work, name="read", category="filesystem_read"),
                tool(work, name="write", category="filesystem_write"),
                tool(work, name="seq", category="filesystem_read", sequential=True),
                tool(work, name="alone", category="filesystem_read", exclusive=True),
                tool(work, name="script", category="memory", read_only=True, makes_calls=True),
            ],
            policy=policy,
        )

    async def run(self, names: str, limit: int = 16) -> list[str]:
        kinds = {"r": "read", "w": "write", "s": "seq", "x": "alone", "m": "script"}
        calls = [ToolCall(f"c{i}", kinds[n], {"n": i}) for i, n in enumerate(names)]
        return [o.for_llm for o in await self.registry.execute_parallel(calls, limit=limit)]


async def test_reads_run_together_writes_alone_and_in_order() -> None:
    bench = Bench()
    assert await bench.run("rrwwrr") == list("012345")
    log = bench.log
    assert set(log[:2]) == {"+0", "+1"} and log[4:8] == ["+2", "-2", "+3", "-3"] and set(log[8:10]) == {"+4", "+5"}


@pytest.mark.parametrize("kind", ["w", "s", "x"])
async def test_what_never_runs_beside_others(kind: str) -> None:
    bench = Bench()
    await bench.run(f"r{kind}{kind}r")
    assert bench.most == 1


@pytest.mark.parametrize("limit", [1, 3, 16, 0, -5])
async def test_the_limit(limit: int) -> None:
    bench = Bench()
    assert await bench.run("r" * 40, limit) == [str(n) for n in range(40)]
    assert bench.most == max(1, limit)


@given(st.text(alphabet="rwsx", max_size=12), st.integers(1, 4))
@settings(max_examples=30, deadline=None)
def test_outputs_come_in_call_order(names: str, limit: int) -> None:
    async def main() -> None:
        bench = Bench()
        assert await bench.run(names, limit) == [str(n) for n in range(len(names))]
        begun = [int(entry[1:]) for entry in bench.log if entry[0] == "+"]
        effects = [n for n in begun if names[n] != "r"]
        assert effects == sorted(effects) and bench.most <= limit
        for n in effects:  # everything before it has ended, nothing after it has begun
            at = bench.log.index(f"+{n}")
            assert bench.log[at + 1] == f"-{n}"
            assert {int(e[1:]) for e in bench.log[:at]} == set(range(n))

    asyncio.run(main())


class Asks:
    """Asks a person about some calls; they answer when told."""

    def __init__(self, about: set[int]) -> None:
        self.about = about
        self.asked = asyncio.Event()
        self.answer = asyncio.Event()

    def clears(self, tool: Tool) -> bool:
        return False

    async def authorize(self, request: Call, approved: Grant | None = None) -> Grant | ToolOutput:
        if request.arguments["n"] in self.about:
            assert request.waiting is not None
            request.waiting()
            self.asked.set()
            await self.answer.wait()
        return Grant()


@pytest.mark.parametrize(("names", "about"), [("rwrwr", 1), ("rxrwr", 1), ("rrwr", 0)])
async def test_while_one_waits_for_a_person_later_reads_run_and_later_effects_wait(names: str, about: int) -> None:
    policy = Asks({about})
    bench = Bench(policy)
    task = asyncio.create_task(bench.run(names))
    await policy.asked.wait()
    await asyncio.sleep(0.03)
    reads = {i for i, n in enumerate(names) if n == "r" and i != about}
    assert {int(e[1:]) for e in bench.log} == reads
    policy.answer.set()
    assert await task == [str(n) for n in range(len(names))]
    effects = [e for e in bench.log if int(e[1:]) not in reads]
    assert effects == sorted(effects, key=lambda e: (int(e[1:]), e[0] == "-"))


class Nobody:
    """Leaves questions about some calls to a person who is not there."""

    def __init__(self, about: set[int]) -> None:
        self.about = about

    def clears(self, tool: Tool) -> bool:
        return False

    async def authorize(self, request: Call, approved: Grant | None = None) -> Grant | ToolOutput:
        if request.arguments["n"] in self.about:
            return ToolOutput.error(f"{request.arguments['n']} asks", "pending", pause_for_input=True)
        return Grant()


@pytest.mark.parametrize(
    ("names", "about", "ran"),
    [("wwrww", {1}, {0, 2}), ("rrwr", {0}, {1, 3}), ("wwwr", {0, 2}, {3}), ("www", {2}, {0, 1}), ("wmr", {0}, {2})],
)
async def test_behind_a_stored_question_later_effects_may_ask_but_do_not_run(
    names: str, about: set[int], ran: set[int]
) -> None:
    bench = Bench(Nobody(about))
    said = await bench.run(names)
    assert {int(entry[1:]) for entry in bench.log} == ran
    assert {n for n, text in enumerate(said) if text.endswith("asks")} == about
    assert all(("waits for a person" in text) == (n not in ran | about) for n, text in enumerate(said))


async def test_bad_calls_have_their_place() -> None:
    bench = Bench()

    class Broken:
        def __getattr__(self, name: str) -> Any:
            raise RuntimeError("no attributes")

    outputs = await bench.registry.execute_parallel([
        {"name": "read", "arguments": {"n": 0}}, "nonsense", {"name": "none"}, {"name": "read", "arguments": [1]}, Broken(),  # noqa: E501
        {"name": "write", "arguments": '{"n": 5}'},
    ])  # fmt: skip
    assert [o.error_kind for o in outputs] == [None, "invalid", "not_found", "invalid", "invalid", None]
    assert all(o.for_llm.count(HINT_TEXT) == 1 for o in outputs if o.is_error)
    assert await bench.registry.execute_parallel([]) == []


async def test_a_hook_may_refuse_the_whole_batch_and_that_is_recorded() -> None:
    bench = Bench()
    seen: list[Any] = []
    bench.registry.events.subscribe(seen.append)
    batches: list[list[str]] = []

    class Refuses(Hook):
        async def before_execute_tools(self, calls: Any) -> None:
            batches.append([call.name for call in calls])
            if len(calls) > 1:
                raise ToolExecutionDenied("one at a time")

    bench.registry.add_hook(Refuses())
    outputs = await bench.registry.execute_parallel([
        {"id": "a", "name": "write", "arguments": {"n": 1}}, {"id": "b", "name": "read", "arguments": {"n": 2}},
    ])  # fmt: skip
    assert [o.error_kind for o in outputs] == ["denied"] * 2 and not bench.log
    assert outputs[0].for_llm.startswith("one at a time") and outputs[0].for_llm.count(HINT_TEXT) == 1
    assert [(e.call_id, e.tool, e.verdict) for e in seen if isinstance(e, CallFinished)] == [
        ("a", "write", "deny"), ("b", "read", "deny"),
    ]  # fmt: skip
    assert await bench.run("w") == ["0"]
    assert batches == [["write", "read"], ["write"]]


async def test_cancelling_the_batch_cancels_its_calls() -> None:
    async def slow() -> None:
        await asyncio.sleep(30)

    complaints: list[Any] = []
    asyncio.get_running_loop().set_exception_handler(lambda loop, context: complaints.append(context))
    registry = ToolRegistry([tool(slow, category="filesystem_read")])
    seen: list[Any] = []
    registry.events.subscribe(seen.append)
    task = asyncio.create_task(registry.execute_parallel([{"name": "slow"}] * 3))
    await asyncio.sleep(0.02)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert [e.output.error_kind for e in seen if isinstance(e, CallFinished)] == ["cancelled"] * 3
    del task
    gc.collect()
    await asyncio.sleep(0)
    assert not complaints
