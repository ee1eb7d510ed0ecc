"""Runs a command of ours in a process of its own that is there in no time, because it is forked."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

# Imports the package once, except what no command needs, and then forks for each run: a process of its own that is
# there in no time. Its arguments are the folders that it imports from; without any, as usual.
NURSERY = """
import gc, json, os, signal, sys, traceback
OTHERS = ("toolcrib.__main__", "toolcrib.adapters", "toolcrib.agent.acp", "toolcrib.testing")
if sys.argv[1:]:
    sys.path = [*sys.argv[1:], *(path for path in sys.path if "-packages" not in path)]
from importlib import import_module
from pkgutil import walk_packages
import toolcrib
from toolcrib.cli import main
for found in walk_packages(toolcrib.__path__, "toolcrib."):
    if not found.name.startswith(OTHERS):
        try:
            import_module(found.name)
        except ImportError:
            pass  # it needs an extra that is not there
gc.freeze()
def go_on_at(terminal):
    # The child gets the terminal for its own, and a child in turn, whose exit code it leaves in a file. The nursery's
    # child waits until the terminal is open.
    opened, done = os.pipe()
    if os.fork() != 0:
        os.close(done)
        os.read(opened, 1)
        os._exit(0)
    os.setsid()
    for fd, mode in enumerate("rww"):
        os.dup2(os.open(terminal["tty"], os.O_RDWR), fd)
        setattr(sys, ("stdin", "stdout", "stderr")[fd], open(fd, mode, 1, "utf-8", closefd=False))
    os.close(done)
    pid = os.fork()
    if pid != 0:
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        with open(terminal["status"] + ".new", "w") as file:
            file.write(str(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])))
        os.rename(terminal["status"] + ".new", terminal["status"])
        os._exit(0)
for line in sys.stdin:
    run = json.loads(line)
    pid = os.fork()
    if pid == 0:
        try:
            if "tty" in run:
                go_on_at(run)
            os.chdir(run["cwd"])
            os.environ.clear()
            os.environ.update(run["env"])
            for fd, name in enumerate(run.get("files", ())):
                os.dup2(os.open(name, os.O_RDONLY if fd == 0 else os.O_WRONLY), fd)
            main(run["args"])
            code = 0
        except SystemExit as end:
            code = end.code if isinstance(end.code, int) else 0 if end.code is None else 1
        except BaseException:
            traceback.print_exc()
            code = 70
        finally:
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(code)
    print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), flush=True)
"""


@contextmanager
def nursery_in(*folders: Path) -> Iterator[subprocess.Popen[str]]:
    words = [sys.executable, "-c", NURSERY, *map(str, folders)]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        yield process
        process.kill()  # a run that a test left behind would keep it from ending by itself


@pytest.fixture(scope="session")
def nursery() -> Iterator[subprocess.Popen[str]]:
    with nursery_in() as process:
        yield process


def ask(nursery: subprocess.Popen[str], run: dict[str, Any]) -> int:
    """Have the nursery run it; what it says."""
    assert nursery.stdin is not None
    assert nursery.stdout is not None
    print(json.dumps(run), file=nursery.stdin, flush=True)
    return int(nursery.stdout.readline())


def run_command(
    nursery: subprocess.Popen[str],
    args: Sequence[str],
    cwd: Path,
    env: Mapping[str, str],
    scratch: Path,
    stdin: str | bytes = "",
) -> subprocess.CompletedProcess[str]:
    """Run it to its end. Its input and output are files in the folder `scratch`."""
    files = [scratch / name for name in ("stdin", "stdout", "stderr")]
    files[0].write_bytes(stdin.encode() if isinstance(stdin, str) else stdin)
    for file in files[1:]:
        file.write_bytes(b"")
    run = {"args": [*args], "cwd": str(cwd), "env": {**env}, "files": [*map(str, files)]}
    code = ask(nursery, run)
    return subprocess.CompletedProcess([*args], code, files[1].read_text("utf-8"), files[2].read_text("utf-8"))
