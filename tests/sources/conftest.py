"""A toolbox whose configuration is written by a test, in a home of its own."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest

from toolcrib import Toolbox
from toolcrib.core.output import ToolOutput


class Room:
    """A workspace, a trusted configuration, and toolboxes opened over both."""

    def __init__(self, base: Path) -> None:
        self.base = base
        self.root = base / "ws"
        self.root.mkdir()
        self.config = base / "config.json"
        self.box: Toolbox | None = None

    async def open(
        self, *, sandbox: str = "none", mode: str = "autonomous", effects: str = "direct", **settings: Any
    ) -> Toolbox:
        await self.close()
        walls = {"backend": sandbox, "effects": effects}
        self.config.write_text(json.dumps({"mode": mode, "sandbox": walls, **settings}))
        self.box = await Toolbox.open(workspace=self.root, config=self.config)
        return self.box

    async def __call__(self, name: str, /, **arguments: Any) -> ToolOutput:
        assert self.box is not None
        return await self.box.call(name, arguments)

    async def ok(self, name: str, /, **arguments: Any) -> str:
        output = await self(name, **arguments)
        assert not output.is_error, output.for_llm
        return output.for_llm

    async def fails(self, name: str, /, **arguments: Any) -> str:
        output = await self(name, **arguments)
        assert output.is_error, output.for_llm
        return output.for_llm

    def put(self, path: str, content: str, mode: int = 0o644) -> Path:
        target = self.base / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(content)
        target.chmod(mode)
        return target

    async def close(self) -> None:
        box, self.box = self.box, None
        if box is not None:
            await box.aclose()


@pytest.fixture
async def room(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Room]:
    for name in ("XDG_STATE_HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME"):
        monkeypatch.setenv(name, str(tmp_path / name.lower()))
    room = Room(tmp_path)
    yield room
    await room.close()


Made = Callable[[str, dict[str, Any]], Path]


@pytest.fixture
def plugin(room: Room) -> Made:
    """Writes the folder of a plugin with this manifest; its other files are the test's own."""

    def make(folder: str, manifest: dict[str, Any]) -> Path:
        return room.put(f"plugins/{folder}/plugin.json", json.dumps(manifest)).parent

    return make
