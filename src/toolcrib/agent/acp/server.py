"""The agent's side of the protocol: sessions of an editor, each with a toolbox of its own on the editor's folder."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING, Any

from acp import PROTOCOL_VERSION, RequestError
from acp.agent.connection import AgentSideConnection
from acp.schema import (
    AgentCapabilities,
    CloseSessionResponse,
    ForkSessionResponse,
    Implementation,
    InitializeResponse,
    ListSessionsResponse,
    LoadSessionResponse,
    McpCapabilities,
    NewSessionResponse,
    PromptCapabilities,
    PromptResponse,
    ResumeSessionResponse,
    SessionCapabilities,
    SessionCloseCapabilities,
    SessionForkCapabilities,
    SessionInfo,
    SessionListCapabilities,
    SessionNotification,
    SessionResumeCapabilities,
    SetSessionModeResponse,
)
from acp.utils import serialize_params

from ..._version import __version__
from ...config import load_settings
from ...core.errors import ToolcribError
from ...record.state import StateFolder
from ..agent import Agent
from ..session_lock import SessionError
from ..store import SessionStore
from ..waiting import waits_of
from . import updates
from .editor_session import EditorSession, when
from .json_lines import LineTransport
from .prompts import invalid, read_servers

if TYPE_CHECKING:
    from ...sources.mcp.config import ServerConfig
    from ...toolbox import Toolbox
    from ..store import SessionRow

MAX_LISTED = 200

OpenBox = Callable[[str, "Sequence[ServerConfig]"], Awaitable["Toolbox"]]
"""Opens a toolbox for the editor's folder, with the settings of that folder. Tools ask before they change what the
editor's servers run."""


class EditorServer:
    """Answers the methods of the protocol. `open_box` opens the toolbox of a folder; `model` names the model."""

    def __init__(self, open_box: OpenBox, model: str | None, say: Callable[[str], object], wire: LineTransport) -> None:
        self._open_box, self._model, self._say, self._wire = open_box, model, say, wire
        self._sessions: dict[str, EditorSession] = {}
        self._opening: set[str] = set()  # stored sessions that are being opened
        self._conn: Any = None

    def on_connect(self, conn: Any) -> None:
        """Take the connection, which asks the editor."""
        self._conn = conn

    async def aclose(self) -> None:
        """Close all sessions."""
        sessions, self._sessions = list(self._sessions.values()), {}
        for session in sessions:
            await session.aclose()

    # --- the protocol's methods

    async def initialize(self, protocol_version: int, **_: Any) -> InitializeResponse:
        """Say what this agent can do."""
        capabilities = AgentCapabilities(
            load_session=True,
            prompt_capabilities=PromptCapabilities(image=True, audio=False, embedded_context=True),
            mcp_capabilities=McpCapabilities(http=True, sse=True),
            session_capabilities=SessionCapabilities(
                list=SessionListCapabilities(), fork=SessionForkCapabilities(), resume=SessionResumeCapabilities(),
                close=SessionCloseCapabilities(),
            ),
        )  # fmt: skip
        return InitializeResponse(
            protocol_version=PROTOCOL_VERSION, agent_capabilities=capabilities, auth_methods=[],
            agent_info=Implementation(name="toolcrib", title="Toolcrib", version=__version__),
        )  # fmt: skip

    async def new_session(
        self, cwd: str, mcp_servers: Any = None, additional_directories: Any = None, **_: Any
    ) -> NewSessionResponse:
        """Begin a session in a folder."""
        session = await self._open(cwd, None, mcp_servers, additional_directories)
        return NewSessionResponse(session_id=session.id, modes=session.mode_state)

    async def load_session(
        self, cwd: str, session_id: str, mcp_servers: Any = None, additional_directories: Any = None, **_: Any
    ) -> LoadSessionResponse:
        """Go on with a stored session, and send its transcript."""
        session = await self._open(cwd, session_id, mcp_servers, additional_directories)
        session.replay()
        return LoadSessionResponse(modes=session.mode_state)

    async def resume_session(
        self, cwd: str, session_id: str, mcp_servers: Any = None, additional_directories: Any = None, **_: Any
    ) -> ResumeSessionResponse:
        """Go on with a stored session, without its transcript."""
        session = await self._open(cwd, session_id, mcp_servers, additional_directories)
        return ResumeSessionResponse(modes=session.mode_state)

    async def fork_session(
        self, cwd: str, session_id: str, mcp_servers: Any = None, additional_directories: Any = None, **_: Any
    ) -> ForkSessionResponse:
        """Copy a stored session, and begin the copy."""
        session = await self._open(cwd, session_id, mcp_servers, additional_directories, fork=True)
        return ForkSessionResponse(session_id=session.id, modes=session.mode_state)

    async def list_sessions(self, cwd: str | None = None, cursor: str | None = None, **_: Any) -> ListSessionsResponse:
        """List the sessions of a folder; without one, of the folders that are open, else of the current one."""
        open_folders = dict.fromkeys(str(session.box.workspace.root) for session in self._sessions.values())
        folders = [_folder(cwd)] if cwd is not None else list(open_folders) or [os.getcwd()]
        found = [each for folder in folders for each in await asyncio.to_thread(_listed, folder)]
        return ListSessionsResponse(sessions=found)

    async def close_session(self, session_id: str, **_: Any) -> CloseSessionResponse:
        """End a session's turn and release what it uses. It stays stored."""
        session = self._session(session_id)
        del self._sessions[session_id]
        await session.aclose()
        return CloseSessionResponse()

    async def set_session_mode(self, session_id: str, mode_id: str, **_: Any) -> SetSessionModeResponse:
        """Change the mode of a session."""
        await self._session(session_id).set_mode(mode_id)
        return SetSessionModeResponse()

    async def prompt(self, session_id: str, prompt: list[Any], **_: Any) -> PromptResponse:
        """Run one turn."""
        return await self._session(session_id).prompt(prompt)

    async def cancel(self, session_id: str, **_: Any) -> None:
        """End the turn of a session; its prompt is answered with `cancelled`."""
        session = self._sessions.get(session_id)
        if session is not None:
            session.stop()

    # --- sessions

    def _session(self, session_id: str) -> EditorSession:
        session = self._sessions.get(session_id)
        if session is None:
            raise invalid(
                f"the session {session_id!r} is not open: it was not loaded here, or its loading failed. Load it "
                "(session/load), or begin a new one (session/new)"
            )
        return session

    @asynccontextmanager
    async def _alone(self, session_id: str | None) -> AsyncGenerator[None]:
        """Close a session that is opened again, and let nobody else open it meanwhile: a second one could not be
        stopped, and would have a mode of its own. Raises RequestError if a turn of it runs."""
        open_ = self._sessions.get(session_id or "")
        if session_id in self._opening or (open_ is not None and open_.busy):
            raise invalid(f"{session_id} is being opened, or a turn of it runs")
        if session_id is not None:
            self._opening.add(session_id)
        try:
            if open_ is not None:
                await self._sessions.pop(open_.id).aclose()
            yield
        finally:
            self._opening.discard(session_id or "")

    async def _open(
        self, cwd: str, session_id: str | None, servers: Any, more_folders: Any, *, fork: bool = False
    ) -> EditorSession:
        """Open a toolbox and an agent for a session: a new one, a stored one, or a copy. Raises RequestError."""
        folder, configs = _folder(cwd), read_servers(servers)
        if more_folders:
            raise invalid(
                "additional directories are not taken from the editor; grant them in the settings with "
                "sandbox.read_roots and sandbox.write_roots"
            )
        async with self._alone(None if fork else session_id), AsyncExitStack() as stack:
            try:
                box = await self._open_box(folder, configs)
                stack.push_async_callback(box.aclose)
                stored = None if session_id is None else await asyncio.to_thread(_row, box, session_id, fork)
                name = self._model or (None if stored is None else stored.model)
                agent = await Agent.open(box, name, say=self._say)
                stack.push_async_callback(agent.aclose)
                made = await agent.store.do(agent.new_session if stored is None else partial(agent.session, stored.id))
            except ToolcribError as error:
                raise RequestError(-32603, str(error)) from None
            notes = [*await _connect(box, configs), *await asyncio.to_thread(agent.left_out)]
            waits = () if made.is_open else await made.do(waits_of, agent.store, made.id)
            session = EditorSession(box, agent, made, waits, self._notify, self._ask)
            stack.pop_all()
            self._sessions[session.id] = session
        loop = asyncio.get_running_loop()
        loop.call_soon(session.tell_commands)  # after the answer, from which the editor knows the session
        for note in notes:
            self._say(note)
            loop.call_soon(session.update, updates.said(f"({note})\n\n"))
        return session

    def _notify(self, session_id: str, update: Any) -> None:
        params = serialize_params(SessionNotification(session_id=session_id, update=update))
        self._wire.put({"jsonrpc": "2.0", "method": "session/update", "params": params})

    async def _ask(self, session_id: str, call: Any, options: list[Any]) -> Any:
        return await self._conn.request_permission(session_id=session_id, tool_call=call, options=options)


def _folder(cwd: str) -> str:
    if not os.path.isabs(cwd) or not os.path.isdir(cwd):
        raise invalid(f"cwd {cwd!r} should be the absolute path of a folder")
    return cwd


def _row(box: Toolbox, session_id: str, fork: bool) -> SessionRow:
    """Return a stored session by its whole id, or a copy of it. Raises RequestError."""
    store = SessionStore(box.state)
    try:
        row = store.get(session_id)
        if row.id == session_id:
            return store.fork(row.id) if fork else row
    except SessionError:
        pass
    finally:
        store.close()
    raise RequestError(-32002, f"there is no session {session_id!r} in {box.workspace.root}")


def _listed(folder: str) -> list[SessionInfo]:
    url = load_settings(workspace=folder).record.address
    store = SessionStore(StateFolder.for_workspace(folder, url=url))
    try:
        return [
            SessionInfo(session_id=row.id, cwd=folder, title=row.title or None, updated_at=when(row.updated))
            for row in store.list(MAX_LISTED, subagents=False)
        ]
    finally:
        store.close()


async def _connect(box: Toolbox, configs: Sequence[ServerConfig]) -> list[str]:
    """Connect the editor's MCP servers, all at once. Returns what went wrong, a line each."""

    async def connect(config: ServerConfig) -> str | None:
        try:
            await box.mcp.connect(config.name, config)
        except ToolcribError as error:
            return f"The MCP server {config.name} of the editor is not used: {error}"
        return None

    return [note for note in await asyncio.gather(*map(connect, configs)) if note]


async def serve(
    open_box: OpenBox, model: str | None, say: Callable[[str], object], read_fd: int, write_fd: int
) -> None:
    """Serve one editor over two descriptors, until it closes them."""
    wire = LineTransport(read_fd, write_fd)
    server = EditorServer(open_box, model, say, wire)
    conn = AgentSideConnection(server, wire, listening=False, use_unstable_protocol=True)  # type: ignore[arg-type]
    try:
        await conn.listen()
        task = asyncio.current_task()
        if task is not None and task.cancelling():  # the library takes a cancellation for the end of its input
            raise asyncio.CancelledError
    finally:
        await asyncio.shield(_close(conn, server))


async def _close(conn: AgentSideConnection, server: EditorServer) -> None:
    await conn.close()
    await server.aclose()
