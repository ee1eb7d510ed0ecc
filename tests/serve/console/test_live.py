"""An open page hears of each change, and of nothing else."""

from __future__ import annotations

import asyncio
import itertools
import sqlite3
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

import pytest

from toolcrib.record.connection import Where
from toolcrib.record.sqlite import open_file
from toolcrib.serve.console import live
from toolcrib.serve.console.live import RecordWatch

from ...locks import locks_of

CHANGED = "data: changed\n\n"


async def next_of(stream: object) -> str:
    async with asyncio.timeout(60):
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
    record.with_name("record.db-wal").touch()  # what opening a record makes
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


async def test_so_many_pages_hear_of_changes_and_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live, "MAX_PAGES", 2)
    watch = RecordWatch(list, poll=0.005)
    streams = [watch.events() for _ in range(2)]
    for stream in streams:
        assert not watch.is_full
        await next_of(stream)
    assert watch.is_full
    await streams[0].aclose()
    assert not watch.is_full
    await streams[1].aclose()


async def test_looking_at_a_record_drops_no_lock_of_this_process(tmp_path: Path) -> None:
    record = tmp_path / "record.db"
    with closing(open_file(record, durable=False, timeout=1)) as writer:
        watch = RecordWatch(lambda: [record])
        before = locks_of(record)
        assert before
        for n in range(3):
            watch._state()  # pyright: ignore[reportPrivateUsage]
            assert locks_of(record) == before
            writer.execute(f"CREATE TABLE t{n} (x)")
        watch.close()
        assert locks_of(record) == before


async def test_a_record_that_is_replaced_is_watched_on(tmp_path: Path) -> None:
    record, other = tmp_path / "record.db", tmp_path / "other.db"
    for path in (record, other):
        open_file(path, durable=False, timeout=1).close()
    watch = RecordWatch(lambda: [record])
    seen = [watch._state()]  # pyright: ignore[reportPrivateUsage]
    for replaced in (False, True):
        if replaced:
            other.rename(record)
        with closing(sqlite3.connect(record)) as writer, writer:
            writer.execute("CREATE TABLE t (x)")
        seen += [watch._state(), watch._state()]  # pyright: ignore[reportPrivateUsage]
    record.unlink()
    seen += [watch._state(), watch._state()]  # pyright: ignore[reportPrivateUsage]
    watch.close()
    assert [a == b for a, b in itertools.pairwise(seen)] == [False, True] * 3


async def test_a_change_is_heard_of_when_it_can_be_seen_and_not_before(tmp_path: Path) -> None:
    record = tmp_path / "record.db"
    with closing(sqlite3.connect(record, isolation_level=None, check_same_thread=False)) as writer:
        writer.execute("PRAGMA journal_mode = WAL")
        writer.execute("PRAGMA cache_spill = 1")
        writer.execute("PRAGMA cache_size = 1")
        writer.execute("CREATE TABLE t (x)")
        watch = RecordWatch(lambda: [record], poll=0.005)
        stream = watch.events()
        await next_of(stream)
        assert await next_of(stream) == CHANGED
        writer.execute("INSERT INTO t VALUES (1)")  # the first change opens the record
        assert await next_of(stream) == CHANGED
        size = record.with_name("record.db-wal").stat().st_size
        writer.execute("BEGIN")
        writer.executemany("INSERT INTO t VALUES (?)", [(bytes(3_000),)] * 200)
        assert record.with_name("record.db-wal").stat().st_size > size  # the log has grown already
        heard = asyncio.create_task(next_of(stream))
        await asyncio.sleep(0.1)
        assert not heard.done()
        writer.execute("COMMIT")
        assert await heard == CHANGED
        await stream.aclose()
        watch.close()
