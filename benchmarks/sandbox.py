"""What a sandbox costs: `true` through each backend, taking turns, beside subprocess and bubblewrap by itself.

    python benchmarks/sandbox.py              # about half a minute
    ROUNDS=200 python benchmarks/sandbox.py   # more rounds on a busy machine (default 60)

Wall is the smallest and the median, CPU the mean of this process and its children. With a fresh folder as the
workspace, and again with a repository in it, whose protected names are looked for.
"""

from __future__ import annotations

import asyncio
import os
import resource
import statistics
import subprocess
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from f_worker import BWRAP

from toolcrib.boundary.environment import command_environment
from toolcrib.boundary.process import run
from toolcrib.boundary.sandbox import Sandbox, SandboxSettings, select_sandbox
from toolcrib.core.errors import SandboxUnavailable

ROUNDS = int(os.environ.get("ROUNDS", "60"))


def cpu() -> float:
    """Seconds of CPU time of this process and of all its children that were reaped."""
    usages = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(usage.ru_utime + usage.ru_stime for usage in usages)


def plain(argv: list[str]) -> Callable[[], None]:
    return lambda: subprocess.run(argv, check=True, stdin=subprocess.DEVNULL) and None


def through(sandbox: Sandbox, workspace: Path) -> Callable[[], None]:
    env = command_environment()

    async def once() -> None:
        spawn = sandbox.wrap(["/bin/true"], cwd=workspace, env=env, timeout=30)
        result = await run(spawn, timeout=30)
        assert result.exit_code == 0, result.stderr.excerpt().text
        assert spawn.appeared() == []

    loop = asyncio.new_event_loop()
    return lambda: loop.run_until_complete(once())


def measure(rows: dict[str, Callable[[], None]]) -> None:
    walls: dict[str, list[float]] = {name: [] for name in rows}
    used = dict.fromkeys(rows, 0.0)
    for turn in range(-3, ROUNDS):
        for name, once in rows.items():
            before, began = cpu(), time.perf_counter()
            once()
            if turn >= 0:
                walls[name].append(time.perf_counter() - began)
                used[name] += cpu() - before
    floor = used["subprocess"]
    print(f"{'':28}{'min ms':>9}{'median ms':>11}{'CPU ms':>9}{'CPU ratio':>11}")
    for name, found in walls.items():
        milliseconds = (min(found) * 1e3, statistics.median(found) * 1e3, used[name] / ROUNDS * 1e3)
        print(f"{name:28}{milliseconds[0]:9.2f}{milliseconds[1]:11.2f}{milliseconds[2]:9.2f}{used[name] / floor:11.1f}")


def main() -> None:
    with tempfile.TemporaryDirectory() as name:
        rows: dict[str, Callable[[], None]] = {"subprocess": plain(["/bin/true"])}
        fresh, repository = Path(name, "fresh"), Path(name, "repository")
        fresh.mkdir()
        subprocess.run(["git", "init", "-q", str(repository)], check=True)
        for backend, domains in (("none", ()), ("bubblewrap", ()), ("bubblewrap", ("example.com",)), ("landlock", ())):
            for workspace in (fresh, repository):
                try:
                    sandbox = select_sandbox(SandboxSettings(backend=backend, allowed_domains=domains), workspace)
                    label = f"{backend}{' + proxy' if domains else ''}"
                    rows[f"{label}, {workspace.name}"] = through(sandbox, workspace)
                except SandboxUnavailable as error:
                    print(f"{backend}: {error}")
        if subprocess.run([*BWRAP, "/bin/true"], check=False).returncode == 0:
            rows["bwrap itself"] = plain([*BWRAP, "/bin/true"])
        measure(rows)


if __name__ == "__main__":
    main()
