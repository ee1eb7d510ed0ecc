"""The record at a million calls: what a call costs, what it takes on disk, how long questions take.

    python benchmarks/record.py                 # a million calls, about five minutes and 500 MB in --folder
    python benchmarks/record.py --calls 100000  # a tenth
    python benchmarks/record.py --json FILE     # and the raw figures
    python benchmarks/record.py --url postgresql://…  # on an empty Postgres database; its own CPU time is not counted

A third of the calls have effects, so an intent row; 40 tools, 2,000 sessions, arguments of 20 to 400 characters, 3 %
refused or failed. Appending is CPU time of the whole process, writer and checkpoints included; rows are written in
groups of 200, as the writer does at 5,000 calls a second. Questions are wall time; cold means a fresh connection and
a file that the system was told to drop from its cache.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import gc
import json
import os
import platform
import random
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from toolcrib.core.call import Call
from toolcrib.core.interfaces import Grant
from toolcrib.core.context import ToolContext
from toolcrib.core.events import CallFinished
from toolcrib.core.output import ToolOutput
from toolcrib.core.tool import tool
from toolcrib.record import chain, retention
from toolcrib.record.audit import Audit
from toolcrib.record.database import connect
from toolcrib.record.settings import RecordSettings

GROUP = 200
START = 1_767_225_600.0  # 1 January 2026; the calls are spread over the year after it
YEAR = 365 * 86_400.0
WORDS = "src tests docs build the of file module error value index record limit path name main state user query".split()


def tools() -> list[Any]:
    """13 with effects, 27 without; every third call goes to one of the first."""

    async def work() -> str:
        """Work."""
        return "done"

    kinds = [("filesystem_write", "write"), ("shell", "exec"), ("network_write", "post")]
    effects = [tool(work, name=f"{kinds[n % 3][1]}_{n}", category=kinds[n % 3][0]) for n in range(13)]
    return [*effects, *(tool(work, name=f"read_{n}", category="filesystem_read", read_only=True) for n in range(27))]


def arguments(rng: random.Random) -> str:
    """JSON of 20 to 400 characters, most of them short."""
    words = " ".join(rng.choices(WORDS, k=min(60, int(rng.expovariate(1 / 12)) + 1)))
    return json.dumps({"path": f"src/{rng.choice(WORDS)}/{rng.randrange(10_000)}.py", "text": words})


class Load:
    """Makes calls and hands them to the record as the pipeline does."""

    def __init__(self, audit: Audit, count: int) -> None:
        self.audit, self.count, self.rng = audit, count, random.Random(1)
        self.tools = tools()
        self.outputs = [ToolOutput("x" * n) for n in (10, 200, 3_000)]
        self.failed = ToolOutput.error("Error executing exec: no such file: src/main.py", "exception")
        self.grant = Grant("mode:assistant")

    def calls(self, first: int, count: int, effects: bool | None = None) -> list[tuple[bool, Any, Call, Any]]:
        """So many calls, made before the clock runs."""
        made: list[tuple[bool, Any, Call, Any]] = []
        for n in range(first, first + count):
            has = n % 3 == 0 if effects is None else effects
            used = self.rng.choice(self.tools[:13] if has else self.tools[13:])
            text, session = arguments(self.rng), f"session-{self.rng.randrange(2_000):04d}"
            output = self.failed if self.rng.random() < 0.03 else self.rng.choice(self.outputs)
            request = Call(f"call_1f3a9c{n:09x}", used, text, ToolContext(session_id=session, channel="mcp"))
            event = CallFinished(
                request.call_id, used.name, used.category, text, session, START + n * YEAR / self.count, 0.0123,
                output, "allow", "mode:assistant", None, "mcp",
            )  # fmt: skip
            made.append((has, used, request, event))
        return made

    async def append(self, calls: list[tuple[bool, Any, Call, Any]]) -> tuple[float, float]:
        """CPU seconds and seconds it took to record them, one after the other."""
        audit, grant = self.audit, self.grant
        begun, started = time.process_time(), time.perf_counter()
        for number, (has, _, request, event) in enumerate(calls):
            if has and (waits := audit.intent(request, grant)) is not None:
                await waits
            audit.listen(event)
            if number % GROUP == GROUP - 1:
                audit.flush()
        audit.flush()
        return time.process_time() - begun, time.perf_counter() - started


def alone_of(count: int) -> int:
    """Calls of one kind in each of the 20 turns in which it is measured alone."""
    return min(2_000, max(100, count // 25))


async def fill(path: Path | str, count: int) -> dict[str, Any]:
    """A record of so many calls; CPU microseconds a call, in slices of a hundredth."""
    audit = Audit(path)
    load, times = Load(audit, count), []
    slice_ = max(1, count // 100)
    for first in range(0, count, slice_):
        calls = load.calls(first, slice_)
        gc.collect()
        times.append((await load.append(calls))[0] / len(calls) * 1e6)
    alone: dict[str, list[float]] = {"read-only": [], "with an intent": []}
    wall: dict[str, list[float]] = {"read-only": [], "with an intent": []}
    for turn in range(20):
        for kind, effects in (("read-only", False), ("with an intent", True)):
            calls = load.calls(count + (turn * 2 + effects) * alone_of(count), alone_of(count), effects)
            gc.collect()
            cpu, seconds = await load.append(calls)
            alone[kind].append(cpu / len(calls) * 1e6)
            wall[kind].append(seconds / len(calls) * 1e6)
    audit.close()
    return {"slices_us": times, "alone_us": alone, "wall_us": wall}


def drop_cache(path: Path | str) -> None:
    for name in (path, Path(f"{path}-wal")):
        if name.exists():
            fd = os.open(name, os.O_RDONLY)
            os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
            os.close(fd)


def questions(count: int) -> dict[str, Callable[[random.Random], dict[str, Any]]]:
    def tool_name(rng: random.Random) -> str:
        return rng.choice(tools()).name

    def span(rng: random.Random, share: float) -> dict[str, float]:
        since = START + rng.random() * (1 - share) * YEAR
        return {"since": since, "until": since + share * YEAR}

    return {
        "one tool, within a week": lambda rng: {"tool": tool_name(rng), **span(rng, 7 / 365)},
        "one tool, since a moment": lambda rng: {"tool": tool_name(rng), "since": START + rng.random() * YEAR},
        "one tool, the latest": lambda rng: {"tool": tool_name(rng)},
        "all tools, within a day": lambda rng: span(rng, 1 / 365),
        "one call by its id": lambda rng: {"call_id": f"call_1f3a9c{rng.randrange(count):09x}"},
        "failures, within a week": lambda rng: {"outcome": "exception", **span(rng, 7 / 365)},
        "one session, the latest": lambda rng: {"session_id": f"session-{rng.randrange(2_000):04d}"},
        "arguments with a rare text": lambda rng: {"text": f"/{rng.randrange(10_000)}.py"},
        "one tool, a week, with a text": lambda rng: {
            "tool": tool_name(rng), "text": f"/{rng.randrange(10_000)}.py", **span(rng, 7 / 365),
        },
    }  # fmt: skip


def ask(path: Path | str, count: int) -> dict[str, dict[str, list[float]]]:
    """Milliseconds of each question, warm and cold; 50 rows each."""
    found: dict[str, dict[str, list[float]]] = {}
    for name, question in questions(count).items():
        rng = random.Random(2)
        found[name] = {"warm": [], "cold": []}
        audit = Audit(path)
        audit.query(limit=50, **question(rng))
        for _ in range(10):
            wanted = question(rng)
            begun = time.perf_counter()
            audit.query(limit=50, **wanted)
            found[name]["warm"].append((time.perf_counter() - begun) * 1e3)
        audit.close()
        for _ in range(3 if isinstance(path, Path) else 0):
            drop_cache(path)
            audit = Audit(path)
            wanted = question(rng)
            begun = time.perf_counter()
            audit.query(limit=50, **wanted)
            found[name]["cold"].append((time.perf_counter() - begun) * 1e3)
            audit.close()
    return found


def whole(path: Path | str) -> dict[str, float]:
    """Seconds of what reads or changes all of it."""
    found: dict[str, float] = {}
    connection = connect(path)
    begun = time.perf_counter()
    checked = chain.verify(connection)
    found["verify"] = time.perf_counter() - begun
    assert checked.problem is None, checked
    found["rows"] = checked.rows
    connection.close()
    audit = Audit(path)
    begun = time.perf_counter()
    audit.count("tool")
    found["stats by tool"] = time.perf_counter() - begun
    begun = time.perf_counter()
    exported = sum(1 for _ in audit.rows(kind=None, once=True))
    found["export"] = time.perf_counter() - begun
    found["exported"] = exported
    audit.close()
    begun = time.perf_counter()
    connection = connect(path)
    half = connection.used_bytes() // 2
    connection.close()
    dropped = retention.apply(path, RecordSettings(0, half))
    found["retention, half of it"] = time.perf_counter() - begun
    found["dropped"] = dropped.rows
    connection = connect(path)
    assert chain.verify(connection).problem is None
    connection.close()
    return found


def report(raw: dict[str, Any]) -> None:
    count, filled = raw["calls"], raw["append"]
    print(f"{raw['when']}, Python {raw['python']}, {raw['machine']}, load {raw['load']:.1f}; {count:,} calls\n")
    print("| work | median | worst |\n|---|---|---|")
    alone = filled["alone_us"]
    for name, us in (("a third with an intent", filled["slices_us"]), *alone.items()):
        print(f"| append, CPU per call, {name} | {statistics.median(us):.1f} µs | {max(us):.1f} µs |")
    for name, us in filled["wall_us"].items():
        print(f"| append, one after the other, {name} | {statistics.median(us):.1f} µs | {max(us):.1f} µs |")
    print(f"| size | {raw['bytes'] / 1e6:.0f} MB | {raw['bytes'] / raw['recorded']:.0f} bytes a call |")
    for name, times in raw["questions_ms"].items():
        for state in ("warm", "cold") if times["cold"] else ("warm",):
            print(f"| {name}, {state} | {statistics.median(times[state]):.2f} ms | {max(times[state]):.1f} ms |")
    done = raw["whole_s"]
    print(f"| verify {done['rows']:,} rows | {done['verify']:.1f} s | |")
    print(f"| stats by tool | {done['stats by tool']:.1f} s | |")
    print(f"| export {done['exported']:,} calls | {done['export']:.1f} s | |")
    print(f"| retention drops {done['dropped']:,} rows | {done['retention, half of it']:.1f} s | |")


async def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--calls", type=int, default=1_000_000)
    parser.add_argument("--folder", help="where the file is made; default the system's place for temporary ones")
    parser.add_argument("--url", help="an empty Postgres database to use instead of a file")
    parser.add_argument("--json", help="write the raw figures here")
    options = parser.parse_args()
    raw: dict[str, Any] = {
        "when": time.strftime("%F %T"), "python": platform.python_version(), "load": os.getloadavg()[0],
        "machine": f"{platform.machine()}, {os.cpu_count()} cores", "calls": options.calls,
    }  # fmt: skip
    with tempfile.TemporaryDirectory(dir=options.folder) as folder:
        path = options.url or Path(folder, "record.db")
        raw["append"] = await fill(path, options.calls)
        print(f"appended; load {os.getloadavg()[0]:.1f}", file=sys.stderr)
        raw["recorded"] = options.calls + 40 * alone_of(options.calls)
        with contextlib.closing(connect(path)) as connection:
            raw["bytes"] = connection.used_bytes()
        raw["questions_ms"] = ask(path, options.calls)
        raw["whole_s"] = whole(path)
    report(raw)
    if options.json:
        Path(options.json).write_text(json.dumps(raw, indent=1) + "\n")


if __name__ == "__main__":
    asyncio.run(main())
