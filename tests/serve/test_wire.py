"""Do messages come and go over descriptors whole, in order and bounded, whatever their length?"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import threading
from collections.abc import Iterator
from typing import Any

import anyio
import pytest
from mcp.shared.message import SessionMessage
from mcp_types import JSONRPCNotification

from toolcrib.serve import stdio
from toolcrib.serve.stdio import MessageReader, MessageWriter

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="the SDK's own transport serves there")


@pytest.fixture
def pipe() -> Iterator[tuple[int, int]]:
    """A pipe whose descriptors nobody uses any more when the next test gets the same numbers.

    A test that closes an end does it with `close`: the number may be somebody else's soon after.
    """
    ends = os.pipe()
    yield ends
    for end in (ends[1], ends[0]):  # a reader's thread ends with the writing end, then nobody reads from the other
        if end in closed:
            closed.remove(end)
        else:
            os.close(end)
        for thread in threading.enumerate():
            if thread.name == "toolcrib-stdin":
                thread.join(60)
                assert not thread.is_alive()


closed: set[int] = set()


def close(end: int) -> None:
    os.close(end)
    closed.add(end)


def nobody() -> None:
    raise AssertionError("somebody reads")


def note(text: str) -> SessionMessage:
    return SessionMessage(JSONRPCNotification(jsonrpc="2.0", method="n", params={"text": text}))


def line(text: str) -> bytes:
    return note(text).message.model_dump_json(exclude_unset=True).encode() + b"\n"


def text_of(message: Any) -> str:
    return message.message.params["text"]


async def test_messages_of_any_length_and_cut_anywhere(pipe: tuple[int, int]) -> None:
    texts = ["", "short", "é" * 70_000, "x" * 3_000_000, "last"]
    data = b"".join(map(line, texts))
    reader = MessageReader(pipe[0])
    reader.start()

    def write() -> None:
        place = 0
        while place < len(data):
            place += os.write(pipe[1], data[place : place + 65_537])
        close(pipe[1])

    writing = asyncio.create_task(asyncio.to_thread(write))
    assert [text_of(message) async for message in reader] == texts
    await writing
    with pytest.raises(anyio.EndOfStream):
        await reader.receive()


async def test_many_messages_wait_until_they_are_wanted(pipe: tuple[int, int]) -> None:
    count = 60_000
    reader = MessageReader(pipe[0])
    reader.start()
    written = 0

    def write() -> None:
        nonlocal written
        for number in range(count):
            written += os.write(pipe[1], line(str(number)))
        close(pipe[1])

    writing = asyncio.create_task(asyncio.to_thread(write))
    await asyncio.sleep(0.3)
    assert written <= (stdio.MAX_AHEAD + 2) * stdio.CHUNK  # what the pipe itself holds is one more
    assert [int(text_of(message)) async for message in reader] == list(range(count))
    await writing


async def test_what_is_no_message_is_an_exception_among_them(pipe: tuple[int, int]) -> None:
    reader = MessageReader(pipe[0])
    reader.start()
    os.write(pipe[1], b"\n\xff{]\n" + line("good") + line("b?d").replace(b"?", b"\xff"))
    got = [await reader.receive() for _ in range(4)]
    assert [isinstance(message, Exception) for message in got] == [True, True, False, False]
    assert text_of(got[3]) == "b\ufffdd"
    reader.close()


@pytest.mark.parametrize("method", ["initialize", "tools/list"])
async def test_the_first_message_says_the_era_and_stays_the_first(pipe: tuple[int, int], method: str) -> None:
    reader = MessageReader(pipe[0])
    reader.start()
    os.write(pipe[1], json.dumps({"jsonrpc": "2.0", "id": 1, "method": method}).encode() + b"\n")
    assert await reader.opens_with("initialize") is (method == "initialize")
    first = await reader.receive()
    assert isinstance(first, SessionMessage)
    assert first.message.method == method  # type: ignore[union-attr]
    close(pipe[1])
    assert await reader.opens_with("initialize") is False, "nobody is there any more"


@pytest.mark.parametrize(
    ("first", "opens"),
    [(b'{"method": "initialize", "id": "\xff"}', True), (b'["initialize"]', False), (b"[" * 100_000, False)],
)
async def test_any_first_message_says_an_era(pipe: tuple[int, int], first: bytes, opens: bool) -> None:
    reader = MessageReader(pipe[0])
    reader.start()
    await asyncio.to_thread(os.write, pipe[1], first + b"\n")
    assert await reader.opens_with("initialize") is opens
    close(pipe[1])


async def test_a_message_without_end_is_the_end(pipe: tuple[int, int], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stdio, "MAX_LINE", 100_000)
    reader = MessageReader(pipe[0])
    reader.start()
    os.write(pipe[1], line("good") + b"x" * 50_000)
    assert text_of(await reader.receive()) == "good"
    await asyncio.to_thread(os.write, pipe[1], b"x" * 60_000)
    with pytest.raises(anyio.EndOfStream):
        await reader.receive()


async def test_a_reader_that_does_not_read_holds_up_only_the_writer(pipe: tuple[int, int]) -> None:
    writer = MessageWriter(pipe[1], nobody)
    big = asyncio.create_task(writer.send(note("y" * 500_000)))
    small = asyncio.create_task(writer.send(note("z")))
    await asyncio.sleep(0.05)
    assert not big.done() and not small.done()  # the loop still turns
    expected = line("y" * 500_000) + line("z")

    def read() -> bytes:
        got = b""
        while len(got) < len(expected):
            got += os.read(pipe[0], 65_536)
        return got

    assert await asyncio.to_thread(read) == expected
    await asyncio.gather(big, small)


async def test_a_client_that_does_not_read_is_not_read_either(
    pipe: tuple[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stdio, "MAX_UNREAD", 1_000_000)
    writer = MessageWriter(pipe[1], nobody)
    await asyncio.wait_for(writer.room(), 60)
    answers = [asyncio.create_task(writer.send(note("y" * 400_000))) for _ in range(3)]
    waiting = asyncio.create_task(writer.room())
    await asyncio.sleep(0.05)
    assert not waiting.done()
    expected = 3 * len(line("y" * 400_000))
    got = 0
    while got < expected:
        got += len(await asyncio.to_thread(os.read, pipe[0], 65_536))
    await asyncio.gather(waiting, *answers)


async def test_a_message_that_was_begun_is_written_to_its_end(pipe: tuple[int, int]) -> None:
    writer = MessageWriter(pipe[1], nobody)
    big = asyncio.create_task(writer.send(note("y" * 500_000)))
    got = await asyncio.to_thread(os.read, pipe[0], 1)  # it was begun
    big.cancel()
    await asyncio.gather(big, return_exceptions=True)
    after = asyncio.create_task(writer.send(note("z")))
    expected = line("y" * 500_000) + line("z")
    while len(got) < len(expected):
        got += await asyncio.to_thread(os.read, pipe[0], 65_536)
    assert got == expected
    await after
    await writer.aclose()
    with pytest.raises(anyio.ClosedResourceError):
        await writer.send(note("late"))


async def test_nobody_reads_what_is_written(pipe: tuple[int, int]) -> None:
    told: list[bool] = []
    writer = MessageWriter(pipe[1], lambda: told.append(True))
    close(pipe[0])
    for text in ("z", "y" * 500_000):
        with pytest.raises(anyio.BrokenResourceError):
            await writer.send(note(text))
    assert told == [True, True]
