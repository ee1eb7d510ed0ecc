"""The per-call rows of the targets: our column and floor-pydantic, taking turns in one process. No peer is needed.

    python benchmarks/per_call.py              # a table; about half a minute
    python benchmarks/per_call.py --json FILE  # and the raw figures
    ROUNDS=200 python benchmarks/per_call.py   # more rounds on a busy machine (default 60)

Ratios are medians of CPU time, floor and ours measured in the same rounds. CPU time counts every thread of the
process, so the record's writer is in it. Import time is that of fresh processes, taking turns.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

import workload as W
from adapters.floor import FloorPydantic
from adapters.ours import Ours
from adapters.ruled import Ruled, RuledByArgument

ROUNDS = int(os.environ.get("ROUNDS", "60"))
GROUP = 200  # recorded calls a turn: the record writes as many at once when calls follow one another, every 40 ms
SLICE = 0.004  # seconds of CPU time a turn: short, so that most turns are not preempted


class Row:
    """One line of the table: what was measured, the figure, the target and its unit."""

    def __init__(self, work: str, value: float | None, target: float | None, unit: str, note: str = "") -> None:
        self.work, self.value, self.target, self.unit, self.note = work, value, target, unit, note

    def __str__(self) -> str:
        def show(x: float) -> str:
            text = f"{x:,.0f}" if x >= 100 else f"{x:.2f}" if x < 10 else f"{x:.1f}"
            return f"{text} {self.unit}"

        value = "–" if self.value is None else show(self.value)
        if self.target is None:
            return f"| {self.work} | {value} | none | | {self.note} |"
        met = "not built yet" if self.value is None else "met" if self.value <= self.target else "NOT met"
        return f"| {self.work} | {value} | ≤ {show(self.target)} | {met} | {self.note} |"


async def cpu_per_call(calls: dict, after=lambda: None, least: int = 5) -> dict[str, list[float]]:
    """Microseconds of CPU time a call, for each of several calls that take turns; `after` ends a turn and counts.
    A turn is `least` calls or SLICE, whichever is more."""
    counts, times = {}, {name: [] for name in calls}
    for name, call in calls.items():
        for _ in range(30):
            await call()
        start = time.process_time()
        for _ in range(50):
            await call()
        counts[name] = max(least, int(SLICE / max(1e-7, (time.process_time() - start) / 50)))
    for _ in range(ROUNDS):
        for name, call in calls.items():
            gc.collect()
            n = counts[name]
            start = time.process_time()
            for _ in range(n):
                await call()
            after()
            times[name].append((time.process_time() - start) / n * 1e6)
            await asyncio.sleep(0)  # calls that never wait leave the loop no time for anything else
    return times


def ratio(times: dict[str, list[float]], name: str, floor: str) -> float:
    return statistics.median(times[name]) / statistics.median(times[floor])


async def columns() -> tuple[FloorPydantic, Ours, Ours, Ours]:
    made = FloorPydantic(), Ours(), Ruled(), RuledByArgument()
    for column in made:
        tools = [
            column.define(W.make_noop("noop")),
            column.define(W.make_nested("nested"), "nested"),
            column.define(W.make_sleep("sleep10")),
        ]
        await column.start(column.registry(tools))
    return made


def check(floor: FloorPydantic, ours: Ours, outputs: list) -> None:
    """The figures are worth nothing if the calls did not do what they should."""
    good, nested, bad = (ours.text(output) for output in outputs)
    assert (good, nested) == ("ok", "ok"), (good, nested)
    assert "limit" in bad and "mode" in bad, bad


async def per_call(raw: dict) -> list[Row]:
    floor, ours, ruled, by_argument = await columns()
    kinds = {"flat": ("noop", W.ARGS), "nested": ("nested", W.ARGS_NESTED), "bad": ("noop", W.ARGS_BAD)}
    check(floor, ours, [await ours.call(*kind) for kind in kinds.values()])
    calls = {}
    for kind, (name, args) in kinds.items():
        for column, adapter in (("floor", floor), ("ours", ours)):
            calls[f"{column} {kind}"] = lambda a=adapter, n=name, j=args: a.call(n, j)
    for column, adapter in (("ruled", ruled), ("by argument", by_argument)):
        assert ours.text(await adapter.call(*kinds["flat"])) == "ok"
        calls[f"{column} flat"] = lambda a=adapter: a.call(*kinds["flat"])
    times = raw["per_call_us"] = await cpu_per_call(calls)
    us = {name: f"{statistics.median(v):.1f} µs" for name, v in times.items()}
    targets = {"flat": 6.0, "nested": 1.5, "bad": 3.0}
    words = {
        "flat": "one call, registry with a policy (assistant), flat arguments, category memory",
        "nested": "one call, 20 nested objects",
        "bad": "bad arguments → message",
    }
    with_rules = [
        Row(
            text,
            ratio(times, f"{column} flat", "floor flat"),
            target,
            "×",
            f"{us[f'{column} flat']} : {us['floor flat']}",
        )
        for column, text, target in (
            ("ruled", "one call, registry with a policy and 60 rules for other tools", 6.0),
            ("by argument", "the same, and a rule that looks at an argument of this one", None),
        )
    ]
    return with_rules + [
        Row(
            words[k],
            ratio(times, f"ours {k}", f"floor {k}"),
            targets[k],
            "×",
            f"{us[f'ours {k}']} : {us[f'floor {k}']}",
        )
        for k in kinds
    ]


async def recorded(raw: dict) -> list[Row]:
    from toolcrib import Toolbox, tool

    floor = FloorPydantic()
    await floor.start(floor.registry([floor.define(W.make_noop("noop"))]))
    with tempfile.TemporaryDirectory() as folder:
        os.environ["XDG_STATE_HOME"], os.environ["XDG_CONFIG_HOME"] = f"{folder}/state", f"{folder}/config"
        os.mkdir(f"{folder}/ws")
        tools = [
            tool(W.make_noop("reader"), category="filesystem_read"),
            tool(W.make_noop("keeper"), category="memory"),
        ]
        async with Toolbox.open(workspace=f"{folder}/ws", mode="assistant", tools=tools) as box:
            for name in ("reader", "keeper"):
                assert str(await box.call(name, W.ARGS)) == "ok"
            times = raw["recorded_us"] = await cpu_per_call(
                {
                    "floor": lambda: floor.call("noop", W.ARGS),
                    "read-only": lambda: box.call("reader", W.ARGS),
                    "intent": lambda: box.call("keeper", W.ARGS),
                },
                after=box.audit.flush,  # what a turn left belongs to it
                least=GROUP,
            )
    us = {name: f"{statistics.median(v):.1f} µs" for name, v in times.items()}
    return [
        Row(
            f"through a toolbox, record on: {words}",
            ratio(times, name, "floor"),
            target,
            "×",
            f"{us[name]} : {us['floor']}",
        )
        for name, words, target in (("read-only", "read-only", 20.0), ("intent", "with an intent row", 45.0))
    ]


async def concurrent(raw: dict) -> list[Row]:
    floor, ours, ruled, by_argument = await columns()
    calls = [("sleep10", W.ARGS, f"c{i}") for i in range(1000)]
    walls: dict[str, list[float]] = {"floor": [], "ours": []}
    for turn in range(8):
        for name, column in (("floor", floor), ("ours", ours)):
            gc.collect()
            start = time.perf_counter()
            outputs = await column.many(calls)
            if turn:
                walls[name].append((time.perf_counter() - start) * 1e3)
            assert all(column.text(output) == "ok" for output in outputs)
    raw["concurrent_ms"] = walls
    floor_ms = statistics.median(walls["floor"])
    return [
        Row(
            "1000 separate concurrent calls of 10 ms (wall)",
            statistics.median(walls["ours"]),
            25.0,
            "ms",
            f"floor {floor_ms:.1f} ms",
        )
    ]


async def many_tools(raw: dict) -> list[Row]:
    """10,000 tools. Floors: the same call at 10 tools, floor-pydantic's own definitions, a plain search through all texts."""
    few, lots, floor = Ours(), Ours(), FloorPydantic()
    await few.start(few.registry([few.define(W.make_noop(f"tool_{i:05d}")) for i in range(10)]))
    functions = [W.make_noop(f"tool_{i:05d}") for i in range(10_000)]
    floor_define = _cpu_ms(lambda: [floor.define(fn) for fn in functions[:500]]) * len(functions) / 500
    start = time.process_time()
    await lots.start(lots.registry([lots.define(fn) for fn in functions]))
    define = (time.process_time() - start) * 1e3
    definitions = lots.schemas(lots.reg)
    times = raw["many_tools_us"] = await cpu_per_call(
        {"at 10": lambda: few.call("tool_00007", W.ARGS), "at 10,000": lambda: lots.call("tool_07777", W.ARGS)}
    )
    again = min(_cpu_ms(lambda: lots.schemas(lots.reg)) for _ in range(10))
    start = time.perf_counter()
    unknown = lots.text(await lots.call("tool_0xyz", W.ARGS))
    took = (time.perf_counter() - start) * 1e3
    index = _cpu_ms(lambda: lots.reg.search("list entries below a path tool_00042", 10))
    texts = [json.dumps(definition) for definition in definitions]
    each, scans = [], []
    for number in range(100):
        each.append(_cpu_ms(lambda: lots.reg.search(f"list the entries below a path {number}", 10)))
        scans.append(_cpu_ms(lambda: [text for text in texts if f"tool_{number:05d}" in text]))
    assert len(lots.reg.search("list the entries below a path 7", 10)) == 10
    raw["many_tools_ms"] = {
        "define": [define], "floor define": [floor_define], "index": [index], "search": each, "floor scan": scans,
        "again": [again], "floor copy": [min(_cpu_ms(lambda: list(definitions)) for _ in range(20))],
        "floor dump": [min(_cpu_ms(lambda: json.dumps(definitions)) for _ in range(5))],
    }  # fmt: skip
    raw["unknown_characters"] = len(unknown)
    return [
        Row(
            "10,000 tools: a call, against the same at 10",
            ratio(times, "at 10,000", "at 10"),
            1.1,
            "×",
            "1.1 means “as at 10”",
        ),
        Row(
            "10,000 tools: unknown name, length of the answer",
            float(len(unknown)),
            500.0,
            "characters",
            f"in {took:.1f} ms",
        ),
        Row("10,000 tools: make and register", define / 1e3, None, "s", f"floor {floor_define / 1e3:.1f} s"),
        Row("10,000 tools: list again", again, 1.0, "ms"),
        Row("10,000 tools: index, at the first search", index, 150.0, "ms"),
        Row("10,000 tools: search", statistics.median(each), 5.0, "ms", f"slowest {max(each):.1f} ms"),
    ]


def _cpu_ms(work) -> float:
    """Milliseconds of CPU time that one run of `work` takes."""
    start = time.process_time()
    work()
    return (time.process_time() - start) * 1e3


def imports(raw: dict) -> list[Row]:
    code = "import time;t=time.process_time()\n{}\nprint(time.process_time()-t)"
    statements = {"floor": FloorPydantic.IMPORT, "ours": Ours.IMPORT}
    times: dict[str, list[float]] = {name: [] for name in statements}
    compiled = {**os.environ, "PYTHONDONTWRITEBYTECODE": ""}  # else a fresh clone compiles all modules in each turn
    for turn in range(16):
        for name, statement in statements.items():
            command = [sys.executable, "-W", "ignore", "-c", code.format(statement)]
            said = subprocess.run(command, capture_output=True, text=True, check=True, env=compiled).stdout
            if turn:
                times[name].append(float(said) * 1e3)
    raw["import_ms"] = times
    ms = {name: f"{statistics.median(v):.1f} ms" for name, v in times.items()}
    return [Row(f"`{Ours.IMPORT}`", ratio(times, "ours", "floor"), 1.5, "×", f"{ms['ours']} : {ms['floor']}")]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", help="write the raw figures here")
    options = parser.parse_args()
    raw: dict = {
        "when": time.strftime("%F %T"),
        "python": platform.python_version(),
        "machine": f"{platform.machine()}, {os.cpu_count()} cores",
        "load": os.getloadavg()[0],
        "rounds": ROUNDS,
    }
    print(f"{raw['when']}, Python {raw['python']}, {raw['machine']}, load {raw['load']:.1f}, {ROUNDS} rounds\n")
    print("| work | measured | target | | ours : floor-pydantic |\n|---|---|---|---|---|", flush=True)
    rows = imports(raw)
    print(*rows, sep="\n", flush=True)
    for measure in (per_call, recorded, concurrent, many_tools):
        try:
            found = asyncio.run(measure(raw))
        except Exception as error:
            print(f"| {measure.__name__} | failed: {type(error).__name__}: {error} | | | |", flush=True)
            raw.setdefault("failed", []).append(measure.__name__)
            continue
        rows += found
        print(*found, sep="\n", flush=True)
    if options.json:
        raw["rows"] = [vars(row) for row in rows]
        Path(options.json).write_text(json.dumps(raw, indent=1) + "\n")
    sys.exit(1 if raw.get("failed") else 0)


if __name__ == "__main__":
    main()
