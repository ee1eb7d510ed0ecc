"""The MCP server: a toolbox behind the official SDK's low-level server, in both protocol eras from one object.

    server = McpServer(box)
    await server.sdk.run(read, write, server.sdk.create_initialization_options())     # or serve.stdio, serve.http

Every call goes through the toolbox's own pipeline; nothing here decides whether a call may run.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
import secrets
import time
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, cast

from mcp.server.caching import CacheHint
from mcp.server.lowlevel.server import NotificationOptions, Server
from mcp.server.subscriptions import InMemorySubscriptionBus, ListenHandler, ToolsListChanged
from mcp.shared.exceptions import MCPError
from mcp_types import (
    INTERNAL_ERROR,
    INVALID_PARAMS,
    CallToolRequestParams,
    ElicitResult,
    InputRequiredResult,
    InputResponse,
    NotificationParams,
    PaginatedRequestParams,
    SubscriptionsListenRequestParams,
    SubscriptionsListenResult,
)

from .. import __version__
from ..core.context import ToolContext
from ..core.events import ApprovalResolved, CallFinished
from ..core.output import ToolOutput
from ..core.registry import ToolRegistry
from ..core.threads import shared_threads
from ..policy.answers import Answered, within
from ..policy.answers import answer as give_answer
from ..policy.requests import use_door
from . import approval
from .content import offers_structure, result_of
from .peer import METADATA_KEY, Peer, fits
from .running import CallEnded, RunningCall
from .seals import Seals, StateRefused
from .served import Served, approvals_of, as_served, context_of, exposure_of, state_path

if TYPE_CHECKING:
    from mcp.server.connection import Connection
    from mcp.server.context import ServerRequestContext
    from mcp.server.models import InitializationOptions
    from mcp.server.session import ServerSession

    Request = ServerRequestContext[Any, Any]

log = logging.getLogger("toolcrib.serve")

QUESTION_SECONDS = 600.0
"""How long a call waits for the answer to its question in the 2026-07-28 protocol."""
MAX_WAITING = 256
"""How many calls may wait for answers at once in one process; each holds what its tool holds."""
QUIET_SECONDS = 120.0
"""A pause this long between calls is taken for a new user message: MCP has no sign of its own for one."""
LIST_TTL_MS = 5_000
"""How long a client may keep the tool list without asking again."""


@dataclass(slots=True)
class _Waiting:
    """A call that stopped at a question."""

    call: RunningCall
    peer: Peer
    expiry: asyncio.TimerHandle


@dataclass(slots=True, eq=False)
class _Run:
    """What lives as long as one transport: one stdio connection, or the HTTP server with all its clients."""

    loop: asyncio.AbstractEventLoop
    listen: ListenHandler
    bus: InMemorySubscriptionBus
    id: str = field(default_factory=lambda: secrets.token_hex(8))
    calls: set[RunningCall] = field(default_factory=set[RunningCall])
    waiting: dict[str, _Waiting] = field(default_factory=dict[str, _Waiting])
    sessions: dict[int, ServerSession] = field(default_factory=dict[int, "ServerSession"])
    last_call: dict[str, float] = field(default_factory=dict[str, float])
    announcing: bool = False


class _Sdk(Server[Any]):
    """The SDK's server, saying at every handshake that the tool list may change."""

    def create_initialization_options(
        self,
        notification_options: NotificationOptions | None = None,
        experimental_capabilities: dict[str, dict[str, Any]] | None = None,
        extensions: dict[str, dict[str, Any]] | None = None,
    ) -> InitializationOptions:
        changes = notification_options or NotificationOptions(tools_changed=True)
        return super().create_initialization_options(changes, experimental_capabilities, extensions)


class McpServer:
    """One MCP server over a toolbox or registry. `sdk` is the SDK's server, to be run on any transport."""

    def __init__(self, box: Served | ToolRegistry, *, name: str = "toolcrib", instructions: str | None = None) -> None:
        self.box = as_served(box)
        self.registry = self.box.registry
        self.context = context_of(self.box)
        self.approvals = approvals_of(self.box)
        self.exposure = exposure_of(self.box)
        self.seals = Seals.of_folder(state_path(self.box))
        self.question_seconds = QUESTION_SECONDS
        self._runs: list[_Run] = []
        self.sdk = _Sdk(
            name,
            version=__version__,
            title="Toolcrib",
            instructions=instructions or _INSTRUCTIONS,
            lifespan=self._lifespan,
            cache_hints={"tools/list": CacheHint(LIST_TTL_MS, "private")},
            get_tool_input_schema=self._input_schema,
            on_list_tools=cast("Any", self._list_tools),
            on_call_tool=cast("Any", self._call_tool),
            on_subscriptions_listen=self._listen,
        )
        self.sdk.add_notification_handler("notifications/initialized", NotificationParams, self._initialized)

    # --- life

    @asynccontextmanager
    async def _lifespan(self, _: Server[Any]) -> AsyncGenerator[_Run]:
        bus = InMemorySubscriptionBus()
        run = _Run(asyncio.get_running_loop(), ListenHandler(bus), bus)
        forget = self._on_change(lambda: self._changed(run))
        self._runs.append(run)
        try:
            yield run
        finally:
            self._runs.remove(run)
            forget()
            await self._end_run(run)
            self._session_over(f"mcp:{run.id}")

    def _on_change(self, changed: Callable[[], None]) -> Callable[[], None]:
        """Be told when some session's list of tools is another one than before."""
        ends = [self.registry.on_change(changed)]
        if self.exposure is not None:
            ends.append(self.exposure.on_reveal(lambda _: changed()))

        def end() -> None:
            for each in ends:
                each()

        return end

    async def end_calls(self) -> None:
        """End every call and every stream of announcements, in order: their clients get an answer."""
        await asyncio.gather(*(self._end_run(run) for run in self._runs))

    async def _end_run(self, run: _Run) -> None:
        run.listen.close()
        for waiting in run.waiting.values():
            waiting.expiry.cancel()
        run.waiting.clear()
        await asyncio.gather(*(call.end() for call in tuple(run.calls)))

    async def _initialized(self, ctx: Request, _: NotificationParams) -> None:
        """Remember a handshake-era session, to tell it of changes, until its connection closes."""
        run: _Run = ctx.lifespan_context
        connection = _connection(ctx)
        run.sessions[id(connection)] = ctx.session
        connection.exit_stack.callback(run.sessions.pop, id(connection), None)
        if connection.session_id is not None:
            connection.exit_stack.callback(self._session_over, f"mcp:{connection.session_id}")

    def _session_over(self, session: str) -> None:
        """What was granted for a session ends with it; what was asked in it is for the client's next one."""
        if self.exposure is not None:
            self.exposure.forget(session)
        approver = getattr(self.box, "approver", None)
        if approver is not None:
            try:
                approver.forget(session)
            except Exception:  # a record that is closed already
                log.debug("the approvals of %s could not be released", session, exc_info=True)

    def _changed(self, run: _Run) -> None:
        """The registry changed, on whatever thread: announce it once the change is through."""
        if not run.announcing:
            run.announcing = True
            run.loop.call_soon_threadsafe(lambda: run.loop.create_task(self._announce(run)))

    async def _announce(self, run: _Run) -> None:
        run.announcing = False
        await run.bus.publish(ToolsListChanged())
        for session in tuple(run.sessions.values()):
            await session.send_tool_list_changed()

    async def _listen(self, ctx: Request, params: SubscriptionsListenRequestParams) -> SubscriptionsListenResult:
        run: _Run = ctx.lifespan_context
        return await run.listen(ctx, params)

    # --- listing

    def _input_schema(self, name: str) -> Mapping[str, Any] | None:
        tool = self.registry.find(name)
        return None if tool is None else tool.schema

    def _definitions(self, ctx: Request) -> list[dict[str, Any]]:
        if self.exposure is None or not self.exposure.active:
            return self.registry.definitions("mcp")
        shown = self.exposure.listed(_session_id(ctx, ctx.lifespan_context))
        return self.registry.definitions("mcp", [tool.name for tool in shown])

    async def _list_tools(self, ctx: Request, params: PaginatedRequestParams | None) -> dict[str, Any]:
        if params is not None and params.cursor is not None:
            raise MCPError(INVALID_PARAMS, "unknown cursor: the list has one page")
        listed: list[dict[str, Any]] = []
        for body in self._definitions(ctx):
            if "outputSchema" in body and not offers_structure(self.registry.find(body["name"]), ctx.protocol_version):
                body = {key: value for key, value in body.items() if key != "outputSchema"}
            listed.append(body)
        grows = self.exposure is not None and self.exposure.active  # any search may have changed it
        return {"tools": listed, "resultType": "complete", **({"ttlMs": 0} if grows else {})}

    # --- calling

    async def _call_tool(self, ctx: Request, params: CallToolRequestParams) -> dict[str, Any] | InputRequiredResult:
        run: _Run = ctx.lifespan_context
        session = _session_id(ctx, run)
        arguments: dict[str, Any] = params.arguments or {}
        if params.request_state is not None:
            return await self._resume(run, ctx, params, arguments, session)
        peer = Peer(ctx, params.input_responses)
        return await self._start(run, peer, params.name, arguments, session)

    async def _start(
        self, run: _Run, peer: Peer, name: str, arguments: dict[str, Any], session: str
    ) -> dict[str, Any] | InputRequiredResult:
        self._note_quiet(run, session)
        can_ask = peer.can("elicitation")
        ctx = replace(
            self.context,
            channel="mcp",
            session_id=session,
            sender_id=peer.name,
            metadata={METADATA_KEY: peer, "client": peer.name, "protocol": peer.request.protocol_version},
            ask=peer.ask_person if can_ask else None,
            on_progress=peer.progress,
        )
        call = RunningCall(self._run_call(peer, name, arguments, ctx, can_ask))
        peer.running = call
        run.calls.add(call)
        call.task.add_done_callback(lambda _: run.calls.discard(call))
        return await self._continue(run, call, peer, name, arguments, session)

    async def _run_call(
        self, peer: Peer, name: str, arguments: dict[str, Any], ctx: ToolContext, can_ask: bool
    ) -> ToolOutput:
        if peer.modern or not can_ask:
            return await self.box.call(name, arguments, ctx)
        with use_door(approval.door(peer)):
            return await self.box.call(name, arguments, ctx)

    async def _continue(
        self, run: _Run, call: RunningCall, peer: Peer, name: str, arguments: dict[str, Any], session: str
    ) -> dict[str, Any] | InputRequiredResult:
        """Wait for the call's output or its next question, and put that into the form of the protocol."""
        try:
            got = await call.turn()
        except CallEnded:
            raise MCPError(INTERNAL_ERROR, "the call was ended by the server") from None
        if not isinstance(got, ToolOutput):
            return self._park(run, call, peer, name, arguments, session)
        if got.is_error:
            if peer.failure is not None:
                raise peer.failure
            if got.error_kind == "not_found":  # MCP: an unknown tool is an error of the protocol, not of a tool
                raise MCPError(INVALID_PARAMS, got.for_llm)
            if got.error_kind == "pending" and peer.modern and peer.can("elicitation"):
                asked = await self._ask_approval(got, name, arguments, session)
                if asked is not None:
                    return asked
        return result_of(got, self.registry.find(name), peer.request.protocol_version)

    # --- questions in the 2026-07-28 protocol

    def _park(
        self, run: _Run, call: RunningCall, peer: Peer, name: str, arguments: dict[str, Any], session: str
    ) -> InputRequiredResult:
        """Let the call wait for the answer, under an id that a signed state names and that works once."""
        if len(run.waiting) >= MAX_WAITING:
            call.task.cancel()
            raise MCPError(INTERNAL_ERROR, "too many calls wait for answers; try again later")
        ident = secrets.token_hex(16)
        expiry = run.loop.call_later(self.question_seconds, self._expire, run, ident)
        run.waiting[ident] = _Waiting(call, peer, expiry)
        state = self.seals.seal(
            "question", ident, tool=name, arguments=arguments, session=session,
            expires=time.time() + self.question_seconds,
        )  # fmt: skip
        return InputRequiredResult(input_requests=dict(call.questions or {}), request_state=state)

    def _expire(self, run: _Run, ident: str) -> None:
        waiting = run.waiting.pop(ident, None)
        if waiting is not None:
            waiting.call.task.cancel()

    async def _resume(
        self, run: _Run, ctx: Request, params: CallToolRequestParams, arguments: dict[str, Any], session: str
    ) -> dict[str, Any] | InputRequiredResult:
        """A retry: check what it claims to answer, then let that go on. Every refusal is before any effect."""
        answers = params.input_responses or {}
        try:
            claims = self.seals.open(params.request_state or "", tool=params.name, arguments=arguments, session=session)
            if claims.kind == "approval":
                return await self._approved(run, Peer(ctx), claims.id, params.name, arguments, session, answers)
            waiting = run.waiting.pop(claims.id, None)
            if waiting is None:
                raise StateRefused("the question was answered already, or nobody waits for it any more")
        except StateRefused as refused:
            raise MCPError(
                INVALID_PARAMS, f"Invalid or expired requestState: {refused}", {"reason": "invalid_request_state"}
            ) from None
        waiting.expiry.cancel()
        call, peer = waiting.call, waiting.peer
        peer.request = ctx
        questions: Mapping[str, Any] = call.questions or {}
        if all(fits(request, answers.get(key)) for key, request in questions.items()):
            call.answer(answers)
        return await self._continue(run, call, peer, params.name, arguments, session)

    async def _ask_approval(
        self, output: ToolOutput, name: str, arguments: dict[str, Any], session: str
    ) -> InputRequiredResult | None:
        """The form for a call that was stored as pending."""
        ident = output.meta.get("approval_id")
        row = None if self.approvals is None or ident is None else await self._row(ident)
        if row is None or row["state"] != "pending":
            return None
        expires = min(float(row["expires"]), time.time() + self.question_seconds)
        state = self.seals.seal("approval", row["id"], tool=name, arguments=arguments, session=session, expires=expires)
        return InputRequiredResult(input_requests={approval.KEY: approval.form_of_row(row)}, request_state=state)

    async def _approved(
        self,
        run: _Run,
        peer: Peer,
        ident: str,
        name: str,
        arguments: dict[str, Any],
        session: str,
        answers: Mapping[str, InputResponse],
    ) -> dict[str, Any] | InputRequiredResult:
        """The answer to an approval form: store it (that works once), and on a yes run the call."""
        store = self.approvals
        row = await self._row(ident)
        if store is None or row is None:
            raise StateRefused("this approval is not known here")
        answer = answers.get(approval.KEY)
        if not isinstance(answer, ElicitResult):  # the retry forgot the answer: ask again
            pending = ToolOutput.error(row["reason"], "pending", meta={"approval_id": ident})
            again = await self._ask_approval(pending, name, arguments, session)
            if again is None:
                raise StateRefused(_ANSWERED)
            return again
        decision = within(approval.decision_of(answer, peer.name), tuple(row["scopes"].split()))
        remember = getattr(getattr(self.box, "approver", None), "remember", None)
        work = {"store": store, "request_id": ident, "decision": decision, "remember": remember}
        answered: Answered = await shared_threads.run(give_answer, work)
        if not answered.kept:
            row = answered.row
            if row is None or row["state"] != "approved" or not decision.approve:
                raise StateRefused(_ANSWERED)
            # somebody said yes elsewhere meanwhile; the record hands that yes to one call only
            return await self._start(run, peer, name, arguments, session)
        said = "approved" if decision.approve else "denied"
        if self.registry.events.listeners:
            self.registry.events.emit(ApprovalResolved(row["call_id"], row["tool"], ident, said, decision.approver))
        if decision.approve:
            return await self._start(run, peer, name, arguments, session)
        text = f"Tool {row['tool']!r} was denied by user approval. {decision.reason}".rstrip()
        denied = ToolOutput.error(text, "denied", meta={"approval_id": ident, "rule": row["rule"]})
        await shared_threads.run(store.refusal, {"request_id": ident})
        self._finished(row, denied, session, decision.approver)
        return result_of(denied, self.registry.find(name), peer.request.protocol_version)

    def _finished(self, row: Mapping[str, Any], output: ToolOutput, session: str, approver: str | None) -> None:
        """A retry that ended at the form: the record has it like any other, beside the call that asked."""
        events = self.registry.events
        if events.listeners:
            events.emit(
                CallFinished(
                    self.registry.pipeline.new_id(), row["tool"], row["category"], row["arguments"], session,
                    time.time(), 0.0, output, "deny", row["rule"], approver, "mcp", False,
                )
            )  # fmt: skip

    async def _row(self, ident: str) -> dict[str, Any] | None:
        if self.approvals is None:
            return None
        return await shared_threads.run(self.approvals.get, {"request_id": ident})

    # --- the loop guard

    def _note_quiet(self, run: _Run, session: str) -> None:
        """After a pause, what a session repeated before counts no more: see QUIET_SECONDS."""
        guard = self.registry.pipeline.guard
        if guard is None:
            return
        now = time.monotonic()
        before = run.last_call.pop(session, now)
        run.last_call[session] = now
        if len(run.last_call) > 1000:
            run.last_call.pop(next(iter(run.last_call)))
        reset = getattr(guard, "reset", None)
        if reset is not None and now - before > QUIET_SECONDS:
            reset(session)


def _connection(ctx: Request) -> Connection:
    # The SDK shows handlers no connection of its own; it is the only thing that lives as long as the client does.
    return ctx.session._connection  # pyright: ignore[reportPrivateUsage]


def _session_id(ctx: Request, run: _Run) -> str:
    """What belongs to one conversation: the handshake's session, a stdio connection, or for 2026-07-28 over HTTP,
    which has no sessions, who sends: credential, address and client."""
    connection = _connection(ctx)
    if connection.session_id is not None:
        return f"mcp:{connection.session_id}"
    request = ctx.request
    if request is None:
        return f"mcp:{run.id}"
    params = ctx.session.client_params
    who = params.client_info.model_dump_json() if params else ""
    host = request.client.host if request.client else ""
    text = f"{request.headers.get('authorization', '')}\0{host}\0{who}"
    return f"mcp:{hashlib.sha256(text.encode()).hexdigest()[:24]}"


_ANSWERED = "this approval was answered already, or has expired"

_INSTRUCTIONS = (
    "Tools on one workspace, guarded by Toolcrib. Some calls wait for a person's approval; a refused or failed call "
    "says why and what to try instead. Paths are relative to the workspace."
)
