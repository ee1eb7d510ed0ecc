"""A call's clock stands still while its tool asks a person."""

import asyncio

import pytest

from toolcrib.core import drive
from toolcrib.core.context import ToolContext
from toolcrib.core.registry import ToolRegistry
from toolcrib.core.tool import tool


def asker(seconds):
    async def ask(question, options):
        await asyncio.sleep(seconds)
        return "blue"

    return ToolContext(ask=ask)


@tool(category="memory", timeout=0.2)
async def colour(ctx: ToolContext, first: float = 0, after: float = 0) -> str:
    """Ask for a colour."""
    if first:
        await asyncio.sleep(first)
    answer = await ctx.ask("Which?", ())
    await asyncio.sleep(after)
    return answer


@tool(category="memory", timeout=0.2)
async def colours(ctx: ToolContext) -> str:
    """Ask for two colours at once."""
    return ",".join(await asyncio.gather(ctx.ask("Which?", ()), ctx.ask("And?", ())))


@pytest.mark.parametrize("arguments", [{}, {"first": 0.05}, {"after": 0.05}])
async def test_an_answer_that_takes_longer_than_the_timeout_is_waited_for(arguments):
    output = await ToolRegistry([colour]).execute("colour", arguments, asker(0.6))
    assert output.for_llm == "blue"


async def test_two_questions_at_once():
    assert (await ToolRegistry([colours]).execute("colours", {}, asker(0.6))).for_llm == "blue,blue"


@pytest.mark.parametrize("arguments", [{"first": 5}, {"after": 5}])
async def test_the_tools_own_time_counts_before_and_after(arguments):
    output = await ToolRegistry([colour]).execute("colour", arguments, asker(0.3))
    assert output.error_kind == "timeout"


async def test_a_question_that_nobody_answers_ends(monkeypatch):
    monkeypatch.setattr(drive, "ASK_SECONDS", 0.1)
    output = await ToolRegistry([colour]).execute("colour", {}, asker(60))
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
