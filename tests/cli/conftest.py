"""The real command in a process of its own, with a home, state and workspace of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import termios
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from pexpect import fdpexpect

from ..nursery import ask, run_command
from ..waiting import wait_until

COMMAND = [sys.executable, "-m", "toolcrib"]


class Terminal(fdpexpect.fdspawn):
    """A terminal with the command in it, forked by the nursery."""

    def __init__(self, run: dict[str, Any], nursery: subprocess.Popen[str], scratch: Path) -> None:
        ours, theirs = os.openpty()
        termios.tcsetwinsize(theirs, (40, 120))
        super().__init__(ours, encoding="utf-8", timeout=60)
        self.exitstatus: int | None = None
        self._status = scratch / f"status-{ours}"
        self._status.unlink(missing_ok=True)
        ask(nursery, {**run, "tty": os.ttyname(theirs), "status": str(self._status)})
        os.close(theirs)

    def wait(self) -> int:
        """Its exit code."""
        wait_until(self._status.exists)
        self.exitstatus = int(self._status.read_text())
        return self.exitstatus


@dataclass
class Cli:
    home: Path
    work: Path
    nursery: subprocess.Popen[str]
    command: list[str]
    """Starts it as a program."""

    @property
    def env(self) -> dict[str, str]:
        kept = {k: v for k, v in os.environ.items() if not k.startswith(("TOOLCRIB_", "XDG_"))}
        return {**kept, "HOME": str(self.home), "NO_COLOR": "", "TERM": "xterm", "COLUMNS": "100",
                "TOOLCRIB_HOOKD": "off"}  # fmt: skip

    def __call__(
        self, *args: str, stdin: str | bytes = "", code: int | None = 0, env: dict[str, str] | None = None
    ) -> subprocess.CompletedProcess[str]:
        """Run it; the exit code must be `code`, unless None."""
        done = run_command(self.nursery, args, self.work, {**self.env, **(env or {})}, self.home.parent, stdin)
        assert code is None or done.returncode == code, done
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
def cli(tmp_path: Path, nursery: subprocess.Popen[str], forked_python: str) -> Cli:
    (tmp_path / "home").mkdir()
    (tmp_path / "work").mkdir()
    return Cli(tmp_path / "home", tmp_path / "work", nursery, [forked_python, "-m", "toolcrib"])
