"""`toolcrib trust`, `config`, `install`, `doctor`."""

from __future__ import annotations

import importlib.util
import json
import os
import stat
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml

from toolcrib.cli import doctor
from toolcrib.cli.options import Options

from .conftest import Cli
from .test_approvals import spawn  # noqa: F401 (a fixture)

LOOSE = """
mode = "autonomous"
[sandbox]
env = ["GITHUB_TOKEN"]
[mcp_servers.x]
command = "sh"
args = ["-c", "TOKEN=$(id)"]
"""
USER = """[web.search]
api_key = "hunter2"
[mcp_servers.s]
command = "x"
env = { A = "hunter2" }
"""


def test_trust(cli: Cli) -> None:
    path = cli.write("toolcrib.toml", LOOSE)
    warned = cli("config", "--changed")
    assert "is not trusted" in warned.stderr
    assert "autonomous" not in warned.stdout
    shown = cli("trust", code=3).stderr
    assert 'mode = "autonomous"' in shown
    assert "TOKEN=$(id)" in shown  # what would run is shown as it stands, never masked
    assert "not trusted" in shown
    assert "run `toolcrib trust`" not in shown  # it runs
    cli("trust", "--yes")
    assert str(path) in cli("trust", "--list").stdout
    done = cli("config", "--changed")
    assert "autonomous" in done.stdout
    assert "is not trusted" not in done.stderr
    assert "already" in cli("trust").stderr
    path.write_text("# new\n" + LOOSE)
    assert "has changed since it was trusted" in cli("config").stderr
    cli("trust", "--yes")
    cli("trust", "--revoke")
    assert "is not trusted" in cli("config").stderr


def test_trust_at_the_terminal(cli: Cli, spawn) -> None:  # type: ignore[no-untyped-def]  # noqa: F811
    cli.write("toolcrib.toml", LOOSE)
    child = spawn("trust")
    child.expect(r"Trust this file.*\[y/N\]")
    child.sendline("")
    child.expect("not trusted")
    child.wait()
    assert not cli.json("config", "--json")["trusted"]
    child = spawn("trust")
    child.expect(r"\[y/N\]")
    child.sendline("y")
    child.expect("Trusted")
    child.wait()
    assert cli.json("config", "--json")["trusted"]


def test_trust_asks_about_no_file_that_needs_none(cli: Cli) -> None:
    cli.write("toolcrib.toml", 'mode = "observer"\n')
    cli.write(".mcp.json", '{"mcpServers": {"x": {"command": "cat"}}}')
    assert "toolcrib.toml needs trust" in cli("trust", "toolcrib.toml").stderr  # it listed the other one's server
    assert "these settings of" in (said := cli("trust", "--yes").stderr) and "toolcrib.toml" not in said


def test_trusting_nothing(cli: Cli) -> None:
    path = cli.write("toolcrib.toml", '[rules]\ndeny = ["Bash(x)"]\n')
    assert "needs trust" in cli("trust").stderr  # and no question
    path.unlink()
    assert "there is no toolcrib.toml" in cli("trust", "--yes", code=2).stderr
    assert cli.json("trust", "--list", "--json") == []
    assert "No file is trusted." in cli("trust", "--list").stderr


def test_config_shows_sources_and_hides_secrets(cli: Cli) -> None:
    cli.write("../home/.config/toolcrib/config.toml", USER)
    done = cli("config", env={"TOOLCRIB_MODE": "observer"})
    assert "hunter2" not in done.stdout + done.stderr
    lines = {line.split()[0]: line for line in done.stdout.splitlines()}
    assert "TOOLCRIB_MODE" in lines["mode"]
    assert "config.toml:2" in lines["web.search.api_key"]
    assert "config.toml:3" in lines["mcp_servers.s.command"]
    assert "default" in lines["approval.timeout"]
    data = cli.json("config", "--json")
    assert "hunter2" not in json.dumps(data)
    assert data["settings"]["mcp_servers"]["s"]["env"] == {"A": "***"}
    assert cli.json("config", "--schema")["properties"]["mode"]


def test_a_broken_file_is_a_usage_error_everywhere(cli: Cli) -> None:
    cli.write("toolcrib.toml", "mode = 'yolo'\n")
    for args in (["list"], ["call", "list_dir"], ["config"], ["undo", "--list"]):
        assert "toolcrib.toml:1: mode" in cli(*args, code=2).stderr
    assert "toolcrib.toml:1: mode" in cli("doctor", code=1).stdout
    assert "MISSING  workspace" in cli("doctor", "--workspace", "nosuch", code=1).stdout


def test_install_warns_only_where_the_name_is_on_no_path(cli: Cli) -> None:
    program = cli.write("bin/toolcrib", "#!/bin/sh\n")  # in a folder for temporary files, where we take no program from
    program.chmod(0o755)
    assert "on your PATH" in cli("install", "claude", "--yes", env={"PATH": "/nowhere"}).stderr
    cli("install", "claude", "--remove", "--yes", env={"PATH": "/nowhere"})
    assert "on your PATH" not in cli("install", "claude", "--yes", env={"PATH": str(program.parent)}).stderr


def test_install_keeps_the_rest(cli: Cli) -> None:
    path = cli.write(
        ".cursor/mcp.json", '{\n\t// mine\n\t"mcpServers": {\n\t\t"mine": {"command": "é"}, // too\n\t},\n}\n'
    )
    path.chmod(0o600)
    before = path.read_text()
    done = cli("install", "cursor", code=3)
    assert '+\t\t"toolcrib": {' in done.stderr
    assert path.read_text() == before
    cli("install", "cursor", "--yes", "--mode", "observer")
    after = path.read_text()
    assert next(line for line in after.splitlines() if line not in before.splitlines()) == '\t\t"toolcrib": {'
    assert all(line in after for line in before.splitlines())
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert (path.parent / "mcp.json.toolcrib-backup").read_text() == before
    assert "has it already" in cli("install", "cursor", "--mode", "observer").stderr
    shown = cli("install", "cursor", "--remove", code=3).stderr
    assert '-\t\t"toolcrib": {' in shown
    cli("install", "cursor", "--remove", "--yes")
    assert path.read_text() == before
    assert os.listdir(path.parent) == ["mcp.json"]
    assert "no such entry" in cli("install", "cursor", "--remove").stderr


def test_what_a_link_leads_to_is_emptied_not_removed(cli: Cli) -> None:
    own = cli.home / "dotfiles.json"
    own.write_text("{}\n")
    path = cli.home / ".cursor/mcp.json"
    path.parent.mkdir()
    path.symlink_to(own)
    cli("install", "cursor", "--user", "--yes")
    assert "toolcrib" in own.read_text()
    cli("install", "cursor", "--user", "--remove", "--yes")
    assert json.loads(own.read_text()) == {} and path.is_symlink()


def test_the_backup_of_install_replaces_a_link_that_came_with_the_project(cli: Cli, tmp_path: Path) -> None:
    """Else the file of a project, as it is, would become any file of the person."""
    path = cli.write(".codex/config.toml", 'a="$(touch planted)"\n')
    target = tmp_path / "bashrc"
    target.write_text("mine\n")
    backup = path.with_name("config.toml.toolcrib-backup")
    backup.symlink_to(target)
    cli("install", "codex", "--yes")
    assert target.read_text() == "mine\n"
    assert not backup.is_symlink() and backup.read_text() == 'a="$(touch planted)"\n'


def test_an_entry_has_a_name(cli: Cli) -> None:
    assert "a server's name has letters" in cli("install", "claude", "--name", "", "--yes", code=2).stderr
    assert not (cli.work / ".mcp.json").exists()


def test_a_link_to_a_client_s_file_stays_and_the_file_that_is_written_is_named_first(cli: Cli, tmp_path: Path) -> None:
    real = tmp_path / "claude.json"
    real.write_text("{}\n")
    (cli.home / ".claude.json").symlink_to(real)
    said = cli("install", "claude", "--user", "--yes").stderr
    assert said.startswith(f"{real} (where the link {cli.home}/.claude.json leads)\n")
    assert (cli.home / ".claude.json").is_symlink() and "toolcrib" in real.read_text()
    before = real.read_text()
    (cli.work / ".mcp.json").symlink_to(real)  # it came with the project
    for more in ([], ["--remove"]):
        assert "leads out of the workspace" in cli("install", "claude", "--yes", *more, code=2).stderr
    assert real.read_text() == before


SHARED = {
    "claude": (".mcp.json", ["serve"]),
    "cursor": (".cursor/mcp.json", ["serve", "--workspace", "${workspaceFolder}"]),
    "vscode": (".vscode/mcp.json", ["serve", "--workspace", "${workspaceFolder}"]),
    "gemini": (".gemini/settings.json", ["serve"]),
    "codex": (".codex/config.toml", ["serve"]),
}
OWN = {
    "claude": (".claude.json", "mcpServers"),
    "claude-desktop": (".config/Claude/claude_desktop_config.json", "mcpServers"),
    "codex": (".codex/config.toml", "mcp_servers"), "cursor": (".cursor/mcp.json", "mcpServers"),
    "gemini": (".gemini/settings.json", "mcpServers"), "goose": (".config/goose/config.yaml", "extensions"),
    "vscode": (".config/Code/User/mcp.json", "servers"),
    "windsurf": (".codeium/windsurf/mcp_config.json", "mcpServers"),
    "zed": (".config/zed/settings.json", "context_servers"),
}  # fmt: skip


def values(path: Path) -> dict[str, Any]:
    text = path.read_text()
    return tomllib.loads(text) if path.suffix == ".toml" else yaml.safe_load(text)  # JSON is YAML


@pytest.mark.parametrize("client", SHARED)
def test_what_a_team_shares_names_nothing_of_this_machine(cli: Cli, client: str) -> None:
    name, args = SHARED[client]
    cli.write("mine.toml", "")
    done = cli("install", client, "--yes", "--config", "mine.toml", env={"PATH": "/usr/bin:/bin"})
    assert "uv tool install toolcrib" in done.stderr
    path = cli.work / name
    ((_, servers),) = values(path).items()
    assert servers["toolcrib"]["command"] == "toolcrib"
    assert servers["toolcrib"]["args"] == [*args, "--config", "mine.toml"]
    assert str(cli.work.parent) not in path.read_text()
    cli("install", client, "--yes", "--remove")
    assert not path.exists() and os.listdir(path.parent) in ([], ["mine.toml"])


@pytest.mark.skipif(sys.platform != "linux", reason="the folders are those of Linux")
@pytest.mark.parametrize("client", OWN)
def test_a_users_file_names_a_program_that_is_there(cli: Cli, client: str) -> None:
    name, key = OWN[client]
    user = [] if client not in SHARED else ["--user"]
    cli("install", client, "--yes", *user)
    entry = values(cli.home / name)[key]["toolcrib"]
    assert os.access(entry.get("command") or entry["cmd"], os.X_OK)
    assert entry["args"][-3:] == ["serve", "--workspace", str(cli.work)] or (user and entry["args"][-1] == "serve")
    assert "has it already" in cli("install", client, *user).stderr
    cli("install", client, "--yes", *user, "--remove")
    assert not (cli.home / name).exists()


def test_install_writes_what_it_prints(cli: Cli) -> None:
    assert "cmd: " in cli("install", "goose", "--print").stdout
    assert "[mcp_servers.toolcrib]" in cli("install", "codex", "--print").stdout
    assert cli.json("install", "vscode", "--print")["servers"]["toolcrib"]["type"] == "stdio"
    assert not (cli.work / ".vscode").exists()


def test_install_sets_up_an_editor_for_the_user(cli: Cli) -> None:
    cli("install", "zed", "--acp", "--yes", "--mode", "observer")
    entry = json.loads((cli.home / ".config/zed/settings.json").read_text())["agent_servers"]["toolcrib"]
    assert entry["type"] == "custom"
    assert entry["args"][-3:] == ["acp", "--mode", "observer"]
    assert "these can: zed" in cli("install", "cursor", "--acp", code=2).stderr


@pytest.mark.parametrize("text", ['{"servers": [1]}', '{"servers": {}', "[]", '{"servers": {}} x', "\ufeff{}"])
def test_install_never_spoils_a_file(cli: Cli, text: str) -> None:
    path = cli.write(".vscode/mcp.json", text)
    assert "--print by hand" in cli("install", "vscode", "--yes", code=2).stderr
    assert path.read_text() == text
    assert "can be claude" in cli("install", "emacs", code=2).stderr


def test_doctor(cli: Cli) -> None:
    data = cli.json("doctor", "--json", code=None)
    findings = {finding["name"]: finding for finding in data["findings"]}
    assert {"toolcrib", "sandbox", "documents", "ripgrep", "state folder", "tools", "configuration"} <= set(findings)
    assert data["ok"] == all(f["ok"] for f in data["findings"] if f["needed"])
    text = cli("doctor", code=0 if data["ok"] else 1).stdout
    assert "ripgrep" in text
    assert "starts MCP servers" not in text and "doctor --starts" in text
    assert "starts MCP servers" in cli("doctor", "--starts", code=None).stdout


def test_doctor_finds_a_state_folder_that_cannot_be_made(cli: Cli) -> None:
    done = cli("doctor", env={"XDG_STATE_HOME": "/proc"}, code=1)
    assert "MISSING  toolbox" in done.stdout and "the state folder /proc/toolcrib cannot be made" in done.stdout


def test_doctor_finds_a_full_disk(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(cli.work)
    monkeypatch.setenv("XDG_STATE_HOME", str(cli.work.parent / "state"))
    monkeypatch.setattr(doctor, "is_full", lambda path: True)
    found = next(each for each in doctor.findings(Options()) if each.name == "state folder")
    assert (found.ok, found.needed) == (False, True)
    assert "make room" in found.remedy


def test_doctor_names_the_keys_of_models_and_never_shows_them(cli: Cli) -> None:
    done = cli("doctor", "--json", env={"ANTHROPIC_API_KEY": "sk-very-secret"}, code=None)
    (row,) = [f for f in json.loads(done.stdout)["findings"] if f["name"] == "models"]
    assert row["ok"]
    assert "ANTHROPIC_API_KEY is set" in row["detail"]
    assert "very-secret" not in done.stdout + done.stderr
    done = cli("doctor", "--json", env={"TOOLCRIB_AGENT__MODEL": "nosuch:m"}, code=None)
    (row,) = [f for f in json.loads(done.stdout)["findings"] if f["name"] == "models"]
    assert not row["ok"] and "'nosuch:m' is not the name of a model" in row["detail"]


def test_doctor_says_which_documents_cannot_be_read(monkeypatch: pytest.MonkeyPatch) -> None:
    assert doctor.documents().ok
    there = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == "mammoth" else there(name))
    found = doctor.documents()
    assert (found.ok, found.needed, found.detail) == (False, False, "not read: docx (no mammoth)")
    assert "toolcrib[docs]" in found.remedy


def test_doctor_says_what_is_missing(cli: Cli) -> None:
    cli.write("x", "")
    done = cli("doctor", "--json", env={"TOOLCRIB_SANDBOX__BACKEND": "docker"}, code=1)
    sandbox = [f for f in json.loads(done.stdout)["findings"] if f["name"] == "sandbox"][-1]
    assert not sandbox["ok"]
    assert "docker" in sandbox["detail"]
