"""Handle client requests that are tool calls: run them through the box, pause at questions, resume, and answer.

A tool call is such a request. Reading a resource or a prompt of another server is one too: it is a call of the tool
that reaches that server. This module does not decide whether a call may run.
"""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from mcp.shared.exceptions import MCPError
from mcp_types import INTERNAL_ERROR, INVALID_PARAMS, ElicitResult, InputRequiredResult, InputResponse

from ..core.call import is_inner
from ..core.context import SHARED, ToolContext
from ..core.dataclass import dataclass
from ..core.events import ApprovalResolved, CallFinished
from ..core.interfaces import Hook
from ..core.nesting import has_more_values
from ..core.output import ToolOutput
from ..core.threads import shared_threads
from ..policy.requests import Decision, denial, scopes_of, use_approver, within
from ..policy.requests import answer as give_answer
from ..record.approvals import Approvals
from ..record.rows import ApprovalRow
from ..sources.mcp.sdk_private import connection_of
from . import approval_form
from .interface import ServedTools
from .peer import METADATA_KEY, Peer, caller_of, fits
from .request_state import RequestStates, StateRefused
from .running_call import CallEnded, RunningCall
from .sanitize import sanitize, sanitize_error
from .transport_state import ParkedCall, Request, RequestSession, TransportState, session_of_request

QUESTION_SECONDS = 600.0
"""How long a call waits for the answer to its question in the 2026-07-28 protocol."""
MAX_WAITING = 256
"""How many calls of a caller may wait for answers at once. Each keeps the resources that its tool uses."""
MAX_FORMS = 20
"""How many approval forms are shown together. A script may wait for more; they follow."""
MAX_CALLS = 128
"""How many calls of a caller may run at once, without those that wait for answers. Each may need a process."""
MAX_VALUES = 100_000
"""How many values the arguments of a call may have. To say what is wrong with a million of them takes seconds."""
QUIET_SECONDS = 120.0
"""A pause this long between calls counts as a new user message: MCP has no signal for one."""

Json = dict[str, Any]
Answer = Json | InputRequiredResult
Answers = Mapping[str, InputResponse]


@dataclass(frozen=True, slots=True)
class WantedCall:
    """The call that a request asks for. `finish` converts the call's output into the form of the answer."""

    name: str
    arguments: dict[str, Any]
    finish: Callable[[ToolOutput, Peer], Json]
    exact: bool = False
    """Whether the request asks for content of another server, in that server's words."""


@dataclass(frozen=True, slots=True)
class CallRequest:
    """A client's request for a call: over which transport it came, from whom, what it asks for, and its session."""

    transport: TransportState
    peer: Peer
    wanted: WantedCall
    session: RequestSession

    @property
    def bound_to(self) -> dict[str, Any]:
        """What its state is valid for."""
        return {"tool": self.wanted.name, "arguments": self.wanted.arguments, "session": self.session.id}


class CallHandler:
    """Runs and resumes the calls of one server."""

    def __init__(self, box: ServedTools) -> None:
        self.box = box
        self.registry = box.registry
        self.approvals = box.approvals
        key = secrets.token_bytes(32) if self.approvals is None else self.approvals.common_key()
        self.request_states = RequestStates(key)
        self.question_seconds = QUESTION_SECONDS

    async def handle(self, ctx: Request, wanted: WantedCall, answers: Answers | None, state: str | None) -> Answer:
        """Answer a request: a new call, or, with a `state`, the retry of a call that asked a question."""
        transport: TransportState = ctx.lifespan_context
        session = session_of_request(ctx, transport)
        for over in transport.use(session, caller_of(ctx)):
            self.session_over(transport, over)
        connection = connection_of(ctx)
        if connection.session_id is not None and session.id not in transport.ending:
            transport.ending.add(session.id)
            connection.exit_stack.callback(self.session_over, transport, session.id)
        early, handshake = answers if state is None else None, transport.session_of(ctx)
        level = handshake.level if handshake is not None else None
        peer = Peer(ctx, early, exact=wanted.exact, level=level, redact=self.redact)
        request = CallRequest(transport, peer, wanted, session)
        return await (self._start(request) if state is None else self._resume(request, answers or {}, state))

    async def end(self, transport: TransportState) -> None:
        """End every call of a transport. The clients get an answer."""
        for waiting in transport.waiting.values():
            waiting.expiry.cancel()
        transport.waiting.clear()
        await asyncio.gather(*(call.end() for call in tuple(transport.calls)))

    def session_over(self, transport: TransportState, session: str) -> None:
        """Forget what was kept for a session. Its stored requests stay, for the client's next session."""
        transport.last_call.pop(session, None)
        transport.ending.discard(session)
        self.box.end_session(session)

    # --- a call and its turns

    async def _start(self, request: CallRequest) -> Answer:
        transport, peer, wanted, session = request.transport, request.peer, request.wanted, request.session
        whose = session.id if peer.caller is None else peer.caller.name
        if sum(each == whose and call.questions is None for call, each in transport.calls.items()) >= MAX_CALLS:
            raise MCPError(INTERNAL_ERROR, f"{MAX_CALLS} calls run already; try again when one of them has ended")
        if has_more_values(wanted.arguments, MAX_VALUES):
            raise MCPError(INVALID_PARAMS, f"the arguments have more than {MAX_VALUES:,} values")
        self._note_quiet(transport, session.id)
        ctx = self._context(peer, session)
        call = RunningCall(self._run_call(peer, wanted, ctx, ctx.ask is not None))
        peer.running = call
        transport.calls[call] = whose
        call.task.add_done_callback(lambda _: transport.calls.pop(call, None))
        return await self._continue(request, call)

    def _context(self, peer: Peer, session: RequestSession) -> ToolContext:
        metadata: dict[str, Any] = {METADATA_KEY: peer, "client": peer.name, "protocol": peer.request.protocol_version}
        if session.shared:
            metadata[SHARED] = True
        return replace(
            self.box.context,
            channel="mcp",
            session_id=session.id,
            sender_id=peer.name,
            metadata=metadata,
            caller=peer.caller,
            ask=peer.ask_person if peer.can("elicitation") else None,
            on_progress=peer.progress,
        )

    async def would_run(self, peer: Peer, name: str, arguments: Mapping[str, Any]) -> bool:
        """Return whether a call by a client would run without a question."""
        if self.box.check is None:
            return True
        session = session_of_request(peer.request, peer.request.lifespan_context)
        return (await self.box.check(name, arguments, self._context(peer, session))).verdict == "allow"

    async def _run_call(self, peer: Peer, wanted: WantedCall, ctx: ToolContext, can_ask: bool) -> ToolOutput:
        if peer.modern or not can_ask:
            return await self.box.call(wanted.name, wanted.arguments, ctx)
        with use_approver(approval_form.approver_of(peer)):
            return await self.box.call(wanted.name, wanted.arguments, ctx)

    async def _continue(self, request: CallRequest, call: RunningCall) -> Answer:
        """Wait for the call's output or its next question, and put that into the form of the protocol."""
        peer, wanted = request.peer, request.wanted
        try:
            got = await call.turn()
        except CallEnded:
            raise MCPError(INTERNAL_ERROR, "the call was ended by the server") from None
        if not isinstance(got, ToolOutput):
            return self._park(request, call)
        if got.is_error:
            changed = got.error_kind != "tool" or self.changes_outputs  # a rule or hook may have another error
            if peer.failure is not None and not changed:
                raise self.shown_error(peer.failure)
            if got.error_kind == "not_found":  # MCP: an unknown tool is an error of the protocol, not of a tool
                raise MCPError(INVALID_PARAMS, got.for_llm)
            if got.error_kind == "pending" and peer.modern and peer.can("elicitation"):
                asked = await self._ask_approval(request, got)
                if asked is not None:
                    return asked
        if peer.delivered is not None:  # another server's words: to look for secrets in them may take seconds
            return await shared_threads.run(wanted.finish, got, peer)
        return wanted.finish(got, peer)

    def redact(self, text: str) -> str:
        """Return a text without the secrets that are known now."""
        redact = self.registry.stages.redact
        return text if redact is None else redact(text)

    @property
    def changes_outputs(self) -> bool:
        """Whether the host's hooks or middleware may change the output of a call."""
        stages = self.registry.stages
        return bool(stages.middleware) or any(type(hook).after is not Hook.after for hook in stages.hooks)

    def shown(self, value: Any) -> Any:
        """Return another server's text in the form that clients may see."""
        return sanitize(value, self.registry.stages.redact)

    def shown_error(self, error: MCPError) -> MCPError:
        """Return a server's own error in the form that clients may see."""
        return sanitize_error(error, self.registry.stages.redact)

    # --- questions in the 2026-07-28 protocol

    def _park(self, request: CallRequest, call: RunningCall) -> InputRequiredResult:
        """Let the call wait for the answer. Its id is in an encrypted state and works only once."""
        transport, peer = request.transport, request.peer
        if sum(waiting.peer.caller is peer.caller for waiting in transport.waiting.values()) >= MAX_WAITING:
            call.task.cancel()
            raise MCPError(INTERNAL_ERROR, "too many calls wait for answers; try again later")
        ident = secrets.token_hex(16)
        expiry = transport.loop.call_later(self.question_seconds, self._expire, transport, ident)
        transport.waiting[ident] = ParkedCall(call, peer, expiry)
        expires = time.time() + self.question_seconds
        state = self.request_states.seal("question", ident, **request.bound_to, expires=expires)
        return InputRequiredResult(input_requests=dict(call.questions or {}), request_state=state)

    def _expire(self, transport: TransportState, ident: str) -> None:
        waiting = transport.waiting.pop(ident, None)
        if waiting is not None:
            waiting.call.task.cancel()

    async def _resume(self, request: CallRequest, answers: Answers, state: str) -> Answer:
        """Handle a retry: check which question it claims to answer, then resume.

        All refusals happen before any effect.
        """
        try:
            claims = self.request_states.open(state, **request.bound_to)
            if claims.kind == "approval":
                return await self._approved(request, claims.id.split(), answers)
            waiting = request.transport.waiting.pop(claims.id, None)
            if waiting is None:
                raise StateRefused("the question was already answered, or its caller no longer waits")
        except StateRefused as refused:
            raise MCPError(
                INVALID_PARAMS, f"Invalid or expired requestState: {refused}", {"reason": "invalid_request_state"}
            ) from None
        waiting.expiry.cancel()
        call, waiting.peer.request = waiting.call, request.peer.request
        questions: Mapping[str, Any] = call.questions or {}
        if all(fits(question, answers.get(key)) for key, question in questions.items()):
            call.answer(answers)
        return await self._continue(replace(request, peer=waiting.peer), call)

    # --- approval in the 2026-07-28 protocol

    async def _ask_approval(self, request: CallRequest, output: ToolOutput) -> InputRequiredResult | None:
        """Return the form for a call that is stored as pending, or those of a script's calls; None if nothing is
        pending."""
        found = [await self._row(ident) for ident in output.meta.get("approvals") or [output.meta.get("approval_id")]]
        rows = [row for row in found if row is not None and row["state"] == "pending"][:MAX_FORMS]
        if not rows:
            return None
        expires = min(*(float(row["expires"]) for row in rows), time.time() + self.question_seconds)
        idents = " ".join(row["id"] for row in rows)
        state = self.request_states.seal("approval", idents, **request.bound_to, expires=expires)
        forms = map(approval_form.form_of_row, rows)
        return InputRequiredResult(input_requests=dict(zip(_KEYS, forms, strict=False)), request_state=state)

    async def _approved(self, request: CallRequest, idents: Sequence[str], answers: Answers) -> Answer:
        """Store the answers to approval forms (this works once), and run the call if it is a yes. A script goes on
        after a no, too: it gets it."""
        store = self.approvals
        rows = [row for ident in idents if (row := await self._row(ident)) is not None]
        if store is None or len(rows) < len(idents):
            raise StateRefused("this approval is not known here")
        given = {row["id"]: answers.get(key) for key, row in zip(_KEYS, rows, strict=False)}
        if not all(isinstance(answer, ElicitResult) for answer in given.values()):  # the retry forgot one: ask again
            pending = ToolOutput.error("", "pending", meta={"approvals": idents})
            again = await self._ask_approval(request, pending)
            if again is None:
                raise StateRefused(_ANSWERED)
            return again
        decisions = [await self._answered(store, row, given[row["id"]], request.peer) for row in rows]
        row, decision = rows[0], decisions[0]
        if not any(decisions):
            raise StateRefused(_ANSWERED)
        if decision is None or decision.approve or is_inner(row["call_id"]):
            return await self._start(request)
        denied = denial(row["tool"], decision.reason, approval_id=row["id"], rule=row["rule"])
        await shared_threads.run(store.refusal, row["id"])
        self._finished(row, denied, request.session.id, decision.approver)
        return request.wanted.finish(denied, request.peer)

    async def _answered(self, store: Approvals, row: ApprovalRow, answer: Any, peer: Peer) -> Decision | None:
        """Store the answer to one form. Returns None if the request has another answer already."""
        decision = within(approval_form.decision_of(answer, peer.name), scopes_of(row))
        remember = self.box.approval_service.remember if self.box.approval_service is not None else None
        answered = await shared_threads.run(give_answer, store, row["id"], decision, remember)
        if not answered.kept:  # if another client approved it meanwhile, the record gives that to one call only
            now = answered.row
            return decision if now is not None and now["state"] == "approved" and decision.approve else None
        said = "approved" if decision.approve else "denied"
        if self.registry.events.listeners:
            self.registry.events.emit(ApprovalResolved(row["call_id"], row["tool"], row["id"], said, decision.approver))
        return decision

    def _finished(self, row: ApprovalRow, output: ToolOutput, session: str, approver: str | None) -> None:
        """Record a retry that ended at the form like any other call, next to the call that asked."""
        events = self.registry.events
        if events.listeners:
            events.emit(
                CallFinished(
                    self.registry.pipeline.new_id(), row["tool"], row["category"], row["arguments"], session,
                    time.time(), 0.0, output, "deny", row["rule"], approver, "mcp", False,
                )
            )  # fmt: skip

    async def _row(self, ident: str | None) -> ApprovalRow | None:
        if self.approvals is None or ident is None:
            return None
        return await shared_threads.run(self.approvals.get, ident)

    # --- the loop guard

    def _note_quiet(self, transport: TransportState, session: str) -> None:
        """Reset the loop guard of a session after a pause: see QUIET_SECONDS."""
        guard = self.registry.stages.guard
        if guard is None:
            return
        now = time.monotonic()
        before = transport.last_call.get(session, now)
        transport.last_call[session] = now
        if now - before > QUIET_SECONDS:
            guard.reset(session)


_KEYS = (approval_form.KEY, *(f"{approval_form.KEY}{n}" for n in range(2, MAX_FORMS + 1)))
"""The keys of approval forms that are shown together."""
_ANSWERED = "this approval was answered already, or has expired"
