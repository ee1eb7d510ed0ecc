"""Instructions of a call, counted by valgrind. What else runs on the machine, and its caches, do not change them.

    python benchmarks/instructions.py    # about a minute on two cores; needs valgrind

A process makes few calls and another one makes more of them: the difference is the calls alone, without the start.
What the start left is not collected between them (`gc.freeze`): one such collection, which comes in some processes and
not in others, would count as a third of all calls of a row. Instructions of the kernel are not counted.
"""

from __future__ import annotations

import asyncio
import gc
import os
import re
import shutil
import subprocess
import sys
import tempfile
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

import workload as W

FEW, MORE = 300, 1500
KINDS = {"flat": ("noop", W.ARGS), "nested": ("nested", W.ARGS_NESTED), "bad": ("noop", W.ARGS_BAD)}
TOOLS = {"read-only": "reader", "intent": "keeper"}
VALGRIND = ("valgrind", "--tool=cachegrind", "--cache-sim=no", "--cachegrind-out-file=/dev/null")


async def child(column: str, kind: str, count: int) -> None:
    """Make calls of one kind through one column: `floor`, `ours` (a registry), with rules, or `toolbox`."""
    if column == "toolbox":
        from toolcrib import Toolbox, tool

        tools = [
            tool(W.make_noop("reader"), category="filesystem_read"),
            tool(W.make_noop("keeper"), category="memory"),
        ]
        async with Toolbox.open(workspace=os.environ["WORKSPACE"], mode="assistant", tools=tools) as box:
            await box.call(TOOLS[kind], W.ARGS)
            for thread in threading.enumerate():
                if thread.name == "toolcrib-warm-up":
                    thread.join()
            gc.freeze()
            for _ in range(count):
                output = await box.call(TOOLS[kind], W.ARGS)
            assert str(output) == "ok", output
        return
    from adapters.floor import FloorPydantic
    from adapters.ours import Ours
    from adapters.ruled import Ruled, RuledByArgument

    adapter = {"floor": FloorPydantic, "ours": Ours, "60-rules": Ruled, "rule-by-argument": RuledByArgument}[column]()
    tools = [adapter.define(W.make_noop("noop")), adapter.define(W.make_nested("nested"), "nested")]
    await adapter.start(adapter.registry(tools))
    name, args = KINDS[kind]
    gc.freeze()
    for _ in range(count):
        output = await adapter.call(name, args)
    assert (adapter.text(output) == "ok") == (kind != "bad"), output


def process(column: str, kind: str, count: int, tool: tuple[str, ...] = ()) -> subprocess.CompletedProcess[str]:
    """Run a process that makes so many calls. It keeps compiled modules: compiling takes most of a start, and not
    equally long each time."""
    with tempfile.TemporaryDirectory() as folder:
        kept = {k: v for k, v in os.environ.items() if not k.startswith(("TOOLCRIB_", "XDG_", "PYTHON"))}
        env = {**kept, "HOME": folder, "WORKSPACE": folder + "/work", "PYTHONHASHSEED": "0"}
        os.mkdir(env["WORKSPACE"])
        argv = [*tool, sys.executable, __file__, "--child", column, kind, str(count)]
        return subprocess.run(argv, env=env, capture_output=True, text=True)


def counted(column: str, kind: str, count: int) -> int:
    """The instructions of a process that makes so many calls."""
    done = process(column, kind, count, VALGRIND)
    found = re.search(r"I\s+refs:\s+([\d,]+)", done.stderr)
    assert done.returncode == 0 and found, done.stderr[-2000:]
    return int(found[1].replace(",", ""))


def run() -> dict[tuple[str, str], float]:
    """Instructions a call, for each column and kind; empty without valgrind."""
    if shutil.which("valgrind") is None:
        return {}
    wanted = [(column, kind) for column in ("floor", "ours") for kind in KINDS]
    wanted += [("60-rules", "flat"), ("rule-by-argument", "flat"), *(("toolbox", kind) for kind in TOOLS)]
    for row in wanted:
        process(*row, FEW)  # compiles the modules
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        few = {row: pool.submit(counted, *row, FEW) for row in wanted}
        more = {row: pool.submit(counted, *row, MORE) for row in wanted}
        return {row: (more[row].result() - few[row].result()) / (MORE - FEW) for row in wanted}


if __name__ == "__main__":
    if sys.argv[1:2] == ["--child"]:
        asyncio.run(child(sys.argv[2], sys.argv[3], int(sys.argv[4])))
    else:
        for (column, kind), count in run().items():
            print(f"{column:16} {kind:10} {count:10,.0f}")
