"""A workspace with the file tools, called through a registry as a model would."""

from pathlib import Path
from typing import Any

import pytest

from toolcrib.boundary.workspace import Workspace
from toolcrib.builtin.default_tools import file_tools
from toolcrib.core.context import ToolContext
from toolcrib.core.output import ToolOutput
from toolcrib.core.registry import ToolRegistry
from toolcrib.core.wings import has_wing
from toolcrib.record.journal import Journal
from toolcrib.record.state import StateFolder


def _documents() -> Any:
    """What reads documents, where that wing is there."""
    if not has_wing("documents"):
        return None
    from toolcrib.builtin.documents import DocumentReader

    return DocumentReader()


class FileRoom:
    def __init__(self, base: Path) -> None:
        self.root = base / "ws"
        self.root.mkdir()
        self.state = StateFolder.for_workspace(self.root, base / "state")
        self.ws = Workspace(self.root, [self.state.spill])
        self.journal = Journal(self.state, self.ws, sync=False)
        self.registry = ToolRegistry(file_tools(self.ws, self.journal, documents=_documents()))
        self.ctx = ToolContext(session_id="s")

    async def __call__(self, tool: str, **arguments: Any) -> ToolOutput:
        return await self.registry.execute(tool, arguments, self.ctx)

    async def ok(self, tool: str, **arguments: Any) -> str:
        output = await self(tool, **arguments)
        assert not output.is_error, output.for_llm
        return output.for_llm

    async def fails(self, tool: str, **arguments: Any) -> str:
        output = await self(tool, **arguments)
        assert output.is_error, output.for_llm
        return output.for_llm

    def judge(self, tool: str, **arguments: Any) -> str | None:
        judge = self.registry.require(tool).judge
        assert judge is not None
        verdict = judge(arguments, self.ctx)
        return verdict.verdict if verdict else None

    def preview(self, tool: str, **arguments: Any) -> str:
        preview = self.registry.require(tool).preview
        assert preview is not None
        return preview(arguments, self.ctx)

    def put(self, path: str, content: str | bytes) -> Path:
        target = self.root / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(content.encode() if isinstance(content, str) else content)
        return target


@pytest.fixture
def room(tmp_path: Path):
    room = FileRoom(tmp_path)
    yield room
    room.journal.close()
    room.ws.close()
