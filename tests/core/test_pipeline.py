"""The row of stages: exactly one outcome, whatever a tool, hook, authorizer or caller does."""

from __future__ import annotations

import asyncio
import contextvars
import gc
import logging
import threading
import time
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import anyio
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from toolcrib.core import drive as drive_module
from toolcrib.core.call import Call, ToolCall
from toolcrib.core.context import ToolContext, current_context
from toolcrib.core.errors import ToolError, ToolExecutionDenied
from toolcrib.core.events import CallFinished, CallProgress, CallStarted
from toolcrib.core.finish import HINT, HINT_TEXT, for_person
from toolcrib.core.interfaces import Grant, Hook
from toolcrib.core.output import ToolOutput
from toolcrib.core.registry import ToolRegistry
from toolcrib.core.tool import Tool, tool
from toolcrib.core.verdict import Judgement

from ..waiting import Searched, pass_time, until


class Record:
    """Keeps every event of a registry."""

    def __init__(self, registry: ToolRegistry) -> None:
        self.all: list[Any] = []
        registry.events.subscribe(self.all.append)

    def of(self, kind: type) -> list[Any]:
        return [event for event in self.all if isinstance(event, kind)]


def made(fn: Callable[..., Any], **options: Any) -> Tool:
    return tool(fn, **{"category": "memory", **options})


async def run(
    fn: Callable[..., Any], arguments: Any = None, *, ctx: ToolContext | None = None, **options: Any
) -> ToolOutput:
    registry = ToolRegistry([made(fn, name="t", **options)])
    return await registry.execute("t", arguments, ctx)


def one_hint(output: ToolOutput) -> bool:
    return output.for_llm.count(HINT_TEXT) == 1 and output.for_llm.endswith(HINT)


# --- what comes back


async def test_sync_async_and_awaitable_results() -> None:
    async def later() -> str:
        return "later"

    async def waits() -> str:
        await asyncio.sleep(0)
        return "waited"

    for fn, text in ((lambda: "sync", "sync"), (later, "later"), (waits, "waited"), (lambda: later(), "later")):
        assert (await run(fn)).for_llm == text


async def test_sync_tools_run_on_a_thread_of_ours_and_async_ones_on_the_loop() -> None:
    async def on_loop() -> str:
        return threading.current_thread().name

    assert (await run(lambda: threading.current_thread().name)).for_llm == "toolcrib-tool"
    assert (await run(on_loop)).for_llm == threading.current_thread().name


async def test_unknown_tool_and_bad_arguments() -> None:
    registry = ToolRegistry([made(lambda x: x, name="echo")])
    output = await registry.execute("ehco", {})
    assert output.error_kind == "not_found" and "echo" in output.for_llm and len(output.for_llm) <= 500
    assert one_hint(output)
    output = await registry.execute("echo", {"y": 1})
    assert output.error_kind == "invalid" and output.meta["violations"] == [
        {"path": "x", "text": "missing required x"},
        {"path": "y", "text": "unknown parameter y; known: x"},
    ]
    assert one_hint(output)
    for name in (None, 3, [], {}):
        assert (await registry.execute(name, {})).error_kind == "not_found"  # pyright: ignore


class Odd(BaseException):
    """An exception that is no Exception."""


class Mute(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no words")


RAISED = [
    ValueError("bad"), Odd("odd"), SystemExit(3), StopIteration(1), StopAsyncIteration(), RecursionError(), MemoryError(),  # noqa: E501
    TimeoutError("its own"), GeneratorExit(), Mute(), KeyError("k"), OSError(2, "gone"), ExceptionGroup("g", [ValueError()]),  # noqa: E501
]  # fmt: skip


@pytest.mark.parametrize("error", RAISED, ids=lambda e: type(e).__name__)
@pytest.mark.parametrize("kind", ["sync", "async", "async after a wait"])
async def test_whatever_a_tool_raises_becomes_an_output(error: BaseException, kind: str) -> None:
    def sync() -> None:
        raise error

    async def direct() -> None:
        raise error

    async def waits() -> None:
        await asyncio.sleep(0)
        raise error

    fn = {"sync": sync, "async": direct, "async after a wait": waits}[kind]
    registry = ToolRegistry([made(fn, name="t")])
    record = Record(registry)
    output = await registry.execute("t")
    assert output.is_error and output.error_kind == "exception" and one_hint(output)
    assert len(record.of(CallFinished)) == len(record.of(CallStarted)) == 1


@pytest.mark.parametrize("error", [KeyboardInterrupt(), asyncio.CancelledError()])
async def test_what_a_thread_raises_means_nothing_to_the_loop(error: BaseException) -> None:
    def sync() -> None:
        raise error

    output = await run(sync)
    assert output.error_kind == "exception" and type(error).__name__ in output.for_llm


async def test_a_tool_error_speaks_for_itself() -> None:
    async def fails() -> None:
        raise ToolError("No such city. Try Bergen.")

    async def denies() -> None:
        raise ToolExecutionDenied("not on Sundays")

    output = await run(fails)
    assert output.for_llm == f"No such city. Try Bergen.{HINT}" and output.error_kind == "tool"
    assert (await run(denies)).error_kind == "denied"


@pytest.mark.parametrize("tail", ["", "\n", HINT, f"{HINT}\n", f"{HINT}{HINT}", f"{HINT} and more"])
async def test_the_hint_stands_once_at_the_end(tail: str) -> None:
    output = await run(lambda: ToolOutput.error(f"wrong{tail}"))
    assert one_hint(output)


async def test_a_long_error_keeps_its_hint() -> None:
    assert one_hint(await run(lambda: ToolOutput.error("x" * 10_000), max_output=500))


async def test_what_cannot_be_written_out_is_withheld() -> None:
    output = await run(lambda: ToolOutput(3))  # pyright: ignore
    assert output.error_kind == "exception" and "withheld" in output.for_llm


# --- time


async def test_a_timeout_ends_the_call() -> None:
    async def slow() -> None:
        await asyncio.sleep(30)

    begun = time.monotonic()
    output = await run(slow, timeout=0.05)
    assert output.error_kind == "timeout" and "0.05 s" in output.for_llm and one_hint(output)
    assert time.monotonic() - begun < 20


async def test_a_tool_that_does_not_wait_needs_no_timer(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise AssertionError("a timer was made")

    monkeypatch.setattr(drive_module, "Clock", refuse)

    async def quick() -> str:
        return "ok"

    assert (await run(quick)).for_llm == "ok"


async def test_its_own_timeout_error_is_not_ours() -> None:
    async def inner() -> None:
        async with asyncio.timeout(0.01):
            await asyncio.sleep(30)

    async def handled() -> str:
        try:
            async with asyncio.timeout(0.01):
                await asyncio.sleep(30)
        except TimeoutError:
            return "went on"
        return ""

    output = await run(inner, timeout=5)
    assert output.error_kind == "exception" and "TimeoutError" in output.for_llm
    assert (await run(handled, timeout=5)).for_llm == "went on"


async def test_a_tool_may_clean_up_and_keeps_what_it_returns_in_time() -> None:
    async def tidy() -> str:
        try:
            await asyncio.sleep(30)
        except asyncio.CancelledError:
            await asyncio.sleep(0.01)
            return "partial"
        return ""

    async def messy() -> None:
        try:
            await asyncio.sleep(30)
        finally:
            raise RuntimeError("while cleaning up")

    assert (await run(tidy, timeout=0.02)).for_llm == "partial"
    assert (await run(messy, timeout=0.02)).error_kind == "timeout"
    task = asyncio.current_task()
    assert task is not None and task.cancelling() == 0


async def test_a_stubborn_coroutine_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(drive_module, "GRACE", 0.05)
    swallowed = 0

    async def stubborn() -> None:
        nonlocal swallowed
        while True:
            try:
                await asyncio.sleep(30)
            except asyncio.CancelledError:
                swallowed += 1

    begun = time.monotonic()
    output = await run(stubborn, timeout=0.02)
    assert output.error_kind == "timeout" and swallowed == 1 and time.monotonic() - begun < 20
    gc.collect()


async def test_a_stuck_thread_is_counted_and_replaced() -> None:
    begun, release = threading.Event(), threading.Event()
    seen: list[bool] = []

    def stuck(ctx: ToolContext) -> None:
        begun.set()
        release.wait(60)
        seen.append(ctx.cancelled)

    registry = ToolRegistry([made(stuck, timeout=100), made(lambda: "ok", name="quick")])
    call = asyncio.create_task(registry.execute("stuck"))
    await until(begun.is_set)
    pass_time(101)
    output = await call
    assert output.error_kind == "timeout" and registry.stages.threads.stuck == 1
    assert (await registry.execute("quick")).for_llm == "ok"
    release.set()
    await until(lambda: not registry.stages.threads.stuck)
    assert seen == [True]


async def test_waiting_for_approval_does_not_count() -> None:
    class Slow:
        def clears(self, tool: Tool) -> bool:
            return False

        async def authorize(self, request: Call, approved: Grant | None = None) -> Grant:
            pass_time(150)
            await asyncio.sleep(0.01)
            return Grant()

    async def quick() -> str:
        await asyncio.sleep(0.01)
        return "ok"

    registry = ToolRegistry([made(quick, timeout=100)], policy=Slow())
    assert (await registry.execute("quick")).for_llm == "ok"


async def test_timeout_for_may_depend_on_the_arguments_and_may_fail() -> None:
    async def sleeps(seconds: float) -> str:
        await asyncio.sleep(seconds)
        return "ok"

    output = await run(sleeps, {"seconds": 5}, timeout_for=lambda args: args["seconds"] / 100)
    assert output.error_kind == "timeout"
    assert (await run(sleeps, {"seconds": 0}, timeout_for=lambda args: args["none"])).error_kind == "exception"
    assert (await run(sleeps, {"seconds": 0.01}, timeout=None)).for_llm == "ok"


# --- cancellation


async def test_outer_cancellation_propagates_with_one_finished_event() -> None:
    async def slow() -> None:
        await asyncio.sleep(30)

    registry = ToolRegistry([made(slow), made(lambda: time.sleep(0.2), name="sync")])
    record = Record(registry)
    for name in ("slow", "sync"):
        task = asyncio.create_task(registry.execute(name))
        await asyncio.sleep(0.02)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
    assert [e.output.error_kind for e in record.of(CallFinished)] == ["cancelled", "cancelled"]


async def test_an_inner_cancellation_is_an_error_of_the_tool() -> None:
    async def inner() -> None:
        task = asyncio.create_task(asyncio.sleep(30))
        task.cancel()
        await task

    async def raises() -> None:
        raise asyncio.CancelledError

    for fn in (inner, raises):
        output = await run(fn)
        assert output.error_kind == "exception" and "cancelled" in output.for_llm


async def test_a_cancellation_during_the_grace_is_the_callers() -> None:
    cleaning = asyncio.Event()

    async def tidy() -> None:
        try:
            await asyncio.sleep(30)
        finally:
            cleaning.set()
            await asyncio.sleep(1)

    registry = ToolRegistry([made(tidy, timeout=0.02)])
    task = asyncio.create_task(registry.execute("tidy"))
    await cleaning.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_scopes_and_groups_work_after_the_first_step_by_hand() -> None:
    async def child(numbers: list[int], n: int) -> None:
        await asyncio.sleep(0.001 * n)
        numbers.append(n)

    async def asyncio_group() -> str:
        numbers: list[int] = []
        async with asyncio.TaskGroup() as group:
            for n in range(3):
                group.create_task(child(numbers, n))
        return str(numbers)

    async def anyio_group() -> str:
        numbers: list[int] = []
        async with anyio.create_task_group() as group:
            for n in range(3):
                group.start_soon(child, numbers, n)
        return str(numbers)

    async def anyio_scope() -> str:
        with anyio.move_on_after(0.01) as scope:
            await anyio.sleep(30)
        return f"moved on: {scope.cancelled_caught}"

    async def anyio_group_cancelled() -> str:
        async with anyio.create_task_group() as group:
            group.start_soon(anyio.sleep, 30)
            await anyio.sleep(0.001)
            group.cancel_scope.cancel()
        return "cancelled its own"

    async def failing_group() -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(asyncio.sleep(30))
            raise ValueError("in the group")

    for timeout in (5.0, None):
        assert (await run(asyncio_group, timeout=timeout)).for_llm == "[0, 1, 2]"
        assert (await run(anyio_group, timeout=timeout)).for_llm == "[0, 1, 2]"
        assert (await run(anyio_scope, timeout=timeout)).for_llm == "moved on: True"
        assert (await run(anyio_group_cancelled, timeout=timeout)).for_llm == "cancelled its own"
        assert (await run(failing_group, timeout=timeout)).error_kind == "exception"

    async def hangs_in_groups() -> None:
        async with anyio.create_task_group() as outer:
            outer.start_soon(anyio.sleep, 30)
            async with asyncio.TaskGroup() as inner:
                inner.create_task(asyncio.sleep(30))

    assert (await run(hangs_in_groups, timeout=0.05)).error_kind == "timeout"


async def test_an_outer_anyio_scope_ends_the_call() -> None:
    async def slow() -> None:
        await anyio.sleep(30)

    with anyio.move_on_after(0.02) as scope:
        await run(slow)
    assert scope.cancelled_caught


# --- context


async def test_the_context_is_the_calls_own() -> None:
    seen: list[tuple[str | None, str | None, str | None]] = []

    async def waits(n: int, ctx: ToolContext) -> None:
        await asyncio.sleep(0.001 * (5 - n))
        now = current_context()
        assert now is ctx
        seen.append((ctx.session_id, now.session_id, ctx.call_id))

    def sync(n: int, ctx: ToolContext) -> None:
        assert current_context() is ctx
        seen.append((ctx.session_id, current_context().session_id, ctx.call_id))

    registry = ToolRegistry([made(waits), made(sync)])
    given_ = [ToolContext(session_id=f"s{n}") for n in range(5)]
    await asyncio.gather(*(registry.execute(t, {"n": n}, given_[n]) for n in range(5) for t in ("waits", "sync")))
    assert all(a == b for a, b, _ in seen) and len({c for _, _, c in seen}) == 10
    assert None not in {c for _, _, c in seen}
    await registry.execute("waits", {"n": 5}, given_[0])  # in this task
    assert all(ctx.call_id is None for ctx in given_)  # the caller's context stays as it was
    assert current_context() == ToolContext()


async def test_context_variables_reach_threads_and_do_not_leak_back() -> None:
    var: contextvars.ContextVar[str] = contextvars.ContextVar("var", default="none")

    def sync() -> str:
        before = var.get()
        var.set("changed")
        return before

    var.set("outer")
    assert (await run(sync)).for_llm == "outer"
    assert var.get() == "outer"


async def test_progress_reaches_listeners_and_the_callers_door() -> None:
    async def works(ctx: ToolContext) -> None:
        await ctx.progress(1, 2, "half")

    door: list[Any] = []

    async def listen(*values: Any) -> None:
        door.append(values)

    registry = ToolRegistry([made(works)])
    await registry.execute("works", {}, ToolContext(on_progress=listen))
    record = Record(registry)
    await registry.execute("works", {}, ToolContext(on_progress=listen), call_id="c1")
    assert door == [(1, 2, "half")] * 2
    assert record.of(CallProgress) == [CallProgress("c1", "works", 1, 2, "half")]


# --- hooks and middleware


class Effects:
    """A tool that remembers what it was run with."""

    def __init__(self, **options: Any) -> None:
        self.runs: list[Any] = []
        self.tool = tool(self.write, **{"category": "filesystem_write", **options})

    async def write(self, path: str, n: int = 1) -> str:
        """Write."""
        self.runs.append((path, n))
        return f"wrote {path}"


async def test_middleware_wraps_in_order_and_may_answer() -> None:
    effects = Effects()
    registry = ToolRegistry([effects.tool])
    order: list[str] = []

    def layer(name: str) -> Any:
        async def mw(call: ToolCall, ctx: ToolContext, next: Any) -> ToolOutput:  # noqa: A002
            order.append(f"{name} in")
            output = await next(call, ctx)
            order.append(f"{name} out")
            return output

        return mw

    registry.use(layer("a"))
    registry.use(layer("b"))
    assert (await registry.execute("write", {"path": "x"})).for_llm == "wrote x"
    assert order == ["a in", "b in", "b out", "a out"]

    async def answers(call: ToolCall, ctx: ToolContext, next: Any) -> Any:  # noqa: A002
        return "cached" if call.arguments["path"] == "y" else await next(call)

    registry.use(answers)
    assert (await registry.execute("write", {"path": "y"})).for_llm == "cached"
    assert effects.runs == [("x", 1)]


@pytest.mark.parametrize("how", ["new call", "in place"])
async def test_rewritten_arguments_are_validated_judged_and_shown(how: str) -> None:
    effects = Effects()
    judged: list[Any] = []

    class Watches:
        def clears(self, tool: Tool) -> bool:
            return False

        async def authorize(self, request: Call, approved: Grant | None = None) -> Grant | ToolOutput:
            judged.append(dict(request.arguments))
            return ToolOutput.error("no", "denied") if request.arguments["path"] == "secret" else Grant()

    registry = ToolRegistry([effects.tool], policy=Watches())
    record = Record(registry)
    new: dict[str, Any] = {}

    async def rewrites(call: ToolCall, ctx: ToolContext, next: Any) -> ToolOutput:  # noqa: A002
        if how == "in place":
            call.arguments.update(new)  # type: ignore[union-attr]
            return await next(call)
        return await next(ToolCall(call.id, call.name, {**call.arguments, **new}))  # type: ignore[dict-item]

    registry.use(rewrites)
    new["path"] = "b"
    assert (await registry.execute("write", {"path": "a"})).for_llm == "wrote b"
    assert record.of(CallFinished)[-1].arguments == '{"path":"b"}'
    new["path"] = "secret"
    assert (await registry.execute("write", {"path": "a"})).error_kind == "denied"
    new["path"] = ["a"]
    assert (await registry.execute("write", {"path": "a"})).error_kind == "invalid"
    new["path"] = object()
    assert (await registry.execute("write", {"path": "a"})).error_kind == "invalid"
    assert judged == [{"path": "b"}, {"path": "secret"}] and effects.runs == [("b", 1)]


async def test_a_middleware_may_retry() -> None:
    bags: list[list[str]] = []

    async def collect(items: list[str]) -> str:
        items.append("more")
        bags.append(items)
        return str(items)

    registry = ToolRegistry([made(collect)])

    async def twice(call: ToolCall, ctx: ToolContext, next: Any) -> ToolOutput:  # noqa: A002
        await next(call, ctx)
        return await next()

    registry.use(twice)
    output = await registry.execute("collect", '{"items": ["a"]}')
    assert output.for_llm == "['a', 'more']" and len(bags) == 2 and bags[0] is not bags[1]


async def test_hooks_rewrite_answer_deny_and_replace() -> None:
    effects = Effects()
    seen: list[Any] = []

    class Hooks(Hook):
        async def before(self, call: ToolCall, ctx: ToolContext) -> ToolCall | ToolOutput | None:
            match call.arguments["path"]:  # type: ignore[index]
                case "deny":
                    raise ToolExecutionDenied("not that one")
                case "crash":
                    raise RuntimeError("bug")
                case "answer":
                    return ToolOutput("from the hook")
                case "rename":
                    return ToolCall(call.id, "other", call.arguments)
                case "rewrite":
                    return ToolCall(call.id, call.name, {"path": "new"})
            return None

        async def after(self, call: ToolCall, output: ToolOutput, ctx: ToolContext) -> ToolOutput | None:
            seen.append(("after", call.arguments))
            return ToolOutput(output.for_llm.upper()) if call.arguments["path"] == "loud" else None  # type: ignore[index]

        async def error(self, call: ToolCall, output: ToolOutput, ctx: ToolContext) -> None:
            seen.append(("error", output.error_kind))

    registry = ToolRegistry([effects.tool, made(lambda path: 1 / 0, name="fails")])
    registry.add_hook(Hooks())

    async def go(path: str, name: str = "write") -> ToolOutput:
        return await registry.execute(name, {"path": path})

    output = await go("deny")
    assert output.error_kind == "denied" and output.for_llm == f"not that one{HINT}"
    assert (await go("crash")).error_kind == "denied"
    assert (await go("rename")).error_kind == "denied"
    assert (await go("answer")).for_llm == "from the hook"
    assert not effects.runs and not seen
    assert (await go("rewrite")).for_llm == "wrote new"
    assert (await go("loud")).for_llm == "WROTE LOUD"
    assert effects.runs == [("new", 1), ("loud", 1)]
    assert (await go("x", "fails")).error_kind == "exception"
    assert seen[-2:] == [("error", "exception"), ("after", {"path": "x"})]


async def test_an_output_is_withheld_if_an_after_hook_fails() -> None:
    class Redacts(Hook):
        async def after(self, call: ToolCall, output: ToolOutput, ctx: ToolContext) -> ToolOutput | None:
            raise RuntimeError("bug")

    registry = ToolRegistry([made(lambda: "the secret", name="t")])
    registry.add_hook(Redacts())
    output = await registry.execute("t")
    assert output.is_error and "the secret" not in output.for_llm


async def test_a_middleware_that_fails_or_answers_nonsense() -> None:
    class Broken:
        def __init__(self, answer: Any) -> None:
            self.answer = answer

        async def __call__(self, call: ToolCall, ctx: ToolContext, next: Any) -> Any:  # noqa: A002
            if isinstance(self.answer, Exception):
                raise self.answer
            return self.answer

    for answer, kind in ((RuntimeError("bug"), "denied"), (ToolExecutionDenied("no"), "denied"), (None, None)):
        registry = ToolRegistry([made(lambda: "ran", name="t")])
        registry.use(Broken(answer))
        output = await registry.execute("t")
        assert output.error_kind == kind and "ran" not in output.for_llm


# --- authorization and intent


class Fixed:
    """An authorizer that gives fixed answers, in order."""

    def __init__(self, *answers: Any, clears: Any = False) -> None:
        self.answers, self._clears = list(answers), clears
        self.requests: list[tuple[Any, Grant | None]] = []

    def clears(self, tool: Tool) -> bool:
        if isinstance(self._clears, Exception):
            raise self._clears
        return self._clears

    async def authorize(self, request: Call, approved: Grant | None = None) -> Any:
        self.requests.append((request.arguments, approved))
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if isinstance(answer, BaseException):
            raise answer
        return answer


@pytest.mark.parametrize(
    "policy",
    [
        Fixed(ToolOutput.error("no", "denied")),
        Fixed(ToolOutput.error("later", "pending", pause_for_input=True)),
        Fixed(RuntimeError("bug")),
        Fixed(ToolExecutionDenied("no")),
        Fixed(None),
        Fixed(True),
        Fixed("yes"),
        Fixed(Grant(edited={"path": 3})),
        Fixed(Grant(edited={"path": "x"})),  # edits for ever
        Fixed(Grant(), clears=RuntimeError("bug")),
    ],
)
async def test_without_a_grant_nothing_runs(policy: Any) -> None:
    effects = Effects()
    intents: list[Any] = []
    for listening in (False, True):
        registry = ToolRegistry([effects.tool], policy=policy)
        registry.stages.intent = lambda request, grant: intents.append(request)
        record = Record(registry) if listening else None
        output = await registry.execute("write", {"path": "a"})
        assert output.is_error and not effects.runs and not intents
        assert one_hint(output) or output.error_kind == "pending"
        if record is not None:
            assert len(record.of(CallFinished)) == 1


async def test_edited_arguments_are_bound_and_judged_again() -> None:
    effects = Effects()
    policy = Fixed(Grant(approver="ann", edited={"path": "b", "n": "2"}), Grant("rule", approver="ann"))
    registry = ToolRegistry([effects.tool], policy=policy)
    record = Record(registry)
    assert (await registry.execute("write", {"path": "a"})).for_llm == "wrote b"
    assert effects.runs == [("b", 2)]
    assert policy.requests == [({"path": "a"}, None), ({"path": "b", "n": 2}, Grant(approver="ann"))]
    finished = record.of(CallFinished)[0]
    assert (finished.arguments, finished.rule, finished.approver) == ('{"path":"b","n":2}', "rule", "ann")


async def test_a_cleared_tool_is_not_asked_about_until_the_policy_changes() -> None:
    effects = Effects()
    policy = Fixed(ToolOutput.error("no", "denied"), clears=True)
    registry = ToolRegistry([effects.tool], policy=policy)
    assert not (await registry.execute("write", {"path": "a"})).is_error
    policy._clears = False
    assert not (await registry.execute("write", {"path": "a"})).is_error
    registry.policy_changed()
    assert (await registry.execute("write", {"path": "a"})).error_kind == "denied"


@pytest.mark.parametrize("cleared", [True, False])
async def test_an_intent_comes_before_effects_and_its_failure_stops_them(cleared: bool) -> None:
    effects = Effects()
    reads = made(lambda: "read", name="read", read_only=True)
    registry = ToolRegistry([effects.tool, reads], policy=Fixed(Grant("r"), clears=cleared))
    intents: list[Any] = []

    async def commit(request: Call, grant: Grant) -> None:
        assert not effects.runs
        intents.append((request.tool.name, dict(request.arguments)))

    registry.stages.intent = commit
    await registry.execute("write", {"path": "a"})
    await registry.execute("read")
    assert intents == [("write", {"path": "a"})] and effects.runs == [("a", 1)]

    def fails(request: Call, grant: Grant) -> None:
        raise OSError("disk full")

    registry.stages.intent = fails
    output = await registry.execute("write", {"path": "b"})
    assert output.error_kind == "denied" and "disk full" in output.for_llm and len(effects.runs) == 1


@pytest.mark.parametrize("policy", [None, Fixed(Grant(), clears=True), Fixed(Grant())])
@pytest.mark.parametrize("intent", [True, False])
async def test_a_dry_run_describes_and_runs_nothing_but_reads(policy: Any, intent: bool) -> None:
    effects = Effects(preview=lambda args, ctx: f"would write {args['path']}")
    registry = ToolRegistry([effects.tool, made(lambda: "read", name="read", read_only=True)], policy=policy)
    intents: list[Any] = []
    if intent:
        registry.stages.intent = lambda request, grant: intents.append(request)
    await registry.execute("write", {"path": "warm"})  # now it is cleared, if it can be
    effects.runs.clear()
    intents.clear()
    registry.stages.dry_run = True
    output = await registry.execute("write", {"path": "a"})
    assert "would write a" in output.for_llm and output.meta["dry_run"] and not output.is_error
    assert not effects.runs and not intents
    assert (await registry.execute("read")).for_llm == "read"


async def test_a_preview_that_fails_still_describes() -> None:
    effects = Effects(preview=lambda args, ctx: 1 / 0)
    registry = ToolRegistry([effects.tool])
    registry.stages.dry_run = True
    assert '{"path":"a"}' in (await registry.execute("write", {"path": "a"})).for_llm


# --- the loop guard's seam


class Guarding:
    def __init__(self, before: Any = None, after: Any = None) -> None:
        self._before, self._after = before, after
        self.seen = 0

    def before(self, tool: Tool, text: str, ctx: ToolContext) -> str | None:
        self.seen += 1
        if isinstance(self._before, Exception):
            raise self._before
        return self._before

    def after(self, tool: Tool, text: str, output: ToolOutput, ctx: ToolContext) -> str | None:
        if isinstance(self._after, Exception):
            raise self._after
        return self._after


async def test_the_guard_blocks_warns_and_fails_closed() -> None:
    effects = Effects()
    registry = ToolRegistry([effects.tool, made(lambda: "p", name="poll", loop_exempt=True)])
    session = ToolContext(session_id="s")

    async def go(guard: Guarding, ctx: ToolContext = session, name: str = "write") -> ToolOutput:
        registry.stages.guard = guard
        return await registry.execute(name, {"path": "a"} if name == "write" else {}, ctx)

    assert (await go(Guarding("again and again"))).error_kind == "loop"
    assert (await go(Guarding(RuntimeError("bug")))).error_kind == "denied"
    assert not effects.runs
    assert (await go(Guarding(after="careful"))).for_llm == "wrote a\n\n[careful]"
    assert (await go(Guarding(after=RuntimeError("bug")))).for_llm == "wrote a"
    for guard, ctx, name in ((Guarding("x"), ToolContext(), "write"), (Guarding("x"), session, "poll")):
        assert not (await go(guard, ctx, name)).is_error and guard.seen == 0


# --- exclusive calls


async def test_an_exclusive_call_runs_alone_also_beside_earlier_ones() -> None:
    under_way: set[str] = set()
    beside: list[set[str]] = []

    async def work(name: str, alone: bool) -> str:
        if alone:
            beside.append(set(under_way))
        under_way.add(name)
        await asyncio.sleep(0.01)
        if alone:
            beside.append(under_way - {name})
        under_way.discard(name)
        return name

    registry = ToolRegistry([
        made(lambda name: work(name, False), name="shared"), made(lambda name: work(name, True), name="alone", exclusive=True),  # noqa: E501
    ])  # fmt: skip
    names = ["shared", "shared", "alone", "shared", "alone", "shared"]
    outputs = await asyncio.gather(*(registry.execute(n, {"name": f"{n}{i}"}) for i, n in enumerate(names)))
    assert [o.for_llm for o in outputs] == [f"{n}{i}" for i, n in enumerate(names)]
    assert beside == [set()] * 4


async def test_an_exclusive_tool_may_call_others_and_survives_cancellation() -> None:
    async def inner() -> str:
        return "inner"

    async def outer() -> str:
        return (await registry.execute("inner")).for_llm + (await registry.execute("alone")).for_llm

    async def slow() -> None:
        await asyncio.sleep(30)

    registry = ToolRegistry([
        made(inner), made(outer, exclusive=True), made(lambda: "alone", name="alone", exclusive=True),
        made(slow, exclusive=True),
    ])  # fmt: skip
    assert (await asyncio.wait_for(registry.execute("outer"), 60)).for_llm == "inneralone"
    holder = asyncio.create_task(registry.execute("slow"))
    await asyncio.sleep(0.01)
    waiter = asyncio.create_task(registry.execute("alone"))
    await asyncio.sleep(0.01)
    waiter.cancel()
    holder.cancel()
    await asyncio.gather(waiter, holder, return_exceptions=True)
    assert (await asyncio.wait_for(registry.execute("alone"), 60)).for_llm == "alone"


def test_one_registry_on_several_loops() -> None:
    async def work() -> str:
        await asyncio.sleep(0.005)
        return "ok"

    registry = ToolRegistry([made(work, exclusive=True), made(lambda: "sync", name="sync")])
    results: list[str] = []

    def on_a_loop() -> None:
        async def main() -> None:
            for output in await asyncio.gather(*(registry.execute("work") for _ in range(3)), registry.execute("sync")):
                results.append(output.for_llm)

        asyncio.run(main())

    threads = [threading.Thread(target=on_a_loop) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    on_a_loop()
    assert sorted(results) == ["ok"] * 12 + ["sync"] * 4


# --- redaction, spill, output schema


async def test_secrets_leave_outputs_and_events() -> None:
    registry = ToolRegistry([made(lambda key: f"got {key}", name="t")])
    registry.stages.redact = lambda text: text.replace("sk-secret", "sk-***")
    record = Record(registry)
    output = await registry.execute("t", {"key": "sk-secret"})
    assert output.for_llm == "got sk-***"
    assert all("sk-secret" not in e.arguments for e in record.of(CallStarted) + record.of(CallFinished))
    await registry.execute("none", {"key": "sk-secret"})
    assert "sk-secret" not in repr(record.all)

    def broken(text: str) -> str:
        raise RuntimeError("bug")

    registry.stages.redact = broken
    output = await registry.execute("t", {"key": "sk-secret"})
    assert output.is_error and "sk-secret" not in output.for_llm
    assert "sk-secret" not in repr(record.all[2:])


async def test_secrets_leave_what_a_person_reads_of_a_denial() -> None:
    said = ToolOutput.error("denied: sk-secret", "denied", for_user="not run: sk-secret")
    registry = ToolRegistry([made(lambda: "x", name="t")], policy=Fixed(said))
    registry.stages.redact = lambda text: text.replace("sk-secret", "sk-***")
    output = await registry.execute("t")
    assert (for_person(output), output.for_llm) == ("not run: sk-***", f"denied: sk-***{HINT}")


async def test_what_is_spilled_is_named_by_its_own_call() -> None:
    kept: list[tuple[str, str, Any]] = []

    def spill(call_id: str, name: str, data: str | bytes) -> str:
        kept.append((call_id, name, data))
        return f"/spill/{call_id}"

    registry = ToolRegistry([made(lambda: "x" * 1000, name="t", max_output=200)])
    registry.stages.spill = spill
    outputs = [await registry.execute("t") for _ in range(2)]
    assert len({call for call, _, _ in kept}) == 2
    for output, (call_id, _, data) in zip(outputs, kept, strict=True):
        assert len(output.for_llm) <= 200 and f"/spill/{call_id}" in output.for_llm and data == "x" * 1000


async def test_a_traceback_reaches_the_developer_without_secrets_and_never_the_model() -> None:
    def fails(key: str) -> str:
        """Fail."""
        raise KeyError("sk-secret")

    registry = ToolRegistry([tool(fails)])
    registry.stages.redact = lambda text: text.replace("sk-secret", "sk-***")
    record = Record(registry)
    output = await registry.execute("fails", {"key": "k"})
    assert output.for_llm.startswith("Error executing fails: KeyError: 'sk-***'")
    assert "Traceback" not in f"{output.for_llm} {output.user_text} {output.meta}"
    (event,) = record.of(CallFinished)
    assert event.traceback is not None and event.traceback == output.traceback
    assert 'raise KeyError("sk-***")' in event.traceback and "run_tool" not in event.traceback
    assert (await registry.execute("fails", {})).traceback is None


async def test_a_long_traceback_does_not_begin_within_a_secret() -> None:
    secret = "granted-Value-47110 "

    def fails() -> str:
        """Fail."""
        raise RuntimeError(secret * 2_000)

    registry = ToolRegistry([tool(fails)])
    registry.stages.redact = lambda text: text.replace(secret.strip(), "*" * 19)
    found = (await registry.execute("fails", {})).traceback
    assert found is not None and set(found) == {"*", " ", "\n"}


# --- exactly one outcome, whatever happens

OUTCOMES = st.sampled_from(["str", "dict", "error", "raise", "exit", "slow", "cancel inner", "none", "huge", "denied"])
GATES = st.sampled_from(["none", "allow", "deny", "crash", "edit"])


@given(st.lists(st.tuples(OUTCOMES, st.booleans(), GATES, st.booleans()), min_size=1, max_size=6))
@settings(max_examples=40, deadline=None)
def test_every_call_has_exactly_one_outcome(plan: list[tuple[str, bool, str, bool]]) -> None:
    async def main() -> None:
        gates: dict[str, str] = {}

        class Policy:
            def clears(self, tool: Tool) -> bool:
                return gates[tool.name] == "none"

            async def authorize(self, request: Call, approved: Grant | None = None) -> Grant | ToolOutput:
                gate = gates[request.tool.name]
                if gate == "crash":
                    raise RuntimeError("policy bug")
                if gate == "deny":
                    return ToolOutput.error("no", "denied")
                return Grant(edited={"n": 2}) if gate == "edit" and approved is None else Grant()

        registry = ToolRegistry(policy=Policy())
        for i, (outcome, is_async, gate, exclusive) in enumerate(plan):
            gates[f"t{i}"] = gate
            fn = _behaves(outcome, is_async)
            registry.register(tool(fn, name=f"t{i}", timeout=0.03, exclusive=exclusive, max_output=300))
        record = Record(registry)
        outputs = await asyncio.gather(
            *(registry.execute(f"t{i}", {"n": 1}, call_id=f"c{i}") for i in range(len(plan)))
        )
        for i, output in enumerate(outputs):
            started = [e for e in record.of(CallStarted) if e.call_id == f"c{i}"]
            finished = [e for e in record.of(CallFinished) if e.call_id == f"c{i}"]
            assert len(started) == len(finished) == 1
            assert finished[0].output is output
            assert output.for_llm.count(HINT_TEXT) == (1 if output.is_error else 0)
            assert len(output.for_llm) <= 300 + len(HINT)
            assert output.is_error == (output.error_kind is not None)

    asyncio.run(main())


def _behaves(outcome: str, is_async: bool) -> Callable[..., Any]:
    def sync(n: int) -> Any:
        match outcome:
            case "str":
                return "fine"
            case "dict":
                return {"n": n}
            case "error":
                return ToolOutput.error("failed")
            case "raise":
                raise ValueError("bug")
            case "exit":
                raise SystemExit(1)
            case "slow":
                time.sleep(0.05)
            case "huge":
                return "y" * 5000
            case "denied":
                raise ToolExecutionDenied("never")
        return None

    async def asynchronous(n: int) -> Any:
        if outcome == "slow":
            await asyncio.sleep(5)
        if outcome == "cancel inner":
            raise asyncio.CancelledError
        return sync(n)

    return asynchronous if is_async else sync


async def test_a_judgement_is_no_business_of_a_registry_without_policy() -> None:
    """A registry without a policy allows: these are tools the programmer put there."""
    effects = Effects(judge=lambda args, ctx: Judgement("deny", "never"))
    assert not (await ToolRegistry([effects.tool]).execute("write", {"path": "a"})).is_error


async def test_a_listener_that_raises_harms_nobody(caplog: pytest.LogCaptureFixture) -> None:
    registry = ToolRegistry([made(lambda: "ok", name="t")])

    def broken(event: Any) -> None:
        raise RuntimeError("listener bug")

    registry.events.subscribe(broken)
    record = Record(registry)
    with caplog.at_level(logging.CRITICAL):
        assert (await registry.execute("t")).for_llm == "ok"
    assert len(record.all) == 2


async def test_arguments_in_every_form() -> None:
    registry = ToolRegistry([made(lambda x=0: str(x), name="t")])
    forms: list[Mapping[str, Any] | str | bytes | None] = [{"x": 1}, '{"x": 1}', b'{"x": 1}', '"{\\"x\\": 1}"']
    for arguments in forms:
        assert (await registry.execute("t", arguments)).for_llm == "1"
    for arguments in (None, "", "{}", {}):
        assert (await registry.execute("t", arguments)).for_llm == "0"


Body = Callable[[], Awaitable[Any]]


# --- texts that are long


@pytest.mark.parametrize("kind", ["text", "data", "error"])
async def test_a_long_result_is_redacted_while_other_calls_go_on(kind: str) -> None:
    def long() -> Any:
        if kind == "error":
            raise ToolError("a" * 1_000_000)
        return "a" * 1_000_000 if kind == "text" else ToolOutput("", data={"x": ["a" * 500_000] * 2})

    registry = ToolRegistry([made(long, name="t")])
    registry.stages.redact = searched = Searched()
    await registry.execute("t", {})
    assert searched.on_loop == {False}


async def test_only_the_beginning_of_very_long_arguments_is_redacted_and_shown() -> None:
    secret = "kd83-hemlig-8s7d6f5g4h3j2k1"
    searched: list[int] = []

    def redact(text: str) -> str:
        searched.append(len(text))
        return text.replace(secret, "***")

    def take(x: str) -> str:
        return "ok"

    registry = ToolRegistry([made(take)])
    registry.stages.redact = redact
    events = Record(registry)
    for name in ("take", "unknown"):
        await registry.execute(name, {"x": f"{'-' * 200}{secret}" * 10_000})
    first, second = (event.arguments for event in events.of(CallFinished))
    assert "-***-" in first and first.endswith("… [2,270,008 characters]")
    assert all(len(shown) <= 20_000 and "kd83" not in shown for shown in (first, second))
    assert max(searched) < 100_000
