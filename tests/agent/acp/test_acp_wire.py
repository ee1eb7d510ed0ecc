"""What comes over the wire: rubbish is refused and reading goes on, and only the protocol reaches stdout."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from acp import spawn_agent_process
from acp.meta import AGENT_METHODS
from hypothesis import given, settings
from hypothesis import strategies as st

from toolcrib.agent.acp import serve
from toolcrib.core.errors import ConfigError

from .editor import Editor, call

SCRIPT = Path(__file__).with_name("acp_script.py")
Scripted = Callable[..., str]

_JSON: Any = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=6,
)
_PARAMS = _JSON | st.fixed_dictionaries(
    {},
    optional={
        "sessionId": _JSON, "cwd": _JSON, "prompt": _JSON, "mcpServers": _JSON, "modeId": _JSON, "_meta": _JSON,
    },
)  # fmt: skip
_MESSAGE = st.fixed_dictionaries(
    {},
    optional={
        "jsonrpc": _JSON, "id": _JSON, "method": st.sampled_from(sorted(AGENT_METHODS.values())) | _JSON,
        "params": _PARAMS, "result": _JSON, "error": _JSON,
    },
)  # fmt: skip
_LINE = st.binary(max_size=30).map(lambda raw: raw.replace(b"\n", b" ")) | (_MESSAGE | _JSON).map(
    lambda value: json.dumps(value).encode()
)
DEEP = b"[" * 200_000
FIXED = [b"", b"not json", b"[]", b"5", b'{"id": [1]}', b'{"id": {"a": 1}, "method": "initialize"}', DEEP,
         b'{"id": 7, "method": ["a"]}', b"\xff\xfe", b'{"id": 1, "error": "x"}', b"9" * 5000]  # fmt: skip


async def exchange(lines: list[bytes]) -> list[Any]:
    """What the agent writes after these lines and a last `initialize`, to its end."""
    agent_in, ours_out = os.pipe()
    ours_in, agent_out = os.pipe()

    def refuse(folder: str, servers: Any) -> Any:
        raise ConfigError("no toolbox here")

    serving = asyncio.create_task(serve(refuse, "scripted:none", str, agent_in, agent_out))
    last = {"jsonrpc": "2.0", "id": "last", "method": "initialize", "params": {"protocolVersion": 1}}
    data = b"".join(line + b"\n" for line in [*lines, json.dumps(last).encode()])
    await asyncio.to_thread(_write, ours_out, data)
    await serving
    os.close(agent_out)
    os.close(agent_in)
    with open(ours_in, "rb") as file:
        return [json.loads(line) for line in file]


def _write(fd: int, data: bytes) -> None:
    with open(fd, "wb") as file:
        file.write(data)


@settings(max_examples=30)
@given(st.lists(_LINE, max_size=6))
def test_rubbish_does_not_end_the_conversation(lines: list[bytes]) -> None:
    answers = asyncio.run(exchange(lines))
    assert any(answer.get("id") == "last" and "agentInfo" in answer["result"] for answer in answers)


async def test_each_wrong_line_gets_an_error() -> None:
    answers = await exchange(FIXED)
    assert answers.pop()["id"] == "last"
    assert len(answers) == len(FIXED) - 2  # an empty line says nothing, an answer to no question is dropped
    assert {answer["error"]["code"] for answer in answers} == {-32700, -32600}


async def test_nothing_that_a_tool_prints_reaches_stdout(scripted: Scripted, home: Path) -> None:
    model = scripted({"calls": [call("noisy")]}, {"text": "Quiet."})
    seen: list[Any] = []
    editor = Editor(home / "work")
    async with spawn_agent_process(
        editor, sys.executable, str(SCRIPT), model, env=dict(os.environ), use_unstable_protocol=True,
        observers=[lambda event: seen.append(event.message)],
    ) as (conn, process):  # fmt: skip
        await conn.initialize(protocol_version=1)
        session = await editor.new()
        assert (await editor.say(session, "make noise")).stop_reason == "end_turn"
        assert editor.text == "Quiet."
        assert "''" in editor.contents()[0].content.text  # its stdin is empty, too
        assert not any("noise" in message.get("params", {}) for message in seen)
        assert process.stdin is not None
        process.stdin.close()
        assert process.stderr is not None
        assert (await process.stderr.read()).count(b'"noise":true') == 3


@pytest.mark.slow
async def test_a_second_process_loads_what_a_killed_one_left(scripted: Scripted, home: Path) -> None:
    model = scripted({"text": "I delete.", "calls": [call("delete_file", path="a.txt")]}, {"text": "Not deleted."})
    command = [sys.executable, "-m", "toolcrib", "acp", "--model", model]
    (home / "work" / "toolcrib.toml").write_text('mode = "autonomous"\n')  # not trusted: it does not count
    more: dict[str, Any] = {"env": dict(os.environ), "use_unstable_protocol": True}
    editor = Editor(home / "work", answer="wait")
    async with spawn_agent_process(editor, *command, **more) as (conn, process):
        await conn.initialize(protocol_version=1)
        session = await editor.new()
        turn = asyncio.create_task(editor.say(session, "delete"))
        await editor.until(lambda: editor.questions)
        process.send_signal(signal.SIGKILL)
        with pytest.raises(ConnectionError):
            await turn
        assert process.stderr is not None
        assert b"toolcrib trust" in await process.stderr.read()
    editor = Editor(home / "work", answer="wait")
    async with spawn_agent_process(editor, *command, **more) as (conn, process):
        await conn.initialize(protocol_version=1)
        await editor.agent.load_session(cwd=str(home / "work"), session_id=session, mcp_servers=[])
        assert editor.text == "I delete."
        assert editor.statuses("_0_0") == ["pending"]
        assert (await editor.say(session, "leave it")).stop_reason == "end_turn"
        assert editor.text.endswith("Not deleted.")
    assert (home / "work" / "a.txt").exists()
