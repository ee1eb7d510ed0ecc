"""A command that prints 500 MB, run and kept bounded, against plain reading of the same pipe; and the memory it takes.

python benchmarks/process.py            # ROUNDS=5: columns take turns; wall time, since both wait for one writer
"""

from __future__ import annotations

import asyncio
import fcntl
import os
import resource
import statistics
import subprocess
import time

from toolcrib.boundary.process import run
from toolcrib.boundary.spawn import Spawn

BYTES = 500_000_000
COMMAND = f"yes {'0123456789abcdefghijklmnopqrstuvwxyz' * 2} | head -c {BYTES}"
RATIO, MEGABYTES = 1.5, 60


def plain() -> None:
    """Nothing but reading: one buffer, a pipe as large as it gets."""
    popen = subprocess.Popen(["bash", "-c", COMMAND], stdout=subprocess.PIPE, bufsize=0)
    assert popen.stdout is not None
    fcntl.fcntl(popen.stdout.fileno(), fcntl.F_SETPIPE_SZ, 1 << 20)
    buffer, count = bytearray(1 << 20), 0
    while read := os.readv(popen.stdout.fileno(), [buffer]):
        count += read
    popen.wait()
    popen.stdout.close()
    assert count == BYTES


async def ours() -> None:
    result = await run(Spawn(["/bin/bash", "-c", COMMAND], "/tmp", {"PATH": os.environ["PATH"]}), timeout=300)
    assert result.stdout.total == BYTES and result.exit_code == 0


def seconds(work) -> float:
    begun = time.perf_counter()
    work()
    return time.perf_counter() - begun


def verdict(met: bool) -> str:
    return "met" if met else "NOT met"


def main() -> None:
    floors, times = [], []
    with asyncio.Runner() as runner:
        for _ in range(int(os.environ.get("ROUNDS", "5"))):
            floors.append(seconds(plain))
            times.append(seconds(lambda: runner.run(ours())))
    floor, ratio = statistics.median(floors), statistics.median(times) / statistics.median(floors)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(f"load {os.getloadavg()[0]:.1f}; plain reading {floor * 1e3:.0f} ms")
    print(f"exec printing 500 MB   {ratio:5.2f} ×   target ≤ {RATIO} ×   {verdict(ratio <= RATIO)}")
    print(f"its peak memory      {peak:5.0f} MB   target ≤ {MEGABYTES} MB  {verdict(peak <= MEGABYTES)}")


if __name__ == "__main__":
    main()
