"""A server on the official SDK with a tool for each thing a client has to bear. Run by the tests as a program."""

import asyncio
import os
import signal
import sys
from typing import Annotated

import mcp_types as types
from mcp.server import MCPServer
from mcp.server.mcpserver import Context, Image
from mcp.server.mcpserver.resolve import Elicit, ElicitationResult, Resolve
from pydantic import BaseModel

server = MCPServer("fixture", version="1.0", instructions="Be kind.")


@server.tool()
def echo(text: str) -> str:
    """Say it back. And more."""
    return text


@server.tool()
def pid() -> str:
    """Who runs this."""
    return str(os.getpid())


@server.tool(annotations=types.ToolAnnotations(read_only_hint=True, open_world_hint=False))
def look(path: str) -> str:
    """Read, and nothing else: the process dies the first time."""
    if not os.path.exists(path):
        open(path, "w").close()
        os.kill(os.getpid(), signal.SIGKILL)
    return "seen"


@server.tool()
def die(path: str) -> str:
    """Count the call, then die."""
    with open(path, "a") as file:
        file.write("x")
    os.kill(os.getpid(), signal.SIGKILL)
    return "never"


@server.tool()
def big(megabytes: int) -> str:
    """A lot of text."""
    return "x" * (megabytes << 20)


@server.tool()
def fail() -> str:
    """Go wrong."""
    raise ValueError("the disk is full")


class Weather(BaseModel):
    """What it is like."""

    degrees: float
    windy: bool


@server.tool()
def weather(city: str) -> Weather:
    """Structured."""
    return Weather(degrees=12.5, windy=True)


@server.tool()
def picture() -> Image:
    """A picture."""
    return Image(data=b"\x89PNG\r\n\x1a\n", format="png")


@server.tool()
async def slow(seconds: float, path: str = "", ctx: Context | None = None) -> str:
    """Take a while; write what became of it."""
    try:
        await asyncio.sleep(seconds)
    except BaseException:
        if path:
            with open(path, "w") as file:
                file.write("cancelled")
        raise
    return "done"


@server.tool()
async def steps(number: int, pause: float, ctx: Context) -> str:
    """Report progress."""
    for n in range(number):
        await asyncio.sleep(pause)
        await ctx.report_progress(n + 1, number, f"step {n + 1}")
    return "done"


class Form(BaseModel):
    """What is asked."""

    name: str
    age: int = 42


def who() -> Elicit[Form]:
    """The question, in either era."""
    return Elicit("Who are you?", Form)


@server.tool()
async def ask(answer: Annotated[ElicitationResult[Form], Resolve(who)]) -> str:
    """Ask the person."""
    return f"{answer.action}: {getattr(answer, 'data', None)}"


@server.tool()
async def grow(ctx: Context) -> str:
    """Have one more tool from now on."""

    def extra() -> str:
        """New."""
        return "extra"

    server.add_tool(extra)
    await ctx.session.send_tool_list_changed()
    await ctx.notify_tools_changed()
    return "grown"


@server.resource("note://one")
def note() -> str:
    """A note."""
    return "first note"


@server.resource("note://{name}")
def named(name: str) -> str:
    """A note by name."""
    return f"note {name}"


@server.prompt()
def greet(who: str) -> str:
    """Greet somebody."""
    return f"Say hello to {who}"


if __name__ == "__main__":
    print("fixture starts", file=sys.stderr)
    if sys.argv[1:2] == ["http"]:
        server.run("streamable-http", port=int(sys.argv[2]))
    elif sys.argv[1:2] == ["sse"]:
        server.run("sse", port=int(sys.argv[2]))
    else:
        server.run("stdio")
