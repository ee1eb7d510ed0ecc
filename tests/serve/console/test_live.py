"""An open page hears of each change, and of nothing else."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path

import pytest

from toolcrib.record.connection import Where
from toolcrib.serve.console import live
from toolcrib.serve.console.live import RecordWatch

CHANGED = "data: changed\n\n"


async def next_of(stream: object) -> str:
    async with asyncio.timeout(20):
        return await anext(stream)  # type: ignore[call-overload]


async def test_a_change_before_the_first_look_is_heard_of(tmp_path: Path) -> None:
    watch = RecordWatch(list, poll=0.005)
    stream = watch.events()
    assert "data: connected" in await next_of(stream)
    assert await next_of(stream) == CHANGED
    await stream.aclose()


async def test_each_page_hears_of_a_change_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live, "BEAT_SECONDS", 0.2)
    record = tmp_path / "record.db"
    record.write_text("1")
    watch = RecordWatch(lambda: [record], poll=0.005)
    first = watch.events()
    assert "connected" in await next_of(first)
    assert await next_of(first) == CHANGED
    second = watch.events()
    assert "connected" in await next_of(second)
    heard = [asyncio.create_task(next_of(each)) for each in (first, second)]
    await asyncio.sleep(0)
    record.write_text("12")
    assert await asyncio.gather(*heard) == [CHANGED, CHANGED]
    record.with_name("record.db-wal").touch()  # what opening and closing a record leaves
    assert await next_of(first) == ": still here\n\n"
    watch.close()
    for stream in (first, second):
        await stream.aclose()


async def test_it_looks_only_while_a_page_is_open(tmp_path: Path) -> None:
    looks: list[int] = []

    def records() -> Sequence[Where]:
        looks.append(1)
        return []

    watch = RecordWatch(records, poll=0.001)
    stream = watch.events()
    await next_of(stream)
    await next_of(stream)
    await stream.aclose()
    await asyncio.sleep(0.02)
    seen = len(looks)
    await asyncio.sleep(0.02)
    assert len(looks) == seen > 0
