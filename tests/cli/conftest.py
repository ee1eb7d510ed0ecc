"""The real command in a process of its own, with a home, state and workspace of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import termios
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from pexpect import fdpexpect

COMMAND = [sys.executable, "-m", "toolcrib"]

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


class Terminal(fdpexpect.fdspawn):
    """A terminal with the command in it, forked by the nursery."""

    def __init__(self, run: dict[str, Any], nursery: subprocess.Popen[str], scratch: Path) -> None:
        ours, theirs = os.openpty()
        termios.tcsetwinsize(theirs, (40, 120))
        super().__init__(ours, encoding="utf-8", timeout=20)
        self.exitstatus: int | None = None
        self._status = scratch / f"status-{ours}"
        self._status.unlink(missing_ok=True)
        ask(nursery, {**run, "tty": os.ttyname(theirs), "status": str(self._status)})
        os.close(theirs)

    def wait(self) -> int:
        """Its exit code."""
        until = time.monotonic() + 20
        while not self._status.exists() and time.monotonic() < until:
            time.sleep(0.01)
        self.exitstatus = int(self._status.read_text())
        return self.exitstatus


def ask(nursery: subprocess.Popen[str], run: dict[str, Any]) -> int:
    """Have the nursery run it; what it says."""
    assert nursery.stdin is not None
    assert nursery.stdout is not None
    print(json.dumps(run), file=nursery.stdin, flush=True)
    return int(nursery.stdout.readline())


@dataclass
class Cli:
    home: Path
    work: Path
    nursery: subprocess.Popen[str]

    @property
    def env(self) -> dict[str, str]:
        kept = {k: v for k, v in os.environ.items() if not k.startswith(("TOOLCRIB_", "XDG_"))}
        return {**kept, "HOME": str(self.home), "NO_COLOR": "", "TERM": "xterm", "COLUMNS": "100",
                "TOOLCRIB_HOOKD": "off"}  # fmt: skip

    def __call__(
        self, *args: str, stdin: str | bytes = "", code: int | None = 0, env: dict[str, str] | None = None
    ) -> subprocess.CompletedProcess[str]:
        """Run it; the exit code must be `code`, unless None."""
        files = [self.home.parent / name for name in ("stdin", "stdout", "stderr")]
        files[0].write_bytes(stdin.encode() if isinstance(stdin, str) else stdin)
        for file in files[1:]:
            file.write_bytes(b"")
        run = {"args": args, "cwd": str(self.work), "env": {**self.env, **(env or {})}, "files": [*map(str, files)]}
        got = ask(self.nursery, run)
        done = subprocess.CompletedProcess(args, got, files[1].read_text("utf-8"), files[2].read_text("utf-8"))
        assert code is None or got == code, (got, done.stdout, done.stderr)
        assert "Traceback" not in done.stderr
        return done

    def at_terminal(self, *args: str, env: dict[str, str] | None = None) -> Terminal:
        """Start it in a terminal of its own."""
        run = {"args": args, "cwd": str(self.work), "env": {**self.env, **(env or {})}}
        return Terminal(run, self.nursery, self.home.parent)

    def json(self, *args: str, **more: Any) -> Any:
        """Run it and read its stdout as JSON."""
        return json.loads(self(*args, **more).stdout)

    def write(self, name: str, text: str) -> Path:
        path = self.work / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        return path


@pytest.fixture
def cli(tmp_path: Path, nursery: subprocess.Popen[str]) -> Cli:
    (tmp_path / "home").mkdir()
    (tmp_path / "work").mkdir()
    return Cli(tmp_path / "home", tmp_path / "work", nursery)
