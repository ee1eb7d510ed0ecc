"""A command does not begin when our process was killed before it had set the command's limits, or when another command
changed what is mounted for it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from toolcrib.boundary.environment import command_environment
from toolcrib.boundary.mount_points import Mount, not_bound
from toolcrib.boundary.process import run
from toolcrib.boundary.process_tree import end_left_behind
from toolcrib.boundary.sandbox import SandboxSettings, select_sandbox
from toolcrib.core.errors import SandboxUnavailable

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="bubblewrap is for Linux")

KILLED = """
import os, signal, sys, time
from pathlib import Path
from typing import Any
from toolcrib.boundary.environment import command_environment
from toolcrib.boundary.process import start
from toolcrib.boundary.sandbox import SandboxSettings, select_sandbox

workspace = Path(sys.argv[1])
sandbox = select_sandbox(SandboxSettings(backend="bubblewrap"), workspace)
for number in range(8):
    if os.fork():
        os.wait()
        continue
    command = ["/bin/sh", "-c", f"echo ran > {number}"]
    spawn = sandbox.wrap(command, cwd=workspace, env=command_environment(), timeout=60)
    spawn.handshake.feed = lambda data: os.kill(os.getpid(), signal.SIGKILL)  # it is ready to be released
    start(spawn, timeout=60, limit=100)
    time.sleep(60)
"""


def left_behind(workspace: Path) -> list[int]:
    found: list[int] = []
    for folder in Path("/proc").iterdir():
        try:
            words = (folder / "cmdline").read_bytes().split(b"\0") if folder.name.isdigit() else []
        except OSError:
            continue
        if b"--block-fd" in words and str(workspace).encode() in words:
            found.append(int(folder.name))
    return found


def waits(pid: int) -> bool:
    """Whether a process waits for a pipe, or has ended."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] in "SZ"
    except OSError:
        return True


def test_a_killed_process_leaves_no_command_that_begins(tmp_path: Path) -> None:
    done = subprocess.run([sys.executable, "-c", KILLED, tmp_path], timeout=100, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    until = time.monotonic() + 30
    quiet = 0
    while quiet < 20 and time.monotonic() < until:  # they set up their sandboxes, and come to where they wait
        quiet = quiet + 1 if all(map(waits, left_behind(tmp_path))) else 0
        time.sleep(0.01)
    assert quiet == 20
    assert list(tmp_path.iterdir()) == []
    mine = subprocess.Popen(["sleep", "60"], env={**os.environ, "TOOLCRIB_COMMAND": "1.2.3"})  # no sandbox
    try:
        end_left_behind()
        while left_behind(tmp_path) and time.monotonic() < until:
            time.sleep(0.01)
        assert left_behind(tmp_path) == []
        assert mine.poll() is None
    finally:
        mine.send_signal(signal.SIGKILL)
        mine.wait()


@pytest.mark.parametrize("target", ["..", "../.."])
async def test_a_link_in_the_place_of_a_protected_folder_shows_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, target: str
) -> None:
    """Another command that runs makes 'sub' protected, and a link to the home once it has been judged."""
    (workspace := tmp_path / "home" / "ws").mkdir(parents=True)
    monkeypatch.setenv("HOME", str(workspace / target))
    sub = workspace / "sub"
    sub.mkdir()
    for folder in (sub, tmp_path, tmp_path / "home"):
        (folder / ".bashrc").write_text("secret")
    sandbox = select_sandbox(SandboxSettings(backend="bubblewrap"), workspace)
    spawn = sandbox.wrap(["/bin/cat", ".bashrc"], cwd=workspace, env=command_environment(), timeout=60)
    sub.rename(workspace / "other")
    sub.symlink_to(target)
    with pytest.raises(SandboxUnavailable, match="sub was changed while"):
        await run(spawn, timeout=60)


def test_each_path_must_be_bound_onto_itself_as_often_as_that_was_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    from toolcrib.boundary import mount_points

    there = [
        Mount("1", "0", "0:1", "/", "/new"), Mount("2", "1", "8:1", "/ws", "/new/ws"),
        Mount("3", "2", "8:1", "/ws/a", "/new/ws/a"), Mount("4", "3", "8:1", "/home", "/new/ws/a/b"),
        Mount("5", "2", "8:2", "/", "/new/ws/own"), Mount("6", "5", "8:2", "/x", "/new/ws/own/x"),
    ]  # fmt: skip
    monkeypatch.setattr(mount_points, "mounts", lambda pid="self": there if pid == 1 else ours)
    monkeypatch.setattr(mount_points, "_LOOKS", 1)
    ours = [Mount("7", "0", "8:2", "/", "/"), Mount("8", "7", "8:1", "/ws", "/ws"), Mount("9", "7", "8:2", "/x", "/")]
    assert not_bound(1, ["/ws/a", "/ws/own/x"], "/new") == ""
    assert not_bound(1, ["/ws/a", "/ws/a"], "/new") == "/ws/a"
    assert not_bound(1, ["/ws/a/b"], "/new") == "/ws/a/b"
    assert not_bound(1, ["/ws/a/c"], "/new") == "/ws/a/c"
    assert not_bound(1, ["/ws/a", "/ws/own/x"], "/new", over_layer=True) == "/ws/own/x"
    assert not_bound(1, ["/ws/a/b"], "/new", over_layer=True) == "/ws/a/b"


async def test_what_is_read_only_stays_so_where_another_granted_folder_begins(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In a home that is the workspace, the folders of PATH are read-only; in a project that is granted they are not."""
    project = tmp_path / "project"
    (project / "sub" / "bin").mkdir(parents=True)
    (project / "sub" / ".envrc").touch()
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("PATH", f"{project}/sub/bin:{os.environ['PATH']}")
    settings = SandboxSettings(backend="bubblewrap", write_roots=(project,))
    spawn = select_sandbox(settings, tmp_path).wrap(
        ["/bin/sh", "-c", "echo x > project/sub/bin/tool; echo x > project/sub/new"],
        cwd=tmp_path, env=command_environment(), timeout=60,
    )  # fmt: skip
    await run(spawn, timeout=60)
    assert not (project / "sub" / "bin" / "tool").exists() and (project / "sub" / "new").exists()


@pytest.mark.parametrize("backend", ["bubblewrap", "landlock"])
@pytest.mark.parametrize("moved", ["a", "a/ws"])
async def test_a_granted_folder_in_another_one_stays_where_it_is(tmp_path: Path, backend: Any, moved: str) -> None:
    """A link in its place would lead the next command elsewhere."""
    (workspace := tmp_path / "outer" / "a" / "ws").mkdir(parents=True)
    settings = SandboxSettings(backend=backend, write_roots=(tmp_path / "outer",))
    spawn = select_sandbox(settings, workspace).wrap(
        ["/bin/sh", "-c", f"cd ../..; mv {moved} b; mkdir -p a; rmdir a/ws; ln -s / a/ws; echo x > a/ws/new"],
        cwd=workspace, env=command_environment(), timeout=60,
    )  # fmt: skip
    await run(spawn, timeout=60)
    assert not workspace.is_symlink() and (workspace / "new").exists() and spawn.appeared() == []


async def test_the_folder_of_a_hidden_file_keeps_its_name(tmp_path: Path) -> None:
    (tmp_path / "a" / "b").mkdir(parents=True)
    (hidden := tmp_path / "a" / "b" / "key").touch()
    sandbox = select_sandbox(SandboxSettings(backend="bubblewrap", hidden=(hidden,)), tmp_path)
    spawn = sandbox.wrap(["/bin/mv", "a", "c"], cwd=tmp_path, env=command_environment(), timeout=60)
    await run(spawn, timeout=60)
    assert hidden.exists()
