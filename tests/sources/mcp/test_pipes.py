"""Do messages come and go over a pipe whole, in order, bounded, and does each end notice that the other has gone?"""

from __future__ import annotations

import asyncio
import json
import os
import tracemalloc
from collections.abc import AsyncIterator
from typing import Any

import anyio
import pytest
from mcp.shared.message import SessionMessage
from mcp_types import JSONRPCError, JSONRPCNotification, JSONRPCResponse

from toolcrib.sources.mcp import pipes
from toolcrib.sources.mcp.pipes import LONG, UNREADABLE, Answers, IncomingMessages, OutgoingMessages


class Pipe:
    """Both ends: messages of ours go in at one, and come out at the other."""

    def __init__(self) -> None:
        self.rubbish: list[bytes] = []
        self.too_long: list[bytes] = []
        self.deaf = 0
        self.incoming = IncomingMessages(self.rubbish.append, self.too_long.append)
        self.outgoing = OutgoingMessages(self._nobody_reads)

    def _nobody_reads(self) -> None:
        self.deaf += 1

    async def open(self) -> None:
        loop = asyncio.get_running_loop()
        read, self.write = os.pipe()
        self.reader, _ = await loop.connect_read_pipe(lambda: self.incoming, os.fdopen(read, "rb", buffering=0))
        writing = os.fdopen(os.dup(self.write), "wb", buffering=0)
        self.writer, _ = await loop.connect_write_pipe(lambda: self.outgoing, writing)

    def close(self) -> None:
        self.reader.close()
        if not self.outgoing.lost:
            self.writer.abort()
        if self.write >= 0:
            os.close(self.write)


@pytest.fixture
async def pipe() -> AsyncIterator[Pipe]:
    made = Pipe()
    await made.open()
    yield made
    made.close()
    await asyncio.sleep(0)


def note(number: int, text: str = "") -> SessionMessage:
    return SessionMessage(JSONRPCNotification(jsonrpc="2.0", method=f"n/{number}", params={"text": text}))


def number_of(message: Any) -> int:
    return int(message.message.method.removeprefix("n/"))


async def test_messages_come_in_order_and_whole(pipe: Pipe) -> None:
    async def send() -> None:
        for number in range(500):
            await pipe.outgoing.send(note(number, "é" * (number % 7) * 1_000))

    sending = asyncio.create_task(send())
    got = [await pipe.incoming.receive() for _ in range(500)]
    assert [number_of(message) for message in got] == list(range(500))
    assert got[6].message.params["text"] == "é" * 6_000  # type: ignore[union-attr, index]
    await sending
    assert pipe.incoming.answered


async def test_lines_that_are_no_messages_hold_nobody_up(pipe: Pipe) -> None:
    turns = 0

    async def others() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    pipe.incoming.data_received(b"rubbish\n" * 3_200 + pipes.to_line(note(1)))
    other = asyncio.create_task(others())
    assert number_of(await pipe.incoming.receive()) == 1
    other.cancel()
    assert len(pipe.rubbish) == 3_200 and turns >= 200


def is_read(pipe: Pipe) -> bool:
    """Whether the loop waits for this pipe (transports of pipes have no `is_reading` before Python 3.11.5)."""
    return pipe.reader.get_extra_info("pipe") in asyncio.get_running_loop()._selector.get_map()  # type: ignore[attr-defined]


async def test_short_lines_count_while_they_wait(pipe: Pipe) -> None:
    pipe.incoming.data_received(b"\n \n" * 20_000)
    assert is_read(pipe) and not pipe.incoming._waiting, "blank lines are dropped at once"
    pipe.incoming.data_received(b"x\n" * 20_000)
    assert not is_read(pipe)


async def test_who_reads_slowly_holds_the_writer_up(pipe: Pipe) -> None:
    sent = 0

    async def send() -> None:
        nonlocal sent
        for number in range(400):
            await pipe.outgoing.send(note(number, "x" * 20_000))
            sent += 1

    sending = asyncio.create_task(send())
    await asyncio.sleep(0.2)
    held = pipe.incoming._held  # pyright: ignore[reportPrivateUsage]
    assert sent < 100
    assert held < pipes.MAX_HELD + 2**18 + 20_100
    assert [number_of(await pipe.incoming.receive()) for _ in range(400)] == list(range(400))
    await sending


async def test_others_have_their_turn_while_much_is_read(pipe: Pipe) -> None:
    for number in range(200):
        await pipe.outgoing.send(note(number))
    await asyncio.sleep(0.05)
    turns = 0

    async def other() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    beside = asyncio.create_task(other())
    for _ in range(200):
        await pipe.incoming.receive()
    beside.cancel()
    assert turns >= 200 // pipes.TURNS


async def test_what_is_no_message_is_told_and_passed_over(pipe: Pipe) -> None:
    os.write(pipe.write, b"hello\n\n" + json.dumps({"jsonrpc": "2.0", "method": "n/1"}).encode() + b"\n[1]\n")
    assert number_of(await pipe.incoming.receive()) == 1
    os.write(pipe.write, b'{"jsonrpc": "2.0", "method": "n/2"}\n')
    assert number_of(await pipe.incoming.receive()) == 2
    assert pipe.rubbish == [b"hello", b"[1]"]


@pytest.mark.parametrize(
    "line",
    [
        b'{"jsonrpc":"2.0","id":7,"result":{"text": "caf\xe9"}}',
        b'{"jsonrpc": "2.0", "id": 7, "error": "no"}',
        b'{"jsonrpc":"2.0","id":7,"result":{"text": undefined}',
        b'{"result":{"value":oops},"jsonrpc":"2.0","id":7}',
        b'{"jsonrpc":"2.0","id":7,"result":{"text": "' + b"x" * LONG + b'\\ud83d"}}',
        b'{"result":{"names":[' + b'"",' * 1_000_001 + b'""]},"jsonrpc":"2.0","id":7}',
    ],
    ids=["latin-1", "error", "cut off", "late number", "half of a character", "too much"],
)
async def test_an_answer_that_cannot_be_read_is_an_error_at_once(pipe: Pipe, line: bytes) -> None:
    pipe.incoming.data_received(line + b"\n")
    answer = (await pipe.incoming.receive()).message
    assert isinstance(answer, JSONRPCError)
    assert answer.id == 7 and answer.error.message == UNREADABLE
    assert pipe.rubbish == [line]


async def test_what_only_looks_like_an_answer_answers_nothing(pipe: Pipe) -> None:
    for line in (
        b'{"id":7,"result":"done","level":"info"}', b'sent {"jsonrpc":"2.0","id":7,"result":{}}',
        b'{"jsonrpc":"2.0","id":7,"method":"x","params":oops}', b'{"jsonrpc":"2.0","id":"seven","result":oops}',
        b'{"log":{"result":{},"jsonrpc":"2.0","id":7}}',
    ):  # fmt: skip
        pipe.incoming.data_received(line + b"\n")
    pipe.incoming.data_received(b'{"jsonrpc":"2.0","method":"n/1"}\n')
    assert number_of(await pipe.incoming.receive()) == 1
    assert len(pipe.rubbish) == 5


async def test_a_message_that_is_too_long_is_the_end(pipe: Pipe, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pipes, "MAX_LINE", 1_000)
    small = IncomingMessages(pipe.rubbish.append, pipe.too_long.append)
    small.data_received(b'{"jsonrpc": "2.0", "method": "n/1"}\n')
    small.data_received(b"x" * 2_000)
    small.data_received(b"x\n" + b'{"jsonrpc": "2.0", "method": "n/2"}\n')
    assert [number_of(message) async for message in small] == [1]
    assert pipe.too_long == [b"x" * 2_000]


async def test_the_end_of_the_pipe_is_the_end_after_all_that_came(pipe: Pipe) -> None:
    for number in range(3):
        await pipe.outgoing.send(note(number))
    pipe.writer.close()
    os.close(pipe.write)
    pipe.write = -1
    assert [number_of(message) async for message in pipe.incoming] == [0, 1, 2]
    with pytest.raises(anyio.EndOfStream):
        await pipe.incoming.receive()


async def test_whoever_waits_hears_of_the_end(pipe: Pipe) -> None:
    waiting = asyncio.create_task(pipe.incoming.receive())
    await asyncio.sleep(0)
    pipe.incoming.end()
    with pytest.raises(anyio.EndOfStream):
        await waiting


async def test_a_cancelled_reader_loses_nothing(pipe: Pipe) -> None:
    waiting = asyncio.create_task(pipe.incoming.receive())
    await asyncio.sleep(0)
    await pipe.outgoing.send(note(1))
    waiting.cancel()
    await asyncio.gather(waiting, return_exceptions=True)
    assert number_of(await pipe.incoming.receive()) == 1


async def test_closed_it_reads_on_and_throws_away(pipe: Pipe) -> None:
    async with pipe.incoming:
        pass
    for _ in range(50):
        await pipe.outgoing.send(note(1, "x" * 100_000))  # else this would wait for ever
    with pytest.raises(anyio.ClosedResourceError):
        await pipe.incoming.receive()


async def test_nobody_reads_what_is_written(pipe: Pipe) -> None:
    pipe.reader.close()
    await asyncio.sleep(0)
    with pytest.raises(anyio.BrokenResourceError):
        for _ in range(10):
            await pipe.outgoing.send(note(1))
            await asyncio.sleep(0.01)
    assert pipe.deaf == 1
    await pipe.outgoing.aclose()
    with pytest.raises(anyio.ClosedResourceError):
        await pipe.outgoing.send(note(2))


async def test_requests_without_an_answer_are_limited_in_size_and_number(pipe: Pipe) -> None:
    too_many: list[int] = []
    answers = Answers(pipe.outgoing, lambda: too_many.append(1))
    for number in range(pipes.MAX_ASKED // pipes.ASKING):
        answers.asked(number, 0)
    assert not too_many
    answers.withdrawn(["not", "a number"])
    answers.withdrawn(0)
    await answers.send(SessionMessage(JSONRPCResponse(jsonrpc="2.0", id=1, result={})))
    answers.asked("large", pipes.ASKING)
    assert not too_many
    answers.asked("one more", 0)
    assert len(too_many) == 1
    for number in range(pipes.MAX_ASKED // pipes.ASKING):
        answers.withdrawn(number)
    answers.asked("very large", pipes.MAX_ASKED - 4 * pipes.ASKING)
    assert len(too_many) == 1
    answers.asked("large, too", 2 * pipes.ASKING)
    assert len(too_many) == 2


async def test_an_answer_that_waits_for_the_server_counts(pipe: Pipe) -> None:
    pipe.reader.pause_reading()
    too_many: list[int] = []
    answers = Answers(pipe.outgoing, lambda: too_many.append(1))
    answers.asked(1, pipes.MAX_ASKED - pipes.ASKING)
    answer = SessionMessage(JSONRPCResponse(jsonrpc="2.0", id=1, result={"text": "x" * 300_000}))
    waiting = asyncio.create_task(answers.send(answer))
    await asyncio.sleep(0)
    answers.withdrawn(1)  # its answer waits all the same
    answers.asked(2, 0)
    assert len(too_many) == 1
    pipe.reader.resume_reading()
    await waiting
    answers.asked(3, 0)
    assert len(too_many) == 1


async def test_halves_of_characters_are_replaced(pipe: Pipe) -> None:
    """JSON can write them, and a server does that cuts a text: nobody waits for its answer until the call's limit."""
    for text in (rb"a\ud83d", rb"\uDE00b", rb"\\ud83d \ud83d\ude00 \ud83d"):
        pipe.incoming.data_received(b'{"jsonrpc": "2.0", "id": 1, "result": {"text": "' + text + b'"}}\n')
        message = (await pipe.incoming.receive()).message
        assert isinstance(message, JSONRPCResponse)
        said = message.result["text"]
        assert said == json.loads(b'"' + text + b'"').encode("utf-8", "replace").decode()
    assert not pipe.rubbish


async def test_a_message_that_is_too_long_is_not_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """The stream of a connection that ended waits for the garbage collection, which counts objects, not their sizes."""
    monkeypatch.setattr(pipes, "MAX_LINE", 8 * 2**20)
    tracemalloc.start()
    try:
        incoming = IncomingMessages(lambda line: None, lambda line: None)
        for _ in range(9):
            incoming.data_received(bytes(2**20))
        assert tracemalloc.get_traced_memory()[0] < 2**20
    finally:
        tracemalloc.stop()
    with pytest.raises(anyio.EndOfStream):
        await incoming.receive()
