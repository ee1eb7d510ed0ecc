"""`toolcrib demo`: an MCP client, and an agent, use guarded tools on real files. It needs no key and no service.

It starts our own server as any MCP client would, over stdio, in a fresh workspace with a state folder of its own,
and fails if any step goes wrong.
"""

from __future__ import annotations

import json
import os
import select
import shlex
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from ...boundary.programs import find_program, own_command, search_path
from ...core.text import in_lines
from ...core.wings import has_wing
from .. import show
from ..exit_codes import FAILED, OK, REFUSED, Usage
from ..main_loop import run
from ..options import Options
from ..reader import CliCommand

if TYPE_CHECKING:
    from mcp import Client
    from mcp_types import CallToolResult, ElicitResult

SHOP = '''"""Prices of a small shop."""

TAX = 0.19


def price(net: float) -> float:
    """The price with tax, in cents."""
    return round(net * (1 + TAX) * 100)


def total(nets: list[float]) -> float:
    return sum(price(net) for net in nets)
'''
FILES = {
    "README.md": "# Shop\n\nRun `python3 shop.py`. The tax rate is in `shop.py`.\n",
    "shop.py": SHOP,
    "notes/todo.txt": "- tax is 0.25 from now on\n- remove old.csv\n",
    "old.csv": "item;net\nlamp;10\n",
}
SECRET = "the launch code is 0000"  # noqa: S105
AGENT_REPLIES: list[dict[str, Any]] = [
    {"text": "I read the notes.", "calls": [{"name": "read_file", "arguments": {"path": "notes/todo.txt"}}]},
    {"text": "The tax first.", "after": "tax is 0.25", "calls": [
        {"name": "edit_file", "arguments": {"path": "shop.py", "old_text": "TAX = 0.19", "new_text": "TAX = 0.25"}}]},
    {"text": "I check it.", "calls": [
        {"name": "exec", "arguments": {"command": "touch begun; sleep 9; grep TAX shop.py"}}]},
    {"text": "I was interrupted there. I look again.", "after": "was interrupted", "calls": [
        {"name": "exec", "arguments": {"command": "grep TAX shop.py"}}]},
    {"text": "It is right. Now the file.", "after": "TAX = 0.25", "calls": [
        {"name": "delete_file", "arguments": {"path": "old.csv"}}]},
    {"text": "The tax is 0.25 now, and old.csv is removed."},
]  # fmt: skip
"""What the model of the agent's task replies. `after`: words that the message before must have."""


class Failed(Exception):
    """A step went wrong."""


def demo(options: Options) -> int:
    """Watch an MCP client use the tools: read, search, edit, run, be refused, be asked, undo.

    Everything happens in a temporary folder. Exit code 1 if a step goes wrong.
    """
    if options.workspace or options.config or options.mode:
        raise Usage("the demo has its own workspace and settings; leave --workspace, --config and --mode out")
    os.getcwd()  # raises where this folder was deleted: its servers would not start
    try:
        with (
            tempfile.TemporaryDirectory(prefix="toolcrib-demo-") as folder,
            socket.create_server(("127.0.0.1", 0)) as listener,
        ):
            run(Demo(Path(folder).resolve(), listener).play())
    except Exception as error:
        if isinstance(_root(error), BrokenPipeError):  # the reader ended first, as in `toolcrib demo | head`
            raise _root(error) from None
        show.error(f"the demo failed: {_reason(error)}")
        show.say("`toolcrib doctor` shows what is missing on this machine.")
        return FAILED
    show.say(f"\nEverything above really happened, and all of it was removed again. Next: {_next()}", "green")
    return OK


def _next() -> str:
    """A command that works as it is printed, also where no `toolcrib` is on the PATH."""
    program, *first = own_command()
    if find_program("toolcrib") == program:
        return "toolcrib install claude"
    short = os.path.relpath(program)
    words = [short if not short.startswith("..") else program, *first, "install", "claude", "--user"]
    return shlex.join(words)


def _root(error: BaseException) -> BaseException:
    """The first error, taken out of the exception groups of the tasks."""
    if isinstance(error, BaseExceptionGroup):
        return _root(cast("BaseExceptionGroup[BaseException]", error).exceptions[0])
    return error


def _reason(error: BaseException) -> str:
    root = _root(error)
    return str(root) if isinstance(root, Failed) else f"{type(root).__name__}: {root}"


class Demo:
    """The steps of the demo. Each step checks what it shows."""

    def __init__(self, base: Path, listener: socket.socket) -> None:
        self.base, self.listener = base, listener
        self.work, self.outside = base / "workspace", base / "outside"
        self.asked: list[str] = []
        self.answer = "deny"
        self.number = 0

    async def play(self) -> None:
        """Run all steps."""
        from mcp import Client, StdioServerParameters
        from mcp.client.stdio import stdio_client

        for name, text in FILES.items():
            path = self.work / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
        self.outside.mkdir()
        (self.outside / "secret.txt").write_text(SECRET, encoding="utf-8")
        program, *first = own_command()
        self.line(f"A workspace with {len(FILES)} files: {self.work}")
        self.line(f"Starting `toolcrib serve --workspace {self.work}` and connecting an MCP client over stdio …")
        server = StdioServerParameters(
            command=program, args=[*first, "serve", "--workspace", str(self.work)], env=self.environment()
        )
        failure: Failed | None = None
        async with Client(stdio_client(server), elicitation_callback=self.person) as client:
            try:
                for part in (self.look, self.change, self.sandbox, self.approval, self.spill):
                    await part(client)
            except Failed as error:  # kept here, because task groups would wrap it
                failure = error
        if failure is not None:
            raise failure
        self.undo()
        self.record()
        if has_wing("agent"):
            self.agent()

    def environment(self) -> dict[str, str]:
        """The environment of the server and of our commands: this one, with a separate state folder and settings, and
        no program of the current folder: tools of a project may have put it there."""
        env = {key: value for key, value in os.environ.items() if not key.startswith("TOOLCRIB_")}
        env["PATH"] = search_path([os.getcwd()])
        return {**env, "XDG_STATE_HOME": str(self.base / "state"), "XDG_CONFIG_HOME": str(self.base / "config")}

    async def look(self, client: Client) -> None:
        """List, read, search."""
        self.step("What tools are there?")
        tools = (await client.list_tools()).tools
        names = sorted(tool.name for tool in tools)
        for tool in sorted(tools, key=lambda t: t.name):
            kind = "reads only" if tool.annotations and tool.annotations.read_only_hint else "has effects"
            self.line(f"{tool.name:<14} {kind}")
        self.must({"read_file", "grep", "edit_file", "exec", "delete_file"} <= set(names), "a tool is missing")

        self.step("Read a file, and search all of them")
        text = await self.call(client, "read_file", {"path": "notes/todo.txt"})
        self.must("0.25" in text, "read_file did not show the file")
        text = await self.call(client, "grep", {"pattern": r"TAX\s*=", "output_mode": "content"})
        self.must("shop.py" in text and "0.19" in text, "grep did not find the line")

    async def change(self, client: Client) -> None:
        """A call with a mistake, then the right one."""
        self.step("A call with a mistake: the answer says what to do instead")
        text = await self.call(
            client, "edit_file", {"path": "shop.py", "old": "TAX = 0.19", "new_text": "x"}, fails=True
        )
        self.must("old_text" in text, "the answer did not name the right parameter")

        self.step("The same, done right (journaled, so it can be undone)")
        await self.call(client, "edit_file", {"path": "shop.py", "old_text": "TAX = 0.19", "new_text": "TAX = 0.25"})
        self.must("TAX = 0.25" in self.read("shop.py"), "the edit is not in the file")

    async def sandbox(self, client: Client) -> None:
        """The sandbox: a harmless command, a hostile script, and the workspace boundary."""
        self.step("Run a command: in the sandbox it needs no approval")
        command = 'ls; awk \'/^TAX/ {print "tax is", $3 * 100, "%"}\' shop.py'
        text = await self.call(client, "exec", {"command": command})
        self.must("tax is 25 %" in text, "the command did not run, or not on the edited file")

        self.step("A script tries the network and a file outside the workspace. This cannot be seen before it runs")
        harm = (
            f"cat {self.outside}/secret.txt; echo broken > {self.outside}/secret.txt; "
            f"(echo > /dev/tcp/127.0.0.1/{self.listener.getsockname()[1]}) && echo CONNECTED; ls -a ~ | head -5"
        )
        (self.work / "build.sh").write_text(harm, encoding="utf-8")
        text = await self.call(client, "exec", {"command": "bash build.sh"})
        self.must(SECRET not in text, "the command read a file outside the workspace")
        self.must("CONNECTED" not in text and not _was_reached(self.listener), "the command reached the network")
        self.must((self.outside / "secret.txt").read_text() == SECRET, "the command changed a file outside")
        with socket.create_connection(self.listener.getsockname(), timeout=5):  # from here it can be reached
            self.must(
                _was_reached(self.listener), "the listener on this machine does not work, so this step shows nothing"
            )
        self.line("The file outside is untouched, and the listener on this machine got no connection.")
        (self.work / "build.sh").unlink()

        self.step("The same as a command: the harm is visible, so it is refused before it runs")
        text = await self.call(client, "exec", {"command": harm}, fails=True)
        self.must("denied" in text, "a command that shows its harm was not refused")

        self.step("A file tool tries to leave the workspace")
        text = await self.call(client, "write_file", {"path": "../outside/secret.txt", "content": "broken"}, fails=True)
        self.must("outside the workspace" in text, "the refusal does not say why")
        self.must((self.outside / "secret.txt").read_text() == SECRET, "write_file left the workspace")

    async def approval(self, client: Client) -> None:
        """A destructive call: denied, then approved."""
        self.step("A destructive call: the client asks the person, who says no")
        self.answer = "deny"
        await self.call(client, "delete_file", {"path": "old.csv"}, fails=True)
        self.must(len(self.asked) == 1, "the person was not asked")
        self.must((self.work / "old.csv").exists(), "the file was deleted without a yes")

        self.step("Asked again, the person says yes")
        self.answer = "approve"
        await self.call(client, "delete_file", {"path": "old.csv"})
        self.must(len(self.asked) == 2, "the person was not asked again")
        self.must(not (self.work / "old.csv").exists(), "the file is still there after the yes")

    async def spill(self, client: Client) -> None:
        """A command with more output than a model should read."""
        self.step("A command prints 6.9 MB: the model gets the head and the tail, and a file with the rest")
        text = await self.call(client, "exec", {"command": "seq 1 1000000"}, most=3)
        self.must(len(text) < 20_000, f"the model got {len(text):,} characters")
        place = next((word.strip("[]().,;") for word in text.split() if "/spill/" in word), "")
        self.must(bool(place), "the output does not say where the rest is")
        text = await self.call(client, "read_file", {"path": place, "offset": 777_777, "limit": 1})
        self.must("777777" in text, "the stored output cannot be read")

    def undo(self) -> None:
        """Undo the changes of the file tools, from another process."""
        self.step("`toolcrib undo`, twice: the deleted file and the edit come back")
        for _ in range(2):
            self.command("undo")
        self.must(self.read("shop.py") == SHOP, "the edit was not undone")
        self.must(self.read("old.csv") == FILES["old.csv"], "the deleted file did not come back")

    def record(self) -> None:
        """Check the record."""
        self.step("`toolcrib log`: the record has every call")
        text = self.command("log")
        self.must("exec" in text and "denied" in text, "the record is not complete")

    def agent(self) -> None:
        """An agent does a task over four processes, and all of it is taken back."""
        script = self.base / "replies.json"
        script.write_text(json.dumps(AGENT_REPLIES), encoding="utf-8")
        self.step(
            "An agent does a task, with a model whose replies are written down; it is killed while a command runs"
        )
        self.line("toolcrib run 'Do what notes/todo.txt says.'", "cyan")
        self.killed_when("begun", "run", "--model", f"scripted:{script}", "Do what notes/todo.txt says.", "--json")
        self.must("TAX = 0.25" in self.read("shop.py"), "the agent did not edit the file")

        self.step("Another process goes on: no call runs twice, and the deletion waits for a person")
        self.line("toolcrib run --session last", "cyan")
        self.command("run", "--session", "last", code=REFUSED)
        session = json.loads(self.command("sessions", "--json", shown=False))[0]
        self.must(session["state"] == "waiting", f"the session does not wait, but is {session['state']}")
        request = session["waiting"][0]["approval"]
        self.line(f"toolcrib approvals approve {request}; toolcrib run --session last", "cyan")
        self.command("approvals", "approve", request)
        self.command("run", "--session", "last")
        self.must(not (self.work / "old.csv").exists(), "the approved call did not run")

        self.step("`toolcrib sessions rewind`: everything that the agent changed comes back")
        self.command("sessions", "rewind", session["id"], "0", "--yes")
        self.must(self.read("shop.py") == SHOP, "the agent's edit was not undone")
        self.must(self.read("old.csv") == FILES["old.csv"], "the file that the agent deleted did not come back")

    # --- the person, the client and the terminal

    async def person(self, context: Any, params: Any) -> ElicitResult:
        """Answer the server's question as the person at the client."""
        from mcp_types import ElicitResult

        self.asked.append(params.message)
        for line in params.message.splitlines():
            self.line(f"? {line}", "yellow")
        self.line(f"? {self.answer}", "bold")
        return ElicitResult(action="accept", content={"decision": self.answer})

    async def call(
        self, client: Client, name: str, arguments: Mapping[str, Any], *, fails: bool = False, most: int = 8
    ) -> str:
        """Call a tool, show the call and the answer, and check that it failed exactly if it should."""
        shown = ", ".join(f"{key}={value!r}" for key, value in arguments.items())
        self.line(f"{name}({shown})", "cyan")
        text = _text(await client.call_tool(name, dict(arguments)), fails)
        lines = text.splitlines()
        for line in lines[:most]:
            self.line(f"  {line[:160]}", "dim")
        if len(lines) > most:
            self.line(f"  … {in_lines(len(lines) - most, 'more ')}", "dim")
        return text

    def killed_when(self, name: str, *words: str) -> None:
        """Run our own command line, show the calls, and kill it without a warning when this file appears."""
        with subprocess.Popen(
            [*own_command(), *words, "--workspace", str(self.work)],
            stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, stdin=subprocess.DEVNULL, env=self.environment(),
        ) as process:  # fmt: skip
            assert process.stdout is not None
            for line in process.stdout:
                event = json.loads(line)
                if event["event"] == "call":
                    self.line(f"  → {event['call']['name']}", "dim")
                    if event["call"]["name"] == "exec":
                        break
            until = time.monotonic() + 8
            while not (self.work / name).exists() and time.monotonic() < until:
                time.sleep(0.01)
            process.kill()
        self.must((self.work / name).exists(), f"the run did not create {name}")
        self.line("  kill -9", "yellow")

    def command(self, *words: str, code: int = OK, shown: bool = True) -> str:
        """Run our own command line, as a person at another terminal would."""
        done = subprocess.run(
            [*own_command(), *words, "--workspace", str(self.work)],
            capture_output=True, text=True, timeout=60, env=self.environment(), stdin=subprocess.DEVNULL,
        )  # fmt: skip
        both = f"{done.stdout}\n{done.stderr}" if words[0] in ("run", "sessions") else done.stdout
        for line in filter(None, both.splitlines() if shown else ()):
            self.line(f"  {line[:160]}", "dim")
        self.must(done.returncode == code, f"`toolcrib {' '.join(words)}` ended with {done.returncode}: {done.stderr}")
        return done.stdout

    # --- output

    def step(self, title: str) -> None:
        """Begin a step."""
        self.number += 1
        show.out()
        show.out(f"{self.number}. {title}", "bold")

    def line(self, text: str, style: str | None = None) -> None:
        """Print an indented line."""
        show.out(f"   {text}", style)
        sys.stdout.flush()

    def must(self, true: bool, otherwise: str) -> None:
        """Raise Failed unless `true` holds."""
        if not true:
            raise Failed(f"step {self.number}: {otherwise}")

    def read(self, name: str) -> str:
        """The content of a file of the workspace."""
        return (self.work / name).read_text(encoding="utf-8")


def _text(result: CallToolResult, fails: bool) -> str:
    text = "\n".join(getattr(block, "text", "") for block in result.content)
    if bool(result.is_error) != fails:
        raise Failed(f"a call {'ran that should have been refused' if fails else 'failed'}: {text[:1000]}")
    return text


def _was_reached(listener: socket.socket) -> bool:
    """Whether a connection waits at a listener."""
    return bool(select.select([listener], [], [], 0)[0])


COMMAND = CliCommand(demo, without=("json",))
