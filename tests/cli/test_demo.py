"""`toolcrib demo` tells the main story for real, and fails if a part of it is not true."""

from __future__ import annotations

import shlex
import socket
import subprocess
from pathlib import Path

import pytest

from toolcrib.cli.demo import Demo

from .conftest import Cli


@pytest.mark.slow
def test_demo(cli: Cli) -> None:
    done = cli("demo", code=None)
    assert done.returncode == 0, done.stdout + done.stderr
    command = shlex.split(done.stderr.splitlines()[-1].rpartition("Next: ")[2])
    shown = subprocess.run([*command, "--print"], cwd=cli.work, env=cli.env, capture_output=True, text=True, check=True)
    assert "mcpServers" in shown.stdout
    assert "edit_file" in done.stdout
    assert "restored shop.py" in done.stdout
    assert "kill -9" in done.stdout
    assert "is back before turn 0" in done.stdout
    assert list(cli.work.iterdir()) == []
    assert not (cli.home / ".local").exists()  # it has a state folder of its own


def test_a_reader_that_ends_first_is_no_failure(cli: Cli) -> None:
    code = f"import sys; from toolcrib.cli import main; sys.executable = {cli.command[0]!r}; main(['demo'])"
    demo = subprocess.Popen(
        [cli.command[0], "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=cli.work,
        env=cli.env,
    )  # fmt: skip
    assert demo.stdout is not None and demo.stderr is not None
    with demo:
        demo.stdout.readline()
        demo.stdout.close()
        assert demo.stderr.read() == ""
    assert demo.returncode == 0


@pytest.mark.parametrize("args", [["--mode", "observer"], ["--workspace", "."]])
def test_the_demo_is_not_for_your_files(cli: Cli, args: list[str]) -> None:
    cli("demo", *args, code=2)


def test_the_demo_notices_a_broken_guard(cli: Cli) -> None:
    """With a sandbox that is none, the step on walls must fail."""
    code = (
        f"import sys, toolcrib.cli.demo as d; sys.executable = {cli.command[0]!r}\n"
        "old = d.Demo.environment\n"
        "more = {'TOOLCRIB_SANDBOX__BACKEND': 'none', 'TOOLCRIB_MODE': 'autonomous'}\n"
        "d.Demo.environment = lambda self: {**old(self), **more}\n"
        "from toolcrib.cli import main\nmain(['demo'])"
    )
    done = subprocess.run(
        [cli.command[0], "-c", code], capture_output=True, text=True, cwd=cli.work, env=cli.env, timeout=60
    )
    assert done.returncode == 1
    assert "the demo failed: step 6" in done.stderr


def test_no_program_of_the_folder_in_which_it_is_started(
    cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    planted = cli.work / ".venv" / "bin"
    planted.mkdir(parents=True)
    monkeypatch.chdir(cli.work)
    monkeypatch.setenv("PATH", f"{planted}:/usr/bin")
    with socket.socket() as listener:
        assert Demo(tmp_path, listener).environment()["PATH"] == "/usr/bin"
