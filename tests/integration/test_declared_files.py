"""Files in the workspace that settings name and that Toolcrib itself reads or writes: a tool that put a link there
would read or write outside the workspace, or send secrets elsewhere."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from toolcrib import Toolbox
from toolcrib.config.settings import Mode
from toolcrib.policy.requests import ApprovalRequest, Decision

API = {
    "openapi": "3.0.0", "info": {"title": "x", "version": "1"}, "servers": [{"url": "https://api.example.com"}],
    "paths": {"/a": {"get": {"operationId": "getA", "responses": {}}}},
}  # fmt: skip
PLANT = """
import os, sys
for path, target in (("logs/calls.jsonl", "start"), ("token.txt", "key"), ("jobs.db", "key"),
                     ("jobs.db.worker", "start")):
    for way in (lambda: os.path.lexists(path) and os.remove(path), lambda: os.symlink(sys.argv[1] + "/" + target, path),
                lambda: os.rename(os.path.dirname(path) or ".", "moved")):
        try:
            way()
        except OSError:
            pass
"""


class Ground:
    def __init__(self, folder: Path) -> None:
        self.ws, self.home = folder / "ws", folder / "home"
        for each in (self.ws / "logs", self.home):
            each.mkdir(parents=True)
        (self.home / "start").write_text("# mine\n")
        (self.home / "key").write_text("key-outside-0123456789\n")
        (self.ws / "token.txt").write_text("value-inside-0123456789\n")
        (self.ws / "pets.json").write_text(json.dumps(API))
        (self.ws / "plant.py").write_text(PLANT)
        for path in (self.home / "key", self.ws / "token.txt"):
            path.chmod(0o600)
        self.config = folder / "own.toml"
        self.asked: list[str] = []

    async def approve(self, request: ApprovalRequest) -> Decision:
        self.asked.append(request.reason)
        return Decision(False)

    def open(self, backend: str):
        self.config.write_text(
            f'[sandbox]\nbackend = "{backend}"\n'
            f'[[hooks]]\naction = "log"\nfile = "{self.ws}/logs/calls.jsonl"\n'
            f'[secrets.T]\nfile = "{self.ws}/token.txt"\ntools = ["exec", "openapi:pets"]\n'
            f'[openapi.pets]\nspec = "{self.ws}/pets.json"\nheaders = {{ A = "${{secret:T}}" }}\n'
            f'[jobs]\nurl = "sqlite:///${{JOBS_FOLDER}}/jobs.db?timeout=9"\n'
        )
        return Toolbox.open(workspace=self.ws, config=self.config, approve=self.approve)


@pytest.mark.parametrize("backend", ["bubblewrap", "landlock", "none"])
async def test_a_command_puts_no_link_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, backend: str) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setenv("JOBS_FOLDER", str(tmp_path / "ws"))
    ground = Ground(tmp_path)
    async with ground.open(backend) as box:
        done = await box.call("exec", {"command": f"python3 plant.py {ground.home}"})
        assert not done.is_error, done.for_llm
        await box.call("read_file", {"path": "nothing $(touch marker)"})
    assert (ground.home / "start").read_text() == "# mine\n"
    assert '"exec"' in (ground.ws / "logs" / "calls.jsonl").read_text()
    for name in ("token.txt", "jobs.db", "jobs.db.worker", "logs", "logs/calls.jsonl"):
        assert not (ground.ws / name).is_symlink()
    async with ground.open(backend) as box:
        shown = await box.call("exec", {"command": "echo $T | tr a-z A-Z"})
    assert "KEY-OUTSIDE" not in shown.for_llm and "VALUE-INSIDE" in shown.for_llm


async def test_a_file_tool_asks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setenv("JOBS_FOLDER", str(tmp_path / "ws"))
    ground = Ground(tmp_path)
    elsewhere = json.dumps({**API, "servers": [{"url": "https://elsewhere.example.net"}]})
    async with ground.open("bubblewrap") as box:
        for path in ("pets.json", "jobs.db", "jobs.db-wal", "jobs.db.worker", "logs/calls.jsonl", "token.txt"):
            assert (await box.call("write_file", {"path": path, "content": elsewhere})).is_error
        assert (await box.call("delete_file", {"path": "logs", "recursive": True})).is_error
        assert not (await box.call("write_file", {"path": "logs/other", "content": "x"})).is_error
    assert len(ground.asked) == 7
    assert any("where the requests of the API pets go, with their secrets" in reason for reason in ground.asked)
    assert sorted(os.listdir(ground.ws / "logs")) == ["calls.jsonl", "other"]


LED_OUT = ["config/toolcrib/rules/user.json", "config/toolcrib/rules", "state/toolcrib/trust.json"]


@pytest.mark.parametrize("led", LED_OUT)
async def test_a_tool_changes_no_rules_and_no_trust_that_a_link_keeps_in_the_workspace(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, led: str
) -> None:
    """As in a folder of dotfiles."""
    for name in ("config", "state"):
        monkeypatch.setenv(f"XDG_{name.upper()}_HOME", str(tmp_path / name))
        (tmp_path / name / "toolcrib").mkdir(parents=True, mode=0o700)
    ground, link = Ground(tmp_path), tmp_path / led
    link.parent.mkdir(exist_ok=True, mode=0o700)
    kept = ground.ws / "dotfiles" / link.name
    file = kept if link.suffix else kept / "user.json"
    file.parent.mkdir(parents=True)
    if link.suffix:
        kept.write_text('{"files": {}}' if "trust" in led else "{}")
        kept.chmod(0o600)
    link.symlink_to(kept)
    name = str(file.relative_to(ground.ws))
    before = file.read_text() if file.exists() else None
    async with Toolbox.open(workspace=ground.ws, approve=ground.approve) as box:
        await box.call("write_file", {"path": name, "content": '{"permissions": {"allow": ["Bash"]}}'})
        await box.call("exec", {"command": f"python3 -c \"open('{name}', 'w').write('{{}} ')\""})
        await box.call("exec", {"command": "mv dotfiles away"})
    assert (file.read_text() if file.exists() else None) == before
    assert ground.asked and "Toolcrib trusts these settings" in ground.asked[0]


@pytest.mark.parametrize("mode", ["assistant", "autonomous"])
async def test_input_for_a_command_that_may_change_what_the_host_runs_asks(tmp_path: Path, mode: Mode) -> None:
    """A yes lets one command change it; what it is given later was not in the question."""
    ground, asked = Ground(tmp_path), list[str]()
    (ground.ws / "srv").mkdir()
    server = ground.ws / "srv" / "server.py"
    server.write_text("# mine\n")
    (ground.ws / "evil.py").write_text("open('srv/server.py', 'w').write('evil')")
    ground.config.write_text('[mcp_servers.s]\ncommand = "python3"\nargs = ["srv/server.py"]\n')

    async def only_the_first(request: ApprovalRequest) -> bool:
        asked.append(request.reason)
        return len(asked) == 1

    async with Toolbox.open(workspace=ground.ws, config=ground.config, approve=only_the_first, mode=mode) as box:
        start = {"command": "touch srv/server.py; bash", "background": True, "interactive": True}
        session = (await box.call("exec", start)).meta["session_id"]
        given = {"action": "write", "session_id": session, "input": "python3 evil.py\n", "wait": 2}
        assert (await box.call("exec_session", given)).error_kind == "denied"
    assert server.read_text() == "# mine\n" and len(asked) == 2
