"""Channel plugins: messages both ways, and programs that flood, hang, end early or print rubbish."""

import asyncio
import json
import os
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from toolcrib.sources.plugins.channel import Channel, ChannelError
from toolcrib.sources.plugins.manifest import read_manifest
from toolcrib.sources.plugins.program import PinnedProgram

from ...waiting import until

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="channels run on POSIX systems")

HEAD = """#!/usr/bin/env python3
import json, os, sys, time

def out(message):
    print(json.dumps(message), flush=True)

def inbound(content, **more):
    out({"jsonrpc": "2.0", "method": "inbound", "params": {"chat_id": "7", "content": content, **more}})
"""
ECHO = (
    HEAD
    + """
inbound("ready", sender_id="me", media=["a.png"])
for line in sys.stdin:
    call = json.loads(line)
    out({"jsonrpc": "2.0", "id": call["id"], "result": call["params"]})
    inbound("echo " + call["params"]["content"])
"""
)

Start = Callable[..., Awaitable[Channel]]


@pytest.fixture
async def start(tmp_path: Path) -> AsyncIterator[Start]:
    begun: list[Channel] = []

    async def make(program: str, seconds: float = 30, **more: Any) -> Channel:
        path = tmp_path / "run"
        path.write_text(program)
        path.chmod(0o755)
        manifest = tmp_path / "manifest.json"
        entry = {"name": "chat", "version": "1", "description": "d", "binary": "run", "timeout_secs": seconds}
        manifest.write_text(json.dumps(entry))
        channel = Channel(read_manifest(manifest), PinnedProgram(tmp_path, "run"), **more)
        await channel.start()
        begun.append(channel)
        return channel

    yield make
    for channel in begun:
        await channel.stop()
        assert not channel.running


async def test_messages_go_both_ways(start: Start) -> None:
    channel = await start(ECHO)
    first = await channel.receive()
    assert (first.channel, first.chat_id, first.content, first.sender_id) == ("chat", "7", "ready", "me")
    assert first.media == ("a.png",)
    text = 'hello\n{"id": 1}\u2028'
    assert await channel.send("7", text) == {"channel": "chat", "chat_id": "7", "content": text}
    assert (await channel.receive()).content == f"echo {text}"
    many = await asyncio.gather(*(channel.send("7", str(number)) for number in range(50)))
    assert [each["content"] for each in many] == [str(number) for number in range(50)]


async def test_a_refusal_is_an_error(start: Start) -> None:
    refuse = 'call = json.loads(sys.stdin.readline())\nout({"id": call["id"], "error": {"code": 1, "message": "no"}})\n'
    channel = await start(HEAD + refuse + "sys.stdin.read()")
    with pytest.raises(ChannelError, match="refused: no"):
        await channel.send("7", "x")


async def test_one_that_does_not_answer_is_told_of(start: Start) -> None:
    channel = await start(HEAD + "sys.stdin.read()", seconds=1)
    with pytest.raises(ChannelError, match="did not answer send within 1 s"):
        await channel.send("7", "x")
    assert channel.running


async def test_one_that_ends_is_told_of_with_what_it_said(start: Start) -> None:
    channel = await start(HEAD + 'inbound("last"); sys.stderr.write("cannot log in"); sys.exit(4)')
    assert (await channel.receive()).content == "last"
    with pytest.raises(ChannelError, match=r"has ended \(exit 4\): cannot log in"):
        await channel.receive()
    with pytest.raises(ChannelError, match=r"has ended \(exit 4\)"):
        await channel.send("7", "x")


async def test_a_request_ends_with_the_process(start: Start) -> None:
    channel = await start(HEAD + "sys.stdin.readline(); os._exit(5)")
    with pytest.raises(ChannelError, match="exit 5"):
        await channel.send("7", "x")


async def test_both_pipes_are_read_however_much_comes(start: Start) -> None:
    """Megabytes on both pipes that nobody asked for: the answer comes all the same, and memory does not grow."""
    flood = """
for _ in range(400):
    sys.stderr.write("e" * 50_000)
    sys.stdout.write("rubbish " * 2_000 + "\\n")
sys.stdout.write("x" * 6_000_000 + "\\n")
for _ in range(3_000):
    inbound("spam")
"""
    channel = await start(HEAD + flood + ECHO.removeprefix(HEAD))
    assert (await asyncio.wait_for(channel.send("7", "here"), 60))["content"] == "here"
    assert channel.dropped > 1_000
    assert len(channel.said) < 200_000


RUBBISH = [
    "rubbish", "[]", "3", "{}", '{"id": 99, "result": 1}', '{"id": [1]}', '{"method": "other"}',
    '{"method": "inbound"}', '{"method": "inbound", "params": {}}',
    '{"method": "inbound", "params": {"chat_id": [], "content": "x"}}',
    "[" * 100_000,
]  # fmt: skip


@pytest.mark.parametrize("line", RUBBISH)
async def test_rubbish_is_said_and_left_out(start: Start, line: str, caplog: pytest.LogCaptureFixture) -> None:
    channel = await start(HEAD + f"print({line!r}, flush=True)\n" + ECHO.removeprefix(HEAD))
    assert (await channel.receive()).content == "ready"
    assert "the channel chat" in caplog.text


async def test_stop_ends_what_does_not_want_to(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("toolcrib.sources.plugins.channel.STOP_SECONDS", 0.2)
    stubborn = 'import subprocess; child = subprocess.Popen(["sleep", "600"]); inbound(str(child.pid)); time.sleep(600)'
    channel = await start(HEAD + stubborn)
    child = int((await channel.receive()).content)
    await channel.stop()
    await channel.stop()
    await until(lambda: not runs(child))


def runs(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()[0] != b"Z"
    except OSError:
        return False


async def test_the_hosts_environment_does_not_reach_it(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOME_API_KEY", "geheim")
    channel = await start(HEAD + "inbound(json.dumps([*os.environ])); sys.stdin.read()", env={"GIVEN": "1"})
    names = json.loads((await channel.receive()).content)
    assert "GIVEN" in names
    assert "SOME_API_KEY" not in names
    del os.environ["SOME_API_KEY"]
