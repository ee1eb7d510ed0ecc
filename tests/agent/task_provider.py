"""A provider on a real socket, for several processes: it answers by the first word of a conversation."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from toolcrib.agent.compaction import PER_TOKEN, SUMMARIZE

Reply = Mapping[str, Any]
Replies = Sequence[Reply] | Callable[[int, str], Reply]
"""The replies in their order, or a function of how many there were and of the last message."""


def _place(messages: Sequence[Any]) -> tuple[str, int]:
    """The task of a conversation, and how many replies there were, also of those that a summary replaced."""
    first = messages[0]["content"]
    first = first if isinstance(first, str) else first[0]["text"]
    summary = re.search(r"^Task (\w+), (\d+) replies\.$", first, re.MULTILINE)
    ids = [call["id"] for message in messages for call in message.get("tool_calls") or ()]
    numbers = [int(found[1]) + 1 for each in ids if (found := re.fullmatch(r"c(\d+)_\d+", each))]
    said = sum(message["role"] == "assistant" for message in messages)
    if summary is None:
        return first.split()[0], said
    return summary[1], max(int(summary[2]), *numbers, said)


def _events(reply: Reply, number: int, read: int = 10) -> list[Any]:
    calls = [
        {"index": index, "id": f"c{number}_{index}", "type": "function",
         "function": {"name": call["name"], "arguments": json.dumps(call["arguments"])}}
        for index, call in enumerate(reply.get("calls") or ())
    ]  # fmt: skip
    deltas = [{"content": reply.get("text") or ""}, *({"tool_calls": [call]} for call in calls)]
    chunks = [{"choices": [{"index": 0, "delta": delta, "finish_reason": None}]} for delta in deltas]
    end = "tool_calls" if calls else "stop"
    usage = {"prompt_tokens": read, "completion_tokens": 5}
    return [*chunks, {"choices": [{"index": 0, "delta": {}, "finish_reason": end}]}, {"choices": [], "usage": usage}]


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        messages = [message for message in body["messages"] if message["role"] != "system"]
        task, number = _place(messages)
        replies: Replies = self.server.replies[task]  # type: ignore[attr-defined]
        last = str(messages[-1]["content"])
        if last.endswith(SUMMARIZE):
            events = _events({"text": f"Task {task}, {number} replies."}, number, 1)
        else:
            reply = replies(number, last) if callable(replies) else replies[min(number, len(replies) - 1)]
            events = _events(reply, number, len(json.dumps(messages)) // PER_TOKEN if self.server.counts else 10)  # type: ignore[attr-defined]
        data = b"".join(b"data: %b\n\n" % json.dumps(event).encode() for event in events) + b"data: [DONE]\n\n"
        try:
            self.send_response(200)
            self.send_header("content-type", "text/event-stream")
            self.send_header("content-length", str(len(data)))
            self.end_headers()
            for start in range(0, len(data), 100):
                self.wfile.write(data[start : start + 100])
        except ConnectionError:  # the process that asked was killed
            self.close_connection = True

    def log_message(self, *args: Any) -> None: ...


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request: Any, client_address: Any) -> None: ...


@contextmanager
def task_provider(replies: Mapping[str, Replies], *, counts: bool = False) -> Generator[dict[str, str]]:
    """Serve these replies. Yields the environment of a process whose model is `chat:tasks`. With `counts` it reports
    how long the messages were."""
    server = _Server(("127.0.0.1", 0), _Handler)
    server.replies, server.counts = replies, counts  # type: ignore[attr-defined]
    threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
    try:
        yield {"OPENAI_BASE_URL": f"http://127.0.0.1:{server.server_port}/v1", "OPENAI_API_KEY": "none"}
    finally:
        server.shutdown()
        server.server_close()
