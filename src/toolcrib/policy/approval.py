"""A person's yes or no: asked at whichever door is open, bound to exactly this call, stored until answered.

A door is `async (ApprovalRequest) -> bool | Decision | None`. It may be the library's callback, the terminal, an
MCP client; None means that it cannot ask here. Without a live door the request is stored and the call returns at
once; another process may answer it, and the same call repeated then runs once.
"""

from __future__ import annotations

import asyncio
import json
import logging
import secrets
import time
from collections.abc import Awaitable, Callable, Generator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

from ..core.authorize import CallRequest, Grant
from ..core.bound import cut
from ..core.errors import InvalidArguments
from ..core.events import ApprovalRequested, ApprovalResolved, EventStream
from ..core.output import ToolOutput
from ..core.threads import shared_threads
from ..core.tool import ToolCategory
from .plain import one_line, plain

log = logging.getLogger("toolcrib.policy")

LIVE_SECONDS = 300.0
"""How long a live door is waited for."""
KEPT_SECONDS = 24 * 3600.0
"""How long a stored request, and an unused yes, may wait."""
POLL_SECONDS = 0.5
MAX_PREVIEW = 8_000
MAX_LINE = 300
"""Longest reason or rule in a question: what Toolcrib says itself stays short enough to be read."""

Scope = Literal["once", "session", "rule"]


@dataclass(frozen=True, slots=True)
class ApprovalRequest:
    """What a person is asked: the call, why it asks, and the rule that would allow it. Times are Unix seconds."""

    id: str
    call_id: str
    tool: str
    category: str
    arguments: Mapping[str, Any] = field(repr=False)
    preview: str = field(repr=False)
    reason: str
    rule: str
    digest: str
    session_id: str | None
    created: float
    expires: float


@dataclass(frozen=True, slots=True)
class Decision:
    """A person's answer. `arguments` replace the call's own: they are validated and judged again.

    `scope` once, or session: what `ApprovalRequest.rule` names may run again in this session without asking.
    """

    approve: bool
    reason: str = ""
    arguments: Mapping[str, Any] | None = None
    scope: Scope = "once"
    approver: str | None = None


Door = Callable[[ApprovalRequest], Awaitable["bool | Decision | None"]]

_door: ContextVar[Door | None] = ContextVar("toolcrib_door", default=None)


@contextmanager
def use_door(door: Door | None) -> Generator[None]:
    """Within this block (and tasks started in it), approvals are asked at `door`."""
    token = _door.set(door)
    try:
        yield
    finally:
        _door.reset(token)


class Store(Protocol):
    """Where requests are kept: `record.approvals.Approvals`."""

    def add(self, row: Mapping[str, Any]) -> None: ...
    def get(self, request_id: str) -> dict[str, Any] | None: ...
    def pending(self, digest: str | None = None) -> list[dict[str, Any]]: ...
    def resolve(
        self,
        request_id: str,
        approve: bool,
        *,
        approver: str | None,
        reason: str = "",
        arguments: Mapping[str, Any] | None = None,
        scope: str = "once",
    ) -> bool: ...
    def consume(self, digest: str, request_id: str | None = None) -> dict[str, Any] | None: ...
    def refusal(self, digest: str, request_id: str | None = None) -> dict[str, Any] | None: ...
    def expire(self, request_id: str) -> None: ...


def rule_for(request: CallRequest) -> str:
    """The rule that would allow this call: exactly this command with these arguments, or this tool."""
    tool = request.tool
    if tool.category == ToolCategory.SHELL:
        arguments = request.arguments
        command = arguments.get("command") if len(arguments) == 1 else None  # another folder is another command
        return f"{tool.name}({command if isinstance(command, str) else request.canonical})"
    return tool.name


class Approver:
    """Asks for one call at a time; remembers what was granted for a session."""

    def __init__(
        self,
        store: Store | None = None,
        door: Door | None = None,
        events: EventStream | None = None,
        timeout: float = LIVE_SECONDS,
    ) -> None:
        self.store, self.door, self.events, self.timeout = store, door, events, timeout
        self._granted: dict[str | None, set[str]] = {}

    def forget(self, session_id: str | None) -> None:
        """Drop what was granted for a session."""
        self._granted.pop(session_id, None)

    async def ask(self, request: CallRequest, reason: str, rule: str | None) -> Grant | ToolOutput:
        """A grant, or the output that refuses or says how to approve."""
        line = rule_for(request)
        session = request.ctx.session_id
        if line in self._granted.get(session, ()):
            return Grant(line, "approved for this session", "session")
        used = await self._stored("consume", digest=request.digest)
        if used is not None:
            edited = _edited(used["edited"])
            if used["session_id"] == session:  # a yes for the session that asked is none for another one
                self._remember(used["scope"], request, line, edited)
            return _grant(used["id"], used["approver"], edited)
        refused = await self._stored("refusal", digest=request.digest)
        if refused is not None:  # a person said no while nobody waited: this repetition is told, once
            return self._denied(request, refused["id"], refused["answer"] or "", rule)
        door = _door.get() or self.door
        asked = await self._request(request, reason, line, live=door is not None)
        if door is None:
            return self._pending(request, asked, reason)
        if request.waiting is not None:
            request.waiting()
        self._emit(ApprovalRequested(request.call_id, request.tool.name, asked.id, reason, asked.preview))
        try:
            decision = await self._wait(door, asked)
        except asyncio.CancelledError:
            await asyncio.shield(self._stored("expire", request_id=asked.id))
            raise
        if decision == "cannot":
            return self._pending(request, asked, reason)
        if decision is None:
            await self._stored("expire", request_id=asked.id)
            self._emit(ApprovalResolved(request.call_id, request.tool.name, asked.id, "expired", None))
            text = f"Tool {request.tool.name!r} approval timed out and was not executed."
            return ToolOutput.error(text, "denied", meta={"approval_id": asked.id, "rule": rule})
        answer = "approved" if decision.approve else "denied"
        self._emit(ApprovalResolved(request.call_id, request.tool.name, asked.id, answer, decision.approver))
        if not decision.approve:
            await self._stored("refusal", digest=asked.digest, request_id=asked.id)
            return self._denied(request, asked.id, decision.reason, rule)
        if self.store is not None and await self._stored("consume", digest=asked.digest, request_id=asked.id) is None:
            text = f"the approval {asked.id} of {request.tool.name} was used up or expired; ask again"
            return ToolOutput.error(text, "denied", meta={"approval_id": asked.id})
        self._remember(decision.scope, request, line, decision.arguments)
        return _grant(asked.id, decision.approver, decision.arguments)

    # --- asking

    async def _request(self, request: CallRequest, reason: str, line: str, *, live: bool) -> ApprovalRequest:
        now = time.time()
        if not live:  # a model that repeats its call gets the request that waits already
            for row in await self._stored("pending", digest=request.digest) or ():
                return _from_row(row, request)
        asked = ApprovalRequest(
            f"ap_{secrets.token_hex(5)}", request.call_id, request.tool.name, str(request.tool.category),
            request.arguments, await self._preview(request), cut_line(reason), cut_line(line), request.digest,
            request.ctx.session_id,
            now, now + (self.timeout if live else KEPT_SECONDS),
        )  # fmt: skip
        row = {name: getattr(asked, name) for name in ApprovalRequest.__dataclass_fields__}
        row["arguments"] = request.canonical
        row["expires"] = now + KEPT_SECONDS  # the live wait is ours; the stored one is kept for other processes
        await self._stored("add", row=row)
        return asked

    async def _preview(self, request: CallRequest) -> str:
        preview = request.tool.preview
        text: str | None = None
        if preview is not None:
            try:
                text = await shared_threads.run(lambda: preview(request.arguments, request.ctx), {})
            except Exception as error:
                log.debug("no preview of %s", request.tool.name, exc_info=True)
                text = f"(no preview: {error})\n{json.dumps(request.arguments, indent=2, ensure_ascii=False)}"
        if text is None:
            text = json.dumps(request.arguments, indent=2, ensure_ascii=False)
        return cut(plain(text), MAX_PREVIEW, None)

    async def _wait(self, door: Door, asked: ApprovalRequest) -> Decision | Literal["cannot"] | None:
        """The first answer, from the door or from another process; None when time is up."""
        at_door = asyncio.ensure_future(_ask_door(door, asked))
        deadline = time.monotonic() + self.timeout
        try:
            while True:
                left = deadline - time.monotonic()
                if left <= 0:
                    return None
                await asyncio.wait({at_door}, timeout=min(POLL_SECONDS, left))
                if at_door.done():
                    decision = at_door.result()
                    if decision == "cannot":
                        return decision
                    if self.store is None:
                        return decision
                    kept = await self._stored(
                        "resolve", request_id=asked.id, approve=decision.approve, approver=decision.approver,
                        reason=decision.reason, arguments=decision.arguments, scope=decision.scope,
                    )  # fmt: skip
                    return decision if kept else await self._elsewhere(asked)
                if self.store is not None and (elsewhere := await self._elsewhere(asked)) is not None:
                    return elsewhere
        finally:
            if not at_door.done():
                at_door.cancel()
                await asyncio.gather(at_door, return_exceptions=True)

    async def _elsewhere(self, asked: ApprovalRequest) -> Decision | None:
        row = await self._stored("get", request_id=asked.id)
        if row is None or row["state"] == "pending":
            return None
        approver = row["approver"]
        if row["state"] != "approved":
            return Decision(False, row["answer"] or f"the request is {row['state']}", approver=approver)
        return Decision(True, row["answer"] or "", _edited(row["edited"]), row["scope"], approver)

    async def _stored(self, method: str, **arguments: Any) -> Any:
        if self.store is None:
            return None
        return await shared_threads.run(getattr(self.store, method), arguments)

    def _remember(self, scope: str, request: CallRequest, line: str, edited: Mapping[str, Any] | None) -> None:
        if scope not in ("session", "rule"):
            return
        if edited is not None:  # the yes was to what the person made of the call, not to what the model wrote
            try:
                text = request.tool.bind(edited)[1]
            except InvalidArguments:  # said by the pipeline
                return
            line = rule_for(CallRequest(request.call_id, request.tool, text, request.ctx))
        self._granted.setdefault(request.ctx.session_id, set()).add(line)

    def _denied(self, request: CallRequest, request_id: str, reason: str, rule: str | None) -> ToolOutput:
        text = f"Tool {request.tool.name!r} was denied by user approval. {reason}".rstrip()
        return ToolOutput.error(text, "denied", meta={"approval_id": request_id, "rule": rule})

    def _pending(self, request: CallRequest, asked: ApprovalRequest, reason: str) -> ToolOutput:
        name = request.tool.name
        if self.store is None:
            text = f"{name} needs approval and nobody can be asked: {reason}. The host can pass an approver."
            return ToolOutput.error(text, "denied")
        self._emit(ApprovalRequested(request.call_id, name, asked.id, reason, asked.preview))
        text = (
            f"{name} was not run: it needs approval ({reason}). Request {asked.id} waits for a person, who can answer "
            f"with `toolcrib approvals approve {asked.id}` or `toolcrib approvals deny {asked.id}`. "
            "Once approved, repeat exactly this call; it will run once."
        )
        meta = {"approval_id": asked.id, "reason": reason, "rule": asked.rule}
        return ToolOutput.error(text, "pending", pause_for_input=True, meta=meta)

    def _emit(self, event: ApprovalRequested | ApprovalResolved) -> None:
        if self.events is not None and self.events.listeners:
            self.events.emit(event)


def cut_line(text: str) -> str:
    """One line of at most MAX_LINE characters: a model's words in it cannot pass for lines of ours."""
    line = one_line(text)
    return line if len(line) <= MAX_LINE else f"{line[:MAX_LINE]}…"


async def _ask_door(door: Door, asked: ApprovalRequest) -> Decision | Literal["cannot"]:
    try:
        answer = await door(asked)
    except Exception as error:
        log.exception("the approval door failed")
        return Decision(False, f"the approval door failed: {error}", approver="door")
    if answer is None:
        return "cannot"
    if isinstance(answer, Decision):
        return answer
    if answer is True or answer is False:  # nothing truthy passes for a yes
        return Decision(answer, approver="door")
    return Decision(
        False, f"the approval door answered {type(answer).__name__}, not a bool or Decision", approver="door"
    )


def _grant(request_id: str, approver: str | None, edited: Mapping[str, Any] | None) -> Grant:
    return Grant(f"approval:{request_id}", "approved", approver or "unknown", edited)


def _edited(text: str | None) -> Mapping[str, Any] | None:
    return json.loads(text) if text else None


def _from_row(row: Mapping[str, Any], request: CallRequest) -> ApprovalRequest:
    values = {name: row[name] for name in ApprovalRequest.__dataclass_fields__ if name != "arguments"}
    return ApprovalRequest(arguments=request.arguments, **values)
