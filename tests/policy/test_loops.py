"""The loop guard: circles are noticed, progress is not mistaken for one."""

from dataclasses import replace
from unittest.mock import patch

from hypothesis import given
from hypothesis import strategies as st

from toolcrib.core.context import ToolContext
from toolcrib.core.output import ToolOutput
from toolcrib.core.registry import ToolRegistry
from toolcrib.core.tool import ToolOrigin, tool
from toolcrib.policy import loops
from toolcrib.policy.loops import MAX_SESSIONS, LoopGuard

SESSION = ToolContext(session_id="s")


def registry(**options):
    answers = {"n": 0}

    @tool(category="filesystem_read", **options)
    def look(path: str) -> str:
        """Look."""
        return f"{path} is empty"

    @tool(category="network_read")
    def clock() -> str:
        """The time."""
        answers["n"] += 1
        return str(answers["n"])

    @tool(category="filesystem_write")
    def edit(text: str) -> ToolOutput:
        """Edit."""
        same = text.startswith("same")
        return ToolOutput("nothing changed", meta={"no_change": True}) if same else ToolOutput(f"edited {text}")

    @tool(category="shell")
    def run(command: str) -> str:
        """Run."""
        return "1 failed"

    made = ToolRegistry([look, clock, edit, run])
    made.stages.guard = LoopGuard()
    return made


async def repeat(r, times, name, ctx=SESSION, **args):
    return [await r.execute(name, args, ctx) for _ in range(times)]


async def test_the_third_same_result_warns_and_the_sixth_call_is_refused():
    outputs = await repeat(registry(), 6, "look", path="a")
    assert ["Loop warning" in o.for_llm for o in outputs] == [False, False, True, True, True, False]
    assert [o.error_kind for o in outputs] == [None] * 5 + ["loop"]


async def test_other_arguments_or_results_are_no_loop():
    r = registry()
    for n in range(12):
        assert "Loop" not in (await r.execute("look", {"path": f"p{n}"}, SESSION)).for_llm
    assert all("Loop" not in o.for_llm for o in await repeat(r, 12, "clock"))


async def test_without_a_session_nothing_is_counted():
    assert all(not o.is_error for o in await repeat(registry(), 10, "look", ctx=None, path="a"))


async def test_a_polling_tool_may_opt_out():
    assert all("Loop" not in o.for_llm for o in await repeat(registry(loop_exempt=True), 10, "look", path="a"))


async def test_tools_that_may_repeat_are_ignored():
    for names in (["look"], ["lo*"], ["*"]):
        r = registry()
        r.stages.guard = LoopGuard(names)
        assert not any(out.is_error or "warning" in out.for_llm for out in await repeat(r, 9, "look", path="a"))
    r.stages.guard = LoopGuard(["other"])
    assert (await repeat(r, 6, "look", path="a"))[-1].error_kind == "loop"


async def test_the_answer_of_a_server_behind_the_gateway_gets_no_warning():
    served = tool(category="network_read", origin=ToolOrigin("mcp", "s", "look"))(registry().require("look").handler)
    client = replace(SESSION, channel="mcp")
    guard = LoopGuard()
    for _ in range(3):
        assert guard.after(served, "{}", ToolOutput("x"), client) is None
    assert guard.after(served, "{}", ToolOutput("x"), SESSION) is not None
    assert guard.after(served, "{}", ToolOutput("x"), client) is None
    assert guard.before(served, "{}", client) is not None


async def test_a_user_message_starts_afresh():
    r = registry()
    await repeat(r, 6, "look", path="a")
    r.stages.guard.reset("s")
    assert not (await r.execute("look", {"path": "a"}, SESSION)).is_error


async def test_pairs_that_alternate_are_noticed():
    r = registry()
    seen = [await r.execute("look", {"path": "ab"[n % 2]}, SESSION) for n in range(10)]
    assert any("Loop warning" in o.for_llm for o in seen[:6])
    assert (await r.execute("look", {"path": "a"}, SESSION)).error_kind == "loop"


async def test_running_the_tests_after_every_edit_is_no_loop():
    r = registry()
    for n in range(8):
        assert "Loop" not in (await r.execute("edit", {"text": str(n)}, SESSION)).for_llm
        assert "Loop" not in (await r.execute("run", {"command": "pytest"}, SESSION)).for_llm


async def test_edits_that_change_nothing_are_counted_whatever_they_say():
    r = registry()
    outputs = [await r.execute("edit", {"text": f"same {n}"}, SESSION) for n in range(5)]
    assert "Loop warning" in outputs[2].for_llm
    assert "Loop warning" in outputs[4].for_llm


async def test_sessions_do_not_mix_and_old_ones_are_forgotten():
    r = registry()
    await repeat(r, 6, "look", path="a")
    assert not (await r.execute("look", {"path": "a"}, ToolContext(session_id="t"))).is_error
    guard = r.stages.guard
    for n in range(MAX_SESSIONS + 10):
        guard.after(r.require("look"), "{}", ToolOutput("x"), ToolContext(session_id=f"x{n}"))
    assert len(guard._sessions) == MAX_SESSIONS


@given(st.lists(st.tuples(st.integers(0, 60), st.integers(0, 3)), max_size=300))
def test_what_is_kept_of_a_session_is_bounded(calls):
    with patch.object(loops, "MAX_STEPS", 20):
        guard, look = LoopGuard(), registry().require("look")
        for path, result in calls:
            if guard.before(look, f"{path}", SESSION) is None:
                guard.after(look, f"{path}", ToolOutput(f"{result}"), SESSION)
            session = guard._session(SESSION)
            assert len(session.seen) <= 20 and len(session.blocked) <= 20 and len(session.steps) <= loops.WINDOW


async def test_a_loop_is_noticed_through_hundreds_of_other_steps():
    r = registry()
    await repeat(r, 4, "look", path="a")
    for n in range(loops.MAX_STEPS - 1):
        await r.execute("look", {"path": f"p{n}"}, SESSION)
    fifth, sixth = await repeat(r, 2, "look", path="a")
    assert "Loop warning: this is time 5" in fifth.for_llm and sixth.error_kind == "loop"
