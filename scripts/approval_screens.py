"""Print the questions of `toolcrib call` as a person sees them: on a real terminal, 100 and 40 columns wide.

    python scripts/approval_screens.py > screens.txt

It runs real calls in a workspace of its own, and answers none of them with yes. `docs/approval-screens.md` has what it
prints.
"""

from __future__ import annotations

import json
import os
import pty
import re
import select
import signal
import sys
import tempfile
import termios
import time
from pathlib import Path

CALLS = {
    "a file is deleted": (["delete_file", "path=a.txt"], ""),
    "a command fetches from a host": (["exec", "command=curl -sSI https://example.com"], ""),
    "a package is installed": (["exec", "command=npm install left-pad"], "a"),
    "a tool of an MCP server": (["mcp_notes_forget", "topic=trips"], ""),
}
PROMPT = re.compile(r"Run it\?[^\r\n]*$|Always allow\?[^\r\n]*$")
ESCAPES = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|\x1b\][^\x07]*\x07|\x1b[=>]")
SECONDS = 60.0
SERVER = """
from mcp.server.mcpserver import MCPServer
server = MCPServer("notes")
@server.tool()
def forget(topic: str) -> str:
    '''Forget all notes about a topic. They cannot be restored.'''
    return "forgotten"
server.run()
"""


def screen(folder: Path, arguments: list[str], keys: str, columns: int) -> str:
    """Return what the terminal shows when a call asks, and after these keys."""
    pid, fd = pty.fork()
    if pid == 0:
        os.chdir(folder / "project")
        environment = {"PATH": os.environ["PATH"], "HOME": str(folder / "home"), "TERM": "xterm", "NO_COLOR": "1"}
        environment |= {"XDG_STATE_HOME": str(folder / "state"), "PYTHONPATH": os.environ.get("PYTHONPATH", "")}
        os.execve(sys.executable, [sys.executable, "-m", "toolcrib", "call", *arguments], environment)  # noqa: S606
    termios.tcsetwinsize(fd, (30, columns))
    text, until = "", time.monotonic() + SECONDS
    left = list(keys)
    while time.monotonic() < until:
        if not select.select([fd], [], [], 1.0)[0]:
            continue
        try:
            data = os.read(fd, 65536)
        except OSError:
            break
        text = ESCAPES.sub("", text + data.decode("utf-8", "replace"))
        if PROMPT.search(text):
            if not left:
                break
            text += "\n"
            os.write(fd, left.pop(0).encode())
    os.kill(pid, signal.SIGINT)
    os.waitpid(pid, 0)
    os.close(fd)
    lines = re.sub(r"[^\n]*\r(?!\n)", "", text.replace("\r\n", "\n")).split("\n")
    return "\n".join(line.rstrip() for line in lines).strip("\n")


def main() -> None:
    """Print every screen."""
    with tempfile.TemporaryDirectory(prefix="toolcrib-screens-") as name:
        folder = Path(name)
        for each in ("home", "state", "project", "home/.config/toolcrib"):
            (folder / each).mkdir(parents=True)
        (folder / "project" / "a.txt").write_text("three words here\n")
        (folder / "home" / "notes.py").write_text(SERVER)
        settings = {"mcp_servers": {"notes": {"command": sys.executable, "args": [str(folder / "home" / "notes.py")]}}}
        (folder / "home" / ".config" / "toolcrib" / "config.json").write_text(json.dumps(settings))
        for columns in (100, 40):
            for title, (arguments, keys) in CALLS.items():
                print(f"--- {title}, {columns} columns\n")
                print(screen(folder, arguments, keys, columns).replace(str(folder), "~"), end="\n\n")


if __name__ == "__main__":
    main()
