"""A call's clock stands still while its tool asks a person."""

import asyncio

import pytest

from toolcrib.core.context import ToolContext
from toolcrib.core.registry import ToolRegistry
from toolcrib.core.tool import tool

from ..waiting import pass_time


async def takes(seconds):
    await asyncio.sleep(0)  # the clock begins when a call waits first
    pass_time(seconds)
    await asyncio.sleep(0.01)  # the timers of that time ring


def asker(seconds):
    async def ask(question, options):
        await takes(seconds)
        return "blue"

    return ToolContext(ask=ask)


@tool(category="memory", timeout=100)
async def colour(ctx: ToolContext, first: float = 0, after: float = 0) -> str:
    """Ask for a colour."""
    if first:
        await takes(first)
    answer = await ctx.ask("Which?", ())
    await takes(after)
    return answer


@tool(category="memory", timeout=100)
async def colours(ctx: ToolContext) -> str:
    """Ask for two colours at once."""
    return ",".join(await asyncio.gather(ctx.ask("Which?", ()), ctx.ask("And?", ())))


@pytest.mark.parametrize("arguments", [{}, {"first": 50}, {"after": 50}])
async def test_an_answer_that_takes_longer_than_the_timeout_is_waited_for(arguments):
    output = await ToolRegistry([colour]).execute("colour", arguments, asker(300))
    assert output.for_llm == "blue"


async def test_two_questions_at_once():
    assert (await ToolRegistry([colours]).execute("colours", {}, asker(250))).for_llm == "blue,blue"


@pytest.mark.parametrize("arguments", [{"first": 110}, {"after": 110}, {"first": 60, "after": 60}])
async def test_the_tools_own_time_counts_before_and_after(arguments):
    output = await ToolRegistry([colour]).execute("colour", arguments, asker(300))
    assert output.error_kind == "timeout"


async def test_a_question_that_nobody_answers_ends():
    output = await ToolRegistry([colour]).execute("colour", {}, asker(710))
    assert output.error_kind == "timeout"


async def test_what_a_tool_asks_a_person_holds_no_secrets():
    seen = []

    async def ask(question, options=()):
        seen.append((question, list(options)))
        return options[0]

    @tool(category="memory")
    async def choose(ctx: ToolContext) -> str:
        """Ask somebody."""
        assert ctx.ask is not None
        return await ctx.ask("is SECRET right?", ["SECRET", "no"])

    registry = ToolRegistry([choose])
    registry.stages.redact = lambda text: text.replace("SECRET", "***")
    output = await registry.execute("choose", {}, ToolContext(ask=ask))
    assert seen == [("is *** right?", ["***", "no"])]
    assert output.for_llm == "***"
