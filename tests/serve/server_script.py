"""A server for the tests: tools that print, spawn and wait. Run as `python server_script.py WORKSPACE [http]`."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from pathlib import Path

from toolcrib import Toolbox, ToolContext, serve, tool

WORK = Path(sys.argv[1])


@tool(category="memory", read_only=True)
async def echo(text: str) -> str:
    """Say it again."""
    return text


@tool(category="memory")
def noisy() -> str:
    """Writes to stdout in every way there is."""
    print("from print")
    sys.stdout.flush()
    os.write(1, b"from the descriptor\n")
    subprocess.run(["echo", "from a child"], check=True)
    return f"stdin says {sys.stdin.read()!r}"


@tool(category="memory", timeout=None)
async def spawn(ctx: ToolContext) -> str:
    """Starts a process that sleeps, and ends it in its own time when cancelled."""
    process = await asyncio.create_subprocess_exec("sleep", "1000")
    (WORK / "pid.new").write_text(str(process.pid))
    (WORK / "pid.new").rename(WORK / "pid")  # whoever waits for the file reads all of it
    try:
        await ctx.progress(1, None, "started")
        await process.wait()
    finally:
        await asyncio.sleep(0.1)
        if process.returncode is None:
            process.kill()
            await process.wait()
        (WORK / "cleaned").touch()
    return "woke up"


@tool(category="destructive")
async def launch(what: str) -> str:
    """Launch something."""
    with (WORK / "ran").open("a") as file:
        file.write(what + "\n")
    return f"launched {what}"


async def main() -> None:
    with Toolbox.open(workspace=WORK, tools=[echo, noisy, spawn, launch], builtin=False) as box:
        if sys.argv[2:] == ["http"]:
            await serve.serve_http(box, port=0, token="", started=lambda url: print(url, flush=True))
        else:
            await serve.serve_stdio(box)
    (WORK / "closed").touch()  # the toolbox was closed, not killed


asyncio.run(main())
