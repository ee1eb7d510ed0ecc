"""One process of a script that test_kill_code kills: `python kill_script.py WORKSPACE CONFIG FILE`.

Each effect is two lines in the workspace's log: begun and ended. The person says yes or no at once, at random."""

from __future__ import annotations

import asyncio
import os
import random
import sys
from pathlib import Path

from toolcrib import Toolbox, ToolContext, tool


async def effect(ctx: ToolContext, text: str) -> None:
    assert ctx.workspace is not None
    for what in ("begun", "ended"):
        fd = os.open(ctx.workspace / "log.txt", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        os.write(fd, f"{what} {text}\n".encode())
        os.close(fd)
        await asyncio.sleep(random.random() * 0.01)


@tool(category="memory")
async def note(text: str, ctx: ToolContext) -> str:
    """Note something."""
    await effect(ctx, text)
    return "done"


@tool(category="memory")
async def launch(text: str, ctx: ToolContext) -> str:
    """Launch something, which asks first."""
    await effect(ctx, text)
    return "done"


@tool(category="memory", read_only=True)
async def peek(text: str) -> str:
    """Look at something."""
    await asyncio.sleep(random.random() * 0.01)
    return f"saw {text}"


async def main(work: str, config: str, file: str) -> None:
    code = Path(file).read_text()
    async with Toolbox.open(work, config=config, tools=[note, launch, peek]) as box:
        print("ready", flush=True)
        while True:
            out = await box.call("run_code", {"code": code})
            if out.error_kind != "pending":
                break
            for request in out.meta["approvals"]:
                if random.random() < 0.6:
                    box.approvals.resolve(request, random.random() < 0.8, approver="cli:test")
    print(f"{out.error_kind}\n{out.for_llm}", flush=True)


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
