"""What does one streamed turn of the agent's model clients cost, over the bare transport?

A server in another process (`agent_server.py`) sends a reply of about 100 events: text and four parallel calls. The
history has 20 messages. CPU time of this process per turn, the median of the rounds; the floor reads the same bytes with
httpx2 and does nothing with them. `agent_peers.py` compares with other libraries.

python benchmarks/agent_turn.py [--rounds N]
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import sys
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import httpx2

sys.path.insert(0, str(Path(__file__).resolve().parent))
import agent_server as s

from toolcrib.agent.choose import ModelPlace, model_of
from toolcrib.agent.history import CallResult, ModelCall, ModelTurn, ResultTurn, Text, Turn, user
from toolcrib.agent.model import ModelRequest, ReplyEnd, ToolDefinition
from toolcrib.boundary.network.settings import GuardSettings

TOOLS = tuple(ToolDefinition(f"tool_{n}", s.DESCRIPTION, s.SCHEMA) for n in range(s.TOOLS))


def history() -> list[Turn]:
    turns: list[Turn] = []
    for number, (question, said, outcome, answer) in enumerate(s.PAST):
        call = ModelCall(f"h{number}", "tool_1", '{"path": "src/a.py", "limit": 1}')
        turns += [user(question), ModelTurn((Text(said), call), "calls")]
        turns += [ResultTurn((CallResult(call.id, call.name, outcome),)), ModelTurn((Text(answer),))]
    return [*turns, user(s.QUESTION)]


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
    request = ModelRequest(s.SYSTEM, history(), TOOLS)
    found: list[dict[str, Any]] = []
    async with httpx2.AsyncClient() as bare:
        for name, path in s.PATHS.items():
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
                assert len(last.turn.calls) == s.CALLS

            transport = await measure(floor, rounds)
            whole = await measure(turn, rounds)
            await model.aclose()
            found.append({"wire": name, "transport_ms": transport, "turn_ms": whole, "over_ms": whole - transport})
    return found


def run(rounds: int = 100) -> list[dict[str, Any]]:
    """Return a row for each wire: milliseconds of CPU of the transport, of the turn, and their difference."""
    with s.serving() as port:
        return asyncio.run(rows(port, rounds))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=200)
    for row in run(parser.parse_args().rounds):
        print(
            f"{row['wire']:10} transport {row['transport_ms']:.2f} ms, turn {row['turn_ms']:.2f} ms, over {row['over_ms']:.2f}"
        )


if __name__ == "__main__":
    main()
