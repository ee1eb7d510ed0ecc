"""A fake provider: replies of about 100 events with text and four parallel calls, in the three wire formats.

A request whose last message holds the outcomes of calls gets a short answer instead. Only the standard library, so that
each column of `agent_peers.py` can import it.
"""

from __future__ import annotations

import asyncio
import json
import multiprocessing
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

WORDS = 80
CALLS = 4
ARGUMENTS = ('{"path": ', '"src/a.py", ', '"limit": 10}')
SCHEMA = {
    "type": "object",
    "properties": {"path": {"type": "string"}, "limit": {"type": "integer"}},
    "required": ["path", "limit"],
    "additionalProperties": False,
}
DESCRIPTION = "Does one thing. " * 10
TOOLS = 20
SYSTEM = "Be brief. " * 50
PAST = [(f"Question {n}. " * 20, "I look. " * 20, "line\n" * 100, "So. " * 20) for n in range(5)]
"""A history of 20 messages: what was asked, what the model said with a call, the outcome, and the answer."""
QUESTION = "And now?"


def sse(value: Any, event: str = "") -> bytes:
    head = f"event: {event}\n" if event else ""
    return f"{head}data: {value if isinstance(value, str) else json.dumps(value)}\n\n".encode()


def texts(calls: bool) -> list[str]:
    return [f"word{n} " for n in range(WORDS if calls else 3)]


def chat(calls: bool) -> list[bytes]:
    def chunk(choices: list[Any], **more: Any) -> bytes:
        head = {"id": "x", "object": "chat.completion.chunk", "created": 1, "model": "m"}
        return sse({**head, "choices": choices, **more})

    def delta(finish: str | None = None, **fields: Any) -> bytes:
        return chunk([{"index": 0, "delta": fields, "finish_reason": finish}])

    events = [delta(content=text) for text in texts(calls)]
    for index in range(CALLS if calls else 0):
        function = {"name": f"tool_{index}", "arguments": ""}
        events.append(delta(tool_calls=[{"index": index, "id": f"c{index}", "type": "function", "function": function}]))
        events += [delta(tool_calls=[{"index": index, "function": {"arguments": part}}]) for part in ARGUMENTS]
    usage = {"prompt_tokens": 9, "completion_tokens": 9, "total_tokens": 18}
    return [*events, delta("tool_calls" if calls else "stop"), chunk([], usage=usage), sse("[DONE]")]


def messages(calls: bool) -> list[bytes]:
    def event(kind: str, **fields: Any) -> bytes:
        return sse({"type": kind, **fields}, kind)

    usage = {"input_tokens": 9, "output_tokens": 1}
    message = {"id": "x", "type": "message", "role": "assistant", "model": "m", "content": [], "usage": usage}
    events = [event("message_start", message={**message, "stop_reason": None, "stop_sequence": None})]
    events.append(event("content_block_start", index=0, content_block={"type": "text", "text": ""}))
    events += [
        event("content_block_delta", index=0, delta={"type": "text_delta", "text": text}) for text in texts(calls)
    ]
    events.append(event("content_block_stop", index=0))
    for index in range(1, CALLS + 1 if calls else 1):
        block = {"type": "tool_use", "id": f"c{index}", "name": f"tool_{index}", "input": {}}
        events.append(event("content_block_start", index=index, content_block=block))
        for part in ARGUMENTS:
            delta = {"type": "input_json_delta", "partial_json": part}
            events.append(event("content_block_delta", index=index, delta=delta))
        events.append(event("content_block_stop", index=index))
    end = {"stop_reason": "tool_use" if calls else "end_turn", "stop_sequence": None}
    return [*events, event("message_delta", delta=end, usage={"output_tokens": 9}), event("message_stop")]


def responses(calls: bool) -> list[bytes]:
    numbers = iter(range(10_000))

    def event(kind: str, **fields: Any) -> bytes:
        return sse({"type": kind, "sequence_number": next(numbers), **fields}, kind)

    whole = {"id": "r", "object": "response", "created_at": 1, "model": "m", "output": [], "status": "completed"}
    whole |= {"parallel_tool_calls": True, "tool_choice": "auto", "tools": []}
    part = {"type": "output_text", "text": "".join(texts(calls)), "annotations": []}
    message = {"id": "m", "type": "message", "role": "assistant", "status": "completed", "content": [part]}
    place = {"item_id": "m", "output_index": 0, "content_index": 0}
    events = [event("response.created", response=whole)]
    events.append(event("response.output_item.added", output_index=0, item={**message, "content": []}))
    events.append(event("response.content_part.added", **place, part={**part, "text": ""}))
    events += [event("response.output_text.delta", **place, delta=text, logprobs=[]) for text in texts(calls)]
    events.append(event("response.output_text.done", **place, text=part["text"], logprobs=[]))
    events.append(event("response.output_item.done", output_index=0, item=message))
    for index in range(1, CALLS + 1 if calls else 1):
        item = {"id": f"f{index}", "type": "function_call", "call_id": f"c{index}", "name": f"tool_{index}"}
        start = {**item, "arguments": "", "status": "in_progress"}
        events.append(event("response.output_item.added", output_index=index, item=start))
        for each in ARGUMENTS:
            events.append(
                event("response.function_call_arguments.delta", item_id=f"f{index}", output_index=index, delta=each)
            )
        end = {**item, "arguments": "".join(ARGUMENTS), "status": "completed"}
        events.append(event("response.output_item.done", output_index=index, item=end))
    details = {"input_tokens_details": {"cached_tokens": 0}, "output_tokens_details": {"reasoning_tokens": 0}}
    usage = {"input_tokens": 9, "output_tokens": 9, "total_tokens": 18, **details}
    return [*events, event("response.completed", response={**whole, "usage": usage})]


PATHS: dict[str, str] = {
    "chat": "/v1/chat/completions", "anthropic": "/v1/messages", "responses": "/v1/responses",
}  # fmt: skip
REPLIES: dict[str, Callable[[bool], list[bytes]]] = {
    PATHS["chat"]: chat, PATHS["anthropic"]: messages, PATHS["responses"]: responses,
}  # fmt: skip


def has_outcomes(body: bytes) -> bool:
    """Whether the last message of a request holds outcomes of calls."""
    if body[:1] != b"{":  # the transport's floor sends no JSON
        return False
    said = json.loads(body)
    last = (said.get("messages") or said["input"])[-1]
    content = last.get("content")
    return (
        last.get("role") == "tool"
        or last.get("type") == "function_call_output"
        or (isinstance(content, list) and any(part.get("type") == "tool_result" for part in content))
    )


def _serve(pipe: Any) -> None:
    bodies = {
        (path, calls): b"".join(b"%x\r\n%b\r\n" % (len(e), e) for e in make(calls)) + b"0\r\n\r\n"
        for path, make in REPLIES.items()
        for calls in (True, False)
    }

    async def one(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while True:
            try:
                head = (await reader.readuntil(b"\r\n\r\n")).decode()
            except (asyncio.IncompleteReadError, ConnectionError):
                return
            length = next(int(x.split(":")[1]) for x in head.splitlines() if x.lower().startswith("content-length"))
            body = await reader.readexactly(length)
            writer.write(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n")
            writer.write(bodies[head.split()[1].partition("?")[0], not has_outcomes(body)])
            await writer.drain()

    async def main() -> None:
        server = await asyncio.start_server(one, "127.0.0.1", 0, limit=1 << 20)
        pipe.send(server.sockets[0].getsockname()[1])
        await server.serve_forever()

    asyncio.run(main())


@contextmanager
def serving() -> Iterator[int]:
    """Run the server in a process of its own; gives its port."""
    ours, theirs = multiprocessing.Pipe()
    process = multiprocessing.get_context("spawn").Process(target=_serve, args=(theirs,), daemon=True)
    process.start()
    try:
        yield ours.recv()
    finally:
        process.terminate()
        process.join()
