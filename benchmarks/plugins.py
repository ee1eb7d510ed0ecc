"""What a call of a binary plugin costs, beside a bare spawn of the same program with the same input, taking turns.

    python benchmarks/plugins.py              # about a minute
    ROUNDS=200 python benchmarks/plugins.py   # more rounds on a busy machine (default 60)

A call is a whole one: through a toolbox with policy, record and a pinned program. Programs are a Python script (the
starter of `toolcrib plugin new`), a shell script and, where there is a compiler, one in C. Wall is the smallest and
the median; ratios are to the bare spawn of the same program in the same run. CPU is that of this process and of the
children it reaps, so not of those inside bubblewrap. "bare bubblewrap" is `subprocess.run` of bubblewrap with the
arguments, mounts and filter of our sandbox but none of our words with it; the ratios of "bubblewrap" are to that.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import logging
import os
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from toolcrib import Toolbox
from toolcrib.boundary.environment import command_environment
from toolcrib.boundary.sandbox import Sandbox, SandboxSettings, select_sandbox
from toolcrib.sources.plugins.binary import request
from toolcrib.sources.plugins.starters import starter

PYTHON = os.path.realpath(sys.executable)
ROUNDS = int(os.environ.get("ROUNDS", "60"))
SHELL = """#!/bin/sh
read -r line
echo '{"jsonrpc": "2.0", "id": 1, "result": {"output": "done"}}'
"""
C = r"""
#include <stdio.h>
int main(void) {
    static char line[65536];
    if (!fgets(line, sizeof line, stdin)) return 1;
    puts("{\"jsonrpc\": \"2.0\", \"id\": 1, \"result\": {\"output\": \"done\"}}");
    return 0;
}
"""


def programs(folder: Path) -> dict[str, Path]:
    """A plugin folder for each program, pinned; the programs by the names of their tools."""
    found: dict[str, bytes] = {
        # without `env`, which may be a version manager's shim that takes longer than Python
        "in_python": starter("binary", "x")["run"].replace("#!/usr/bin/env python3", f"#!{PYTHON} -IS").encode(),
        "in_sh": SHELL.encode(),
    }
    if shutil.which("cc"):
        subprocess.run(["cc", "-O2", "-x", "c", "-", "-o", str(folder / "c")], input=C.encode(), check=True)
        found["in_c"] = (folder / "c").read_bytes()
    places: dict[str, Path] = {}
    for tool, content in found.items():
        place = folder / "plugins" / tool
        place.mkdir(parents=True)
        places[tool] = place / "run"
        places[tool].write_bytes(content)
        places[tool].chmod(0o755)
        entry = {"name": tool, "description": "A test.", "parameters": {"text": "string"}, "category": "memory"}
        manifest = {
            "name": tool.replace("_", "-"), "version": "1", "description": "A test.", "execution": "binary",
            "binary": {"path": "run", "sha256": hashlib.sha256(content).hexdigest()}, "tools": [entry],
        }  # fmt: skip
        (place / "plugin.json").write_text(json.dumps(manifest))
    return places


def cpu() -> float:
    """Seconds of CPU time of this process and of all its children that were reaped."""
    usages = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(usage.ru_utime + usage.ru_stime for usage in usages)


def bare(program: Path, tool: str, cwd: Path) -> None:
    done = subprocess.run(
        [str(program)], input=request(tool, {"text": "x"}), capture_output=True, check=True, cwd=cwd,
    )  # fmt: skip
    assert b'"result"' in done.stdout


class Bare:
    """A bare spawn in bubblewrap: what our sandbox would start, without its handshake. Made outside what is measured."""

    def __init__(self, program: Path, tool: str, cwd: Path, walled: Sandbox) -> None:
        self._spawn = walled.wrap([str(program)], cwd=cwd, env=command_environment(), timeout=30)
        self._input = request(tool, {"text": "x"})
        words = list(self._spawn.argv)
        for name in ("--json-status-fd", "--block-fd"):
            place = words.index(name)
            del words[place : place + 2]
        self._argv = words

    def run(self) -> None:
        done = subprocess.run(
            self._argv, input=self._input, capture_output=True, check=True, cwd=self._spawn.cwd, env=self._spawn.env,
            pass_fds=self._spawn.child_fds,
        )  # fmt: skip
        assert b'"result"' in done.stdout

    def close(self) -> None:
        self._spawn.discard()


async def measure(folder: Path) -> None:
    places = programs(folder)
    workspace = folder / "workspace"
    workspace.mkdir()
    logging.getLogger("toolcrib").setLevel(logging.ERROR)  # the bare spawns block the loop
    boxes: dict[str, Toolbox] = {}
    for backend in ("none", "bubblewrap"):
        config = folder / f"{backend}.json"
        plugins = {"enabled": True, "plugin_dirs": [str(folder / "plugins")]}
        config.write_text(json.dumps({"sandbox": {"backend": backend}, "plugins": plugins}))
        boxes[backend] = await Toolbox.open(workspace=workspace, config=config)
    walled = select_sandbox(SandboxSettings(backend="bubblewrap", read_roots=(folder,)), workspace)
    print(f"{'':32}{'min ms':>9}{'median ms':>11}{'min ratio':>11}{'median ratio':>14}{'CPU ratio':>11}")
    for tool, program in places.items():
        walls: dict[str, list[float]] = {"bare spawn": [], "none": [], "bare bubblewrap": [], "bubblewrap": []}
        used: dict[str, float] = {}
        for turn in range(-5, ROUNDS):
            for name in walls:
                inside = Bare(program, tool, workspace, walled) if name == "bare bubblewrap" else None
                before, began = cpu(), time.perf_counter()
                if name == "bare spawn":
                    bare(program, tool, workspace)
                elif inside is not None:
                    inside.run()
                else:
                    output = await boxes[name].call(tool, {"text": "x"})
                    assert not output.is_error, output.for_llm
                if turn >= 0:
                    walls[name].append(time.perf_counter() - began)
                    used[name] = used.get(name, 0.0) + cpu() - before
                if inside is not None:
                    inside.close()
        for name, found in walls.items():
            floor = walls["bare bubblewrap" if "bubblewrap" in name else "bare spawn"]
            low, middle = min(found), statistics.median(found)
            cpu_ratio = "" if "bubblewrap" in name else f"{used[name] / used['bare spawn']:.2f}"
            print(
                f"{tool + ', ' + name:32}{low * 1e3:9.2f}{middle * 1e3:11.2f}{low / min(floor):11.2f}"
                f"{middle / statistics.median(floor):14.2f}{cpu_ratio:>11}"
            )
    for box in boxes.values():
        await box.aclose()


def main() -> None:
    with tempfile.TemporaryDirectory() as name:
        os.environ["XDG_STATE_HOME"] = f"{name}/state"
        os.environ["XDG_CONFIG_HOME"] = f"{name}/config"
        asyncio.run(measure(Path(name)))


if __name__ == "__main__":
    main()
