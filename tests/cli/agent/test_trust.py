"""`toolcrib trust` for the texts that the agent uses, and what `toolcrib run` says of them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ..conftest import Cli

SKILL = "---\nname: report\ndescription: Makes reports.\n---\nRun scripts/make.py.\n"


@pytest.fixture
def project(cli: Cli) -> Cli:
    (cli.work / ".git").mkdir()
    cli.write("AGENTS.md", "Use tabs.\x1b[2J\u202e\n")
    cli.write(".agents/skills/report/SKILL.md", SKILL)
    cli.write(".agents/skills/report/scripts/make\n.py", "")
    cli.write(".claude/skills/bad/SKILL.md", "nothing")
    return cli


def script(folder: Path) -> str:
    path = folder / "script.json"
    path.write_text(json.dumps([{"text": "hi"}]))
    return f"scripted:{path}"


def test_texts_are_shown_escaped_with_their_files_and_trusted_together(project: Cli, tmp_path: Path) -> None:
    first = project("run", "--model", script(tmp_path), "x").stderr
    assert "AGENTS.md counts as information, 1 skill is not offered. `toolcrib trust` shows" in first
    assert "The skill bad is not offered" in first
    shown = project("trust", code=3).stderr
    assert "  | Use tabs." in shown
    assert "\x1b[2J" not in shown
    assert "\\u202e" in shown
    assert "  | Run scripts/make.py." in shown
    assert "    scripts/make\\n.py" in shown
    project("trust", "--yes")
    listed = project("trust", "--list").stdout
    assert "AGENTS.md" in listed
    assert "SKILL.md" in listed
    assert "Not trusted" not in project("run", "--model", script(tmp_path), "x").stderr
    assert "already trusted" in project("trust").stderr


def test_one_file_alone_and_a_change(project: Cli, tmp_path: Path) -> None:
    project("trust", "--yes", "AGENTS.md")
    again = project("run", "--model", script(tmp_path), "x").stderr
    assert "AGENTS.md" not in again
    assert "1 skill is not offered" in again
    project.write("AGENTS.md", "Use spaces.")
    assert "AGENTS.md counts as information" in project("run", "--model", script(tmp_path), "x").stderr
    assert "not a file that trust can change" in project("trust", "--yes", "other.md", code=2).stderr


def test_revoking_also_a_file_that_is_gone(project: Cli) -> None:
    project("trust", "--yes")
    (project.work / "AGENTS.md").unlink()
    project("trust", "--revoke", ".agents/skills/report/SKILL.md")
    assert [Path(row["path"]).name for row in project.json("trust", "--list", "--json")] == ["AGENTS.md"]
    project("trust", "--revoke")
    assert project.json("trust", "--list", "--json") == []


def test_a_long_text_says_what_is_not_shown(project: Cli) -> None:
    project.write("AGENTS.md", "a" * 9_000 + "MIDDLE" + "b" * 9_000)
    shown = project("trust", "AGENTS.md", code=3).stderr
    assert "MIDDLE" not in shown
    assert "characters not shown here" in shown
    assert "before you say yes" in shown


def test_an_agent_plugin_is_shown_and_trusted_and_listed(project: Cli) -> None:
    folder = project.home / ".local/share/toolcrib/plugins/box"
    site = "https://agent-plugins.org/schemas/1.0.0"
    servers = {"x": {"type": "stdio", "command": "sh", "args": ["${PLUGIN_ROOT}/run"]}}
    for name, text in {
        "plugin.json": json.dumps({"$schema": f"{site}/plugin.schema.json", "name": "box", "version": "2"}),
        "mcp.json": json.dumps({"$schema": f"{site}/mcp.schema.json", "mcpServers": servers}),
        "skills/pack/SKILL.md": SKILL.replace("report", "pack"),
    }.items():
        path = project.write(f"../home/.local/share/toolcrib/plugins/box/{name}", text)
        assert path.exists()
    project.write("../home/.config/toolcrib/config.toml", "[plugins]\nenabled = true\n")
    assert "is not trusted" in project("list").stderr
    shown = project("trust", code=3).stderr
    assert "the MCP servers of the plugin box run, in the sandbox" in shown
    assert "${PLUGIN_ROOT}/run" in shown
    assert "the model may use the skill pack" in shown
    project("trust", "--yes", str(folder / "mcp.json"))
    row = project.json("plugin", "list", "--json")["plugins"][0]
    assert (row["name"], row["kind"], row["version"], row["state"]) == ("box", "agent plugin", "2", "loaded")
