"""doctor lists what is started from where, and why that is safe."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from toolcrib.boundary.host_starts import STARTS
from toolcrib.cli.doctor import started
from toolcrib.config import load_settings
from toolcrib.policy.starts import Starts
from toolcrib.record.state import StateFolder
from toolcrib.toolbox.declared import declared_starts


def test_every_start_with_its_place_and_reason(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ws = tmp_path / "ws"
    planted = ws / ".venv" / "bin" / "bwrap"
    planted.parent.mkdir(parents=True)
    planted.write_text("#!/bin/sh\n")
    planted.chmod(0o755)
    (ws / "server.py").write_text("import json\n")
    config = tmp_path / "own.toml"
    config.write_text(f"[mcp_servers.notes]\ncommand = {sys.executable!r}\nargs = ['--key', 'k1.py', 'server.py']\n")
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setenv("PATH", f"{planted.parent}{os.pathsep}{os.environ['PATH']}")
    settings = load_settings(ws, config=config)
    found = list(started(settings))
    names = [each.name for each in found]
    assert {f"starts {start.name}" for start in STARTS} <= set(names)
    (refused,) = [each for each in found if not each.ok]
    assert (
        refused.name == "starts bubblewrap" and str(planted) in refused.detail and "tools may write" in refused.detail
    )
    (server,) = [each for each in found if each.name == "starts MCP server notes"]
    assert sys.executable in server.detail and "server.py" in server.detail and "protected" in server.detail
    assert "k1.py" not in server.detail, "the value of an option for a secret"
    assert any(each.name == "own environment" and "outside the workspace" in each.detail for each in found)
    starts = Starts([ws], StateFolder.for_workspace(ws).path.parent / "starts")
    starts.check(declared_starts(settings)[0])
    (ws / "server.py").write_text("import os\n")
    (server,) = [each for each in started(settings) if each.name == "starts MCP server notes"]
    assert not server.ok and "server.py (changed)" in server.detail and "toolcrib mcp accept notes" in server.remedy


def test_a_server_is_looked_for_where_it_will_be(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setenv("PATH", os.path.join(sys.prefix, "bin"))  # servers do not get our own environment
    config = tmp_path / "own.toml"
    config.write_text("[mcp_servers.notes]\ncommand = 'toolcrib'\n")
    (tmp_path / "ws").mkdir()
    found = started(load_settings(tmp_path / "ws", config=config))
    (server,) = [each for each in found if each.name == "starts MCP server notes"]
    assert not server.ok and "there is no program 'toolcrib' on its PATH" in server.detail
