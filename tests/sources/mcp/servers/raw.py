"""A server of the handshake era in plain Python, so that it starts quickly and can misbehave. Run as a program.

Its one argument is JSON: `tools` (names, or whole definitions), `says` (a file with the description of its tools),
`pages`, `loop`, `many`, `rubbish`, `hang`, `exit`, `start` (seconds), `children`, `offers` (`resources`, `templates`,
`prompts`: words, or whole items); every key is optional. Tools do what their names say.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time

config = json.loads(sys.argv[1]) if len(sys.argv) > 1 else {}
lock = threading.Lock()
cancelled: set[object] = set()
OPEN = {"type": "object", "additionalProperties": True}


def send(message: object) -> None:
    with lock:
        sys.stdout.write(json.dumps(message) + "\n")
        sys.stdout.flush()


def answer(id_: object, result: object) -> None:
    send({"jsonrpc": "2.0", "id": id_, "result": result})


def described(tool: object) -> dict[str, object]:
    if isinstance(tool, dict):
        return tool
    text = f"Tool {tool}."
    if "says" in config:
        with open(config["says"]) as file:
            text = file.read()
    return {"name": tool, "description": text, "inputSchema": OPEN}


def listed(params: dict) -> dict[str, object]:
    cursor = params.get("cursor")
    if config.get("loop"):
        return {"tools": [described(f"t{cursor}")], "nextCursor": "b" if cursor == "a" else "a"}
    if "many" in config:
        return {"tools": [described(f"t{n}") for n in range(config["many"])]}
    if "pages" in config:
        page = int(cursor or 0)
        more = {"nextCursor": str(page + 1)} if page + 1 < config["pages"] else {}
        return {"tools": [described(f"t{page}")], **more}
    return {"tools": [described(tool) for tool in config.get("tools", ["echo"])]}


def call(id_: object, params: dict) -> None:
    name, arguments = params["name"], params.get("arguments") or {}
    text = "done"
    if name == "echo":
        text = json.dumps(arguments)
    elif name == "environment":
        text = json.dumps({"env": dict(os.environ), "cwd": os.getcwd(), "args": sys.argv[1:], "prefix": sys.prefix})
    elif name == "pid":
        text = str(os.getpid())
    elif name == "die" or name == "die_once":
        path = arguments["path"]
        with open(path, "a") as file:
            file.write("x")
        if name == "die" or os.path.getsize(path) == 1:
            print("about to die", file=sys.stderr, flush=True)
            os.kill(os.getpid(), signal.SIGKILL)
    elif name == "big":
        text = "x" * arguments["size"]
    elif name == "silence":
        path = arguments.get("path")
        if path:
            with open(path, "w") as file:
                file.write("begun")
        while id_ not in cancelled:
            time.sleep(0.01)
        if path:
            with open(path, "w") as file:
                file.write("cancelled")
        return
    elif name == "steps":
        token = params.get("_meta", {}).get("progressToken")
        for step in range(arguments["number"]):
            time.sleep(arguments["pause"])
            while "path" in arguments and not os.path.exists(f"{arguments['path']}/{step}") and id_ not in cancelled:
                time.sleep(0.01)
            if id_ in cancelled:
                return
            if token is not None:
                note = {"progressToken": token, "progress": step + 1, "message": f"step {step + 1}"}
                send({"jsonrpc": "2.0", "method": "notifications/progress", "params": note})
    elif name == "grow":
        config.setdefault("tools", []).append(arguments["name"])
        send({"jsonrpc": "2.0", "method": "notifications/tools/list_changed"})
    elif name == "offer":
        config["offers"].setdefault(arguments["kind"], []).append(arguments["word"])
        send({"jsonrpc": "2.0", "method": f"notifications/{arguments['kind']}/list_changed"})
    elif name == "labelled":
        meta = {"ifc": {"integrity": "trusted", "confidentiality": "public"}}
        answer(id_, {"content": [{"type": "text", "text": "so it says"}], "_meta": meta})
        return
    elif name == "answer":
        answer(id_, arguments["result"])
        return
    elif name == "log":
        send(
            {
                "jsonrpc": "2.0",
                "method": "notifications/message",
                "params": {"level": "info", "data": arguments["say"]},
            }
        )
    elif name == "notify":
        send({"jsonrpc": "2.0", "method": arguments["method"], "params": arguments.get("params") or {}})
    elif name == "odd":
        answer(id_, {"content": "no list"})
        return
    elif name == "refuse":
        send({"jsonrpc": "2.0", "id": id_, "error": {"code": -32602, "message": "not like this"}})
        return
    answer(id_, {"content": [{"type": "text", "text": text}]})


def called(id_: object, params: dict) -> None:
    try:
        call(id_, params)
    except Exception as error:
        answer(id_, {"content": [{"type": "text", "text": repr(error)}], "isError": True})


def capabilities() -> dict[str, object]:
    more = {"resources": {"subscribe": True}, "prompts": {}, "completions": {}} if "offers" in config else {}
    return {"tools": {"listChanged": True}, **more}


def words(kind: str, key: str) -> list[dict[str, object]]:
    return [each if isinstance(each, dict) else {key: each, "name": each} for each in config["offers"].get(kind, [])]


OFFERED = {
    "resources/list": lambda params: {"resources": words("resources", "uri")},
    "resources/templates/list": lambda params: {"resourceTemplates": words("templates", "uriTemplate")},
    "resources/read": lambda params: {"contents": [{"uri": params["uri"], "text": f"what {params['uri']} says"}]},
    "resources/subscribe": lambda params: {},
    "resources/unsubscribe": lambda params: {},
    "prompts/list": lambda params: {"prompts": words("prompts", "name")},
    "prompts/get": lambda params: {
        "messages": [{"role": "assistant", "content": {"type": "text", "text": json.dumps(params.get("arguments"))}}]
    },
    "completion/complete": lambda params: {"completion": {"values": [params["argument"]["value"] + "!"]}},
}


def main() -> None:
    if config.get("exit") is not None:
        print("cannot find my settings file", file=sys.stderr, flush=True)
        sys.exit(config["exit"])
    for _ in range(config.get("children", 0)):
        subprocess.Popen(["sleep", "600"])
    if config.get("deaf"):
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    if config.get("hang"):
        time.sleep(600)
    time.sleep(config.get("start", 0))
    if config.get("rubbish"):
        print("Welcome to my server!\n{not json}\n[1, 2]\n", flush=True)
    for line in sys.stdin:
        message = json.loads(line)
        method, id_, params = message.get("method"), message.get("id"), message.get("params") or {}
        if config.get("rubbish"):
            print(f"DEBUG got {method}", flush=True)
        if method == "initialize":
            answer(id_, {
                "protocolVersion": "2025-11-25", "capabilities": capabilities(),
                "serverInfo": {"name": "raw", "version": "1"},
            })  # fmt: skip
        elif method in OFFERED and "offers" in config:
            answer(id_, OFFERED[method](params))
        elif method == "tools/list":
            answer(id_, listed(params))
        elif method == "tools/call" and params["name"] == "ask":
            while True:  # and reads no answer
                send({"jsonrpc": "2.0", "id": os.urandom(8).hex(), "method": "ping"})
        elif method == "tools/call":
            threading.Thread(target=called, args=(id_, params), daemon=True).start()
        elif method == "notifications/cancelled":
            cancelled.add(params.get("requestId"))
        elif id_ is not None:
            send({"jsonrpc": "2.0", "id": id_, "error": {"code": -32601, "message": "no such method"}})
    if config.get("deaf"):
        time.sleep(600)


main()
