"""`exec` in a toolbox whose settings name a backend: what is asked about, what runs, what is said afterwards."""

import json
import os
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest

from toolcrib import Toolbox
from toolcrib.boundary.landlock_calls import landlock_abi

Open = Callable[[dict[str, Any]], Awaitable[Toolbox]]


@pytest.fixture
async def opened(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Open]:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    workspace = tmp_path / "workspace"
    workspace.mkdir()
    async with AsyncExitStack() as stack:

        async def make(sandbox: dict[str, Any]) -> Toolbox:
            config = tmp_path / "settings.json"
            config.write_text(json.dumps({"mode": "assistant", "workspace": str(workspace), "sandbox": sandbox}))
            return await stack.enter_async_context(Toolbox.open(config=str(config), workspace=workspace))

        yield make


@pytest.mark.skipif(landlock_abi() < 1, reason="this kernel has no Landlock")
async def test_landlock_lets_commands_run_and_keeps_protected_files(opened: Open) -> None:
    box = await opened({"backend": "landlock"})
    root = box.workspace.root
    (root / ".git/hooks").mkdir(parents=True)
    (root / ".git/config").write_text("genuine")
    (root / "src").mkdir()
    (root / "src/work.py").write_text(
        "open('src/made', 'w').write('x')\n"
        "for path in ('.git/config', '.git/hooks/post-commit'):\n"
        "    try: open(path, 'w').write('evil')\n"
        "    except PermissionError: print('refused', path)"
    )
    output = await box.call("exec", {"command": "python3 src/work.py"})  # unknown, and walls stand around it
    assert not output.is_error
    assert "refused .git/config\nrefused .git/hooks/post-commit" in str(output)
    assert (root / ".git/config").read_text() == "genuine"
    assert os.listdir(root / ".git/hooks") == []
    assert (root / "src/made").exists()
    assert output.meta["sandbox"] == "landlock"


async def test_external_asks_until_its_walls_are_vouched_for(opened: Open) -> None:
    command = {"command": "python3 -c 'print(6 * 7)'"}
    box = await opened({"backend": "external"})
    asked = await box.call("exec", command)
    assert asked.pause_for_input
    box = await opened({"backend": "external", "outer_walls": True})
    ran = await box.call("exec", command)
    assert "42" in str(ran)
    assert ran.meta["sandbox"] == "external"


async def test_an_engine_that_is_missing_refuses_every_command(opened: Open) -> None:
    box = await opened({"backend": "docker", "docker": {"engine": "/nonexistent/docker", "image": "tools:1"}})
    output = await box.call("exec", {"command": "echo x"})
    assert output.is_error
    assert "Install Docker" in str(output)
