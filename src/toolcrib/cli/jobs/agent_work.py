"""What jobs need of the agent: it works on messages, and its sessions and channels get the reports."""

from __future__ import annotations

import asyncio
import logging
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from hashlib import sha256
from typing import TYPE_CHECKING, Any

from ...core.call import is_inner
from ...core.empty import EMPTY
from ...core.errors import ToolcribError, ToolError
from ...core.output import Labels, ToolOutput, from_wire
from ...core.threads import shared_threads
from ...jobs.bodies import ELSEWHERE, KNOWN_BY, SCHEDULED_RUN, Delivery, MessageBody
from ...jobs.engine import Job, JobEngine, JobError, JobOutcome
from ...jobs.job_tool import JobTool, calls_of, rights_of
from ...jobs.placing import placement
from ...jobs.runner import AgentWork, Done, Report, WorkOrder
from ...jobs.tracing import trace_headers
from ...jobs.waits import ANSWER, APPROVAL

if TYPE_CHECKING:  # the agent is a wing of its own: nothing of it is imported before it is used
    from ...agent import Agent
    from ...agent.bus import MessageBus
    from ...agent.events import AgentEvent, Outcome
    from ...agent.session import AgentSession
    from ...core.context import ToolContext
    from ...toolbox import Toolbox

log = logging.getLogger("toolcrib.jobs")

SUBAGENT_KIND = "subagent"
SOURCE = "job"
"""The source of a message that reports a job."""
GRACE_SECONDS = 2.0
"""Seconds in which a host that serves a session may go on with it after a report, before a worker does."""
BUSY_SECONDS = 0.5
"""Seconds between two tries to run a session that another process runs."""
MAX_TRIES = 240
SENT_SECONDS = 90 * 86400.0
"""Seconds in which the report of a job is not sent to a chat again."""
SEND_TRIES = 90
"""How often an outcome is sent to a channel that does not take it, with two seconds between."""
MAX_EVENT = 2_000  # characters of a reply or an output in an event
EXPIRED = "Nobody answered the request for approval in time, so the call did not run."


class AgentJobs:
    """Does the jobs of an agent and sends reports. `opened` opens the agent at the first job that needs it."""

    def __init__(
        self,
        box: Toolbox,
        opened: Callable[[], Awaitable[Agent]],
        engine: Callable[[], Awaitable[JobEngine]],
        submitted: Callable[[str | None, str], object] = lambda session, job: None,
    ) -> None:
        from ...agent.store import SessionStore

        self._box, self._opened, self._engine, self._submitted = box, opened, engine, submitted
        self._store = SessionStore(box.state, box.redactor.redact)
        self._bus: MessageBus | None = None
        self._tries: Counter[str] = Counter()

    @property
    def work(self) -> Mapping[str, AgentWork]:
        """The kinds of jobs that it does."""
        return {MessageBody.KIND: self.message, SUBAGENT_KIND: self.subagent}

    def attach(self, agent: Agent) -> Agent:
        """Let an agent's background subagents be jobs."""
        agent.subagents.hand_over = self._hand_over
        return agent

    async def aclose(self) -> None:
        """Close the channels and the store. The agent stays open."""
        if self._bus is not None:
            await self._bus.aclose()
        self._store.close()

    # --- messages

    async def message(self, order: WorkOrder) -> Done:
        """Give a session its message once, and run it to its outcome. Without a text the session only goes on."""
        from ...agent.history import user
        from ...agent.prompt import now
        from ...agent.waiting import waits_of

        body = MessageBody.from_json(order.job.body)
        if body.session and not body.text and await shared_threads.run(self._is_done, body.session):
            return _nothing_to_do(body.session)  # which needs no model
        agent = self.attach(await self._opened())
        session = await shared_threads.run(self._session, agent, body, order.job)
        if body.text:
            turn = user(f"{body.text}\n\n{now()}", source="schedule" if body.schedule else "user")
            if labels := from_wire(body.labels):  # a model wrote it, in a session that had read this
                turn = replace(turn, labels=labels.pair, known_by=body.labels.get(KNOWN_BY, ELSEWHERE))
            await shared_threads.run(self._store.tell, session.id, turn, f"job\0{order.job.id}\0message")
        for waits in await shared_threads.run(waits_of, self._store, session.id):
            if waits.get("approval") in order.expired:
                await shared_threads.run(_expire, session, waits)
        outcome = await self._run(agent, session, order, only_if_told=not body.text)
        if outcome is None:
            return _nothing_to_do(session.id)
        return _ended(outcome, session.id), agent.box.session(session.id).labels

    def _session(self, agent: Agent, body: MessageBody, job: Job) -> AgentSession:
        if body.session is not None:
            return agent.session(body.session)
        begun = self._store.of_job(job.id)
        if begun is not None:
            return agent.session(begun.id)
        session = agent.new_session(" ".join(body.text.split())[:80])
        self._store.set_extra(session.id, "job", job.id)
        return session

    async def _run(
        self, agent: Agent, session: AgentSession, order: WorkOrder, *, only_if_told: bool
    ) -> Outcome | None:
        """Run a session, as soon as no other process runs it. None if it has nothing to do any more."""
        from ...agent.events import Outcome
        from ...agent.session_lock import SessionError

        events: asyncio.Queue[tuple[str, Any] | None] = asyncio.Queue()
        telling = asyncio.create_task(_tell(events, order.emit))

        def emit(event: AgentEvent) -> None:
            if (shown := _shown(event)) is not None:
                events.put_nowait(shown)

        ctx = replace(order.ctx, session_id=session.id)
        try:
            for _ in range(MAX_TRIES):
                if only_if_told and await shared_threads.run(self._is_done, session.id):
                    return None
                try:
                    return await agent.run(None, session, emit=emit, ctx=ctx, by_report=only_if_told)
                except SessionError:
                    await asyncio.sleep(BUSY_SECONDS)
            return Outcome("error", reason=f"the session {session.id} runs in another process")
        finally:
            events.put_nowait(None)
            await telling

    def _is_done(self, session_id: str) -> bool:
        """Return whether a session has nothing to do."""
        from ...agent.waiting import is_answered, waits_of, without_jobs

        if self._store.get(session_id).state != "idle" or self._store.waiting(session_id, ("steer", "queue")):
            return False
        return not is_answered(self._box, self._store, without_jobs(waits_of(self._store, session_id)))

    # --- subagents

    async def _hand_over(self, subagent: str, label: str, task: str, ctx: ToolContext) -> None:
        deliver = Delivery(ctx.channel, ctx.chat_id) if ctx.channel in self._box.settings.channels else None
        flow, labels = self._box.flow, EMPTY
        if is_inner(ctx.call_id or ""):  # what its script has read is not stored yet
            labels = {**flow.labels_of_work(ctx.session_id).wire, KNOWN_BY: flow.process}
        redact = self._box.redactor.redact  # only the session has its task as it is
        label, text = await shared_threads.run(lambda: (redact(label), redact(task)))
        body = MessageBody(
            text=text, session=ctx.session_id, deliver=deliver, labels=labels,
            schedule=ctx.metadata.get(SCHEDULED_RUN), calls=calls_of(self._box, ctx.session_id),
            **rights_of(self._box, ctx),
        ).to_json()  # fmt: skip
        job = Job(
            SUBAGENT_KIND, {**body, "subagent": subagent, "label": label}, id=f"job-{subagent}", repeatable=True,
            trace=trace_headers(), **placement(self._box),
        )  # fmt: skip
        try:
            await (await self._engine()).submit(job)
            self._submitted(ctx.session_id, job.id)
        except JobError as error:
            raise ToolError(f"the subagent cannot work in the background: {error}; use wait") from error

    async def subagent(self, order: WorkOrder) -> Done:
        """Run a background subagent to its outcome, as soon as no other process runs it. It reports to its parent by
        itself."""
        from ...agent.session_lock import SessionTaken

        agent = self.attach(await self._opened())
        tries = 0
        while True:
            session = await shared_threads.run(agent.session, order.job.body["subagent"])
            labels: Mapping[str, str] = order.job.body.get("labels") or EMPTY
            if labels.get(KNOWN_BY, agent.box.flow.process) != agent.box.flow.process:
                agent.box.flow.inherit(from_wire(labels) or Labels(), session.id, elsewhere=True)
            for waits in session.row.waiting:
                if waits.get("approval") in order.expired:
                    await shared_threads.run(_expire, session, waits)
            try:
                outcome = await agent.subagents.work_on(session, order.ctx)
                break
            except SessionTaken:  # by a worker that has lost this job, and does not know that yet
                tries += 1
                if tries == MAX_TRIES:
                    raise
                await asyncio.sleep(BUSY_SECONDS)
        ended = _ended(outcome, session.id)
        if ended.state == "failed":  # its report says how it ended
            ended = replace(ended, state="done")
        return ended, agent.box.session(session.id).labels

    # --- reports

    async def has_read(self, session_id: str) -> bool:
        """Return whether a session has nothing to do, or is gone."""
        from ...agent.session_lock import SessionError

        try:
            return await shared_threads.run(self._is_done, session_id)
        except SessionError:
            return True

    async def report(self, report: Report) -> None:
        """Send the report of a job to its session, or to its chat, once, however often this is called."""
        job, body = report.job, report.job.body
        session_id = body.get("session")
        if job.kind != MessageBody.KIND and isinstance(session_id, str):
            await self._tell_session(report, session_id)
        elif body.get("deliver") and report.state != "cancelled":
            await self._send(report, Delivery(**body["deliver"]))

    async def _tell_session(self, report: Report, session_id: str) -> None:
        from ...agent.history import user
        from ...agent.session_lock import SessionError

        try:
            await shared_threads.run(self._store.get, session_id)
        except SessionError:
            return
        tool = self._box.registry.find(JobTool.name)
        if tool is not None:  # the session has read what its job has read
            output = ToolOutput(report.text, labels=report.labels)
            self._box.flow.label(tool, {}, output, replace(self._box.context, session_id=session_id))
        if report.job.kind != SUBAGENT_KIND or report.state not in ("done", "parked"):  # else it has reported by itself
            labels = None if report.labels is None else report.labels.pair
            turn = replace(user(report.text, source=SOURCE), labels=labels)
            if report.job.body.get("tool") == "run_code":  # what its calls read is not in its output
                turn = replace(turn, known_by=report.known_by)
            await shared_threads.run(self._store.tell, session_id, turn, f"job\0{report.key}\0report")
        # Also where the message is there already: the process that sent it may have ended before this.
        made: Mapping[str, Any] = report.job.body
        to = Delivery(**made["deliver"]) if made.get("deliver") else None
        body = MessageBody(
            text="", session=session_id, deliver=to, mode=made.get("mode"), made_in=made.get("made_in"),
            asks=made.get("asks", ""),
            schedule=made.get("schedule"), calls=calls_of(self._box, session_id) or made.get("calls", EMPTY),
        )  # fmt: skip
        ident = f"{report.job.id}:{sha256(report.key.encode()).hexdigest()[:6]}"
        goes_on = replace(
            report.job, kind=MessageBody.KIND, body=body.to_json(), id=ident, repeatable=True,
            not_before=time.time() + GRACE_SECONDS,
        )  # fmt: skip
        await (await self._engine()).submit(goes_on)

    async def _send(self, report: Report, to: Delivery) -> None:
        from ...agent.bus import MessageBus, MessageNotSent, OutboundMessage
        from ...agent.channels import channels_of

        text = self._box.redactor.redact(report.answer if report.state == "done" else report.text)
        if not text or to.channel not in self._box.settings.channels:
            return
        if self._bus is None:
            self._bus = MessageBus(channels_of(self._box, self._store))
        key = f"job\0{report.key}\0sent"
        if await shared_threads.run(self._store.has_seen, key):
            return
        waits = report.key.split()[1:] if report.state == "parked" else ()
        asked = tuple(each.removeprefix(APPROVAL) for each in waits)
        try:
            await self._bus.publish_outbound(OutboundMessage(to.channel, to.chat_id or "", text, asked=asked))
        except MessageNotSent as error:
            self._tries[key] += 1
            if self._tries[key] < SEND_TRIES:
                raise
            log.error("the outcome of %s was not sent to %s: %s", report.job.id, to.channel, error)
        # Only now: who is killed before that has it sent once more, instead of never.
        await shared_threads.run(self._store.is_first, key, time.time() + SENT_SECONDS)


def _expire(session: AgentSession, waits: Mapping[str, Any]) -> None:
    """Store that a call was not run, because nobody answered its request."""
    from ...agent.history import CallResult

    result = CallResult(waits["run_id"].split(".", 2)[2], waits["tool"], EXPIRED, is_error=True)
    session.store_result(waits["run_id"], result)


async def _tell(events: asyncio.Queue[tuple[str, Any] | None], emit: Callable[[str, Any], Awaitable[None]]) -> None:
    while (event := await events.get()) is not None:
        with suppress(ToolcribError):  # the lease is lost: the run ends at its next effect
            await emit(*event)


def _shown(event: AgentEvent) -> tuple[str, Any] | None:
    """Return an event of the agent as one of its job."""
    from ...agent.events import CallDone, ReplyDone

    if isinstance(event, ReplyDone) and event.turn.text:
        return "reply", event.turn.text[:MAX_EVENT]
    if isinstance(event, CallDone):
        return "call", {"tool": event.call.name, "error": event.output.error_kind}
    return None


def _nothing_to_do(session: str) -> Done:
    return JobOutcome("done", {"text": "", "session": session}), None


def _ended(outcome: Outcome, session: str) -> JobOutcome:
    from ...agent.waiting import without_jobs

    output = {"text": outcome.text, "session": session}
    waiting = tuple(without_jobs(outcome.waiting))  # also of its subagents, which go on with it
    if outcome.state == "waiting" or (waiting and outcome.state == "done"):
        reason = "; ".join(waits.get("question") or waits.get("text") or "" for waits in waiting)[:500]
        keys = (APPROVAL + each["approval"] if each.get("approval") else ANSWER + each["run_id"] for each in waiting)
        return JobOutcome("parked", output, reason, tuple(keys))
    if outcome.state == "done":
        return JobOutcome("done", output, outcome.reason)
    return JobOutcome("failed", output, outcome.reason or f"the agent stopped: {outcome.state}")
