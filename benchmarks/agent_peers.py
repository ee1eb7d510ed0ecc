"""What does a streamed turn of four calls cost through our agent, and through the SDKs and pydantic-ai?

All columns talk to the server of `agent_server.py` over loopback, one process for each column, in turns in one run. CPU
time of the column's process; the least of the rounds counts. `reply`: one streamed reply of about 100 events with text
and four calls, after a history of 20 messages. `turn`: a question, that reply, the four calls, and the answer, so two
requests; ours with its policy, its record and its stored session. `first` is the process from its start to the end of the
first reply or turn.

python benchmarks/agent_peers.py [--peers PYTHON] [--rounds N] [--only WORDS]

PYTHON is an environment with openai, anthropic and pydantic-ai-slim[openai,anthropic]. Without it their columns are left
out; a package that it lacks is named and left out.
"""

from __future__ import annotations

import argparse
import asyncio
import importlib.metadata
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import agent_server as s

Once = Callable[[], Awaitable[object]]
TURNS = 5
"""Turns of each round."""
KEYS = {"OPENAI_API_KEY": "k", "ANTHROPIC_API_KEY": "k"}


# --- conversations, as the wires write them


def call_of(number: int) -> dict[str, str]:
    return {"name": "tool_1", "arguments": '{"path": "src/a.py", "limit": 1}', "id": f"h{number}"}


def chat_history() -> list[Any]:
    found: list[Any] = [{"role": "system", "content": s.SYSTEM}]
    for number, (question, said, outcome, answer) in enumerate(s.PAST):
        call = call_of(number)
        function = {"name": call["name"], "arguments": call["arguments"]}
        calls = [{"id": call["id"], "type": "function", "function": function}]
        found += [{"role": "user", "content": question}, {"role": "assistant", "content": said, "tool_calls": calls}]
        found += [{"role": "tool", "tool_call_id": call["id"], "content": outcome}]
        found += [{"role": "assistant", "content": answer}]
    return [*found, {"role": "user", "content": s.QUESTION}]


def anthropic_history() -> list[Any]:
    found: list[Any] = []
    for number, (question, said, outcome, answer) in enumerate(s.PAST):
        call = call_of(number)
        use = {"type": "tool_use", "id": call["id"], "name": call["name"], "input": json.loads(call["arguments"])}
        result = {"type": "tool_result", "tool_use_id": call["id"], "content": outcome}
        found += [{"role": "user", "content": question}]
        found += [{"role": "assistant", "content": [{"type": "text", "text": said}, use]}]
        found += [{"role": "user", "content": [result]}, {"role": "assistant", "content": answer}]
    return [*found, {"role": "user", "content": s.QUESTION}]


def responses_history() -> list[Any]:
    found: list[Any] = []
    for number, (question, said, outcome, answer) in enumerate(s.PAST):
        call = call_of(number)
        found += [{"role": "user", "content": question}, {"role": "assistant", "content": said}]
        found += [
            {"type": "function_call", "call_id": call["id"], "name": call["name"], "arguments": call["arguments"]}
        ]
        found += [{"type": "function_call_output", "call_id": call["id"], "output": outcome}]
        found += [{"role": "assistant", "content": answer}]
    return [*found, {"role": "user", "content": s.QUESTION}]


def names() -> list[str]:
    return [f"tool_{number}" for number in range(s.TOOLS)]


def chat_tools() -> list[Any]:
    return [
        {"type": "function", "function": {"name": name, "description": s.DESCRIPTION, "parameters": s.SCHEMA}}
        for name in names()
    ]


# --- columns: each gives what does one reply or one turn


async def transport(base: str) -> Once:
    """The floor: httpx2 that reads the bytes of one reply."""
    import httpx2

    client = httpx2.AsyncClient()

    async def once() -> None:
        async with client.stream("POST", f"{base}{s.PATHS['chat']}", content=b"x" * 20_000) as response:
            async for _ in response.aiter_bytes():
                pass

    return once


def our_model(base: str, wire: str) -> Any:
    from toolcrib.agent.choose import ModelPlace, model_of
    from toolcrib.boundary.network.settings import GuardSettings

    return model_of(
        f"{wire}:m", ModelPlace(GuardSettings(), f"{base}/v1", environment={**KEYS, "ANTHROPIC_BASE_URL": base})
    )


def toolcrib_reply(wire: str) -> Callable[[str], Awaitable[Once]]:
    async def column(base: str) -> Once:
        from agent_turn import TOOLS, history
        from toolcrib.agent.model import ModelRequest, ReplyEnd

        model, request = our_model(base, wire), ModelRequest(s.SYSTEM, history(), TOOLS)

        async def once() -> None:
            last = None
            async for last in model.stream(request):
                pass
            assert isinstance(last, ReplyEnd)
            assert [call.arguments for call in last.turn.calls] == ["".join(s.ARGUMENTS)] * s.CALLS

        return once

    return column


async def toolcrib_turn(base: str) -> Once:
    """Our agent: twenty tools in a toolbox with policy and record, a new session of the same history for each turn."""
    from agent_turn import history
    from toolcrib import Toolbox, tool
    from toolcrib.agent import Agent

    home = os.environ["COLUMN_HOME"]
    folder = tempfile.mkdtemp(dir=home)
    os.environ.update(XDG_STATE_HOME=f"{home}/state", XDG_CONFIG_HOME=f"{home}/config")
    done: list[str] = []

    def make(name: str) -> Any:
        async def work(path: str, limit: int) -> str:
            done.append(path)
            return "line\n" * 100

        work.__name__, work.__doc__ = name, s.DESCRIPTION
        return tool(work, category="memory")

    box = await Toolbox.open(folder, tools=[make(name) for name in names()], builtin=False, warm_up=False)
    agent = await Agent.open(box, our_model(base, "chat"))
    first = agent.new_session()
    for entry in history()[:-1]:
        first.append(entry)
    sessions: list[Any] = []

    def fork() -> None:
        sessions.extend(agent.session(agent.store.fork(first.id).id) for _ in range(TURNS))

    async def once() -> None:
        done.clear()
        outcome = await agent.run(s.QUESTION, sessions.pop())
        assert (outcome.text, len(done)) == ("word0 word1 word2 ", s.CALLS), (outcome, done)

    once.prepare = fork  # a session with the history for each turn, made outside of the measured time
    return once


async def openai_chat(base: str) -> Once:
    """The SDK's raw stream of chunks."""
    from openai import AsyncOpenAI

    client, history, tools = AsyncOpenAI(base_url=f"{base}/v1", api_key="k"), chat_history(), chat_tools()

    async def once() -> None:
        seen = 0
        async for chunk in await client.chat.completions.create(
            model="m", messages=history, tools=tools, stream=True, stream_options={"include_usage": True}
        ):
            seen += sum(len(choice.delta.tool_calls or []) for choice in chunk.choices)
        assert seen == s.CALLS * (len(s.ARGUMENTS) + 1), seen

    return once


async def openai_responses(base: str) -> Once:
    """The SDK's raw stream of events."""
    from openai import AsyncOpenAI

    client, history = AsyncOpenAI(base_url=f"{base}/v1", api_key="k"), responses_history()
    tools: list[Any] = [
        {"type": "function", "name": name, "description": s.DESCRIPTION, "parameters": s.SCHEMA, "strict": False}
        for name in names()
    ]

    async def once() -> None:
        seen = 0
        async for event in await client.responses.create(
            model="m", instructions=s.SYSTEM, input=history, tools=tools, stream=True
        ):
            seen += event.type == "response.output_item.done" and event.item.type == "function_call"
        assert seen == s.CALLS, seen

    return once


async def openai_turn(base: str) -> Once:
    """The smallest loop over the SDK's stream: no policy, no record, no stored session."""
    from openai import AsyncOpenAI

    client, tools = AsyncOpenAI(base_url=f"{base}/v1", api_key="k"), chat_tools()

    async def work(path: str, limit: int) -> str:
        return "line\n" * 100

    async def once() -> None:
        history = chat_history()
        while True:
            text, calls = "", {}
            async for chunk in await client.chat.completions.create(
                model="m", messages=history, tools=tools, stream=True, stream_options={"include_usage": True}
            ):
                for choice in chunk.choices:
                    text += choice.delta.content or ""
                    for part in choice.delta.tool_calls or []:
                        call = calls.setdefault(part.index, {"id": part.id, "name": part.function.name, "text": ""})
                        call["text"] += part.function.arguments or ""
            if not calls:
                assert text == "word0 word1 word2 "
                return
            done = await asyncio.gather(*(work(**json.loads(call["text"])) for call in calls.values()))
            said = [
                {"id": call["id"], "type": "function", "function": {"name": call["name"], "arguments": call["text"]}}
                for call in calls.values()
            ]
            history += [{"role": "assistant", "content": text, "tool_calls": said}]
            history += [
                {"role": "tool", "tool_call_id": call["id"], "content": each}
                for call, each in zip(calls.values(), done, strict=True)
            ]

    return once


def anthropic_reply(helper: bool) -> Callable[[str], Awaitable[Once]]:
    async def column(base: str) -> Once:
        from anthropic import AsyncAnthropic

        client, history = AsyncAnthropic(base_url=base, api_key="k"), anthropic_history()
        tools: list[Any] = [{"name": name, "description": s.DESCRIPTION, "input_schema": s.SCHEMA} for name in names()]
        asked: dict[str, Any] = {
            "model": "m",
            "system": s.SYSTEM,
            "messages": history,
            "tools": tools,
            "max_tokens": 999,
        }

        async def raw() -> None:
            seen = 0
            async for event in await client.messages.create(**asked, stream=True):
                seen += event.type == "content_block_start" and event.content_block.type == "tool_use"
            assert seen == s.CALLS, seen

        async def helped() -> None:
            async with client.messages.stream(**asked) as stream:
                async for _ in stream:
                    pass
                message = await stream.get_final_message()
            assert sum(block.type == "tool_use" for block in message.content) == s.CALLS

        return helped if helper else raw

    return column


def pydantic_model(base: str, wire: str) -> Any:
    if wire == "anthropic":
        from anthropic import AsyncAnthropic
        from pydantic_ai.models.anthropic import AnthropicModel
        from pydantic_ai.providers.anthropic import AnthropicProvider

        client = AsyncAnthropic(base_url=base, api_key="k")
        return AnthropicModel("m", provider=AnthropicProvider(anthropic_client=client))
    from pydantic_ai.models.openai import OpenAIChatModel, OpenAIResponsesModel
    from pydantic_ai.providers.openai import OpenAIProvider

    kind = OpenAIChatModel if wire == "chat" else OpenAIResponsesModel
    return kind("m", provider=OpenAIProvider(base_url=f"{base}/v1", api_key="k"))


def pydantic_history() -> list[Any]:
    from pydantic_ai import messages as m

    found: list[Any] = []
    for number, (question, said, outcome, answer) in enumerate(s.PAST):
        call = call_of(number)
        head = [m.SystemPromptPart(s.SYSTEM)] if not number else []
        found += [m.ModelRequest(parts=[*head, m.UserPromptPart(question)])]
        made = m.ToolCallPart(call["name"], call["arguments"], call["id"])
        found += [m.ModelResponse(parts=[m.TextPart(said), made])]
        found += [m.ModelRequest(parts=[m.ToolReturnPart(call["name"], outcome, call["id"])])]
        found += [m.ModelResponse(parts=[m.TextPart(answer)])]
    return found


def pydantic_reply(wire: str) -> Callable[[str], Awaitable[Once]]:
    async def column(base: str) -> Once:
        from pydantic_ai import messages as m
        from pydantic_ai.direct import model_request_stream
        from pydantic_ai.models import ModelRequestParameters
        from pydantic_ai.tools import ToolDefinition

        model = pydantic_model(base, wire)
        history = [*pydantic_history(), m.ModelRequest(parts=[m.UserPromptPart(s.QUESTION)])]
        tools = [
            ToolDefinition(name=name, parameters_json_schema=s.SCHEMA, description=s.DESCRIPTION) for name in names()
        ]

        async def once() -> None:
            parameters = ModelRequestParameters(function_tools=tools)
            async with model_request_stream(model, history, model_request_parameters=parameters) as stream:
                async for _ in stream:
                    pass
                parts = stream.get().parts
            assert sum(isinstance(part, m.ToolCallPart) for part in parts) == s.CALLS

        return once

    return column


async def pydantic_turn(base: str) -> Once:
    """Its agent with the events of its stream, twenty tools and the same history."""
    from pydantic_ai import Agent, Tool

    def make(name: str) -> Any:
        async def work(path: str, limit: int) -> str:
            return "line\n" * 100

        return Tool(work, name=name, description=s.DESCRIPTION, takes_ctx=False)

    agent, past = Agent(pydantic_model(base, "chat"), tools=[make(name) for name in names()]), pydantic_history()

    async def once() -> None:
        answer = None
        async with agent.run_stream_events(s.QUESTION, message_history=past) as events:
            async for event in events:
                if event.event_kind == "agent_run_result":
                    answer = event.result.output
        assert answer == "word0 word1 word2 ", answer

    return once


WORK: dict[str, tuple[str, Callable[[str], Awaitable[Once]]]] = {
    "transport": ("", transport),
    "reply chat: toolcrib": ("", toolcrib_reply("chat")),
    "reply chat: openai": ("openai", openai_chat),
    "reply chat: pydantic-ai": ("pydantic-ai-slim", pydantic_reply("chat")),
    "reply responses: toolcrib": ("", toolcrib_reply("responses")),
    "reply responses: openai": ("openai", openai_responses),
    "reply responses: pydantic-ai": ("pydantic-ai-slim", pydantic_reply("responses")),
    "reply anthropic: toolcrib": ("", toolcrib_reply("anthropic")),
    "reply anthropic: anthropic": ("anthropic", anthropic_reply(False)),
    "reply anthropic: anthropic, helper": ("anthropic", anthropic_reply(True)),
    "reply anthropic: pydantic-ai": ("pydantic-ai-slim", pydantic_reply("anthropic")),
    "turn chat: toolcrib": ("", toolcrib_turn),
    "turn chat: openai, a bare loop": ("openai", openai_turn),
    "turn chat: pydantic-ai": ("pydantic-ai-slim", pydantic_turn),
}  # fmt: skip


# --- a column's process, and the run


async def work(name: str, port: int) -> None:
    """Do the turns of a column, a round for each line of stdin."""
    once = await WORK[name][1](f"http://127.0.0.1:{port}")
    prepare = getattr(once, "prepare", lambda: None)
    prepare()
    await once()
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(json.dumps({"first": time.process_time() * 1e3, "memory": memory, "modules": len(sys.modules)}), flush=True)
    while await asyncio.to_thread(sys.stdin.readline):
        prepare()
        start = time.process_time()
        for _ in range(TURNS):
            await once()
        print(json.dumps({"turn": (time.process_time() - start) * 1e3 / TURNS}), flush=True)
    os._exit(0)


def version(python: str, package: str) -> str:
    """Return the version of a package in an environment; empty if it is not there."""
    code = f"import importlib.metadata as m; print(m.version({package!r}))"
    found = subprocess.run([python, "-c", code], capture_output=True, text=True)
    return found.stdout.strip()


class Column:
    """The process of a column."""

    def __init__(self, name: str, python: str, port: int, home: str) -> None:
        env = {key: value for key, value in os.environ.items() if not key.startswith("PYTHON")}
        self.name, self.rounds = name, []
        self.process = subprocess.Popen(
            [python, "-W", "ignore", __file__, "--column", name, "--port", str(port)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, env={**env, **KEYS, "COLUMN_HOME": home}, text=True,
        )  # fmt: skip
        self.start = self._read()

    def _read(self) -> dict[str, float]:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if not line:
            raise RuntimeError(f"{self.name}: its process ended")
        return json.loads(line)

    def ask(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write("\n")
        self.process.stdin.flush()
        self.rounds.append(self._read()["turn"])

    def close(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.process.wait(30)


def run(peers: str | None, rounds: int, only: list[str]) -> list[Column]:
    """Measure the columns in turns."""
    columns: list[Column] = []
    missing: dict[str, str] = {}
    with s.serving() as port, tempfile.TemporaryDirectory() as home:
        try:
            for name, (package, _) in WORK.items():
                if only and name != "transport" and not any(word in name for word in only):
                    continue
                if package and package not in missing:
                    missing[package] = version(peers, package) if peers else ""
                    print(f"{package} {missing[package] or 'is not installed: its columns are left out'}")
                if not package or missing[package]:
                    columns.append(Column(name, peers or "" if package else sys.executable, port, home))
            for _ in range(rounds + 1):
                for column in columns:
                    column.ask()
        finally:
            for column in columns:
                column.close()
    return columns


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--peers", metavar="PYTHON")
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--only", default="", help="Columns whose names hold one of these words.")
    parser.add_argument("--column", help=argparse.SUPPRESS)
    parser.add_argument("--port", type=int, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.column:
        asyncio.run(work(given.column, given.port))
        return
    print(f"load {os.getloadavg()[0]:.1f}; httpx2 {importlib.metadata.version('httpx2')}")
    columns = run(given.peers, given.rounds, given.only.split())
    least = {column.name: min(column.rounds[1:]) for column in columns}
    floor = least["transport"]
    print(f"{'CPU ms':36} {'each':>6} {'over transport':>14} {'first':>6} {'MB':>5} {'modules':>7}")
    for column in columns:
        ours = next((least[n] for n in least if n.partition(":")[0] == column.name.partition(":")[0]), 0.0)
        over = least[column.name] - floor * (2 if column.name.startswith("turn") else 1)
        print(
            f"{column.name:36} {least[column.name]:6.2f} {over:14.2f} {column.start['first']:6.0f} "
            f"{column.start['memory']:5.0f} {column.start['modules']:7.0f}   {least[column.name] / ours:5.1f} x ours"
        )


if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parent))
    main()
