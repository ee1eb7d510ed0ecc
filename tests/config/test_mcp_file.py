"""A project's .mcp.json: nothing of it counts before it is trusted, and we never serve ourselves to ourselves."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from toolcrib.config import Settings, load_settings
from toolcrib.config.load import is_ourselves
from toolcrib.config.trust_store import TrustStore

SERVERS = {"gh": {"command": "npx", "args": ["-y", "server"], "env": {"TOKEN": "x" * 12}}}


class Project:
    def __init__(self, folder: Path) -> None:
        self.root, self.home = folder / "work", folder / "home"
        self.root.mkdir()
        self.home.mkdir()
        self.store = TrustStore(folder / "trust.json")

    def write(self, value: Any, name: str = ".mcp.json") -> None:
        (self.root / name).write_text(value if isinstance(value, str) else json.dumps(value))

    def load(self) -> Settings:
        return load_settings(self.root, environ={"HOME": str(self.home)}, trust=self.store)


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return Project(tmp_path)


def test_it_counts_once_it_is_trusted(project: Project) -> None:
    project.write({"mcpServers": SERVERS, "other": 1})
    settings = project.load()
    assert settings.mcp_servers == {}
    assert [item.key for item in settings.origin.ignored] == ["mcp_servers.gh"]
    assert not settings.origin.trusted
    (warning,) = settings.origin.warnings
    assert "runs `npx -y server`" in warning
    assert "toolcrib trust" in warning
    for file in settings.origin.imported:
        project.store.trust(file)
    trusted = project.load()
    assert trusted.mcp_servers["gh"].args == ("-y", "server")
    assert (trusted.origin.warnings, trusted.origin.trusted) == ((), True)
    project.write({"mcpServers": {**SERVERS, "evil": {"command": "sh"}}})
    changed = project.load()
    assert changed.mcp_servers == {}
    assert "has changed since it was trusted" in changed.origin.warnings[0]


def test_our_own_file_wins_and_is_trusted_by_itself(project: Project) -> None:
    project.write({"mcpServers": SERVERS})
    project.write('[mcp_servers.gh]\nurl = "https://gh.example"\n', "toolcrib.toml")
    settings = project.load()
    assert len(settings.origin.warnings) == 2
    assert [file.path.name for file in settings.origin.imported] == [".mcp.json"]
    assert settings.origin.project is not None
    project.store.trust(settings.origin.project)
    assert project.load().mcp_servers["gh"].url == "https://gh.example"
    project.store.trust(settings.origin.imported[0])
    both = project.load().mcp_servers["gh"]
    assert (both.url, both.command) == ("https://gh.example", None)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("{", "the MCP servers of "),
        ("[]", "the MCP servers of "),
        ('{"mcpServers": {"a": {"command": 3}}}', "an MCP server is not used: "),
    ],
)
def test_what_cannot_be_read_is_a_warning(project: Project, text: str, why: str) -> None:
    project.write(text)
    settings = project.load()
    assert settings.mcp_servers == {}
    assert settings.origin.warnings[0].startswith(why)
    assert str(project.root / ".mcp.json") in settings.origin.warnings[0]


BAD_SERVERS = {
    "neither": {"args": ["x"]}, "number": 3, "list": {"command": ["a", "b"]},
    "away": {"url": "file:///etc/passwd"},
}  # fmt: skip


def test_a_server_that_cannot_be_read_takes_only_itself_away(project: Project) -> None:
    project.write({"mcpServers": {**BAD_SERVERS, **SERVERS}})
    settings = project.load()
    for file in settings.origin.imported:
        project.store.trust(file)
    trusted = project.load()
    assert trusted.mcp_servers["gh"].command == "npx"
    for name in BAD_SERVERS:
        (said,) = [warning for warning in trusted.origin.warnings if f"mcpServers.{name}" in warning]
        assert str(project.root / ".mcp.json") in said


@pytest.mark.parametrize(
    "entry",
    [
        {"command": "/x/bin/toolcrib", "args": ["serve", "--workspace", "/w"]},
        {"command": "python3", "args": ["-m", "toolcrib", "serve"]},
        {"command": "uvx", "args": ["toolcrib[web]", "serve"]},
    ],
)
def test_ourselves_is_left_out(project: Project, entry: dict[str, Any]) -> None:
    assert is_ourselves(entry)
    project.write({"mcpServers": {"toolcrib": entry}})
    assert project.load().origin.warnings == ()


def test_others_are_not_ourselves() -> None:
    assert not is_ourselves({"command": "toolcrib", "args": ["check"]})
    assert not is_ourselves({"command": "serve", "args": ["x"]})
    assert not is_ourselves("toolcrib serve")
