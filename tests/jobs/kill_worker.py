"""A worker that test_kill_jobs starts and kills: `python -m tests.jobs.kill_worker WORKSPACE CONFIG`.

Each effect is two lines in the workspace's log: begun and ended."""

from __future__ import annotations

import asyncio
import json
import os
import random
import sys
from collections.abc import AsyncGenerator
from pathlib import Path

from toolcrib import Toolbox, ToolContext, tool
from toolcrib.agent import Agent
from toolcrib.agent.history import ModelCall, ModelTurn, Text, TokenUsage
from toolcrib.agent.model import ModelEvent, ModelRequest, ReplyEnd
from toolcrib.cli.jobs.hosted_jobs import hosted_jobs


async def effect(ctx: ToolContext, text: str) -> None:
    assert ctx.workspace is not None
    for what in ("begun", "ended"):
        fd = os.open(ctx.workspace / "log.txt", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        os.write(fd, f"{what} {text}\n".encode())
        os.close(fd)
        await asyncio.sleep(random.random() * 0.1)


@tool(category="memory")
async def note(text: str, ctx: ToolContext) -> str:
    """Note something."""
    await effect(ctx, text)
    return f"noted {text}"


@tool(category="memory")
async def launch(text: str, ctx: ToolContext) -> str:
    """Launch something, which asks first."""
    await effect(ctx, text)
    return f"launched {text}"


@tool(category="memory")
async def beat(ctx: ToolContext) -> str:
    """Note that a schedule ran; each run has an effect of its own."""
    await effect(ctx, str(ctx.call_id))
    return "noted"


@tool(category="memory", read_only=True)
async def peek(text: str, ctx: ToolContext) -> str:
    """Look at something, for a while."""
    await ctx.progress(1, 2, text)
    await asyncio.sleep(random.random() * 0.2)
    return f"saw {text}"


class ByTask:
    """A model that answers by the first words of its session."""

    name = "scripted:kill"

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelEvent]:
        first = getattr(request.history[0], "text", "").split()
        step = sum(isinstance(turn, ModelTurn) for turn in request.history)
        calls = self.calls(first[0], first[1], step)
        await asyncio.sleep(random.random() * 0.05)
        parts = tuple(ModelCall(f"c{step}_{i}", name, json.dumps(args)) for i, (name, args) in enumerate(calls))
        usage = TokenUsage(10, 1)
        yield ReplyEnd(
            ModelTurn(parts, "calls", usage) if parts else ModelTurn((Text(f"all of {first[1]}"),), "end", usage)
        )

    def calls(self, kind: str, name: str, step: int) -> list[tuple[str, dict[str, object]]]:
        if kind == "go" and step < 2:
            return [("note", {"text": f"{name}-{step}"}), ("launch", {"text": f"{name}-ask{step}"})]
        if kind == "spawn" and step == 0:
            return [("spawn", {"task": f"look {name}", "wait": True}), ("spawn", {"task": f"look {name}b"})]
        if kind == "look" and step < 2:
            text = f"{name}-{step}"
            return [("exec", {"command": f"echo begun {text} >> log.txt; echo ended {text} >> log.txt"})]
        return []

    async def aclose(self) -> None: ...


async def work(workspace: Path, config: Path) -> None:
    async with Toolbox.open(workspace, config=config, tools=[note, launch, beat, peek]) as box:
        agent = await Agent.open(box, ByTask())

        async def opened() -> Agent:
            return agent

        async with hosted_jobs(box, opened, schedules=True) as host:
            await host.engine()
            if host.elsewhere:
                raise SystemExit(host.elsewhere)
            print("ready", flush=True)
            await asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)  # until the test closes it
            await host.drain(30)
        await agent.aclose()


if __name__ == "__main__":
    asyncio.run(work(Path(sys.argv[1]), Path(sys.argv[2])))
