"""How long does the first turn of the agent take from a cold start?

A fresh process opens a toolbox and an agent, as `toolcrib run` does, and runs one scripted turn with one call. Wall time and CPU time of the
process from `exec` to its end; the floor is a process that imports pydantic. The smallest of the rounds.

python benchmarks/agent_start.py [--rounds N]
"""

from __future__ import annotations

import argparse
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

TURN = """
import asyncio
from toolcrib import Toolbox
from toolcrib.agent import Agent
from toolcrib.agent.scripted import ScriptedModel

async def main():
    replies = [{"calls": [{"name": "read_file", "arguments": {"path": "a.txt"}}]}, {"text": "alpha"}]
    async with Toolbox.open(".", warm_up=False) as box, await Agent.open(box, ScriptedModel(replies)) as agent:
        assert (await agent.run("What is in a.txt?")).text == "alpha"

asyncio.run(main())
"""
FLOOR = "import pydantic; pydantic.BaseModel"


def once(code: str, folder: Path) -> tuple[float, float]:
    """Return (wall, CPU) in milliseconds of one process."""
    env = {key: value for key, value in os.environ.items() if not key.startswith("PYTHON")}  # with byte code
    env |= {"XDG_STATE_HOME": str(folder / "state"), "XDG_CONFIG_HOME": str(folder / "config")}
    before, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    subprocess.run([sys.executable, "-c", code], cwd=folder / "work", env=env, check=True)
    wall, after = time.perf_counter() - start, resource.getrusage(resource.RUSAGE_CHILDREN)
    return wall * 1e3, (after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime) * 1e3


def run(rounds: int) -> dict[str, dict[str, float]]:
    """Return the smallest wall and CPU milliseconds of the turn and of the floor."""
    found: dict[str, list[tuple[float, float]]] = {"turn": [], "floor": []}
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        for name in ("work", "state", "config"):
            (folder / name).mkdir()
        (folder / "work" / "a.txt").write_text("alpha\n")
        once(TURN, folder)
        for _ in range(rounds):
            found["turn"].append(once(TURN, folder))
            found["floor"].append(once(FLOOR, folder))
    return {
        name: {"wall": min(wall for wall, _ in each), "cpu": min(cpu for _, cpu in each)}
        for name, each in found.items()
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=10)
    for name, row in run(parser.parse_args().rounds).items():
        print(f"{name:6} wall {row['wall']:.0f} ms, CPU {row['cpu']:.0f} ms")


if __name__ == "__main__":
    main()
