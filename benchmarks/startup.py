"""How long the command takes to start: CPU and wall of fresh processes, in alternating rounds, and memory of `serve`.

    python benchmarks/startup.py [--rounds N] [--also NAME=SRC] [--only WORDS]

Beside it the floor on this machine: `python -c pass`, and importing pydantic. Twenty MCP servers are configured for the
rows that say so; their lists are on disk from one run before, and each run is checked to have started none. `--also`
measures the package of another tree, too (SRC is the folder that holds it). CPU is user and system time of the process
and of those it waited for; the smallest counts, as what others do on the machine only adds.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

SERVERS, TOOLS = 20, 10
SERVER = """
import json, os, sys
open(os.environ["STARTED"], "a").write(f"{os.getpid()}\\n")
number = sys.argv[1]
schema = {"type": "object", "properties": {"path": {"type": "string", "description": "Where it is."},
          "limit": {"type": "integer", "minimum": 1}}, "required": ["path"]}
tools = [{"name": f"tool_{n}", "description": f"Does thing {n} of server {number} to a path. And says so.",
          "inputSchema": schema} for n in range(TOOLS)]
for line in sys.stdin:
    asked = json.loads(line)
    if "id" not in asked:
        continue
    answer = {"jsonrpc": "2.0", "id": asked["id"]}
    if asked["method"] == "initialize":
        answer["result"] = {"protocolVersion": asked["params"]["protocolVersion"], "capabilities": {"tools": {}},
                            "serverInfo": {"name": "fixture", "version": "1"}}
    elif asked["method"] == "tools/list":
        answer["result"] = {"tools": tools}
    else:
        answer["error"] = {"code": -32601, "message": "no such method"}
    print(json.dumps(answer), flush=True)
"""
FIRST_CALLS = """
import asyncio, resource
from toolcrib import Toolbox

def cpu():
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(each.ru_utime + each.ru_stime for each in used)

CALLS = [("write_file", {"path": "b.txt", "content": "hello\\nworld\\n"}), ("read_file", {"path": "b.txt"}),
         ("edit_file", {"path": "b.txt", "old_text": "hello", "new_text": "good bye"}), ("list_dir", {}),
         ("glob", {"pattern": "*.txt"}), ("grep", {"pattern": "world"}), ("exec", {"command": "ls"})]

async def main():
    before = cpu()
    async with Toolbox.open(workspace=".") as box:
        opened = cpu()
        for name, arguments in CALLS:
            output = await box.call(name, arguments)
            assert not output.is_error, (name, str(output))
    print(opened - before, cpu() - opened)

asyncio.run(main())
"""
INITIALIZE = {
    "jsonrpc": "2.0", "id": 1, "method": "initialize",
    "params": {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "startup", "version": "1"}},
}  # fmt: skip
READY = {"jsonrpc": "2.0", "method": "notifications/initialized"}
TOOLS_LIST = {"jsonrpc": "2.0", "id": 2, "method": "tools/list"}


class Folder:
    """A home and a workspace of their own, with or without servers."""

    def __init__(self, place: Path, servers: int) -> None:
        self.work, self.started = place / "work", place / "started"
        home = place / "home"
        for folder in (self.work, home / ".config/toolcrib"):
            folder.mkdir(parents=True)
        (self.work / "a.txt").write_text("one\ntwo\n")
        self.started.write_text("")
        script = place / "server.py"
        script.write_text(SERVER.replace("TOOLS", str(TOOLS)))
        lines = [
            f'[mcp_servers.server{n}]\ncommand = {json.dumps(sys.executable)}\n'
            f'args = [{json.dumps(str(script))}, "{n}"]\nenv = {{ STARTED = {json.dumps(str(self.started))} }}\n'
            for n in range(servers)
        ]  # fmt: skip
        (home / ".config/toolcrib/config.toml").write_text("\n".join(lines))
        kept = {k: v for k, v in os.environ.items() if not k.startswith(("TOOLCRIB_", "XDG_", "PYTHON"))}
        self.env = {**kept, "HOME": str(home)}

    def starts(self) -> int:
        """How often a server was started."""
        return len(self.started.read_text().splitlines())


def run(argv: list[str], folder: Folder, src: str | None) -> tuple[float, float]:
    """Wall and CPU seconds of one run to its end."""
    env = folder.env if src is None else {**folder.env, "PYTHONPATH": src}
    begin = time.perf_counter()
    with subprocess.Popen(
        argv, cwd=folder.work, env=env, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE
    ) as popen:
        assert popen.stderr is not None
        said = popen.stderr.read()
        _, status, usage = os.wait4(popen.pid, 0)
        popen.returncode = os.waitstatus_to_exitcode(status)
    assert popen.returncode == 0, (argv, said)
    return time.perf_counter() - begin, usage.ru_utime + usage.ru_stime


def serve(argv: list[str], folder: Folder, src: str | None) -> tuple[float, float, float]:
    """Wall and CPU seconds until tools/list is answered, and MiB of memory then."""
    env = folder.env if src is None else {**folder.env, "PYTHONPATH": src}
    begin = time.perf_counter()
    with subprocess.Popen(
        argv, cwd=folder.work, env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    ) as popen:
        assert popen.stdin is not None and popen.stdout is not None
        for message in (INITIALIZE, READY, TOOLS_LIST):
            popen.stdin.write(json.dumps(message).encode() + b"\n")
        popen.stdin.flush()
        while json.loads(popen.stdout.readline()).get("id") != 2:
            pass
        wall = time.perf_counter() - begin
        ticks = Path(f"/proc/{popen.pid}/stat").read_text().rpartition(")")[2].split()
        cpu = (int(ticks[11]) + int(ticks[12])) / os.sysconf("SC_CLK_TCK")
        status = Path(f"/proc/{popen.pid}/status").read_text()
        memory = int(next(line for line in status.splitlines() if line.startswith("VmRSS")).split()[1]) / 1024
        popen.stdin.close()
        popen.stdout.read()
    return wall, cpu, memory


Row = tuple[list[str], Folder, str | None]
PYDANTIC = "import pydantic"
FIRST = "first call of each tool"
LIST, CALL = f"toolcrib list, {SERVERS} servers", f"toolcrib call read_file, {SERVERS} servers"


def measure(rows: dict[str, Row], full: Folder, rounds: int) -> dict[str, list[tuple[float, ...]]]:
    """Wall and CPU seconds (and MiB) of each row's process in each round; the first run of each is left out."""
    for argv, folder, src in rows.values():  # writes the byte code, and the first time the servers' lists
        (serve if argv[-1] == "serve" else run)(argv, folder, src)
    before = full.starts()
    found: dict[str, list[tuple[float, ...]]] = {name: [] for name in rows}
    for _ in range(rounds):
        for name, (argv, folder, src) in rows.items():
            found[name].append((serve if argv[-1] == "serve" else run)(argv, folder, src))
            started = full.starts()
            assert started == before or argv[-1] == "serve", (name, "started servers", started - before)
            before = started
    return found


def bounded_rows(scratch: Path) -> tuple[dict[str, Row], Folder]:
    """The rows that have a target, and the floor; and the folder whose servers must not be started."""
    python, bare, full = sys.executable, Folder(scratch / "bare", 0), Folder(scratch / "full", SERVERS)
    return {
        PYDANTIC: ([python, "-c", "import pydantic; pydantic.BaseModel"], bare, None),
        LIST: ([python, "-m", "toolcrib", "list"], full, None),
        CALL: ([python, "-m", "toolcrib", "call", "read_file", "path=a.txt"], full, None),
        FIRST: ([python, "-c", FIRST_CALLS], bare, None),
    }, full


def inside(folder: Folder, rounds: int) -> list[tuple[float, ...]]:
    """CPU seconds of `Toolbox.open`, and of the first calls with the programs that they start, in fresh processes."""
    argv = [sys.executable, "-c", FIRST_CALLS]
    runs = (subprocess.check_output(argv, cwd=folder.work, env=folder.env, text=True) for _ in range(rounds))
    return [tuple(map(float, said.split())) for said in runs]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--also", action="append", default=[], metavar="NAME=SRC")
    parser.add_argument("--only", default="", help="Rows whose names hold one of these words.")
    given = parser.parse_args()
    python = sys.executable
    command = [python, "-m", "toolcrib"]
    trees: list[tuple[str, str | None]] = [("", None)]
    trees += [(f"{name}: ", src) for name, _, src in (each.partition("=") for each in given.also)]
    with tempfile.TemporaryDirectory() as scratch:
        rows, full = bounded_rows(Path(scratch))
        bare = rows[PYDANTIC][1]
        rows |= {
            "python -c pass": ([python, "-c", "pass"], bare, None),
            "import pydantic_core": ([python, "-c", "import pydantic_core"], bare, None),
        }
        for name, src in trees:
            rows |= {
                f"{name}import toolcrib": ([python, "-c", "import toolcrib"], bare, src),
                f"{name}toolcrib --version": ([*command, "--version"], bare, src),
                f"{name}toolcrib list": ([*command, "list"], bare, src),
                f"{name}toolcrib list, {SERVERS} servers": ([*command, "list"], full, src),
                f"{name}toolcrib call read_file": ([*command, "call", "read_file", "path=a.txt"], bare, src),
                f"{name}toolcrib call read_file, {SERVERS} servers": (
                    [*command, "call", "read_file", "path=a.txt"], full, src
                ),
                f"{name}toolcrib serve": ([*command, "serve"], bare, src),
                f"{name}toolcrib serve, {SERVERS} servers": ([*command, "serve"], full, src),
            }  # fmt: skip
        only = given.only.split()
        rows = {name: row for name, row in rows.items() if not only or any(word in name for word in only)}
        found = measure(rows, full, given.rounds)
        print(f"{'':44} CPU ms: least median   wall ms: least median   MiB")
        for name, values in found.items():
            walls, cpus = ([1000 * value[n] for value in values] for n in (0, 1))
            memory = f"{statistics.median(value[2] for value in values):5.1f}" if len(values[0]) > 2 else ""
            print(
                f"{name:44} {min(cpus):13.0f} {statistics.median(cpus):6.0f} {min(walls):16.0f} "
                f"{statistics.median(walls):6.0f}   {memory}"
            )
        if FIRST in rows:
            both = min(inside(bare, given.rounds), key=sum)
            print(f"{FIRST}: {sum(both) * 1000:.0f} ms of CPU inside, {both[0] * 1000:.0f} of them Toolbox.open")


if __name__ == "__main__":
    main()
