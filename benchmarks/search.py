"""grep and glob against ripgrep itself on one tree, taking turns; wall time, warm cache.

python benchmarks/search.py TREE [PATTERN]    # e.g. a folder of site-packages
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import time

from toolcrib import ToolContext
from toolcrib.boundary.workspace import Workspace
from toolcrib.builtin.search import SearchTools

CTX = ToolContext()


def main() -> None:
    tree = os.path.abspath(sys.argv[1])
    pattern = sys.argv[2] if len(sys.argv) > 2 else r"def _drop_superseded_t\w+"
    tools = SearchTools(Workspace(tree))
    assert tools.ripgrep is not None
    everything = {"hidden": True, "no_ignore": True, "ctx": CTX}

    def rg(*arguments: str) -> str:
        command = [tools.ripgrep.path, "--no-ignore", "--hidden", *arguments, tree]
        return subprocess.run(command, capture_output=True, text=True, stdin=subprocess.DEVNULL).stdout

    cases = {
        "rg -n PATTERN": lambda: rg("-n", pattern),
        "grep, content": lambda: tools.grep(pattern, output_mode="content", **everything),
        "rg --files -g **/*.py": lambda: rg("--files", "-g", "**/*.py"),
        "rg --files -g **/*.py --sortr modified": lambda: rg("--files", "-g", "**/*.py", "--sortr", "modified"),
        "glob **/*.py, 100 newest": lambda: tools.glob("**/*.py", **everything),
        "glob **/*.py with .gitignore and hidden rules": lambda: tools.glob("**/*.py", ctx=CTX),
        "grep import, first page": lambda: tools.grep("import", output_mode="content", ctx=CTX),
    }
    times: dict[str, list[float]] = {name: [] for name in cases}
    for turn in range(1 + int(os.environ.get("ROUNDS", "15"))):
        for name, work in cases.items():
            start = time.perf_counter()
            work()
            if turn:
                times[name].append((time.perf_counter() - start) * 1e3)
    files = sum(len(names) for _, _, names in os.walk(tree))
    python = sum(name.endswith(".py") for _, _, names in os.walk(tree) for name in names)
    print(f"{files:,} files, {python:,} of them *.py; ripgrep {tools.ripgrep.version}; load {os.getloadavg()[0]:.1f}")
    for name, values in times.items():
        print(f"{name:48} median {statistics.median(values):7.1f} ms   best {min(values):7.1f} ms")


if __name__ == "__main__":
    main()
