"""Ask a person whether a call may run. The answer is valid for exactly this call and is stored.

An approver is `async (ApprovalRequest) -> bool | Decision | None`: the library's callback, the terminal or an MCP
client. None means that it cannot ask here. Without an approver the stored request waits and the call returns at once.
Another process may answer it; the same call, repeated, then runs once.
"""

from __future__ import annotations

import asyncio
import json
import logging
import secrets
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import KW_ONLY, replace
from functools import partial
from typing import Any, Literal, cast

from ..core.bound import Redact, clean_id, redacted
from ..core.call import Call
from ..core.context import FOR_JOB, SHARED, ToolContext
from ..core.dataclass import dataclass
from ..core.errors import InvalidArguments, ToolError
from ..core.events import ApprovalRequested, ApprovalResolved, EventStream
from ..core.interfaces import Grant
from ..core.output import ToolOutput
from ..core.threads import shared_threads
from ..core.tool import Tool, ToolCategory
from ..record.approvals import Approvals
from ..record.rows import ApprovalRow, NewApproval
from . import requests
from .callers import caller_of, holder_of, is_same_asker, serves, this_process
from .preview import MEANWHILE, cut_line, cut_reason, preview_of
from .requests import ApprovalRequest, Approver, Decision, Question, Remember, Scope, denial
from .session_approvals import SessionApprovals, about_edited, what_is_covered
from .shell.kinds import RULE_FETCH

log = logging.getLogger("toolcrib.policy")

LIVE_SECONDS = 300.0
"""Seconds that an approver may take to answer."""
KEPT_SECONDS = 24 * 3600.0
"""Seconds that a stored request waits for an answer, and that an unused approval stays valid."""
POLL_SECONDS = 0.5
MAX_OPEN = 200
"""Questions of one caller that wait at a time: more would hide those of others."""

Suggest = Callable[[Tool, Mapping[str, Any]], str | None]
"""`suggest(tool, arguments)` is the one-line rule that would allow this call; None if no rule can express that."""


def rule_for(tool: Tool, arguments: Mapping[str, Any]) -> str:
    """Return the rule that would allow a call if no rules can be written: exactly this command, or this tool."""
    if tool.category == ToolCategory.SHELL:
        command = arguments.get("command") if len(arguments) == 1 else None  # a folder makes it another command
        if not isinstance(command, str):
            command = _canonical(arguments)
        return f"{tool.name}({command})"
    return tool.name


@dataclass(eq=False)
class ApprovalService:
    """Asks a person about one call at a time, and remembers the approvals for a session.

    `suggest` returns the rule that would allow a call, `widen` the narrowest useful rule for calls like it; `remember`
    writes one if the answer is "always". `at_intent` means that the code that commits the intent of a call uses up the
    approval in its grant; otherwise it is used up here. `settle` writes the outcomes of ended calls to the record
    before the record is searched for missing outcomes. `redact` removes secrets from everything that is shown and
    stored; the call itself, and the arguments for an approver, stay exact. `hides_more` returns whether it would hide
    more than a secret: such a call is refused, because nobody could see what they approve. `workspace` is the folder
    for which a rule would be written.
    """

    store: Approvals
    approver: Approver | None
    events: EventStream
    timeout: float = LIVE_SECONDS
    _: KW_ONLY
    suggest: Suggest = rule_for
    widen: Suggest = lambda tool, arguments: None
    remember: Remember | None = None
    at_intent: bool = False
    settle: Callable[[], object] = lambda: None
    redact: Redact = str
    hides_more: Callable[[str, bool], bool] = lambda text, paths: False
    workspace: str | None = None

    def __post_init__(self) -> None:
        self._session_approvals = SessionApprovals()
        self._token = secrets.token_hex(4)
        self._last = 0.0

    def forget(self, session_id: str | None) -> None:
        """End a session: remove its approvals. Its stored requests become available to the next session of the same
        caller."""
        self._session_approvals.forget(session_id)
        if session_id is not None:
            self.store.release(self._process(), clean_id(session_id, self.redact))

    def close(self) -> None:
        """End all sessions."""
        self._session_approvals.clear()
        self.store.release(self._process())

    def has_granted(self, request: Call, question: Question) -> bool:
        """Return whether an approval for this session covers the call, for this question."""
        return self._session_approvals.cover(
            request, question, lambda: self._line(request, request.arguments, question)
        )

    def _line(self, request: Call, arguments: Mapping[str, Any], question: Question) -> str:
        """Return the rule that would allow a call; one about its hosts if the question is about nothing else."""
        if question.rule == RULE_FETCH and question.hosts:
            return requests.host_rule(request.tool.name, question.hosts)
        return self.suggest(request.tool, arguments) or ""

    async def ask(self, request: Call, question: Question) -> Grant | ToolOutput:
        """Return a grant, or the output that refuses or says how to approve."""
        now, rule, hosts = self._now(), question.rule, question.hosts
        line = self._line(request, request.arguments, question)
        if self.has_granted(request, question):
            return Grant(self.redact(line), "approved for this session", "session", hosts=hosts)
        waiting = await self._stored(request, question)
        if isinstance(waiting, Grant | ToolOutput):
            return waiting
        said = replace(question, reason=self.redact(await self._with_notice(request, question.reason)))
        approver = requests.current_approver() or self.approver
        if approver is None and waiting is not None:  # a model that repeats its call gets the request that is waiting
            return self._pending(request, waiting["id"], waiting["preview"], waiting["rule"] or "", said)
        caller = caller_of(self._as_stored(request.ctx))
        waiting_callers = await shared_threads.run(self.store.open_callers, self._folder(request.ctx))
        if sum(is_same_asker(each, caller) for each in waiting_callers) >= MAX_OPEN:
            text = (
                f"{request.tool.name} was not run: it needs approval, and {MAX_OPEN} questions of yours wait for a "
                "person already. Ask for fewer things, or wait until some are answered."
            )
            return ToolOutput.error(text, "denied", meta={"rule": rule})
        try:
            asked = await self._request(request, said, now, line=line, live=approver is not None)
        except ToolError as error:  # a yes could not make it run
            return ToolOutput.error(str(error), "tool")
        if asked is None:
            text = (
                f"{request.tool.name} was not run: it needs approval, and the question would hide a part of it that "
                "looks like a password or a key, but holds signs that a program could obey, or a / as a path does. "
                "Write the signs of a password in an address percent-encoded (%3B for ;), or leave the secret out."
            )
            for_user = (
                f"{request.tool.name} was refused: the question would have hidden more of it than a secret. "
                "A text in the setting redact.allow is shown."
            )
            return ToolOutput.error(text, "denied", for_user=for_user, meta={"rule": rule})
        if approver is None:
            return self._pending(request, asked.id, asked.preview, asked.rule, said)
        return await self._at(approver, request, asked, question)

    async def _at(
        self, approver: Approver, request: Call, asked: ApprovalRequest, question: Question
    ) -> Grant | ToolOutput:
        """Ask an approver and wait for its answer."""
        rule = question.rule
        if request.waiting is not None:
            request.waiting()
        self._emit(ApprovalRequested(request.call_id, request.tool.name, asked.id, asked.reason, asked.preview))
        try:
            decision = await self._wait(approver, asked)
        except asyncio.CancelledError:
            await asyncio.shield(shared_threads.run(self.store.expire, asked.id))
            raise
        if decision == "cannot":
            return self._pending(request, asked.id, asked.preview, asked.rule, replace(question, reason=asked.reason))
        if decision is None:
            self._emit(ApprovalResolved(request.call_id, request.tool.name, asked.id, "expired", None))
            text = f"Tool {request.tool.name!r} approval timed out and was not executed."
            said = f"{request.tool.name} was not run: nobody answered in time."
            return ToolOutput.error(text, "denied", for_user=said, meta={"approval_id": asked.id, "rule": rule})
        said = "approved" if decision.approve else "denied"
        self._emit(ApprovalResolved(request.call_id, request.tool.name, asked.id, said, decision.approver))
        if not decision.approve:
            await shared_threads.run(self.store.refusal, asked.id)
            return denial(request.tool.name, decision.reason, approval_id=asked.id, rule=rule)
        other = await self._is_other(request, decision, asked.id, asked.preview)
        replaced = request.tool.definition is not None and request.tool.definition.replaced
        if other or replaced:
            await self._take_back(asked.id)
            what = (
                "its server changed what it says of this tool while the question was open"
                if replaced
                else "files changed while the question was open, or a command began that can change them"
            )
            text = f"{request.tool.name} was not run: {what}. Call it again: it asks about what it would do now."
            return ToolOutput.error(text, "denied", meta={"approval_id": asked.id, "rule": rule})
        grant = await self._grant(asked.id, decision, request, asked.hosts, asked.preview)
        if grant is None:
            text = f"the approval {asked.id} of {request.tool.name} was used up or expired; ask again"
            return ToolOutput.error(text, "denied", meta={"approval_id": asked.id})
        self._grant_session(decision, request, asked.scopes, question)
        return grant

    async def void(self, grant: Grant, call_id: str) -> None:
        """Use up an approval whose edited call is denied, so that the next call is asked about again."""
        if grant.approval_id is not None:
            await shared_threads.run(self.store.consume, grant.approval_id, call_id)

    # --- stored requests and answers

    async def _stored(self, request: Call, question: Question) -> Grant | ToolOutput | ApprovalRow | None:
        """Return the stored answer to exactly this call, or a waiting request: an approval first, then a denial, then a
        request."""
        waiting: ApprovalRow | None = None
        found = await shared_threads.run(self.store.of_call, request.digest, self._folder(request.ctx))
        stored = self._as_stored(request.ctx)
        rows = [row for row in found if serves(row, stored)]
        for row in sorted(rows, key=lambda row: ("approved", "denied", "pending").index(row["state"])):
            if row["state"] != "denied" and requests.hosts_of(row) != question.hosts:  # a yes opens other hosts
                await self._take_back(row["id"])
            elif row["state"] == "approved":
                decision = _decision_of(row)
                if await self._says_other(request, decision, row, question) or await self._is_other(
                    request, decision, row["id"], row["preview"]
                ):
                    await self._take_back(row["id"])
                    continue
                grant = await self._grant(row["id"], decision, request, question.hosts, row["preview"])
                if grant is not None:
                    same_question = row["asked_by"] == question.asked_by
                    if same_question and row["session_id"] == stored.session_id:  # only for the session that asked
                        self._grant_session(decision, request, requests.scopes_of(row), question)
                    return grant
            elif row["state"] == "denied":  # denied while no caller waited: report it to this repeated call, once
                await shared_threads.run(self.store.refusal, row["id"])
                return denial(request.tool.name, row["answer"] or "", approval_id=row["id"], rule=question.rule)
            else:
                waiting = waiting or row
        return waiting

    async def _grant(
        self, request_id: str, decision: Decision, request: Call, hosts: tuple[str, ...], shown: str
    ) -> Grant | None:
        """Return the grant of a stored approval, whose preview was `shown`; None if it was used up or has expired.

        The code that commits the intent uses it up, if that is so; it is used up here if edited arguments cannot be
        bound, which the pipeline reports.
        """
        later = self.at_intent and (decision.arguments is None or _bound(request, decision.arguments) is not None)
        if not later and await shared_threads.run(self.store.consume, request_id, request.call_id) is None:
            return None
        rule, approver = f"approval:{request_id}", decision.approver or "unknown"

        async def as_shown() -> bool:
            return not await self._is_other(request, decision, request_id, shown)

        return Grant(
            rule, "approved", approver, decision.arguments, request_id if later else None, hosts=hosts,
            as_shown=as_shown if decision.arguments is None else None,
        )  # fmt: skip

    async def _is_other(self, request: Call, decision: Decision, request_id: str, shown: str) -> bool:
        """Return whether the call would now do something else than its preview showed. A person who edited the
        arguments has written the call."""
        if request.tool.preview is None or decision.arguments is not None:
            return False
        try:
            now = await shared_threads.run(
                preview_of, request.tool, request.arguments, request.ctx, request_id, self.redact
            )
        except ToolError:
            return True
        return now not in (shown, shown.replace(f"\n  {MEANWHILE}", ""))

    async def _says_other(self, request: Call, decision: Decision, row: ApprovalRow, question: Question) -> bool:
        """Return whether the same question would be asked for another reason now: a link may lead elsewhere. Labels
        name the results of one process, so that their reasons are not compared."""
        labels = (question.asked_by or "").startswith("labels:")
        if decision.arguments is not None or labels or row["asked_by"] != question.asked_by:
            return False
        return cut_reason(self.redact(await self._with_notice(request, question.reason))) != row["reason"]

    async def _take_back(self, request_id: str) -> None:
        why = "what it would do has changed since it was shown"
        await shared_threads.run(lambda: self.store.resolve(request_id, False, approver=None, reason=why))
        await shared_threads.run(self.store.refusal, request_id)

    async def _with_notice(self, request: Call, reason: str) -> str:
        """Return why it asks, after a notice if the outcome of an earlier approved run of this same call is unknown."""
        await shared_threads.run(self.settle)
        row = await shared_threads.run(self.store.cut_off, request.digest, self._folder(request.ctx))
        if row is None:
            return reason
        when = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(row["run_time"]))
        return (
            f"exactly this call was approved and started before ({row['run']}, {when}) and has no outcome on record: "
            f"it was cut off or still runs, so it may or may not have happened; {reason}"
        )

    # --- asking

    async def _request(
        self, request: Call, question: Question, now: float, *, line: str, live: bool
    ) -> ApprovalRequest | None:
        """Store a request. None if the question would hide more than secrets. Raises ToolError if the call can only
        fail."""
        hidden = False

        def shown_part(text: str, *, paths: bool = False) -> str:
            nonlocal hidden
            part = self.redact(text)
            hidden = hidden or (part is not text and self.hides_more(text, paths))
            return part

        ident, tool, ctx = f"ap_{secrets.token_hex(5)}", request.tool, request.ctx
        stored = self._as_stored(ctx)
        preview = await shared_threads.run(preview_of, tool, request.arguments, ctx, ident, shown_part)
        # Only to be shown: the repeated call runs, bound by its digest.
        shown_arguments = await shared_threads.run(redacted, request.arguments, partial(shown_part, paths=True))
        if hidden:
            return None
        shown = cut_line(self.redact(line))
        scopes = self._scopes(request, line, question.asked_by, readable=shown == line)
        if shown != line and tool.category != ToolCategory.SHELL:
            shown = ""  # no person could read such a rule; for a command, its beginning identifies it
        reason, job = cut_reason(question.reason), ctx.metadata.get(FOR_JOB)
        asked = ApprovalRequest(
            ident, request.call_id, tool.name, str(tool.category), request.arguments, preview,
            reason if job is None else f"{reason}; it is a call of the job {job}", shown, request.digest,
            ctx.session_id, now, now + (self.timeout if live else KEPT_SECONDS), question.asked_by, scopes,
            question.hosts, self._wider(request, line) if "rule" in scopes else "",
        )  # fmt: skip
        row = {
            **{name: getattr(asked, name) for name in NewApproval.__annotations__ if hasattr(asked, name)},
            "session_id": stored.session_id, "reason": reason,  # the yes counts without the job, too
            "arguments": _canonical(shown_arguments), "scopes": requests.stored_scopes(scopes, question.hosts),
            "process": holder_of(ctx, self._process()), "caller": caller_of(stored),
            "expires": now + KEPT_SECONDS,  # longer than our own wait, for other processes
            "workspace": self._folder(ctx),
        }  # fmt: skip
        await shared_threads.run(self.store.add, cast("NewApproval", row))
        return asked

    def _wider(self, request: Call, line: str) -> str:
        """Return a rule for this call and others like it, if it is not longer than a person reads."""
        found = self.widen(request.tool, request.arguments) or ""
        return found if found != line and cut_line(self.redact(found)) == found else ""

    def _scopes(self, request: Call, line: str, asked_by: str | None, *, readable: bool) -> tuple[Scope, ...]:
        """Return the scopes that an approval may have. Only a line that is shown complete and unchanged can become a
        rule, and only for a call of nobody in particular: a rule would hold for every caller. Input for a running
        command is asked about each time: the same text may mean something else later."""
        each_time = request.tool.command_argument == "input" or (asked_by or "").startswith("labels:")
        if each_time or not what_is_covered(request.tool, line):
            return ("once",)
        scopes: list[Scope] = ["once"] if SHARED in request.ctx.metadata else ["once", "session"]
        if asked_by is None and request.ctx.caller is None and self.remember is not None and line and readable:
            scopes.append("rule")
        return tuple(scopes)

    async def _wait(self, approver: Approver, asked: ApprovalRequest) -> Decision | Literal["cannot"] | None:
        """Return the first answer, from the approver or from another process; None after the timeout."""
        answering = asyncio.ensure_future(_ask_approver(approver, asked))
        deadline = time.monotonic() + self.timeout
        try:
            while True:
                left = deadline - time.monotonic()
                if left <= 0:
                    await shared_threads.run(self.store.expire, asked.id)
                    elsewhere = await self._elsewhere(asked)  # an approval at the last moment counts
                    return elsewhere if elsewhere is not None and elsewhere.approve else None
                await asyncio.wait({answering}, timeout=min(POLL_SECONDS, left))
                if answering.done():
                    return await self._answered(approver, asked, answering.result())
                if (elsewhere := await self._elsewhere(asked)) is not None:
                    return elsewhere
        finally:
            if not answering.done():
                answering.cancel()
                await asyncio.gather(answering, return_exceptions=True)

    async def _answered(
        self, approver: Approver, asked: ApprovalRequest, decision: Decision | Literal["cannot"]
    ) -> Decision | Literal["cannot"] | None:
        if decision == "cannot":
            return decision
        decision = requests.within(decision, asked.scopes, asked.wider)
        answered = await shared_threads.run(requests.answer, self.store, asked.id, decision, self.remember)
        if not answered.kept:
            return await self._elsewhere(asked)
        if answered.note:
            await _tell(approver, answered.note)
        return decision

    async def _elsewhere(self, asked: ApprovalRequest) -> Decision | None:
        row = await shared_threads.run(self.store.get, asked.id)
        if row is None or row["state"] == "pending":
            return None
        if row["state"] != "approved":
            return Decision(False, row["answer"] or f"the request is {row['state']}", approver=row["approver"])
        return _decision_of(row)

    def _now(self) -> float:
        """Return the time, increased a little for each question, so that questions are shown in the order of their
        calls."""
        now = time.time()
        if 0 <= self._last - now < 1:
            now = self._last + 1e-6
        self._last = now
        return now

    def _folder(self, ctx: ToolContext) -> str | None:
        return self.workspace or (str(ctx.workspace) if ctx.workspace is not None else None)

    def _as_stored(self, ctx: ToolContext) -> ToolContext:
        """Return the context with its ids as the record has them: its host may have put anything into them."""
        given = {name: getattr(ctx, name) for name in ("session_id", "chat_id", "sender_id", "agent_id")}
        return replace(ctx, **{name: clean_id(each, self.redact) for name, each in given.items() if each is not None})

    def _process(self) -> str:
        return this_process(self._token)

    def _grant_session(self, decision: Decision, request: Call, scopes: Sequence[str], question: Question) -> None:
        """Remember an approval for the session."""
        if decision.scope == "once" or decision.scope not in scopes:
            return
        arguments = request.arguments
        if decision.arguments is not None:  # the person approved the edited call
            text = _bound(request, decision.arguments)
            if text is None:
                return
            arguments = Call(request.call_id, request.tool, text, request.ctx).arguments
            answered = about_edited(request.tool, question)  # without hosts: those of the edited call were not shown
            if answered is None:
                return
            question = answered
        line = self._line(request, arguments, question)
        self._session_approvals.add(request, decision.scope, line, question)

    def _pending(self, request: Call, ident: str, preview: str, would_allow: str, question: Question) -> ToolOutput:
        """Return the output for a stored request that nobody can answer now. `would_allow` is the rule that would allow
        the call."""
        name, reason = request.tool.name, question.reason
        self._emit(ApprovalRequested(request.call_id, name, ident, reason, preview))
        text = (
            f"{name} was not run: it needs approval ({reason}). Request {ident} waits for a person, who can answer "
            f"with `toolcrib approvals approve {ident}` or `toolcrib approvals deny {ident}`. "
            "Once it is approved, make exactly the same call again; it runs once."
        )
        meta = {"approval_id": ident, "reason": reason, "rule": question.rule, "would_allow": would_allow}
        return ToolOutput.error(text, "pending", pause_for_input=True, meta=meta)

    def _emit(self, event: ApprovalRequested | ApprovalResolved) -> None:
        if self.events.listeners:
            self.events.emit(event)


async def _ask_approver(approver: Approver, asked: ApprovalRequest) -> Decision | Literal["cannot"]:
    try:
        said: Any = approver(asked)  # the host's own code: it may return anything
        if not hasattr(said, "__await__"):
            raise TypeError("approve should be an async function: async (ApprovalRequest) -> bool | Decision | None")
        said = await said
    except Exception as error:
        log.exception("the approver failed")
        return Decision(False, f"the approver failed: {error}", approver="callback")
    if said is None:
        return "cannot"
    decision = said if isinstance(said, Decision) else Decision(said)
    kind: Any = decision.approve
    if kind is not True and kind is not False:  # no other true value counts as an approval
        decision = Decision(False, f"the approver answered {type(kind).__name__}, not a bool or Decision")
    return replace(decision, approver="callback") if decision.approver is None else decision


async def _tell(approver: Approver, text: str) -> None:
    """Show the person where their rule was written. Errors are only logged."""
    tell = getattr(approver, "tell", None)
    if tell is None:
        return
    try:
        await tell(text)
    except Exception:
        log.exception("the approver could not show what was written")


def _bound(request: Call, arguments: Mapping[str, Any]) -> str | bytes | None:
    """Return the arguments that a person edited, as JSON; None if they cannot be bound."""
    try:
        return request.tool.bind(arguments)[1]
    except InvalidArguments:
        return None


def _decision_of(row: ApprovalRow) -> Decision:
    edited = json.loads(row["edited"]) if row["edited"] else None
    return Decision(True, row["answer"] or "", edited, row["scope"], row["approver"])


def _canonical(arguments: object) -> str:
    return json.dumps(arguments, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
