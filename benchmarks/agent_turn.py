"""What does one streamed turn of the agent's model clients cost, over the bare transport?

A server in another process sends a reply of about 100 events: text and four parallel calls. The history has 20
messages. CPU time of this process per turn, the median of the rounds; the floor reads the same bytes with httpx2 and
does nothing with them.

python benchmarks/agent_turn.py [--rounds N]
"""

from __future__ import annotations

import argparse
import asyncio
import json
import multiprocessing
import statistics
import time
from collections.abc import Awaitable, Callable
from typing import Any

import httpx2

from toolcrib.agent.choose import ModelPlace, model_of
from toolcrib.agent.history import CallResult, ModelCall, ModelTurn, ResultTurn, Text, Turn, user
from toolcrib.agent.model import ModelRequest, ReplyEnd, ToolDefinition
from toolcrib.boundary.network.settings import GuardSettings

WORDS = 80
CALLS = 4
SCHEMA = {"type": "object", "properties": {"path": {"type": "string"}, "limit": {"type": "integer"}}}
TOOLS = tuple(ToolDefinition(f"tool_{n}", "Does one thing. " * 10, SCHEMA) for n in range(20))


def sse(value: Any, event: str = "") -> bytes:
    head = f"event: {event}\n" if event else ""
    return f"{head}data: {value if isinstance(value, str) else json.dumps(value)}\n\n".encode()


def chat() -> list[bytes]:
    def delta(**fields: Any) -> bytes:
        return sse(
            {"id": "x", "object": "chat.completion.chunk", "model": "m", "choices": [{"index": 0, "delta": fields}]}
        )

    events = [delta(content=f"word{n} ") for n in range(WORDS)]
    for index in range(CALLS):
        function = {"name": f"tool_{index}", "arguments": ""}
        events.append(delta(tool_calls=[{"index": index, "id": f"c{index}", "type": "function", "function": function}]))
        for part in ('{"path": ', '"src/a.py", ', '"limit": 10}'):
            events.append(delta(tool_calls=[{"index": index, "function": {"arguments": part}}]))
    end = {"choices": [{"index": 0, "delta": {}, "finish_reason": "tool_calls"}]}
    return [
        *events,
        sse(end),
        sse({"choices": [], "usage": {"prompt_tokens": 9, "completion_tokens": 9}}),
        sse("[DONE]"),
    ]


def messages() -> list[bytes]:
    def event(kind: str, **fields: Any) -> bytes:
        return sse({"type": kind, **fields}, kind)

    events = [event("message_start", message={"usage": {"input_tokens": 9}})]
    events.append(event("content_block_start", index=0, content_block={"type": "text", "text": ""}))
    events += [
        event("content_block_delta", index=0, delta={"type": "text_delta", "text": f"word{n} "}) for n in range(WORDS)
    ]
    for index in range(1, CALLS + 1):
        block = {"type": "tool_use", "id": f"c{index}", "name": f"tool_{index}", "input": {}}
        events.append(event("content_block_start", index=index, content_block=block))
        for part in ('{"path": ', '"src/a.py", ', '"limit": 10}'):
            delta = {"type": "input_json_delta", "partial_json": part}
            events.append(event("content_block_delta", index=index, delta=delta))
        events.append(event("content_block_stop", index=index))
    return [
        *events,
        event("message_delta", delta={"stop_reason": "tool_use"}, usage={"output_tokens": 9}),
        event("message_stop"),
    ]


def responses() -> list[bytes]:
    def event(kind: str, **fields: Any) -> bytes:
        return sse({"type": kind, "sequence_number": 1, **fields}, kind)

    text = "".join(f"word{n} " for n in range(WORDS))
    message = {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": text}]}
    events = [event("response.output_item.added", output_index=0, item={**message, "content": []})]
    events += [event("response.output_text.delta", output_index=0, delta=f"word{n} ") for n in range(WORDS)]
    events.append(event("response.output_item.done", output_index=0, item=message))
    for index in range(1, CALLS + 1):
        item = {"type": "function_call", "call_id": f"c{index}", "name": f"tool_{index}", "arguments": ""}
        events.append(event("response.output_item.added", output_index=index, item=item))
        for part in ('{"path": ', '"src/a.py", ', '"limit": 10}'):
            events.append(event("response.function_call_arguments.delta", output_index=index, delta=part))
        item = {**item, "arguments": '{"path": "src/a.py", "limit": 10}'}
        events.append(event("response.output_item.done", output_index=index, item=item))
    return [*events, event("response.completed", response={"usage": {"input_tokens": 9, "output_tokens": 9}})]


WIRES: dict[str, Callable[[], list[bytes]]] = {
    "/v1/chat/completions": chat, "/v1/messages": messages, "/v1/responses": responses,
}  # fmt: skip


def serve(pipe: Any) -> None:
    """Answer each request with the events of its path, each in a chunk of its own."""
    bodies = {
        path: b"".join(b"%x\r\n%b\r\n" % (len(e), e) for e in make()) + b"0\r\n\r\n" for path, make in WIRES.items()
    }

    async def one(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while True:
            try:
                head = (await reader.readuntil(b"\r\n\r\n")).decode()
            except asyncio.IncompleteReadError:
                return
            length = next(int(x.split(":")[1]) for x in head.splitlines() if x.lower().startswith("content-length"))
            await reader.readexactly(length)
            writer.write(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n")
            writer.write(bodies[head.split()[1]])
            await writer.drain()

    async def main() -> None:
        server = await asyncio.start_server(one, "127.0.0.1", 0)
        pipe.send(server.sockets[0].getsockname()[1])
        await server.serve_forever()

    asyncio.run(main())


def history() -> list[Turn]:
    turns: list[Turn] = []
    for number in range(5):
        call = ModelCall(f"h{number}", "tool_1", '{"path": "src/a.py"}')
        turns += [user(f"Question {number}. " * 20), ModelTurn((Text("I look. " * 20), call), "calls")]
        turns += [ResultTurn((CallResult(call.id, call.name, "line\n" * 100),)), ModelTurn((Text("So. " * 20),))]
    return [*turns, user("And now?")]


async def measure(work: Callable[[], Awaitable[object]], rounds: int) -> float:
    """Return the milliseconds of CPU of one turn: the median of the rounds."""
    await work()
    found: list[float] = []
    for _ in range(rounds):
        start = time.process_time()
        await work()
        found.append(time.process_time() - start)
    return statistics.median(found) * 1000


async def rows(port: int, rounds: int) -> list[dict[str, Any]]:
    base = f"http://127.0.0.1:{port}"
    env = {"ANTHROPIC_BASE_URL": base, "ANTHROPIC_API_KEY": "k"}
    place = ModelPlace(GuardSettings(), f"{base}/v1", environment=env)
    request = ModelRequest("Be brief. " * 50, history(), TOOLS)
    found: list[dict[str, Any]] = []
    async with httpx2.AsyncClient() as bare:
        for name, path in (
            ("chat", "/v1/chat/completions"),
            ("anthropic", "/v1/messages"),
            ("responses", "/v1/responses"),
        ):
            model = model_of(f"{name}:m", place)

            async def floor(url: str = base + path) -> None:
                async with bare.stream("POST", url, content=b"x" * 20_000) as response:
                    async for _ in response.aiter_bytes():
                        pass

            async def turn(asked: Any = model) -> None:
                last = None
                async for event in asked.stream(request):
                    last = event
                assert isinstance(last, ReplyEnd)
                assert len(last.turn.calls) == CALLS

            transport = await measure(floor, rounds)
            whole = await measure(turn, rounds)
            await model.aclose()
            found.append({"wire": name, "transport_ms": transport, "turn_ms": whole, "over_ms": whole - transport})
    return found


def run(rounds: int = 100) -> list[dict[str, Any]]:
    """Return a row for each wire: milliseconds of CPU of the transport, of the turn, and their difference."""
    ours, theirs = multiprocessing.Pipe()
    process = multiprocessing.get_context("spawn").Process(target=serve, args=(theirs,), daemon=True)
    process.start()
    try:
        return asyncio.run(rows(ours.recv(), rounds))
    finally:
        process.terminate()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=200)
    for row in run(parser.parse_args().rounds):
        print(
            f"{row['wire']:10} transport {row['transport_ms']:.2f} ms, turn {row['turn_ms']:.2f} ms, over {row['over_ms']:.2f}"
        )


if __name__ == "__main__":
    main()
