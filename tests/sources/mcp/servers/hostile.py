"""A server of the handshake era that says exactly what it is told to. Run as a program.

Its one argument is a file with JSON: `answers` (by method: a result, `{"error": …}`, or `null` for none at all),
`before` (by method: messages that come before the answer), `capabilities`, `tools` (names). Any tool sends the messages
of its argument `say`, waits for the answer of each that has an id, and gives the last of these back as text.
"""

from __future__ import annotations

import json
import os
import queue
import sys
import threading
import time

config = json.loads(open(sys.argv[1]).read())  # noqa: SIM115
lock = threading.Lock()
replies: queue.Queue[dict] = queue.Queue()
log = config.get("log")
CAPABILITIES = {
    "tools": {"listChanged": True}, "resources": {"subscribe": True, "listChanged": True},
    "prompts": {"listChanged": True}, "completions": {}, "logging": {},
}  # fmt: skip
DEFAULTS = {
    "ping": {}, "resources/list": {"resources": []}, "resources/templates/list": {"resourceTemplates": []},
    "prompts/list": {"prompts": []}, "resources/subscribe": {}, "resources/unsubscribe": {}, "logging/setLevel": {},
}  # fmt: skip


def send(message: object) -> None:
    with lock:
        sys.stdout.write(json.dumps(message) + "\n")
        sys.stdout.flush()


def call(id_: object, arguments: dict) -> None:
    text = str(os.getpid())
    for _ in range(arguments.get("times", 1)):
        for message in arguments.get("say", []):
            send({"jsonrpc": "2.0", **message})
            if "id" in message:
                text = json.dumps(replies.get(timeout=60))
    time.sleep(arguments.get("sleep", 0))
    answer = {"content": [{"type": "text", "text": text}], **arguments.get("answer", {})}
    send({"jsonrpc": "2.0", "id": id_, **({"error": answer["error"]} if "error" in answer else {"result": answer})})


def main() -> None:
    answers = {**DEFAULTS, **config.get("answers", {})}
    schema = {"type": "object", "additionalProperties": True}
    for line in sys.stdin:
        message = json.loads(line)
        if log:
            with open(log, "a") as file:
                file.write(line)
        method, id_, params = message.get("method"), message.get("id"), message.get("params") or {}
        if method is None:
            replies.put(message)
            continue
        for each in config.get("before", {}).get(method, []):
            send({"jsonrpc": "2.0", **each})
        if id_ is None:
            continue
        if answers.get(method, "") is None:
            continue
        if method == "initialize":
            result = {
                "protocolVersion": "2025-11-25", "capabilities": {**CAPABILITIES, **config.get("capabilities", {})},
                "serverInfo": {"name": "hostile", "version": "1"},
            }  # fmt: skip
        elif method == "tools/list":
            names = config.get("tools", ["do"])
            result = {"tools": [{"name": name, "description": "Do.", "inputSchema": schema} for name in names]}
        elif method == "tools/call":
            threading.Thread(target=call, args=(id_, params.get("arguments") or {}), daemon=True).start()
            continue
        elif method in answers:
            result = answers[method]
        else:
            result = {"error": {"code": -32601, "message": "no such method"}}
        send({"jsonrpc": "2.0", "id": id_, **(result if set(result) == {"error"} else {"result": result})})


main()
