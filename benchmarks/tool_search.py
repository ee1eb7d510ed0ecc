"""Finding tools among 10,000: how long the index takes, how long a search, and how often the right one is found.

    python benchmarks/tool_search.py

The tools are the 1,275 real ones of tests/core/data, eight times over under other names; the questions are those there.
CPU time of the process. Targets: index ≤ 150 ms, search ≤ 5 ms, the right tool among the first five ≥ 90 %.
"""

from __future__ import annotations

import gzip
import json
import platform
import statistics
import time
from pathlib import Path

from toolcrib.core.tool import Tool
from toolcrib.core.tool_index import ToolIndex

DATA = Path(__file__).parents[1] / "tests" / "core" / "data"


class Described(Tool):
    def __init__(self, row: dict, suffix: str = "") -> None:
        self.name, self.description, self.title = row["name"] + suffix, row["description"], row["title"]
        self.parameters = {"type": "object", "properties": {key: {} for key in row["parameters"]}}

    async def execute(self, **_) -> str:
        return ""


def main() -> None:
    rows = json.loads(gzip.decompress((DATA / "real_tools.json.gz").read_bytes()))
    questions = [line.split("\t") for line in (DATA / "tool_questions.tsv").read_text().splitlines()]
    real = [Described(row) for row in rows]
    many = [Described(row, f"_{n}" if n else "") for n in range(8) for row in rows][:10_000]
    for tool in (*real, *many):
        tool.prepare()
    took = []
    for _ in range(5):
        start = time.process_time()
        index = ToolIndex(many)
        took.append((time.process_time() - start) * 1e3)
    each = []
    for _ in range(3):
        for question, _ in questions:
            start = time.process_time()
            index.search(question, 5)
            each.append((time.process_time() - start) * 1e3)
    each.sort()
    small = ToolIndex(real)
    found = sum(wanted in {tool.name for tool, _ in small.search(question, 5)} for question, wanted in questions)
    print(f"Python {platform.python_version()}, {len(many):,} tools, {len(questions)} questions")
    print(f"index   {statistics.median(took):.0f} ms (best {min(took):.0f}), target 150")
    print(
        f"search  median {statistics.median(each):.2f} ms, 95 % {each[int(len(each) * 0.95)]:.2f} ms, "
        f"slowest {each[-1]:.2f} ms, target 5"
    )
    print(f"among the first five of {len(real):,} tools: {found / len(questions):.1%}, target 90 %")


main()
