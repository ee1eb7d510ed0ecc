"""Measures what has a target against its floor, and fails where a ratio is far above the one in recorded.toml.

    python benchmarks/guard.py                    # `make bench-check`: all rows
    python benchmarks/guard.py exec-text call     # these rows, or the rows of these groups
    python benchmarks/guard.py --record ROW...    # `make bench-record ROW=...`: measure and write these rows' values
    python benchmarks/guard.py --page docs/benchmarks.md    # write the figures of this run into that page, too

A row is ours divided by its floor, both measured in one run, in turns, the smallest of each: what else runs on the
machine only adds. A row fails above its recorded value times its margin: 1.5, or 2 for wall time of processes and for
CPU of calls, or 1.15 for instructions. (With the same instructions CPU differs by up to 1.5 between machines, and
between hours.) The group of a failing row is measured up to twice more and the best counts, so noise does not fail a
build. A row that the machine cannot run (no bubblewrap, no valgrind) is reported as skipped.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
import tomllib
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).resolve().parent
RECORDED = HERE / "recorded.toml"
TRIES = 3
RECORDINGS = 3
CPU, CALL, WALL, COUNT = 1.5, 2.0, 2.0, 1.15
"""Margins: of CPU time and memory; of CPU of a call, each of which has a row of instructions, too; of wall time where other
processes take part; of instructions, which hardly vary."""

Ratios = dict[str, float]


@dataclass(frozen=True)
class Group:
    """Rows that one measurement gives, with their margins. A row that it leaves out was skipped."""

    margins: dict[str, float]
    measure: Callable[[], Ratios]


@dataclass
class Outcome:
    """The best ratio of a row so far; None where it was skipped."""

    row: str
    ratio: float | None
    recorded: float | None
    margin: float

    @property
    def failed(self) -> bool:
        if self.ratio is None:
            return False
        return self.recorded is None or self.ratio > self.recorded * self.margin

    def __str__(self) -> str:
        if self.ratio is None:
            return f"{self.row:24} {'–':>9}   skipped: cannot run here"
        if self.recorded is None:
            return f"{self.row:24} {self.ratio:9.3g}   FAILED: no recorded value; make bench-record ROW={self.row}"
        verdict = "FAILED" if self.failed else "much better: record it" if self.ratio < self.recorded / 2 else ""
        return f"{self.row:24} {self.ratio:9.3g} {self.recorded:9.3g} {self.ratio / self.recorded:8.2f} {self.margin:7g}   {verdict}"


def check(groups: dict[str, Group], recorded: Ratios, wanted: Iterable[str] = ()) -> list[Outcome]:
    """Measure the groups of the wanted rows (default: all), failing ones up to TRIES times, and return the outcomes."""
    outcomes: list[Outcome] = []
    for name, group in groups.items():
        rows = {row: margin for row, margin in group.margins.items() if not wanted or row in wanted or name in wanted}
        if not rows:
            continue
        best: dict[str, float] = {}
        for _ in range(TRIES):
            for row, ratio in group.measure().items():
                best[row] = min(ratio, best.get(row, ratio))
            found = [Outcome(row, best.get(row), recorded.get(row), margin) for row, margin in rows.items()]
            if not any(outcome.failed and outcome.recorded is not None for outcome in found):
                break
        print(*found, sep="\n", flush=True)
        outcomes += found
    return outcomes


def record(groups: dict[str, Group], path: Path, wanted: Iterable[str]) -> None:
    """Write the medians of RECORDINGS measurements of these rows into the file; comments there stay."""
    for name, group in groups.items():
        rows = [row for row in group.margins if row in wanted or name in wanted]
        taken = [group.measure() for _ in range(RECORDINGS)] if rows else []
        for row in rows:
            values = [ratios[row] for ratios in taken if row in ratios]
            if not values:
                print(f"{row}: cannot run here")
                continue
            value = f"{statistics.median(values):.3g}"
            print(f"{row} = {value}   of {', '.join(f'{each:.3g}' for each in values)}", flush=True)
            text = path.read_text()
            line = re.compile(rf"^{re.escape(row)} = [^#\n]*", re.MULTILINE)
            text = line.sub(f"{row} = {value}  ", text) if line.search(text) else f"{text}{row} = {value}\n"
            path.write_text(re.sub(r" +$", "", text, flags=re.MULTILINE))


# --- in one process: imports and calls


def imports() -> Ratios:
    import per_call

    raw: dict = {}
    per_call.imports(raw)
    return {"import": _least(raw["import_ms"], "ours", "floor")}


def calls() -> Ratios:
    import per_call

    per_call.ROUNDS, raw = 25, {}
    asyncio.run(per_call.per_call(raw))
    times = raw["per_call_us"]
    return {
        "call": _least(times, "ours flat", "floor flat"),
        "call-60-rules": _least(times, "ruled flat", "floor flat"),
        "call-rule-by-argument": _least(times, "by argument flat", "floor flat"),
        "call-nested": _least(times, "ours nested", "floor nested"),
        "call-bad-arguments": _least(times, "ours bad", "floor bad"),
    }


def toolbox() -> Ratios:
    import per_call

    per_call.ROUNDS, raw = 25, {}
    before = {name: os.environ.get(name) for name in ("XDG_STATE_HOME", "XDG_CONFIG_HOME")}
    asyncio.run(per_call.recorded(raw))
    for name, value in before.items():
        os.environ.pop(name) if value is None else os.environ.update({name: value})
    times = raw["recorded_us"]
    return {
        "toolbox-read-only": _least(times, "read-only", "floor"),
        "toolbox-intent": _least(times, "intent", "floor"),
    }


def instructions() -> Ratios:
    import instructions as i

    found = i.run()
    if not found:
        return {}
    return {
        "instructions-call": found["ours", "flat"] / found["floor", "flat"],
        "instructions-60-rules": found["60-rules", "flat"] / found["floor", "flat"],
        "instructions-rule-by-argument": found["rule-by-argument", "flat"] / found["floor", "flat"],
        "instructions-nested": found["ours", "nested"] / found["floor", "nested"],
        "instructions-bad-arguments": found["ours", "bad"] / found["floor", "bad"],
        "instructions-read-only": found["toolbox", "read-only"] / found["floor", "flat"],
        "instructions-intent": found["toolbox", "intent"] / found["floor", "flat"],
    }


def concurrent() -> Ratios:
    import per_call

    raw: dict = {}
    asyncio.run(per_call.concurrent(raw))
    return {"concurrent-1000": _least(raw["concurrent_ms"], "ours", "floor")}


def many_tools() -> Ratios:
    import per_call

    per_call.ROUNDS, raw = 25, {}
    asyncio.run(per_call.many_tools(raw))
    times = raw["many_tools_ms"]
    return {
        "many-call": _least(raw["many_tools_us"], "at 10,000", "at 10"),
        "many-unknown-characters": float(raw["unknown_characters"]),
        "many-register": _least(times, "define", "floor define"),
        "many-list-again": 1 + _least(times, "again", "floor copy"),
        "many-index": _least(times, "index", "floor dump"),
        "many-search": _least(times, "search", "floor scan"),
    }


def _least(times: dict[str, list[float]], ours: str, floor: str) -> float:
    return min(times[ours]) / min(times[floor])


# --- processes: the command, the built-in tools, servers


def command() -> Ratios:
    import startup

    with tempfile.TemporaryDirectory() as folder:
        rows, full = startup.bounded_rows(Path(folder))
        found = startup.measure(rows, full, rounds=5)
    cpu = {name: [value[1] for value in values] for name, values in found.items()}
    return {
        "command-list": _least(cpu, startup.LIST, startup.PYDANTIC),
        "command-call": _least(cpu, startup.CALL, startup.PYDANTIC),
        "first-calls": _least(cpu, startup.FIRST, startup.PYDANTIC),
    }


class Column:
    """A process of f_worker.py that does one operation at a time, so that columns take turns."""

    def __init__(self, name: str, env: dict[str, str]) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-W", "ignore", str(HERE / "f_worker.py"), name, "-"],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=env, text=True,
        )  # fmt: skip

    def ask(self, operation: str) -> dict:
        """The measured operation. Raises RuntimeError where it failed, or its answer was not the right one."""
        assert self.process.stdin is not None and self.process.stdout is not None
        self.process.stdin.write(f"{operation}\n")
        self.process.stdin.flush()
        line = self.process.stdout.readline()
        answer = json.loads(line) if line else {"error": "the process ended"}
        if "error" in answer or not answer.get("valid", True):
            raise RuntimeError(f"{operation}: {answer}")
        return answer

    def close(self) -> None:
        assert self.process.stdin is not None and self.process.stdout is not None
        self.process.stdin.close()
        self.process.wait(30)
        self.process.stdout.close()


def tools(rows: dict[str, tuple[str, str, str, int]], memory: dict[str, str], prepare: str = "") -> Ratios:
    """Rows of (operation, our column, floor's column, rounds), in turns; `memory` names rows of the peak of another."""
    names = {column for _, ours, floor, _ in rows.values() for column in (ours, floor)}
    with tempfile.TemporaryDirectory(prefix="bench-") as home, tempfile.TemporaryDirectory() as scratch:
        path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"  # the same ripgrep as ours
        env = {**os.environ, "PEERBENCH_HOME": home, "PATH": path, "TMPDIR": scratch}  # the columns leave folders there
        if prepare:
            subprocess.run(
                [sys.executable, "-c", f"import f_worker; f_worker.{prepare}()"], cwd=HERE, env=env, check=True
            )
        columns = {name: Column(name, env) for name in names}
        try:
            return _in_turns(rows, columns, memory)
        finally:
            for column in columns.values():
                column.close()


def _in_turns(rows: dict[str, tuple[str, str, str, int]], columns: dict[str, Column], memory: dict[str, str]) -> Ratios:
    ratios: Ratios = {}
    for row, (operation, ours, floor, rounds) in rows.items():
        answers: dict[str, list[dict]] = {floor: [], ours: []}
        for _ in range(rounds):
            for name, found in answers.items():
                found.append(columns[name].ask(operation))
        times = {name: [each.get("least_ms", each["ms"]) for each in found] for name, found in answers.items()}
        ratios[row] = _least(times, ours, floor)
        if row in memory:
            ratios[memory[row]] = min(each["peak_mb"] for each in answers[ours])
    return ratios


def files() -> Ratios:
    rows = {
        "read-200mb": ("read200", "ours-none", "limit-C", 7),
        "read-90mb": ("read90", "ours-none", "limit-C", 7),
        "grep": ("grep", "ours-none", "limit-C", 7),
        "glob": ("glob", "ours-none", "limit-C", 7),
        "edit": ("edit_ok", "ours-none", "limit-C", 40),  # it waits for the disk, which is seldom idle
        "edit-miss": ("edit_miss", "ours-none", "limit-C", 9),
    }
    return tools(rows, {"read-200mb": "read-200mb-megabytes"}, prepare="prep")


def commands() -> Ratios:
    rows = {
        "exec": ("exec_true", "ours-none", "limit-C", 5),
        "exec-text": ("exec_text", "ours-none", "limit-C", 3),
        "exec-letters": ("exec_500mb", "ours-none", "limit-C", 3),
    }
    return tools(rows, {"exec-text": "exec-text-megabytes", "exec-letters": "exec-letters-megabytes"})


def sandboxed() -> Ratios:
    from f_worker import BWRAP

    if shutil.which("bwrap") is None or subprocess.run([*BWRAP, "true"], capture_output=True).returncode:
        return {}
    return tools({"exec-bubblewrap": ("exec_true", "ours", "limit-bwrap", 7)}, {})


def gateway() -> Ratios:
    import gateway as g

    with tempfile.TemporaryDirectory() as folder:
        ways = g.ways(Path(folder), None, [], "assistant")
        rows = g.running(ways, g.Pipes, "2025", rounds=4)
        starts = {way.name: min(g.first_call(way, "2025")[0] for _ in range(3)) for way in ways}
    ours, direct = rows["toolcrib"], rows["direct"]
    return {
        "gateway-latency": min(ours.latencies) / min(direct.latencies),
        "gateway-cpu": min(ours.cpu[1]) / min(direct.cpu[1]),
        "gateway-cpu-16": min(ours.cpu[16]) / min(direct.cpu[16]),
        "gateway-cpu-64": min(ours.cpu[64]) / min(direct.cpu[64]),
        "gateway-first-call": starts["toolcrib"] / starts["direct"],
        "gateway-memory": ours.memory[0] / direct.memory[0],
    }


def server() -> Ratios:
    import mcp_server as m

    stdio: dict[str, list[float]] = {"ours": [], "floor": []}
    http: dict[str, list[float]] = {"ours": [], "floor": []}
    for _ in range(3):
        for name, pipes, app in (("floor", m.LOW, m.LOW_HTTP), ("ours", m.OURS_BOX, m.BOX_HTTP)):
            stdio[name].append(m.run(pipes, "2025", 800)[0])
            http[name].append(m.run_http(app, "2025", 400)[0])
    return {"server-stdio": _least(stdio, "ours", "floor"), "server-http": _least(http, "ours", "floor")}


def agent() -> Ratios:
    import agent_start
    import agent_turn

    turns = {row["wire"]: row["turn_ms"] / row["transport_ms"] for row in agent_turn.run(60)}
    start = agent_start.run(6)
    return {
        **{f"agent-turn-{wire}": turns[wire] for wire in ("chat", "anthropic", "responses")},
        "agent-start": start["turn"]["cpu"] / start["floor"]["cpu"],
    }


def jobs() -> Ratios:
    import jobs as j

    with tempfile.TemporaryDirectory() as folder:
        cost = {"ours": list[float](), "bare": list[float]()}
        for number in range(3):
            for name, times in cost.items():
                times.append(j.child(name, f"sqlite:///{folder}/{name}{number}.db", 150)["cpu_ms"])
    return {"jobs": _least(cost, "ours", "bare")}


def scripts() -> Ratios:
    import code_mode

    with tempfile.TemporaryDirectory() as folder:
        (work := Path(folder, "work")).mkdir()
        took, _ = asyncio.run(code_mode.reads(work))
    return {"script-reads": _least(took, "script", "direct")}


GROUPS = {
    "imports": Group({"import": CPU}, imports),
    "calls": Group(
        dict.fromkeys(("call", "call-60-rules", "call-rule-by-argument", "call-nested", "call-bad-arguments"), CALL),
        calls,
    ),
    "toolbox": Group({"toolbox-read-only": CALL, "toolbox-intent": CALL}, toolbox),
    "instructions": Group(
        dict.fromkeys(
            ("instructions-call", "instructions-60-rules", "instructions-rule-by-argument", "instructions-nested",
             "instructions-bad-arguments", "instructions-read-only", "instructions-intent"),
            COUNT,
        ),
        instructions,
    ),
    "concurrent": Group({"concurrent-1000": CPU}, concurrent),
    "many": Group(
        {
            "many-call": CPU, "many-unknown-characters": CPU, "many-register": CPU, "many-list-again": CPU,
            "many-index": CPU, "many-search": CPU,
        },
        many_tools,
    ),
    "command": Group(dict.fromkeys(("command-list", "command-call", "first-calls"), CPU), command),
    "files": Group(
        {
            "read-200mb": CPU, "read-200mb-megabytes": CPU, "read-90mb": CPU, "grep": WALL, "glob": WALL,
            "edit": CPU, "edit-miss": CPU,
        },
        files,
    ),
    "commands": Group(
        {
            "exec": WALL, "exec-text": WALL, "exec-text-megabytes": CPU, "exec-letters": WALL,
            "exec-letters-megabytes": CPU,
        },
        commands,
    ),
    "sandbox": Group({"exec-bubblewrap": WALL}, sandboxed),
    "gateway": Group(
        {
            "gateway-latency": WALL, "gateway-cpu": CPU, "gateway-cpu-16": CPU, "gateway-cpu-64": CPU,
            "gateway-first-call": WALL, "gateway-memory": CPU,
        },
        gateway,
    ),
    "server": Group({"server-stdio": CPU, "server-http": CPU}, server),
    "agent": Group(
        dict.fromkeys(("agent-turn-chat", "agent-turn-anthropic", "agent-turn-responses", "agent-start"), CPU), agent
    ),
    "jobs": Group({"jobs": CPU}, jobs),
    "scripts": Group({"script-reads": WALL}, scripts),
}  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("rows", nargs="*", metavar="ROW", help="a row or a group of rows")
    parser.add_argument("--record", action="store_true", help="write what these rows measure into recorded.toml")
    parser.add_argument(
        "--page", type=Path, help="write the figures into the tables of this page, and draw its picture"
    )
    options = parser.parse_args()
    known = {*GROUPS, *(row for group in GROUPS.values() for row in group.margins)}
    if unknown := [row for row in options.rows if row not in known]:
        parser.error(f"unknown: {', '.join(unknown)}; rows and groups: {', '.join(sorted(known))}")
    if options.page and options.rows:
        parser.error("the figures of a page are those of one whole run: name no rows")
    if options.record:
        if not options.rows:
            parser.error("name the rows to record")
        record(GROUPS, RECORDED, options.rows)
        return
    began, load = time.monotonic(), os.getloadavg()[0]
    print(f"load {load:.1f}, {os.cpu_count()} cores")
    print(f"{'ours : floor':24} {'measured':>9} {'recorded':>9} {'quotient':>8} {'at most':>7}")
    outcomes = check(GROUPS, tomllib.loads(RECORDED.read_text()), options.rows)
    failed = [outcome.row for outcome in outcomes if outcome.failed]
    if options.page:
        import page

        page.write(options.page, {each.row: each.ratio for each in outcomes if each.ratio is not None}, load)
    print(
        f"{len(outcomes)} rows in {time.monotonic() - began:.0f} s: {', '.join(failed) + ' FAILED' if failed else 'no row is far above its recorded value'}"
    )
    if failed:
        print(
            "Is it meant? Then record it: make bench-record ROW='" + " ".join(failed) + "', and say why in the commit."
        )
        sys.exit(1)


if __name__ == "__main__":
    sys.path.insert(0, str(HERE))
    main()
