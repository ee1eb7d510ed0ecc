"""H1: a program that a tool put into the workspace is never run by the host, though its folder is first on PATH."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from toolcrib import Toolbox
from toolcrib.boundary.host_starts import STARTS
from toolcrib.boundary.ripgrep import find_ripgrep
from toolcrib.boundary.sandbox import SandboxSettings, bubblewrap_backend, probe
from toolcrib.boundary.sandbox.docker.container_engine import find_engine
from toolcrib.builtin.browser import find_browser
from toolcrib.config import load_settings
from toolcrib.core.errors import SandboxUnavailable
from toolcrib.policy.requests import ApprovalRequest, Decision

NAMES = sorted({name for start in STARTS for name in start.names} | {"sh", "bash", "python3", "git", "notify", "vault"})


class Planted:
    """A workspace whose `.venv/bin` is first on PATH, as in an activated environment."""

    def __init__(self, folder: Path) -> None:
        self.ws, self.marker = folder / "ws", folder / "marker"
        self.bin = self.ws / ".venv" / "bin"
        self.bin.mkdir(parents=True)

    def script(self, name: str) -> str:
        return f"#!/bin/sh\necho {name} >> '{self.marker}'\necho 'ripgrep 14.0.0'\n"

    @property
    def ran(self) -> list[str]:
        return self.marker.read_text().split() if self.marker.exists() else []


@pytest.fixture
def planted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Planted:
    made = Planted(tmp_path)
    monkeypatch.setenv("PATH", f"{made.bin}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    for cache in (bubblewrap_backend.candidates, bubblewrap_backend.working):
        cache.cache_clear()
    return made


async def yes(request: ApprovalRequest) -> Decision:
    return Decision(True)


async def plant(made: Planted) -> None:
    """Write each program by a tool, with the right to execute it."""
    async with Toolbox.open(workspace=made.ws, mode="autonomous", approve=yes, yes=True) as box:
        for name in NAMES:
            lines = "".join(f"+{line}\n" for line in made.script(name).splitlines())
            path = f".venv/bin/{name}"
            head = f"diff --git a/{path} b/{path}\nnew file mode 100755\n--- /dev/null\n+++ b/{path}\n"
            patch = f"{head}@@ -0,0 +1,3 @@\n{lines}"
            output = await box.call("apply_patch", {"patch": patch})
            assert not output.is_error, output.for_llm
    assert all(os.access(made.bin / name, os.X_OK) for name in NAMES)


@pytest.mark.parametrize("backend", ["bubblewrap", "landlock", "none"])
async def test_tools_run_none_of_it(planted: Planted, backend: str) -> None:
    await plant(planted)
    config = planted.ws.parent / "own.toml"
    config.write_text(
        f'[sandbox]\nbackend = "{backend}"\n[[hooks]]\naction = "notify"\ncommand = ["notify"]\n'
        f'[secrets.TOKEN]\ntools = ["exec"]\ncommand = ["vault"]\n'
    )
    (planted.ws / "a.txt").write_text("needle\n")
    async with Toolbox.open(workspace=planted.ws, config=config, mode="autonomous", approve=yes, yes=True) as box:
        assert "a.txt" in str(await box.call("grep", {"pattern": "needle"}))
        output = await box.call("exec", {"command": "/bin/echo hello"})
        assert "hello" in output.for_llm
    assert planted.ran == []


async def test_what_looks_for_programs_finds_none_of_it(planted: Planted, monkeypatch: pytest.MonkeyPatch) -> None:
    await plant(planted)
    settings = SandboxSettings()
    assert not bubblewrap_backend.find(None, settings.writable(planted.ws)).startswith(str(planted.ws))
    probe(settings, planted.ws)
    monkeypatch.setenv("PATH", str(planted.bin))
    with pytest.raises(SandboxUnavailable, match=r"docker is not used: .* which tools may write"):
        find_engine("docker", settings.writable(planted.ws))
    found = find_ripgrep(writable=[planted.ws])
    assert found is None or not found.path.startswith(str(planted.ws))
    assert not str(find_browser(None, [planted.ws])).startswith(str(planted.ws))
    assert planted.ran == []


async def test_a_server_named_without_a_path_is_not_the_planted_one(planted: Planted) -> None:
    await plant(planted)
    config = planted.ws.parent / "own.toml"
    config.write_text('[mcp_servers.notes]\ncommand = "vault"\n')
    settings = load_settings(planted.ws, config=config)
    async with Toolbox.open(settings=settings) as box:
        status = box.mcp.servers["notes"]
        assert status.error is not None and "which tools may write" in status.error
    assert planted.ran == []
