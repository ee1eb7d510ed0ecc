"""The first files of a new plugin of each kind. They work unchanged. `examples/plugins` is made from them."""

from __future__ import annotations

import hashlib
import json
from typing import Any, Literal

from . import telegram

Kind = Literal["command", "binary", "channel", "telegram", "python"]


def starter(kind: Kind, name: str) -> dict[str, str]:
    """Return the files of a new plugin of this name, by path. A text that begins with #! is a program."""
    tool = name.lower().replace("-", "_")
    if not tool[:1].isalpha():
        tool = f"tool_{tool}"
    if kind == "command":
        return {"plugin.json": _command(name, tool), "count.py": _COUNT}
    if kind == "binary":
        return {"plugin.json": _binary(name, tool), "run": _HASH}
    if kind == "channel":
        about = "Carries messages as files: it writes to out/ and reads from in/."
        manifest = _manifest(name, about, execution="channel", binary={"path": "run"}, env={"POLL_SECONDS": "0.5"})
        return {"plugin.json": manifest, "run": _FOLDER}
    if kind == "telegram":
        manifest = _manifest(name, telegram.ABOUT, execution="channel", binary={"path": "run"}, timeout_secs=60)
        return {"plugin.json": manifest, "run": telegram.PROGRAM}
    project = _PROJECT.format(name=name, module=f"{tool}_plugin")
    return {"pyproject.toml": project, f"{tool}_plugin.py": _MODULE.format(tool=tool)}


def _command(name: str, tool: str) -> str:
    entry = {
        "name": tool,
        "description": "Count the words of a text file in the workspace.",
        "command": 'python3 "$TOOLCRIB_PLUGIN_DIR/count.py" {{file}}',
        "parameters": {"file": "string"},
        "category": "filesystem_read",
    }
    return _manifest(name, "Counts words.", execution="command", tools=[entry])


def _binary(name: str, tool: str) -> str:
    properties = {"text": {"type": "string", "description": "What to hash."}}
    entry = {
        "name": tool,
        "description": "The SHA-256 of a text.",
        "parameters": {"type": "object", "properties": properties, "required": ["text"]},
        "category": "memory",
    }
    pin = hashlib.sha256(_HASH.encode()).hexdigest()
    binary = {"path": "run", "protocol": "jsonrpc", "timeout_secs": 10, "sha256": pin}
    return _manifest(name, "Hashes texts.", execution="binary", binary=binary, tools=[entry])


def _manifest(name: str, description: str, **more: Any) -> str:
    manifest = {"name": name, "version": "0.1.0", "description": description, **more}
    return json.dumps(manifest, indent=2) + "\n"


_COUNT = '''"""Each value of a call is one argument, whatever it holds. What is printed is the answer."""

import sys

with open(sys.argv[1], encoding="utf-8", errors="replace") as file:
    print(sum(len(line.split()) for line in file), "words")
'''

_HASH = '''#!/usr/bin/env python3
"""One run a call: a line of JSON on stdin, the answer as the last line on stdout.

It runs from a sealed copy of the file that was pinned; its folder is in TOOLCRIB_PLUGIN_DIR.
"""

import hashlib
import json
import sys

call = json.loads(sys.stdin.readline())
text = call["params"]["args"]["text"]
if text:
    answer = {"result": {"output": hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()}}
else:
    answer = {"error": {"code": 1, "message": "there is nothing to hash"}}
print(json.dumps({"jsonrpc": "2.0", "id": call["id"], **answer}))
'''

_FOLDER = '''#!/usr/bin/env python3
"""A channel stays and carries messages both ways, a line of JSON each. It ends when its stdin does."""

import json
import os
import pathlib
import sys
import threading
import time

HERE = pathlib.Path.cwd()  # the plugin's folder
lock = threading.Lock()


def say(message):
    with lock:
        print(json.dumps({"jsonrpc": "2.0", **message}), flush=True)


def watch():
    """Every file that appears in in/ is a message; its name is the chat."""
    inbox = HERE / "in"
    inbox.mkdir(exist_ok=True)
    while True:
        for path in sorted(inbox.glob("*.txt")):
            params = {"chat_id": path.stem, "content": path.read_text(encoding="utf-8"), "sender_id": "file"}
            path.unlink()
            say({"method": "inbound", "params": params})
        time.sleep(float(os.environ.get("POLL_SECONDS", "0.5")))


threading.Thread(target=watch, daemon=True).start()
for line in sys.stdin:
    call = json.loads(line)
    message = call["params"]
    chat = "".join(c for c in message["chat_id"] if c.isalnum())[:50] or "chat"  # never a path of somebody's choice
    (HERE / "out").mkdir(exist_ok=True)
    with open(HERE / "out" / f"{chat}.txt", "a", encoding="utf-8") as out:
        out.write(message["content"] + "\\n")
    say({"id": call["id"], "result": {"written": len(message["content"])}})
'''

_PROJECT = """[build-system]
requires = ["hatchling"]
build-backend = "hatchling.build"

[project]
name = "{name}"
version = "0.1.0"
description = "A tool for Toolcrib."
requires-python = ">=3.11"
dependencies = ["toolcrib"]

[project.entry-points."toolcrib.tools"]
{name} = "{module}:tools"

[tool.hatch.build.targets.wheel]
include = ["{module}.py"]
"""

_MODULE = '''"""A tool in Python. `pip install .` next to Toolcrib, and enable plugins."""

from toolcrib import tool


@tool(category="memory", read_only=True)
def {tool}(text: str, times: int = 1) -> str:
    """Repeat a text.

    Args:
        text: What to repeat.
        times: How often.
    """
    return " ".join([text] * times)


tools = [{tool}]
'''
