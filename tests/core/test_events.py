"""One stream of events: built only if someone listens, in order, each call once."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
from typing import Any

import pytest

from toolcrib.core import finish, pipeline, run_tool
from toolcrib.core.context import ToolContext
from toolcrib.core.events import CallFinished, CallStarted, EventStream
from toolcrib.core.registry import ToolRegistry
from toolcrib.core.tool import tool


def registry() -> ToolRegistry:
    return ToolRegistry([tool(lambda x=1: f"got {x}", name="t", category="filesystem_read")])


async def test_what_a_call_tells() -> None:
    reg = registry()
    seen: list[Any] = []
    stop = reg.events.subscribe(seen.append)
    await reg.execute("t", '{"x": "2"}', ToolContext(session_id="s", channel="cli"), call_id="c1")
    started, finished = seen
    assert started == CallStarted("c1", "t", "filesystem_read", '{"x": "2"}', "s", started.time)
    assert finished.output.for_llm == "got 2" and finished.duration >= 0 and finished.time == started.time
    assert (finished.call_id, finished.tool, finished.verdict, finished.channel, finished.read_only) == (
        "c1", "t", "allow", "cli", True,
    )  # fmt: skip
    stop()
    stop()
    await reg.execute("t")
    assert len(seen) == 2
    with pytest.raises(dataclasses.FrozenInstanceError):
        finished.tool = "x"


async def test_ids_that_others_chose_are_told_without_secrets() -> None:
    reg = registry()
    reg.stages.redact = lambda text: text.replace("sesame", "***")
    seen: list[Any] = []
    reg.events.subscribe(seen.append)
    outputs = [
        await reg.execute(name, {}, ToolContext(session_id=f"sesame {way}"), call_id=f"sesame-{way}")
        for name in ("t", "none")
        for way in ("1", "2")
    ]
    assert [output.call_id for output in outputs] == ["sesame-1", "sesame-2"] * 2  # as their callers know them
    told = [(event.call_id, event.session_id) for event in seen]
    assert len(told) == 6 and len(set(told)) == 2  # each stays unique, and is the same in all events
    assert "sesame" not in str(seen) and told[0][0].startswith("***-1-")


async def test_bad_and_unknown_calls_finish_without_having_started() -> None:
    reg = registry()
    seen: list[Any] = []
    reg.events.subscribe(seen.append)
    await reg.execute("none", {"a": 1}, call_id="c1")
    await reg.execute("t", {"y": 1}, call_id="c2")
    assert [(type(e), e.call_id, e.output.error_kind, e.arguments) for e in seen] == [
        (CallFinished, "c1", "not_found", '{"a":1}'),
        (CallFinished, "c2", "invalid", '{"y":1}'),
    ]


async def test_nothing_is_built_when_nobody_listens(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any) -> None:
        raise AssertionError("an event was built")

    for stage, name in (
        (pipeline, "CallStarted"), (finish, "CallFinished"), (finish, "finished"), (run_tool, "CallProgress"),
    ):  # fmt: skip
        monkeypatch.setattr(stage, name, refuse)
    reg = registry()
    assert (await reg.execute("t")).for_llm == "got 1"
    assert (await reg.execute("none")).is_error and (await reg.execute("t", {"y": 1})).is_error


async def test_listen_iterates_and_lets_go() -> None:
    stream = EventStream()
    got: list[Any] = []

    async def reader() -> None:
        async with contextlib.aclosing(stream.listen()) as events_:
            async for event in events_:
                got.append(event)
                if len(got) == 2:
                    return

    task = asyncio.create_task(reader())
    await asyncio.sleep(0)
    events = [CallStarted(f"c{i}", "t", "memory", "{}", None, 0.0) for i in range(3)]
    await asyncio.to_thread(lambda: [stream.emit(e) for e in events])
    await task
    assert got == events[:2] and not stream.listeners


async def test_ids_are_unique() -> None:
    reg = registry()
    seen: list[Any] = []
    reg.events.subscribe(seen.append)
    await asyncio.gather(*(reg.execute("t") for _ in range(50)))
    assert len({e.call_id for e in seen}) == 50
