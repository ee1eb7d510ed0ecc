"""What judging a shell command costs, reading included: CPU microseconds a command over the corpora of the tests.

python benchmarks/judging.py             # median, p95 and slowest, with and without caches
python benchmarks/judging.py --slow      # and the slowest ten commands
"""

from __future__ import annotations

import argparse
import gc
import json
import statistics
import tempfile
import time
from pathlib import Path

from toolcrib.policy.shell.judge import judge_command
from toolcrib.policy.shell.parts import CommandPlace

CORPUS = Path(__file__).parent.parent / "tests" / "policy" / "shell" / "corpus"
ROUNDS = 15


def commands() -> list[str]:
    """Every command of the corpora."""
    rows = (line for file in sorted(CORPUS.glob("*.jsonl")) for line in file.read_text().splitlines() if line.strip())
    return list(dict.fromkeys(json.loads(row)["command"] for row in rows))


def caches() -> list:
    """Everything that remembers a command, word or path from one judgement to the next."""
    found = [o for o in gc.get_objects() if hasattr(o, "cache_clear") and hasattr(o, "cache_info")]
    keep = {"_table", "parse_options", "parse_operands", "is_risky"}  # the table itself, read once
    ours = [f for f in found if str(getattr(f, "__module__", "")).startswith("toolcrib.")]
    return [f for f in ours if f.__name__ not in keep]


def measure(texts: list[str], place: CommandPlace, clear: list) -> list[float]:
    """The median CPU time of each command, in microseconds."""
    times: list[list[float]] = [[] for _ in texts]
    for _ in range(ROUNDS):
        for index, text in enumerate(texts):
            for cache in clear:
                cache.cache_clear()
            start = time.thread_time_ns()
            judge_command(text, place)
            times[index].append((time.thread_time_ns() - start) / 1000)
    return [statistics.median(each) for each in times]


def row(name: str, figures: list[float]) -> str:
    """One line of the table."""
    ordered = sorted(figures)
    at95 = ordered[int(len(ordered) * 0.95)]
    return (
        f"{name:<28} median {statistics.median(figures):7.1f} µs   p95 {at95:7.1f} µs   slowest {ordered[-1]:8.1f} µs"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--slow", action="store_true")
    options = parser.parse_args()
    texts = commands()
    with tempfile.TemporaryDirectory() as home:
        workspace = Path(home).resolve() / "project"
        workspace.mkdir()
        place = CommandPlace(str(workspace), str(workspace), str(workspace.parent))
        for text in texts:
            judge_command(text, place)
        cold = measure(texts, place, caches())
        print(f"{len(texts)} commands, {ROUNDS} rounds, CPU time")
        print(row("no caches", cold))
        print(row("with caches", measure(texts, place, [])))
    if options.slow:
        for figure, text in sorted(zip(cold, texts, strict=True), reverse=True)[:10]:
            print(f"{figure:8.1f} µs  {text[:100]!r}")


if __name__ == "__main__":
    main()
