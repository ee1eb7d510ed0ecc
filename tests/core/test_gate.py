"""First come, first served: an exclusive call is not starved by a stream of others."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Mapping
from typing import Any

from toolcrib import ToolContext, tool
from toolcrib.core.caller import Caller
from toolcrib.core.registry import ToolRegistry
from toolcrib.core.stages import Gate
from toolcrib.policy.policy import Policy


async def test_those_who_come_later_wait_behind_an_exclusive_one() -> None:
    gate = Gate()
    order: list[str] = []

    async def hold(name: str, exclusive: bool, until: asyncio.Event | None = None) -> None:
        async with gate.hold(exclusive):
            order.append(name)
            if until is not None:
                await until.wait()

    release = asyncio.Event()
    tasks = [asyncio.create_task(hold("first", False, release))]
    await asyncio.sleep(0)
    tasks.append(asyncio.create_task(hold("alone", True)))
    await asyncio.sleep(0)
    tasks += [asyncio.create_task(hold("late", False)) for _ in range(3)]
    await asyncio.sleep(0.01)
    assert order == ["first"]
    release.set()
    await asyncio.gather(*tasks)
    assert order == ["first", "alone", "late", "late", "late"]


async def test_one_who_gives_up_is_not_waited_for() -> None:
    gate = Gate()
    first = gate.hold(True)
    await asyncio.create_task(_enter(first))
    holds = [gate.hold(True) for _ in range(2)]
    waiting = [asyncio.create_task(_enter(hold)) for hold in holds]
    await asyncio.sleep(0)
    waiting[0].cancel()
    await asyncio.sleep(0)
    await first.__aexit__(None, None, None)
    await asyncio.wait_for(waiting[1], 60)
    # one that was let in and cancelled in the same breath lets go again
    last = asyncio.create_task(_enter(gate.hold(False)))
    await asyncio.sleep(0)
    assert not last.done()
    last.cancel()
    await asyncio.gather(*waiting, last, return_exceptions=True)


async def _enter(hold: object) -> None:
    await hold.__aenter__()  # type: ignore[attr-defined]


def test_a_waiter_whose_loop_is_gone_blocks_nobody() -> None:
    gate = Gate()
    first = gate.hold(True)
    home = asyncio.new_event_loop()
    home.run_until_complete(_enter(first))
    loop = asyncio.new_event_loop()
    task = loop.create_task(_enter(gate.hold(True)))
    loop.run_until_complete(asyncio.sleep(0))
    task.cancel()
    loop.run_until_complete(asyncio.gather(task, return_exceptions=True))
    orphan = loop.create_task(_enter(gate.hold(True)))
    loop.run_until_complete(asyncio.sleep(0))
    loop.close()
    home.run_until_complete(first.__aexit__(None, None, None))
    home.close()
    asyncio.run(asyncio.wait_for(_enter(gate.hold(True)), 60))
    orphan._log_destroy_pending = False  # type: ignore[attr-defined]


async def test_calls_that_change_files_wait_for_those_of_the_same_caller_alone() -> None:
    go, order = threading.Event(), list[str]()

    @tool(category="filesystem_write", judge=lambda args, ctx: None, paths={"path": "write"})
    def change(path: str) -> str:
        """Change a file."""
        order.append(path)
        if path == "a1":
            go.wait(60)
        if path == "b":
            go.set()
        return path

    registry = ToolRegistry([change])
    registry.stages.authorizer = Policy()
    a, b = ToolContext(caller=Caller("a")), ToolContext(caller=Caller("b"))
    calls = [("a1", a), ("a2", a), ("b", b)]
    await asyncio.gather(*(registry.execute("change", {"path": path}, ctx) for path, ctx in calls))
    assert order == ["a1", "b", "a2"]


async def test_a_call_whose_check_fails_when_its_turn_comes_is_refused() -> None:
    go, done = threading.Event(), list[str]()

    def judge(args: Mapping[str, Any], ctx: ToolContext) -> None:
        if done:
            raise OSError("no descriptors are left")

    @tool(category="filesystem_write", judge=judge, paths={"path": "write"})
    def change(path: str) -> str:
        """Change a file."""
        go.wait(60)
        done.append(path)
        return path

    registry = ToolRegistry([change])
    registry.stages.authorizer = Policy()
    calls = [asyncio.ensure_future(registry.execute("change", {"path": path})) for path in ("a1", "a2")]
    await asyncio.sleep(0)
    go.set()
    first, second = await asyncio.gather(*calls)
    assert not first.is_error and second.is_error and "no descriptors are left" in second.for_llm
