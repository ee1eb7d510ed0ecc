"""An editor: the client of the protocol's own library, over real pipes."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from acp import connect_to_agent, text_block
from acp.schema import AllowedOutcome, DeniedOutcome, RequestPermissionResponse

from toolcrib import Toolbox
from toolcrib.agent.acp import serve
from toolcrib.config import load_settings
from toolcrib.toolbox.declared import protecting

Reply = Mapping[str, Any]


def call(name: str, /, **arguments: Any) -> dict[str, Any]:
    return {"name": name, "arguments": arguments}


@dataclass
class Question:
    call: Any
    options: list[Any]


@dataclass
class Editor:
    """What an editor does: it collects updates, and answers questions as `answer` says ("wait" never answers)."""

    work: Path
    answer: str | Callable[[Question], str] = "reject"
    updates: list[tuple[str, Any]] = field(default_factory=list)
    questions: list[Question] = field(default_factory=list)
    news: asyncio.Event = field(default_factory=asyncio.Event)
    agent: Any = None

    def on_connect(self, conn: Any) -> None:
        self.agent = conn

    async def session_update(self, session_id: str, update: Any, **_: Any) -> None:
        self.updates.append((session_id, update))
        self.news.set()

    async def request_permission(self, session_id: str, tool_call: Any, options: list[Any], **_: Any) -> Any:
        question = Question(tool_call, options)
        self.questions.append(question)
        self.news.set()
        answer = self.answer if isinstance(self.answer, str) else self.answer(question)
        if answer == "wait":
            await asyncio.Event().wait()
        if answer == "cancelled":
            return RequestPermissionResponse(outcome=DeniedOutcome(outcome="cancelled"))
        return RequestPermissionResponse(outcome=AllowedOutcome(outcome="selected", option_id=answer))

    async def until(self, seen: Callable[[], object]) -> None:
        """Wait until an update or a question makes `seen` true."""
        while not seen():
            self.news.clear()
            await asyncio.wait_for(self.news.wait(), 60)

    async def new(self, **more: Any) -> str:
        return (await self.agent.new_session(cwd=str(self.work), mcp_servers=more.pop("mcp_servers", []))).session_id

    async def say(self, session_id: str, *parts: Any) -> Any:
        content = [text_block(part) if isinstance(part, str) else part for part in parts]
        return await self.agent.prompt(session_id=session_id, prompt=content)

    def of(self, kind: str) -> list[Any]:
        return [update for _, update in self.updates if update.session_update == kind]

    @property
    def text(self) -> str:
        return "".join(update.content.text for update in self.of("agent_message_chunk"))

    def statuses(self, end: str = "") -> list[str]:
        """The statuses that a call went through, by the end of its id."""
        calls = [*self.of("tool_call"), *self.of("tool_call_update")]
        ordered = [update for _, update in self.updates if update in calls]
        return [update.status for update in ordered if update.tool_call_id.endswith(end)]

    def contents(self) -> list[Any]:
        return [content for update in self.of("tool_call_update") for content in update.content or ()]

    def diffs(self) -> list[tuple[str, str | None, str]]:
        return [(Path(c.path).name, c.old_text, c.new_text) for c in self.contents() if c.type == "diff"]


async def streams(read_fd: int, write_fd: int) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """asyncio's streams on our ends of two pipes."""
    loop = asyncio.get_running_loop()
    reader = asyncio.StreamReader()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), os.fdopen(read_fd, "rb", 0))
    transport, protocol = await loop.connect_write_pipe(asyncio.streams.FlowControlMixin, os.fdopen(write_fd, "wb", 0))
    return reader, asyncio.StreamWriter(transport, protocol, None, loop)


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in ("config", "state"):
        monkeypatch.setenv(f"XDG_{name.upper()}_HOME", str(tmp_path / name))
    (tmp_path / "work").mkdir()
    (tmp_path / "work" / "a.txt").write_text("alpha\n")
    return tmp_path


@pytest.fixture
def scripted(home: Path) -> Callable[..., str]:
    def write(*replies: Reply) -> str:
        path = home / "script.json"
        path.write_text(json.dumps(replies))
        return f"scripted:{path}"

    return write


@pytest.fixture
def editing(home: Path) -> Callable[..., Any]:
    """`async with editing(model, **options of the toolbox) as editor`: an agent of its own over two pipes."""

    @asynccontextmanager
    async def edit(model: str, **more: Any) -> AsyncGenerator[Editor]:
        agent_in, ours_out = os.pipe()
        ours_in, agent_out = os.pipe()
        said: list[str] = []

        def open_box(folder: str, servers: Any) -> Any:
            return Toolbox.open(settings=protecting(load_settings(folder), servers), warm_up=False, **more)

        serving = asyncio.create_task(serve(open_box, model, said.append, agent_in, agent_out))
        editor = Editor(home / "work")
        reader, writer = await streams(ours_in, ours_out)
        conn = connect_to_agent(editor, writer, reader, use_unstable_protocol=True)
        try:
            await conn.initialize(protocol_version=1)
            yield editor
        finally:
            writer.close()
            await serving
            os.close(agent_out)
            os.close(agent_in)
            await conn.close()
            with contextlib.suppress(Exception):
                await writer.wait_closed()

    return edit
