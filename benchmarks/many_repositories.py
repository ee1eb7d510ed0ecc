"""What many git repositories in one workspace cost a command in bubblewrap: `true`, and what is looked at around it.

    python benchmarks/many_repositories.py              # 1, 30, 100, 300 and 1,000 repositories
    ROUNDS=9 python benchmarks/many_repositories.py 300 # more rounds on a busy machine (default 5)

The smallest wall times, in ms: to prepare the command (which names are protected), to run it, to look at what it
changed. The first command is not counted: it reads the index of each repository.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from toolcrib.boundary.environment import command_environment
from toolcrib.boundary.process import run
from toolcrib.boundary.sandbox import SandboxSettings, select_sandbox

ROUNDS = int(os.environ.get("ROUNDS", "5"))
FILES = 100  # in each repository


def repository(folder: Path) -> Path:
    folder.mkdir()
    for number in range(FILES):
        (folder / f"{number}.py").write_text(f"x = {number}\n")
    for command in (["init", "-q"], ["add", "."], ["-c", "user.name=a", "-c", "user.email=a", "commit", "-qm", "a"]):
        subprocess.run(["git", *command], cwd=folder, check=True)
    return folder


async def measured(workspace: Path) -> list[float]:
    sandbox = select_sandbox(SandboxSettings(backend="bubblewrap"), workspace)
    found: list[list[float]] = []
    for _ in range(ROUNDS + 1):
        times = [time.perf_counter()]
        spawn = sandbox.wrap(["/bin/true"], cwd=workspace, env=command_environment(), timeout=100)
        times.append(time.perf_counter())
        assert (await run(spawn, timeout=100)).exit_code == 0
        times.append(time.perf_counter())
        spawn.appeared()
        times.append(time.perf_counter())
        found.append([(end - begin) * 1e3 for begin, end in zip(times, times[1:], strict=False)])
    return [min(each) for each in zip(*found[1:], strict=True)]


def main() -> None:
    print(f"{'repositories':>12}{'prepare':>10}{'run':>10}{'look':>10}{'together':>10}")
    for count in map(int, sys.argv[1:] or ("1", "30", "100", "300", "1000")):
        with tempfile.TemporaryDirectory() as name:
            model, workspace = repository(Path(name, "model")), Path(name, "workspace")
            for number in range(count):
                shutil.copytree(model, workspace / f"r{number:04}")
            times = asyncio.run(measured(workspace))
            print(f"{count:12}" + "".join(f"{each:10.1f}" for each in (*times, sum(times))), flush=True)


if __name__ == "__main__":
    main()
