"""Serves the agent to an editor, with a tool that prints in every way it can."""

import asyncio
import os
import sys

from toolcrib import Toolbox, tool
from toolcrib.agent.acp import serve
from toolcrib.boundary.claimed_stdio import claimed_stdio

NOISE = '{"jsonrpc":"2.0","method":"session/update","params":{"noise":true}}'


@tool(category="memory")
def noisy() -> str:
    """Print."""
    print(NOISE, flush=True)
    os.write(1, f"{NOISE}\n".encode())
    os.system(f"echo '{NOISE}'")
    return repr(sys.stdin.read())


with claimed_stdio() as (read_fd, write_fd):
    asyncio.run(serve(lambda folder, _: Toolbox.open(folder, tools=[noisy]), sys.argv[1], print, read_fd, write_fd))
