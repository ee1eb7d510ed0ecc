"""The answer to an edit whose text is not in the file: the closest passage, against splitting the file into lines.

python benchmarks/hint.py               # ROUNDS=15: CPU time of one hint in 50,000 lines
"""

from __future__ import annotations

import os
import statistics
import time

from toolcrib.builtin.closest import miss_hint

CODE = "".join(f"def func_{k}(a, b):\n    total = a * {k} + b\n    return total\n\n" for k in range(1, 50_001, 4))
WANTED = "def func_41233(a, c):\n    totals = a * 41233 + c\n    return totals\n"
MILLISECONDS = 10


def main() -> None:
    floors, times = [], []
    miss_hint(CODE, WANTED, "code.py")  # loads rapidfuzz
    for _ in range(int(os.environ.get("ROUNDS", "15"))):
        begun = time.thread_time()
        CODE.splitlines(keepends=True)
        between = time.thread_time()
        miss_hint(CODE, WANTED, "code.py")
        times.append((time.thread_time() - between) * 1e3)
        floors.append((between - begun) * 1e3)
    took, floor = statistics.median(times), statistics.median(floors)
    met = "met" if took <= MILLISECONDS else "NOT met"
    print(f"load {os.getloadavg()[0]:.1f}; splitting {len(CODE):,} characters into lines {floor:.1f} ms")
    print(f"hint for a miss   {took:5.1f} ms ({took / floor:.1f} ×)   target ≤ {MILLISECONDS} ms   {met}")


if __name__ == "__main__":
    main()
