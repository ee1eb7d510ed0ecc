"""A server that speaks HTTP as providers do: each request gets the next of the answers it was given."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, Callable, Iterable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any


@dataclass
class Answer:
    """One response. `events` are sent one by one; after `reset_after` of them the connection is reset."""

    events: Sequence[bytes] = ()
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict[str, str])
    body: bytes | None = None
    reset_after: int | None = None
    pings: bool = False  # after the events: comments for ever, and nothing else
    head: bytes = b""  # sent for ever instead of an answer


class Provider:
    """Serves on a loopback port. `requests` has the bodies that came in, `heads` their first lines and headers.

    `refuses` returns why a body is refused with status 400, as the provider words it; empty if it is not.
    """

    def __init__(self, answers: Iterable[Answer], refuses: Callable[[Any], str] = lambda body: "") -> None:
        self._answers, self._refuses = list(answers), refuses
        self.requests: list[Any] = []
        self.heads: list[str] = []
        self.port = 0

    @property
    def base(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).decode()
                length = next(int(x.split(":")[1]) for x in head.splitlines() if x.lower().startswith("content-length"))
                self.heads.append(head)
                self.requests.append(json.loads(await reader.readexactly(length)))
                if why := self._refuses(self.requests[-1]):
                    await self._send(writer, Answer(status=400, body=json.dumps({"error": {"message": why}}).encode()))
                    continue
                answer = self._answers.pop(0) if len(self._answers) > 1 else self._answers[0]
                await self._send(writer, answer)
        except (asyncio.IncompleteReadError, asyncio.CancelledError, ConnectionError):
            pass
        finally:
            writer.close()

    async def _send(self, writer: asyncio.StreamWriter, answer: Answer) -> None:
        while answer.head:
            writer.write(answer.head)
            await writer.drain()
            await asyncio.sleep(0.02)
        headers = {"content-type": "text/event-stream", **answer.headers}
        if answer.body is not None:
            headers["content-length"] = str(len(answer.body))
        else:
            headers["transfer-encoding"] = "chunked"
        lines = [f"HTTP/1.1 {answer.status} X", *(f"{name}: {value}" for name, value in headers.items())]
        writer.write("\r\n".join([*lines, "", ""]).encode())
        if answer.body is not None:
            writer.write(answer.body)
            await writer.drain()
            return
        for number, event in enumerate(answer.events):
            if number == answer.reset_after:
                writer.transport.abort()
                raise ConnectionResetError
            writer.write(b"%x\r\n%b\r\n" % (len(event), event))
            await writer.drain()
            await asyncio.sleep(0)
        while answer.pings:
            writer.write(b"8\r\n: ping\n\n\r\n")
            await writer.drain()
            await asyncio.sleep(0.02)
        writer.write(b"0\r\n\r\n")
        await writer.drain()


@asynccontextmanager
async def provider(*answers: Answer, refuses: Callable[[Any], str] = lambda body: "") -> AsyncGenerator[Provider]:
    made = Provider(answers, refuses)
    server = await asyncio.start_server(made.serve, "127.0.0.1", 0)
    made.port = server.sockets[0].getsockname()[1]
    async with server:
        yield made
        server.close()


def data(value: Any, event: str = "") -> bytes:
    """One server-sent event."""
    text = value if isinstance(value, str) else json.dumps(value)
    return (f"event: {event}\n" if event else "").encode() + f"data: {text}\n\n".encode()


# --- the same reply in the three languages: a text and two parallel calls

TEXT = "Grüße: I look."
CALLS = (("read_file", {"path": "a.txt"}), ("grep", {"pattern": 'x"y', "path": "ü"}))


def chat_reply() -> list[bytes]:
    def delta(**fields: Any) -> bytes:
        return data({"choices": [{"index": 0, "delta": fields, "finish_reason": None}]})

    events = [delta(role="assistant", content=""), delta(content=TEXT[:3]), delta(content=TEXT[3:])]
    for index, (name, arguments) in enumerate(CALLS):
        text = json.dumps(arguments)
        events.append(delta(tool_calls=[{"index": index, "id": f"c{index}", "type": "function",
                                         "function": {"name": name, "arguments": ""}}]))  # fmt: skip
        events += [
            delta(tool_calls=[{"index": index, "function": {"arguments": part}}]) for part in (text[:5], text[5:])
        ]
    events.append(data({"choices": [{"index": 0, "delta": {}, "finish_reason": "tool_calls"}]}))
    events.append(data({"choices": [], "usage": {"prompt_tokens": 10, "completion_tokens": 5}}))
    return [*events, b": keep-alive\n\n", data("[DONE]")]


def messages_reply() -> list[bytes]:
    def event(kind: str, **fields: Any) -> bytes:
        return data({"type": kind, **fields}, kind)

    events = [
        event(
            "message_start", message={"usage": {"input_tokens": 7, "cache_read_input_tokens": 3, "output_tokens": 1}}
        ),
        event("content_block_start", index=0, content_block={"type": "thinking", "thinking": "", "signature": ""}),
        event("content_block_delta", index=0, delta={"type": "thinking_delta", "thinking": "hm"}),
        event("content_block_delta", index=0, delta={"type": "signature_delta", "signature": "sig=="}),
        event("content_block_stop", index=0),
        event("content_block_start", index=1, content_block={"type": "text", "text": ""}),
        event("ping"),
        event("content_block_delta", index=1, delta={"type": "text_delta", "text": TEXT[:3]}),
        event("content_block_delta", index=1, delta={"type": "text_delta", "text": TEXT[3:]}),
    ]
    for index, (name, arguments) in enumerate(CALLS, 2):
        text = json.dumps(arguments)
        block = {"type": "tool_use", "id": f"c{index - 2}", "name": name, "input": {}}
        events.append(event("content_block_start", index=index, content_block=block))
        for part in ("", text[:5], text[5:]):
            delta = {"type": "input_json_delta", "partial_json": part}
            events.append(event("content_block_delta", index=index, delta=delta))
        events.append(event("content_block_stop", index=index))
    end = {"stop_reason": "tool_use", "stop_sequence": None}
    return [*events, event("message_delta", delta=end, usage={"output_tokens": 5}), event("message_stop")]


def responses_reply() -> list[bytes]:
    def event(kind: str, **fields: Any) -> bytes:
        return data({"type": kind, **fields}, kind)

    reasoning = {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "xyz"}
    message = {"type": "message", "id": "msg_1", "role": "assistant", "phase": "commentary",
               "content": [{"type": "output_text", "text": TEXT}]}  # fmt: skip
    events = [
        event("response.created", response={"id": "resp_1"}),
        event("response.output_item.added", output_index=0, item={"type": "reasoning", "id": "rs_1", "summary": []}),
        event("response.output_item.done", output_index=0, item=reasoning),
        event("response.output_item.added", output_index=1, item={**message, "content": []}),
        event("response.output_text.delta", output_index=1, delta=TEXT[:3]),
        event("response.output_text.delta", output_index=1, delta=TEXT[3:]),
        event("response.output_item.done", output_index=1, item=message),
    ]
    output = [reasoning, message]
    for index, (name, arguments) in enumerate(CALLS, 2):
        text = json.dumps(arguments)
        item = {"type": "function_call", "id": f"fc_{index}", "call_id": f"c{index - 2}", "name": name, "arguments": ""}
        events.append(event("response.output_item.added", output_index=index, item=item))
        for part in (text[:5], text[5:]):
            events.append(event("response.function_call_arguments.delta", output_index=index, delta=part))
        output.append({**item, "arguments": text})
        events.append(event("response.output_item.done", output_index=index, item=output[-1]))
    usage = {"input_tokens": 10, "output_tokens": 5, "input_tokens_details": {"cached_tokens": 3}}
    return [*events, event("response.completed", response={"output": output, "usage": usage})]


# --- a reply that is only a text, in the three languages


def text_reply(kind: str, text: str) -> list[bytes]:
    if kind == "chat":
        delta = {"choices": [{"index": 0, "delta": {"role": "assistant", "content": text}}]}
        return [data(delta), data({"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}), data("[DONE]")]
    if kind == "anthropic":
        events: list[dict[str, Any]] = [
            {"type": "message_start", "message": {"usage": {"input_tokens": 10, "output_tokens": 1}}},
            {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
            {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": text}},
            {"type": "content_block_stop", "index": 0},
            {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 5}},
            {"type": "message_stop"},
        ]
    else:
        item = {"type": "message", "id": "msg_2", "role": "assistant", "phase": "final_answer",
                "content": [{"type": "output_text", "text": text}]}  # fmt: skip
        events = [
            {"type": "response.created", "response": {"id": "resp_2"}},
            {"type": "response.output_item.added", "output_index": 0, "item": {**item, "content": []}},
            {"type": "response.output_text.delta", "output_index": 0, "delta": text},
            {"type": "response.output_item.done", "output_index": 0, "item": item},
            {"type": "response.completed", "response": {"output": [item], "usage": {"input_tokens": 10}}},
        ]
    return [data(event, event["type"]) for event in events]
