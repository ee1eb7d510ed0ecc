"""How cost grows: with tools, calls at once, output, rows in the record, files, and MCP servers.

    python benchmarks/growth.py                       # all, about 30 minutes and 6 GB in --folder
    python benchmarks/growth.py tools output          # these
    python benchmarks/growth.py --svg docs/growth.svg # and a picture of them

Each point is a process of its own (rows: one process that goes on filling). The exponent of a line is that of the power
of n that joins its last points: 0 is constant, 1 is linear. A line whose exponent is above 1.15 is said to be worse than
linear, and the script fails. CPU time, except for output and files, where other processes do the work.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import math
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from html import escape
from pathlib import Path

Point = dict[str, float]
"""The values at one n, by the name of the line, with its unit."""
WORSE = 1.15


def cpu() -> float:
    return time.process_time()


def megabytes() -> float:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6


def box(folder: Path, **more: object) -> object:
    from toolcrib import Toolbox

    os.environ["XDG_STATE_HOME"] = str(folder / "state")
    (folder / "work").mkdir(exist_ok=True)
    return Toolbox.open(folder / "work", **more)


# --- what grows


def tools(n: int, folder: Path) -> Iterator[Point]:
    from toolcrib import Tool

    schema = {"type": "object", "properties": {"path": {"type": "string"}, "limit": {"type": "integer"}},
              "required": ["path"], "additionalProperties": False}  # fmt: skip

    def work(args: dict[str, object], /) -> str:
        return "done"

    async def run() -> Point:
        async with box(folder) as opened:
            before, began = megabytes(), cpu()
            for number in range(n):
                opened.registry.register(Tool.from_schema(f"tool_{number}", f"Does thing {number}.", schema, work,
                                                          category="memory"))  # fmt: skip
            register = cpu() - began
            opened.search("thing to do", 5)  # builds the index
            used, began = megabytes() - before, cpu()
            for _ in range(5):
                opened.search("thing to do", 5)
            search, began = (cpu() - began) / 5, cpu()
            for number in range(1_000):
                await opened.call(f"tool_{number * 7919 % n}", {"path": "a", "limit": 1})
            return {"call, µs": (cpu() - began) * 1e3, "register, µs": register / n * 1e6,
                    "search, ms": search * 1e3, "memory, MB": used}  # fmt: skip

    yield asyncio.run(run())


def calls(n: int, folder: Path) -> Iterator[Point]:
    from toolcrib import tool

    async def run() -> Point:
        @tool(category="memory")
        async def rest() -> str:
            """Rest."""
            await asyncio.sleep(0.01)
            return "done"

        async with box(folder, tools=[rest]) as opened:
            await opened.call("rest")
            before, began, start = megabytes(), cpu(), time.perf_counter()
            await asyncio.gather(*[opened.call("rest") for _ in range(n)])
            return {"one of them, µs": (cpu() - began) / n * 1e6,
                    "all, ms": (time.perf_counter() - start) * 1e3, "memory, MB": megabytes() - before}  # fmt: skip

    yield asyncio.run(run())


def output(n: int, folder: Path) -> Iterator[Point]:
    async def run() -> Point:
        async with box(folder) as opened:
            await opened.call("exec", {"command": "true"})
            before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3
            start = time.perf_counter()
            out = await opened.call(
                "exec", {"command": f"yes 'a line of text with words' | head -c {n}", "timeout": 600}
            )
            assert not out.is_error, out.for_llm[-300:]
            used = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3 - before
            return {"exec, ms": (time.perf_counter() - start) * 1e3, "memory, MB": used}

    yield asyncio.run(run())


def rows(n: int, folder: Path) -> Iterator[Point]:
    """Fill one record to 10 ** k rows for each k up to n."""
    import record

    from toolcrib.record.audit import Audit

    audit = Audit(folder / "record.db")
    load, made = record.Load(audit, n), 0
    for wanted in (10**k for k in range(3, 1 + round(math.log10(n)))):
        while made < wanted:
            size = min(5_000, wanted - made)
            asyncio.run(load.append(load.calls(made, size)))
            made += size
        began, _ = asyncio.run(load.append(load.calls(made, 900, effects=False)))
        start = cpu()
        for number in range(20):
            audit.query(session_id=f"session-{number:04d}", limit=50)
        query = (cpu() - start) / 20
        size = sum(each.stat().st_size for each in folder.glob("record.db*")) / 1e6
        yield {"append, µs": began / 900 * 1e6, "query, ms": query * 1e3, "on disk, MB": size}
    audit.close()


def files(n: int, folder: Path) -> Iterator[Point]:
    work = folder / "work"
    for number in range(n):
        if number % 1_000 == 0:
            (place := work / f"d{number // 1_000}").mkdir(parents=True)
        (place / f"f{number}.txt").write_text("needle\n" if number % 1_000 == 0 else "hay\n")

    async def run() -> Point:
        async with box(folder) as opened:
            found: Point = {}
            for line, name, arguments in (
                ("glob, ms", "glob", {"pattern": "**/f*9.txt"}), ("grep, ms", "grep", {"pattern": "needle"}),
                ("list_dir, ms", "list_dir", {"path": "d0"}),
            ):  # fmt: skip
                await opened.call(name, arguments)
                start = time.perf_counter()
                out = await opened.call(name, arguments)
                assert not out.is_error, out
                found[line] = (time.perf_counter() - start) * 1e3
            return {**found, "memory, MB": megabytes()}

    yield asyncio.run(run())


def servers(n: int, folder: Path) -> Iterator[Point]:
    import startup

    place = startup.Folder(folder, n)
    argv = [sys.executable, "-m", "toolcrib", "list"]
    startup.run(argv, place, None)
    cold = place.starts()
    took = [startup.run(argv, place, None)[1] for _ in range(3)]
    assert place.starts() == cold
    yield {"toolcrib list, ms": min(took) * 1e3}


GROWTH: dict[str, tuple[Callable[[int, Path], Iterator[Point]], tuple[int, ...], str]] = {
    "tools": (tools, (10, 100, 1_000, 10_000, 100_000), "tools registered"),
    "calls": (calls, (1, 10, 100, 1_000, 10_000), "calls at once"),
    "output": (output, (10**3, 10**4, 10**5, 10**6, 10**7, 10**8, 10**9), "bytes that a command prints"),
    "rows": (rows, (10**7,), "calls in the record"),
    "files": (files, (10, 100, 1_000, 10_000, 100_000, 500_000), "files in the workspace"),
    "servers": (servers, (1, 10, 50, 100, 200), "MCP servers, with 10 tools each, lists kept on disk"),
}


def measure(name: str, folder: str | None, most: int | None) -> dict[int, Point]:
    _, points, _ = GROWTH[name]
    found: dict[int, Point] = {}
    for n in points:
        if most and n > most:
            n = most if name == "rows" else 0
        if not n:
            continue
        with tempfile.TemporaryDirectory(dir=folder) as scratch:
            argv = [sys.executable, __file__, "--point", name, str(n), "--folder", scratch]
            with subprocess.Popen(argv, stdout=subprocess.PIPE, text=True) as child:
                assert child.stdout is not None
                for number, line in enumerate(child.stdout):
                    at = 10 ** (number + 3) if name == "rows" else n
                    found[at] = json.loads(line)
                    print(
                        f"{name:8} {at:>13,}  " + "  ".join(f"{k}: {v:,.3g}" for k, v in found[at].items()), flush=True
                    )
            assert child.returncode == 0
    return found


def exponent(found: dict[int, Point], line: str) -> float:
    """Return the exponent between the last two points that are a factor of ten or more apart."""
    ns = sorted(found)
    last = ns[-1]
    before = next((n for n in reversed(ns) if n * 5 <= last), ns[0])
    values = [max(found[n][line], 1e-9) for n in (before, last)]
    return math.log(values[1] / values[0]) / math.log(last / before) if last > before else 0.0


def svg(all_found: dict[str, dict[int, Point]]) -> str:
    """Return a picture with a panel for each dimension; both axes are logarithmic."""
    wide, high, colors = 360, 240, ("#4269d0", "#c65d07", "#3a8f5c", "#a463f2")
    out, across = [], 3
    for place, (name, found) in enumerate(all_found.items()):
        left, top = place % across * wide + 50, place // across * (high + 70) + 40
        width, height = wide - 80, high - 30
        ns, lines = sorted(found), list(next(iter(found.values())))
        values = [max(found[n][line], 1e-3) for n in ns for line in lines]
        x0, x1 = math.log10(ns[0]), math.log10(ns[-1])
        y0, y1 = math.floor(math.log10(min(values))), math.ceil(math.log10(max(values)))

        def at(n: float, value: float, left=left, top=top, x0=x0, x1=x1, y0=y0, y1=y1) -> str:
            x = left + (math.log10(n) - x0) / max(x1 - x0, 1e-9) * (wide - 80)
            return f"{x:.1f},{top + (1 - (math.log10(max(value, 1e-3)) - y0) / (y1 - y0)) * (high - 30):.1f}"

        out.append(f'<rect x="{left}" y="{top}" width="{width}" height="{height}" fill="none" stroke="#999"/>')
        out.append(f'<text x="{left}" y="{top - 22}" font-weight="bold">{escape(GROWTH[name][2])}</text>')
        for power in range(y0, y1 + 1):
            y = top + (1 - (power - y0) / (y1 - y0)) * height
            out.append(f'<path d="M{left} {y:.1f}h{width}" stroke="#ddd"/>')
            out.append(f'<text x="{left - 6}" y="{y + 4:.1f}" text-anchor="end">{10.0**power:g}</text>')
        for n in ns:
            x = at(n, 1).split(",")[0]
            label = f"{n:g}" if n < 10_000 else f"{n / 10 ** int(math.log10(n)):g}e{int(math.log10(n))}"
            out.append(f'<text x="{x}" y="{top + height + 14}" text-anchor="middle">{label}</text>')
        for line, color in zip(lines, colors, strict=False):
            points = " ".join(at(n, found[n][line]) for n in ns)
            out.append(f'<polyline points="{points}" fill="none" stroke="{color}" stroke-width="2"/>')
        for number, (line, color) in enumerate(zip(lines, colors, strict=False)):
            out.append(
                f'<text x="{left + number * width / len(lines):.0f}" y="{top - 7}" fill="{color}">{escape(line)}</text>'
            )
    rows_ = math.ceil(len(all_found) / across)
    size = f'width="{across * wide}" height="{rows_ * (high + 70)}"'
    style = 'font-family="sans-serif" font-size="9" fill="#333"'
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" {size} {style}><rect width="100%" height="100%" fill="#fff"/>'
        + "\n".join(out) + "</svg>\n"
    )  # fmt: skip


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(GROWTH))
    parser.add_argument("--folder")
    parser.add_argument("--most", type=int, help="No point above this n.")
    parser.add_argument("--svg", type=Path)
    parser.add_argument("--json", type=Path, help="Read figures from there, add the new ones, and write them back.")
    parser.add_argument("--point", nargs=2, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.point:
        for point in GROWTH[given.point[0]][0](int(given.point[1]), Path(given.folder)):
            print(json.dumps(point), flush=True)
        return 0
    kept = json.loads(given.json.read_text()) if given.json and given.json.exists() else {}
    all_found = {name: {int(n): point for n, point in points.items()} for name, points in kept.items()}
    for name in given.names or GROWTH:
        all_found[name] = measure(name, given.folder, given.most)
        if given.json:
            given.json.write_text(json.dumps(all_found, indent=1))
    all_found = {name: all_found[name] for name in GROWTH if name in all_found}
    worse = 0
    for name, found in all_found.items():
        for line in next(iter(found.values())):
            power = exponent(found, line)
            worse += power > WORSE
            print(f"{GROWTH[name][2]:52} {line:28} {power:5.2f}  {'WORSE THAN LINEAR' if power > WORSE else ''}")
    if given.svg:
        given.svg.write_text(svg(all_found))
    return 1 if worse else 0


if __name__ == "__main__":
    sys.exit(main())
