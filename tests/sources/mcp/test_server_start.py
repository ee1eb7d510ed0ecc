"""The command of a local server, as a start of the host."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from toolcrib.core.context import ToolContext
from toolcrib.policy.starts import Starts
from toolcrib.sources.mcp.cache import ListCache
from toolcrib.sources.mcp.client_services import ClientServices
from toolcrib.sources.mcp.config import server_config
from toolcrib.sources.mcp.connector import McpFailure
from toolcrib.sources.mcp.listed import ListedTool
from toolcrib.sources.mcp.relay import Relay
from toolcrib.sources.mcp.server_start import start_of, words_of
from toolcrib.sources.mcp.upstream import Upstream


def test_variables_that_load_something_count(tmp_path: Path) -> None:
    env = {"PYTHONPATH": f"/nowhere:{tmp_path}/lib", "NODE_OPTIONS": "--require ./hook.js", "DATA_DIR": "data"}
    for name in ("lib/server.py", "hook.js", "data/rows.csv"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    start = start_of(server_config("a", {"command": "python3", "args": ["-m", "server"], "env": env}), tmp_path)
    assert start is not None and start.words == ("python3", "-m", "server")
    files = Starts([tmp_path]).host_files([start])
    protected = {"lib/server.py": True, "lib/new.py": True, "hook.js": True, "data/rows.csv": False}
    for name, expected in protected.items():
        assert any(each.is_touched_by(str(tmp_path / name)) for each in files) is expected, name


@pytest.mark.parametrize(
    ("given", "everywhere"),
    [
        ({"args": ["-m", "a"]}, True),
        ({"args": ["a.py"], "cwd": "."}, True),
        ({"args": ["{}/a.py"]}, False),
        ({"args": ["-m", "a"], "cwd": "{}"}, False),
    ],
)
def test_a_server_of_all_workspaces_is_of_one_if_it_names_it(tmp_path: Path, given: Any, everywhere: bool) -> None:
    named = json.loads(json.dumps(given).replace("{}", str(tmp_path)))
    config = replace(server_config("a", {"command": "python3", **named}), everywhere=True)
    start = start_of(config, tmp_path)
    assert start is not None and start.everywhere is everywhere


def test_a_python_server_of_all_workspaces_loads_none_of_their_modules(tmp_path: Path) -> None:
    """So it asks nothing in a Python project. One that names the workspace means its modules."""
    (tmp_path / "server.py").write_text("print('not this one')")
    config = replace(server_config("a", {"command": sys.executable, "args": ["-m", "server"]}), everywhere=True)
    start = start_of(config, tmp_path)
    assert start is not None and start.words == (sys.executable, "-P", "-m", "server")
    starts = Starts([tmp_path], tmp_path.parent / "starts")
    assert starts.doubt(start) is None and starts.host_files([start]) == ()
    ran = subprocess.run(start.words, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (ran.stdout, "No module named server" in ran.stderr) == ("", True)
    for named in (replace(config, cwd=str(tmp_path)), replace(config, everywhere=False), replace(config, command="uv")):
        assert "-P" not in words_of(named, tmp_path)
    assert starts.host_files([start_of(replace(config, env={"PYTHONPATH": "."}), tmp_path) or start]) != ()


def _closed(folder: Path, doubts: list[Any], accepted: list[str]) -> Upstream:
    """A server that cannot be reached, with what is said of its files before each start."""
    starts: Any = SimpleNamespace(
        doubt=lambda start: doubts.pop(0),
        accept=lambda start, digest: accepted.append(digest),
        made=lambda start, could: None,
    )
    services = ClientServices(folder, ListCache(folder / "lists"), folder / "tokens", {}, starts=starts)
    server = Upstream(server_config("a", {"command": "x"}), services, Relay(), lambda server, listing: None)
    for each in server.connectors:
        each.shut()
    return server


TOOL, CTX = ListedTool("do", "Does.", {"type": "object"}), ToolContext(session_id="s")


async def test_a_call_that_ran_without_a_question_trusts_no_files(tmp_path: Path) -> None:
    change, accepted = SimpleNamespace(digest="d", text="server.py has changed"), list[str]()
    doubts = [change, None, change]
    server = _closed(tmp_path, doubts, accepted)
    assert server.judge(TOOL, {}, CTX) is not None  # a person says no
    assert server.judge(TOOL, {}, CTX) is None  # the files are as they were, or the server runs
    for asked in (False, True):
        assert not asked or server.judge(TOOL, {}, CTX) is not None
        with pytest.raises(McpFailure, match="was closed"):
            await server.call(TOOL, {}, CTX)
        assert accepted == (["d"] if asked else [])


async def test_a_yes_to_the_start_of_a_changed_server_is_for_the_change_that_was_shown(tmp_path: Path) -> None:
    """The same call, or a check of it, asks again while the first question is open, and the files have changed."""
    doubts = [SimpleNamespace(digest=each, text="server.py has changed") for each in ("shown", "later", "later")]
    accepted: list[str] = []
    server = _closed(tmp_path, doubts, accepted)
    for asks in (2, 1):
        for _ in range(asks):
            assert server.judge(TOOL, {}, CTX) is not None
        with pytest.raises(McpFailure, match="was closed"):
            await server.call(TOOL, {}, CTX)
    assert accepted == ["later"], "after the second question, which was about this alone"
