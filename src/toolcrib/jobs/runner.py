"""What a worker does with a job: a call of a tool through the pipeline, or work of the agent.

A call of a job is a call like any other: judged, recorded, redacted and bounded, under the job's id. What has to wait
for a person parks the job; the same call, run again after the answer, uses the stored approval up.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Generator, Mapping, Sequence
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from dataclasses import field, replace
from typing import TYPE_CHECKING, Any, cast

from ..core.bound import cut, redacted
from ..core.call import is_inner
from ..core.caller import Caller
from ..core.context import COMMAND_OUTPUT, FOR_JOB, JOB, MADE_IN, ToolContext
from ..core.dataclass import dataclass
from ..core.errors import ToolcribError
from ..core.finish import for_person
from ..core.output import Labels, ToolOutput, from_wire
from ..core.threads import shared_threads
from ..policy.policy import APPROVAL_POLICIES, MODES, stricter
from ..record.connection import RecordError
from .bodies import ELSEWHERE, KNOWN_BY, SCHEDULED_RUN, CallBody
from .engine import Job, JobError, JobOutcome, JobRun, JobState, JobStatus, LeaseLost, is_tried_again, reason_of
from .tracing import as_parent
from .waits import APPROVAL, Waits

if TYPE_CHECKING:
    from ..core.call import Call
    from ..core.interfaces import Grant
    from ..toolbox import Toolbox

log = logging.getLogger("toolcrib.jobs")

MAX_TOLD = 400_000
"""Characters of a command's output that are stored while it runs."""
NO_MORE = "[what it prints from here on is only in the output at its end]\n"
PROGRESS_SECONDS = 0.5
"""Seconds between two stored events of a call's progress."""
PATIENCE_SECONDS, RETRY_SECONDS = 30.0, 0.5
"""For how long a job waits for its record, and between two tries: a server that is restarted is back soon."""
MAX_REASON = 500
ASKS = "require_for_dangerous"
"""The policy of approvals of jobs that were stored without its name."""
PASSING = frozenset({"timeout", "exception", "unavailable"})
"""The kinds of errors after which a call that may be repeated is repeated."""

_current: ContextVar[JobRun | None] = ContextVar("toolcrib_job_run", default=None)


@dataclass(frozen=True, slots=True)
class Report:
    """How a job ended, or what it waits for, for the session and the chat that it belongs to. `text` is a message to
    the model, `answer` what the work itself said. Of reports with the same `key` only the first one counts."""

    job: Job
    state: JobState
    text: str
    answer: str
    key: str
    labels: Labels | None = None
    known_by: str = ELSEWHERE
    """The process that knows what the job has read."""


@dataclass(frozen=True, slots=True)
class WorkOrder:
    """What an agent gets with a job. `expired` are the requests for approval that nobody answered in time."""

    job: Job
    ctx: ToolContext
    expired: frozenset[str]
    emit: Callable[[str, Any], Awaitable[None]]


Done = tuple[JobOutcome, Labels | None]
"""How a run of a job ended, and the labels of what it says."""
AgentWork = Callable[[WorkOrder], Awaitable[Done]]
"""Does a job for an agent. Repeatable: a second time it goes on where the first one ended."""
SendReport = Callable[[Report], Awaitable[None]]
"""Sends the report of a job, once: a second one about the same job is ignored."""


async def _patiently(do: Callable[..., object], *values: object) -> None:
    """Write to the record, again for a while if it cannot be reached. Raises RecordError."""
    end = time.monotonic() + PATIENCE_SECONDS
    while True:
        try:
            await shared_threads.run(do, *values)
            return
        except RecordError:
            if time.monotonic() > end:
                raise
        await asyncio.sleep(RETRY_SECONDS)


async def no_report(report: Report) -> None:
    """Send nothing."""


@dataclass(frozen=True)
class JobRunner:
    """Runs jobs with a toolbox: `call` by itself, other kinds with `work`, which has a function for each."""

    box: Toolbox
    waits: Waits
    work: Mapping[str, AgentWork] = field(default_factory=dict[str, "AgentWork"])
    report: SendReport = no_report

    async def __call__(self, job: Job, run: JobRun) -> JobOutcome:
        """Run a job until it ends or has to wait."""
        token = _current.set(run)
        await _patiently(self.waits.begin, job.id)
        try:
            with as_parent(job.trace):
                outcome, labels = await self._run(job, run)
        except LeaseLost:
            raise
        except Exception as error:  # a record may be back soon; a call has no effect without it
            reason, again = self.box.redactor.redact(reason_of(error)), isinstance(error, RecordError)
            outcome, labels = JobOutcome("failed", reason=reason, again=again), None
        finally:
            _current.reset(token)
        if outcome.state == "parked":
            await _patiently(self.waits.add, job.id, outcome.waits_for)
        report = replace(report_of(job, outcome), labels=labels, known_by=self.box.flow.process)
        if is_tried_again(job, outcome, run.attempt) or await is_sent(report, self.report):
            with suppress(RecordError):  # then it is reported again, which counts once
                await _patiently(self.waits.end, job.id)
        return outcome

    async def _run(self, job: Job, run: JobRun) -> Done:
        limits, calls = self.box.policy.limits, job.body.get("calls")
        if limits is not None and isinstance(calls, Mapping):
            limits.carry_on(job.body.get("session") or job.id, cast("Mapping[str, Any]", calls))
        if job.kind == CallBody.KIND:
            return await self._call(job, CallBody.from_json(job.body), run)
        work = self.work.get(job.kind)
        if work is None:
            raise JobError(f"this worker cannot do {job.kind!r} jobs; it can do: {', '.join(['call', *self.work])}")
        session = job.body.get("session")
        ctx = self._context(job, session, job.body.get("schedule"))
        redact = self.box.redactor.redact

        async def emit(kind: str, data: Any) -> None:
            await run.emit(kind, redacted(data, redact))

        ended, labels = await work(WorkOrder(job, ctx, await shared_threads.run(self._expired, run), emit))
        return replace(ended, output=redacted(ended.output, redact), reason=redact(ended.reason)), labels

    def _context(self, job: Job, session: str | None, schedule: str | None) -> ToolContext:
        """Return the context of a job's calls: its session, its chat, who may not make schedules, the channel in which
        it was made, and the mode and questions of who made it, if that is stricter than ours."""
        policy = self.box.policy  # a person's schedule follows the settings, but no flag that was not said for it
        mode = job.body.get("mode")
        if not (isinstance(mode, str) and mode in MODES):
            mode = self.box.settings.origin.mode or policy.mode
        strict = stricter(mode, policy.mode) != policy.mode
        asks = job.body.get("asks") or (policy.approval if policy.enabled else APPROVAL_POLICIES[0])
        asks = asks if asks in APPROVAL_POLICIES else ASKS
        if APPROVAL_POLICIES.index(asks) <= APPROVAL_POLICIES.index(policy.asks):
            asks = ""
        deliver: Mapping[str, Any] = job.body.get("deliver") or {}
        more = {SCHEDULED_RUN: schedule, MADE_IN: job.body.get("made_in"), FOR_JOB: job.id}
        metadata = {**self.box.context.metadata, **{key: value for key, value in more.items() if value}}
        return replace(
            self.box.context, channel=deliver.get("channel") or "job", chat_id=deliver.get("chat_id"),
            session_id=session, metadata=metadata,
            caller=Caller("job", mode=mode if strict else None, asks=asks) if strict or asks else None,
        )  # fmt: skip

    # --- one call

    async def _call(self, job: Job, body: CallBody, run: JobRun) -> Done:
        if expired := await shared_threads.run(self._expired, run):
            text = f"Nobody answered the request {', '.join(sorted(expired))} in time, so {body.tool} was not run."
            return JobOutcome("failed", _plain(ToolOutput.error(text, "denied")), text), None
        ctx = self._context(job, body.session or job.id, body.schedule)
        flow = self.box.flow
        flow.inherit(
            from_wire(body.labels) or Labels(), ctx.session_id, elsewhere=body.labels.get(KNOWN_BY) != flow.process
        )
        told = 0

        async def tell(text: str, stream: str) -> None:
            nonlocal told
            if told < MAX_TOLD:
                told += len(text)
                with suppress(LeaseLost):  # the process ends, or the job is cancelled: nothing to warn of
                    await run.emit("output", text if told < MAX_TOLD else f"{text}{NO_MORE}")

        progress = _Progress(run)
        ctx = replace(ctx, metadata={**ctx.metadata, JOB: job.id, COMMAND_OUTPUT: tell}, on_progress=progress.report)
        output = await self.box.call(body.tool, body.arguments, ctx, call_id=job.id)
        if output.error_kind == "pending" and (approval := output.meta.get("approval_id")):
            approvals: Sequence[str] = output.meta.get("approvals") or (approval,)
            reason = f"{body.tool} waits for approval: toolcrib approvals approve {', '.join(approvals)}"
            return JobOutcome("parked", reason=reason, waits_for=tuple(map(APPROVAL.__add__, approvals))), output.labels
        if not output.is_error:
            return JobOutcome("done", _plain(output)), output.labels
        reason = cut(for_person(output), MAX_REASON, None)
        return JobOutcome("failed", _plain(output), reason, again=output.error_kind in PASSING), output.labels

    def _expired(self, run: JobRun) -> frozenset[str]:
        """Return the requests that the job waited for and that nobody answered in time, without those of a script,
        which goes on. Blocks."""
        found = {s.key.removeprefix(APPROVAL) for s in run.signals if s.data == {"state": "expired"}}
        rows = map(self.box.approvals.get, found)
        return frozenset(found - {row["id"] for row in rows if row is not None and is_inner(row["call_id"])})


# --- reports


async def is_sent(report: Report, send: SendReport) -> bool:
    """Send a report. Returns whether it is sent; if not, the host of the jobs sends it later."""
    try:
        await send(report)
    except ToolcribError as error:
        log.warning("the report of %s could not be sent; it is tried again in a moment: %s", report.job.id, error)
        return False
    except Exception:
        log.exception("the report of %s could not be sent; it is tried again in a moment", report.job.id)
        return False
    return True


_HOW = {
    "done": "is done", "failed": "failed", "cancelled": "was cancelled", "parked": "waits for a person",
    "unknown": "was cut off: it may have had all, some or none of its effects. It is not repeated by itself",
}  # fmt: skip


def report_of(job: Job, ended: JobOutcome | JobStatus) -> Report:
    """Return the report about a job that has ended, perhaps without its runner, or that is parked."""
    answer = ended.reason if ended.state == "parked" else text_of_output(ended.output) or ended.reason
    text = f"[The job {job.id} ({what_of(job)}) {_HOW[ended.state]}.]\n{answer}".rstrip()
    return Report(job, ended.state, text, answer, " ".join((job.id, *ended.waits_for)))


def text_of_output(output: Any) -> str:
    """Return the text in the output of a job; "" without one."""
    return str(cast("Mapping[str, Any]", output).get("text", "")) if isinstance(output, Mapping) else ""


def what_of(job: Job) -> str:
    """Return in a few words what a job does."""
    return str(job.body.get("tool") or job.body.get("label") or job.kind)


def _plain(output: ToolOutput) -> dict[str, Any]:
    """Return an output as JSON data. Images and sounds are left out: a job's row is not the place for them."""
    from pydantic_core import to_jsonable_python

    text = output.for_llm
    blocks = [block.type for block in output.content if block.type != "text"]
    if blocks:
        text += f"\n[not saved: {', '.join(sorted(set(blocks)))}]"
    data = to_jsonable_python(output.data, serialize_unknown=True, inf_nan_mode="null")
    found = {"text": text, "error_kind": output.error_kind, "data": data}
    return {name: value for name, value in found.items() if value is not None}


class _Progress:
    """Stores the progress of a call as events, not too often."""

    def __init__(self, run: JobRun) -> None:
        self._run = run
        self._last = 0.0

    async def report(self, done: float, total: float | None, message: str | None) -> None:
        now = time.monotonic()
        if now - self._last >= PROGRESS_SECONDS or (total is not None and done >= total):
            self._last = now
            await self._run.emit("progress", {"done": done, "total": total, "message": message})


async def _checked_again(commit: Awaitable[None], run: JobRun) -> None:
    """Wait for the commit of an intent, which a network that is cut may delay until another worker has the job."""
    await commit
    run.check()


@contextmanager
def effects_guarded(box: Toolbox) -> Generator[None]:
    """Ask the engine before each effect of a job, within this block, whether this worker may still act for it: before
    its intent is committed, and after that."""
    stages = box.registry.stages
    intent = stages.intent
    assert intent is not None

    def guarded(call: Call, grant: Grant) -> Awaitable[None] | None:
        run = _current.get()
        if run is None:
            return intent(call, grant)
        run.check()
        waiting = intent(call, grant)
        return None if waiting is None else _checked_again(waiting, run)

    stages.intent = guarded
    try:
        yield
    finally:
        stages.intent = intent
