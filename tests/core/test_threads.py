"""Threads for sync tools: bounded, counted when stuck, and never in the way of exit."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Callable

import pytest

from toolcrib.core.caller import Caller
from toolcrib.core.context import ToolContext, _current
from toolcrib.core.threads import LoopThread, ThreadsExhausted, ToolThreads, import_in

from ..forking import forked
from ..waiting import until, wait_until


async def test_many_jobs_share_a_few_threads() -> None:
    threads = ToolThreads(limit=3)
    names: set[int] = set()

    def work(n: int) -> int:
        names.add(threading.get_ident())
        time.sleep(0.002)
        return n

    assert await asyncio.gather(*(threads.run(work, n) for n in range(30))) == list(range(30))
    assert len(names) <= 3


async def test_one_caller_leaves_threads_to_the_others() -> None:
    threads, free = ToolThreads(limit=4), threading.Event()

    def begin(caller: str, work: Callable[[], object]) -> asyncio.Task[object]:
        async def one() -> object:
            _current.set(ToolContext(caller=Caller(caller)))
            return await threads.run(work)

        return asyncio.create_task(one())

    slow = [begin("a", free.wait) for _ in range(6)]
    await asyncio.sleep(0)
    assert await asyncio.wait_for(begin("b", lambda: 1), 60) == 1
    assert await asyncio.wait_for(threads.run(lambda: 2), 60) == 2
    for _ in range(3):  # what it cancels keeps its thread until that comes back: the others get no stuck ones from it
        slow.pop(0).cancel()
        slow.append(begin("a", free.wait))
        await asyncio.sleep(0.01)
    assert threads.stuck == 2
    for _ in range(4):
        slow.pop().cancel()
    with pytest.raises(ThreadsExhausted, match="all 2 threads that 'a' may have are stuck"):
        await begin("a", lambda: 1)
    slow = []
    free.set()
    await until(lambda: threads.stuck == 0)
    assert all(await asyncio.gather(*slow))
    assert await asyncio.gather(*(begin("a", lambda: 3) for _ in range(9))) == [3] * 9


async def test_a_cancelled_task_waits_for_what_has_to_end() -> None:
    begun, release, ended = threading.Event(), threading.Event(), threading.Event()

    def write() -> None:
        begun.set()
        release.wait(30)
        ended.set()
        raise ValueError("nobody asks for this any more")

    task = asyncio.create_task(ToolThreads().run_to_end(write))
    await asyncio.to_thread(begun.wait, 30)
    for _ in range(3):
        task.cancel()
        await asyncio.sleep(0)
    assert not task.done()
    release.set()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert ended.is_set()


async def test_threads_are_daemons() -> None:
    assert await ToolThreads().run(lambda: threading.current_thread().daemon)


async def test_stuck_threads_are_replaced_up_to_a_limit_and_come_back() -> None:
    threads = ToolThreads(limit=2, max_stuck=4)
    release = threading.Event()
    for n in range(4):
        begun = threading.Event()

        def stick(begun: threading.Event = begun) -> None:
            begun.set()
            release.wait(60)

        sticking = asyncio.create_task(threads.run(stick))
        await until(begun.is_set)
        sticking.cancel()
        with pytest.raises(asyncio.CancelledError):
            await sticking
        assert threads.stuck == n + 1
        if n < 3:
            assert await asyncio.wait_for(threads.run(lambda: "ok"), 60) == "ok"
    with pytest.raises(ThreadsExhausted, match="4 earlier"):
        await threads.run(lambda: "ok")
    release.set()
    await until(lambda: threads.stuck == 0)
    assert await threads.run(lambda: "ok") == "ok"


async def test_a_job_that_never_began_is_not_stuck() -> None:
    threads = ToolThreads(limit=1)
    release = threading.Event()
    ran: list[int] = []
    first = asyncio.create_task(threads.run(release.wait, 20))
    await asyncio.sleep(0.02)
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(threads.run(lambda: ran.append(1)), 0.02)
    assert threads.stuck == 0
    release.set()
    assert await first
    assert await threads.run(lambda: "ok") == "ok" and not ran


async def test_idle_threads_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("toolcrib.core.threads._IDLE_SECONDS", 0.02)
    threads = ToolThreads()
    await threads.run(lambda: None)
    await until(lambda: threads._alive == 0)
    assert await threads.run(lambda: "again") == "again"


def test_a_loop_that_is_gone_harms_no_thread() -> None:
    threads = ToolThreads()
    release = threading.Event()

    async def main() -> None:
        task = asyncio.create_task(threads.run(release.wait, 20))
        await asyncio.sleep(0.02)
        task.cancel()

    asyncio.run(main())
    release.set()
    assert asyncio.run(threads.run(lambda: "ok")) == "ok"


def test_what_nobody_waits_for_any_more_is_discarded() -> None:
    release, begun, discarded = threading.Event(), threading.Event(), list[str]()

    def make() -> str:
        begun.set()
        release.wait(30)
        return "made"

    async def main() -> None:
        threads = ToolThreads()
        task = asyncio.create_task(threads.make(make, discarded.append))
        await asyncio.to_thread(begun.wait)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert discarded == []
        release.set()
        await until(lambda: discarded == ["made"])
        assert await threads.make(make, discarded.append) == "made"
        assert discarded == ["made"]

    asyncio.run(main())


@pytest.mark.parametrize("end", ["return", "raise SystemExit(3)"])
def test_a_stuck_tool_does_not_hold_up_exit(end: str) -> None:
    code = f"""
        import asyncio, time
        from toolcrib import ToolRegistry, tool

        @tool(category="memory", timeout=0.2)
        def stuck() -> None:
            time.sleep(600)

        async def main():
            out = await ToolRegistry([stuck]).execute("stuck")
            print(out.error_kind, flush=True)
            {end}

        asyncio.run(main())
    """
    begun = time.monotonic()
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(code)], capture_output=True, text=True, timeout=60)
    assert done.stdout == "timeout\n", done.stderr
    assert done.returncode == (3 if "3" in end else 0)
    assert time.monotonic() - begun < 50


def test_a_fork_has_threads_of_its_own() -> None:
    """A forked worker of a host waited for idle threads of its parent, until its calls timed out."""
    threads = ToolThreads()
    asyncio.run(threads.run(time.sleep, 0))
    wait_until(lambda: threads._idle)
    assert forked(lambda: asyncio.run(asyncio.wait_for(threads.run(time.sleep, 0), 20))) == 0


def test_a_fork_waits_for_a_thread_that_imports() -> None:
    """Fork right after a toolbox was opened: each command was refused in the child, as a module stayed locked there."""
    ended: list[int] = []
    import_in(threading.Thread(target=lambda: (time.sleep(0.3), ended.append(1)), daemon=True))

    def look() -> None:
        assert ended

    assert forked(look) == 0


def test_a_loop_of_the_parent_is_an_error_in_a_fork() -> None:
    """`call_sync` waited for ever in a forked worker whose parent had opened the toolbox."""
    loop = LoopThread()
    loop.run(asyncio.sleep(0))

    def use() -> None:
        signal.alarm(20)
        with pytest.raises(RuntimeError, match="before its process was forked"):
            loop.run(asyncio.sleep(0))
        loop.close()

    try:
        assert forked(use) == 0
    finally:
        loop.close()
