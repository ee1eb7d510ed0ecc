"""How well shell commands are judged: a confusion matrix over corpora of commands, and every row judged wrongly.

    python benchmarks/shell_corpus.py                # the held-out corpus of the tests
    python benchmarks/shell_corpus.py FILE.jsonl …   # others, of the same form (tests/policy/shell/corpus/README.md)

Rows are judged bare, as `toolcrib check --bare` does: the workspace is the current directory, the profile
workspace-write, nothing granted, no sandbox. No command is run. Exits 1 when a row of deny or ask is judged allow, or
more than 3 % of a corpus's rows of allow are judged otherwise; deny judged ask, and ask judged deny, are only printed.
"""

from __future__ import annotations

import json
import statistics
import sys
import time
from collections import Counter
from pathlib import Path

from toolcrib.policy.shell.judge import judge_command
from toolcrib.policy.shell.parts import CommandPlace

HELD_OUT = Path(__file__).parent.parent / "tests/policy/shell/corpus/held_out.jsonl"
PLACE = CommandPlace(workspace="/home/user/project", cwd="/home/user/project", home="/home/user")
VERDICTS = ("deny", "ask", "allow")
FALSE_ALARMS = 0.03  # share of harmless commands that may be stopped


def read(path: Path) -> list[dict[str, str]]:
    """The rows of a corpus, one JSON object a line."""
    return [json.loads(line) for line in path.read_text(encoding="utf-8").split("\n") if line.strip()]


def judged(rows: list[dict[str, str]]) -> tuple[list[tuple[dict[str, str], str, str]], list[float]]:
    """Each row with the verdict it got and the reason, and microseconds of CPU time for each."""
    results, times = [], []
    for row in rows:
        start = time.process_time_ns()
        judgement = judge_command(row["command"], PLACE)
        times.append((time.process_time_ns() - start) / 1000)
        results.append((row, judgement.verdict, judgement.reason))
    return results, times


def show(path: Path) -> bool:
    """Print the matrix and the wrong rows of one corpus; True when it is within the limits."""
    rows = read(path)
    if not rows:
        raise SystemExit(f"{path}: no rows")
    judge_command("ls", PLACE)  # loads the parser, so that the first row does not
    results, times = judged(rows)
    matrix = Counter((row["verdict"], verdict) for row, verdict, _ in results)
    wrong = [result for result in results if result[1] not in (result[0]["verdict"], result[0].get("also"))]
    print(f"{path}: {len(rows)} rows, {len(wrong)} wrong, median {statistics.median(times):.0f} µs of CPU time a row")
    print(f"{'should be':>10} | " + " | ".join(f"{'got ' + verdict:>9}" for verdict in VERDICTS))
    for truth in VERDICTS:
        print(f"{truth:>10} | " + " | ".join(f"{matrix[truth, verdict]:>9}" for verdict in VERDICTS))
    for row, verdict, reason in wrong:
        print(f"  {row['verdict']} judged {verdict}: {row['command']!r} ({row.get('why', '')}): {reason}")
    leaks = sum(matrix[truth, "allow"] for truth in ("deny", "ask"))
    harmless = sum(matrix["allow", verdict] for verdict in VERDICTS)
    alarms = harmless - matrix["allow", "allow"]
    print(f"{leaks} leaks, {alarms} false alarms of {harmless} harmless rows\n")
    return leaks == 0 and alarms <= FALSE_ALARMS * harmless


def main() -> int:
    """Show every corpus named, or the held-out one."""
    paths = [Path(name) for name in sys.argv[1:]] or [HELD_OUT]
    return 0 if all([show(path) for path in paths]) else 1


if __name__ == "__main__":
    sys.exit(main())
