"""`toolcrib check --jsonl`: rows per second from start to end, start-up included, and the judgement of literal addresses.

python benchmarks/check.py [ROWS] [COMMANDS.jsonl]

COMMANDS.jsonl has a command a line ({"command": …}); default: the corpus of the shell tests. Children write bytecode,
as an installed command has it. Wall and CPU seconds, the least of three runs.
"""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from toolcrib.boundary.network.address_guard import AddressGuard

CORPUS = Path(__file__).parent.parent / "tests/policy/shell/corpus/given.jsonl"
URLS = (
    "http://169.254.169.254/latest", "https://8.8.8.8/x?y=1", "https://[2606:4700::1111]/", "http://0x7f.1/",
    "http://[::ffff:127.0.0.1]/", "https://example.com/a/b?c=d",
)  # fmt: skip


def main() -> None:
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 5000
    corpus = Path(sys.argv[2]) if len(sys.argv) > 2 else CORPUS
    commands = [json.loads(line)["command"] for line in corpus.read_text().splitlines()]
    rows = [_row(n, "exec", command=commands[n % len(commands)]) for n in range(count)]
    files = [_row(n, "read_file", path=f"dir/file{n}.py") for n in range(count)]
    pinned = [
        _row(n, "web_fetch", {f"n{n}.example": ["93.184.216.34"]}, url=f"https://n{n}.example/") for n in range(count)
    ]
    with tempfile.TemporaryDirectory() as folder:
        _measure(folder, "no rows: start-up alone, --bare", [], "--bare")
        _measure(folder, "exec, --bare", rows, "--bare")
        _measure(folder, "exec", rows)
        _measure(folder, "read_file, --bare", files, "--bare")
        _measure(folder, "read_file", files)
        _measure(folder, "web_fetch with resolve, --bare", pinned, "--bare")
    guard = AddressGuard()
    for url in URLS:
        print(f"  {_per_call(guard, url):6.1f} µs CPU  {url}")


def _row(number: int, tool: str, resolve: dict[str, list[str]] | None = None, **arguments: str) -> str:
    return json.dumps({"id": number, "tool": tool, "arguments": arguments, "resolve": resolve or {}})


def _measure(folder: str, name: str, rows: list[str], *options: str) -> None:
    env = {**os.environ, "XDG_STATE_HOME": f"{folder}/state", "PYTHONPYCACHEPREFIX": f"{folder}/pyc"}
    env.pop("PYTHONDONTWRITEBYTECODE", None)
    work = Path(folder, "work")
    work.mkdir(exist_ok=True)
    command = [sys.executable, "-m", "toolcrib", "check", "--jsonl", *options]
    walls, cpus = [], []
    for _ in range(3):
        before, started = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
        done = subprocess.run(command, input="\n".join(rows), cwd=work, env=env, text=True, capture_output=True)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        walls.append(time.perf_counter() - started)
        cpus.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
        assert done.returncode == 0, done.stderr
        assert len(done.stdout.splitlines()) == len(rows)
    speed = f"{len(rows) / min(walls):8,.0f} rows/s" if rows else ""
    print(f"{name:<34} {len(rows):6,} rows  {min(walls):6.2f} s  {min(cpus):6.2f} s CPU  {speed}")


def _per_call(guard: AddressGuard, url: str, calls: int = 3000) -> float:
    least = float("inf")
    for _ in range(9):
        started = time.process_time()
        for _ in range(calls):
            guard.judge_known(url)
        least = min(least, time.process_time() - started)
    return least / calls * 1e6


if __name__ == "__main__":
    main()
