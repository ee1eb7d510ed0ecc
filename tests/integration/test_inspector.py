"""An outside client, in another language: the MCP inspector lists and calls the built-in tools of `toolcrib serve`."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parent))
from node_tools import environment, installed, node

pytestmark = [pytest.mark.integration, pytest.mark.slow]

TOOLCRIB = Path(sys.executable).with_name("toolcrib")
SECRET_FREE = {"TOOLCRIB_HTTP_TOKEN": ""}


@pytest.fixture
def work(tmp_path: Path) -> Path:
    folder = tmp_path / "work"
    folder.mkdir()
    (folder / "a.txt").write_text("alpha\nbeta\n")
    return folder


@pytest.fixture
def env(tmp_path: Path) -> dict[str, str]:
    return environment(XDG_STATE_HOME=str(tmp_path / "state"), XDG_CONFIG_HOME=str(tmp_path / "config"), **SECRET_FREE)


def inspect(env: dict[str, str], target: list[str], *arguments: str) -> dict[str, Any]:
    """What `npx @modelcontextprotocol/inspector@0.15.0 --cli TARGET …` prints."""
    home = installed("@modelcontextprotocol/inspector", "0.15.0")
    done = subprocess.run(
        [node(), str(home / "cli" / "build" / "cli.js"), "--cli", *target, *arguments],
        env=env, capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout)


@pytest.fixture(params=["stdio", "http"])
def target(request: pytest.FixtureRequest, work: Path, env: dict[str, str]) -> Iterator[list[str]]:
    """How the inspector reaches the server: as its child, or at a URL (it cannot send a token of ours)."""
    command = [str(TOOLCRIB), "serve", "--workspace", str(work)]
    if request.param == "stdio":
        # the inspector hands its child few variables; these are ours
        yield ["-e", f"XDG_STATE_HOME={env['XDG_STATE_HOME']}", "-e", f"XDG_CONFIG_HOME={work}", *command]
        return
    server = subprocess.Popen(
        [*command, "--http", "127.0.0.1:0", "--token", ""], stderr=subprocess.PIPE, text=True,
        env={**os.environ, **env},
    )  # fmt: skip
    try:
        assert server.stderr is not None
        seen = ""
        for line in server.stderr:
            seen += line
            if "http://" in line:
                yield [line[line.index("http://") :].strip()]
                break
        else:
            pytest.fail(seen)
    finally:
        server.terminate()
        server.communicate(timeout=60)
        assert server.returncode == 0


def test_lists_and_calls(target: list[str], env: dict[str, str], work: Path) -> None:
    listed = {tool["name"]: tool for tool in inspect(env, target, "--method", "tools/list")["tools"]}
    assert {"read_file", "write_file", "edit_file", "list_dir", "glob", "grep", "exec"} <= set(listed)
    assert listed["read_file"]["annotations"]["readOnlyHint"] is True
    assert listed["exec"]["annotations"]["destructiveHint"] is True

    call = ("--method", "tools/call", "--tool-name")
    read = inspect(env, target, *call, "read_file", "--tool-arg", "path=a.txt")
    assert "alpha" in read["content"][0]["text"]
    assert not read.get("isError")

    wrote = inspect(env, target, *call, "write_file", "--tool-arg", "path=b.txt", "--tool-arg", "content=made here")
    assert not wrote.get("isError"), wrote
    assert (work / "b.txt").read_text() == "made here"

    outside = inspect(env, target, *call, "read_file", "--tool-arg", "path=/etc/passwd")
    assert outside["isError"]
    assert "root:" not in outside["content"][0]["text"]
