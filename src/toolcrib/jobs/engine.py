"""The seam between work and the engine that stores and runs it. Only plain JSON crosses it.

A job is stored before `submit` returns, and a worker runs it with a `Runner`. A job that has to wait for a person is
parked: it ends with its state stored, costs no task and no connection, and a signal lets a worker go on with it.
A job whose worker died is run again by another one if it is repeatable; if it is not, its state is `unknown`.
A direct call of a tool never comes here.
"""

from __future__ import annotations

import json
import secrets
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from dataclasses import field, replace
from typing import Any, Literal, Protocol

from ..core.dataclass import dataclass
from ..core.empty import EMPTY
from ..core.errors import ToolcribError, UnknownName
from ..core.text import lazy_regex

VERSION = 1
"""The version of a job's stored form. A worker refuses a job with a later one."""
DEFAULT_QUEUE = "default"
MAX_TAGS = 6
"""Of a job or a worker, besides the one for `--config`. A worker looks into a queue for each combination of them."""
CONFIG = "config:"
"""The beginning of the tag of jobs that are made under a file of `--config`; its path and eight digits follow."""
_NAME = lazy_regex(r"[\w.:@/-]{1,200}")
_MAX_PATH = 4096

JobState = Literal["queued", "running", "parked", "done", "failed", "unknown", "cancelled"]
"""queued: it waits for a worker, for its time, or for a place that a limit keeps. parked: it waits for a signal.
unknown: it was cut off, and whether it had its effect is not known. The last four are final."""
FINAL: frozenset[JobState] = frozenset({"done", "failed", "unknown", "cancelled"})


class JobError(ToolcribError):
    """A job cannot be used: it is unknown, or the engine cannot do what was asked."""


class NotThere(JobError, UnknownName):
    """The job, or the database of jobs, that was named does not exist."""


class LeaseLost(JobError):
    """This worker may no longer act for a job: its time ran out, and another worker may have the job."""


def new_job_id() -> str:
    """Return an id for a job: the time, so that ids sort, and six random characters."""
    return f"job-{time.strftime('%Y%m%d-%H%M%S', time.gmtime())}-{secrets.token_hex(3)}"


@dataclass(frozen=True, slots=True)
class Job:
    """One piece of work. `body` is JSON for the runner of this `kind`; it may name secrets, never hold them.

    Of two jobs with the same id only the first one counts, so a submission can be repeated. A `repeatable` job is run
    again when a worker died or it failed for a passing reason, at most `max_attempts` times. `queue`, `tags` and
    `workspace` choose the workers: a worker needs all the tags of a job, and serves the workspace whose path this is.
    Without one the job is for any. `tenant` shares a queue fairly. `not_before` is in Unix seconds. `trace` has W3C
    trace headers.
    """

    kind: str
    body: Mapping[str, Any]
    id: str = field(default_factory=new_job_id)
    queue: str = DEFAULT_QUEUE
    tags: tuple[str, ...] = ()
    workspace: str = ""
    tenant: str = ""
    repeatable: bool = False
    max_attempts: int = 3
    not_before: float | None = None
    trace: Mapping[str, str] = EMPTY
    version: int = VERSION


@dataclass(frozen=True, slots=True)
class Limits:
    """How many jobs may run at once. `worker`: of each queue in one worker. In all workers: `total`: of all queues.
    `queue`: of each queue. `tenant`: of one tenant in each queue."""

    worker: int = 16
    queue: int | None = None
    tenant: int | None = None
    total: int | None = None

    @property
    def shared(self) -> bool:
        """Whether a limit holds for all workers together."""
        return (self.queue, self.tenant, self.total) != (None, None, None)


@dataclass(frozen=True, slots=True)
class Served:
    """The jobs that a worker takes: those of its queues, for one of its workspaces, whose tags it has."""

    queues: tuple[str, ...] = (DEFAULT_QUEUE,)
    tags: tuple[str, ...] = ()
    workspaces: tuple[str, ...] = ("",)

    def has(self, job: Job) -> bool:
        """Return whether a job is one of them."""
        return job.queue in self.queues and job.workspace in self.workspaces and set(self.tags).issuperset(job.tags)

    def to_json(self) -> str:
        """Return it as a worker stores it."""
        return json.dumps([self.queues, self.tags, self.workspaces])

    @classmethod
    def from_json(cls, text: str) -> Served:
        """Return what a worker stored."""
        return cls(*map(tuple, json.loads(text)))


@dataclass(frozen=True, slots=True)
class JobStatus:
    """A job as it is stored. Times are Unix seconds. `output` is the runner's output, JSON; `reason` says in words why
    a job failed, waits or is unknown. `waits_for` are the keys of the signals that a parked job waits for."""

    job: Job
    state: JobState
    created: float
    started: float | None = None
    ended: float | None = None
    attempt: int = 0
    worker: str | None = None
    output: Any = None
    reason: str = ""
    waits_for: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class JobEvent:
    """What a job reported while it ran. `number` counts from 1 without gaps, over all attempts and continuations."""

    number: int
    time: float
    kind: str
    data: Any


@dataclass(frozen=True, slots=True)
class JobOutcome:
    """How one run of a job ended: `done` with its output, `failed` with a reason, or `parked` until one of the signals
    that it waits for. A job that failed with `again` is run again after a pause, if it is repeatable."""

    state: Literal["done", "failed", "parked"]
    output: Any = None
    reason: str = ""
    waits_for: tuple[str, ...] = ()
    again: bool = False


@dataclass(frozen=True, slots=True)
class Signal:
    """What a parked job was woken with: the key that it waited for, and JSON data."""

    key: str
    data: Any = None


class JobRun(Protocol):
    """What a runner gets with a job. `attempt` counts from 1. `signals` are all signals that the job was woken with, in
    order. `cut_off` is true if an earlier attempt began and did not end (only repeatable jobs see it)."""

    attempt: int
    signals: Sequence[Signal]
    cut_off: bool

    async def emit(self, kind: str, data: Any) -> None:
        """Store an event."""

    def check(self) -> None:
        """Raise LeaseLost if this worker may no longer act for the job: its time ran out, and another one may have it.
        To be asked before each effect."""


Runner = Callable[[Job, JobRun], Awaitable[JobOutcome]]
"""Does the work of a job. Cancelling it must end what it started within two seconds. An error that it raises makes the
job failed."""

DEFAULT_LIMITS, DEFAULT_SERVED = Limits(), Served()


async def nobody(job_id: str) -> None:
    """Tell nobody that a job was lost."""


def plain_json(what: str, value: Any) -> str:
    """Return a value as JSON text. Half a surrogate pair, which no database takes, becomes U+FFFD. Raises JobError,
    which says `what` it is, if the value is not plain JSON."""
    try:
        text = json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    except (TypeError, ValueError, RecursionError) as error:
        raise JobError(f"{what} cannot be stored: {error}; give plain JSON") from error
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def plain(what: str, value: Any) -> Any:
    """Return a value as it is when it comes back from a database. Raises JobError if it is not plain JSON."""
    return json.loads(plain_json(what, value))


def pack(job: Job) -> str:
    """Return a job's stored form. Raises JobError if a name in it is not allowed or it is not plain JSON."""
    names = [("id", job.id), ("kind", job.kind), ("queue", job.queue), *(("tag", tag) for tag in job.tags)]
    for what, name in (*names, ("tenant", job.tenant or "-")):
        if not _NAME.fullmatch(name):
            raise JobError(f"the {what} {name!r} of a job may have letters, digits and . _ : @ / - only, at most 200")
    if "\0" in job.workspace or len(job.workspace) > _MAX_PATH:
        raise JobError(f"the workspace of job {job.id} should be a path, of at most {_MAX_PATH} characters")
    chosen = [tag for tag in job.tags if not tag.startswith(CONFIG)]
    if len(chosen) > MAX_TAGS or len(job.tags) > MAX_TAGS + 1:
        raise JobError(f"job {job.id} has {len(chosen)} tags; at most {MAX_TAGS} are possible")
    fields = {name: getattr(job, name) for name in Job.__slots__}
    fields |= {"body": dict(job.body), "trace": dict(job.trace), "tags": sorted(set(job.tags))}
    return plain_json(f"job {job.id}", fields)


def unpack(text: str) -> Job:
    """Return the job of a stored form. What a later version of Toolcrib added is left out."""
    fields: dict[str, Any] = json.loads(text)
    fields["tags"] = tuple(fields["tags"])
    return Job(**{name: fields[name] for name in Job.__slots__ if name in fields})


def too_new(job: Job) -> JobOutcome | None:
    """Return the outcome of a job that a later version of Toolcrib stored and this one cannot run."""
    if job.version <= VERSION:
        return None
    return JobOutcome(
        "failed", reason=f"it was stored by a later version of Toolcrib (form {job.version}); update this worker"
    )


def is_tried_again(job: Job, outcome: JobOutcome, attempt: int) -> bool:
    """Return whether a job is run again after this outcome of an attempt."""
    return outcome.state == "failed" and outcome.again and job.repeatable and attempt < job.max_attempts


def cut_off_reason(job: Job, attempt: int) -> str:
    """Return in words why a job that was cut off in this attempt is not run again; "" if it is."""
    if not job.repeatable:
        return "its worker ended while it ran; whether it had its effect is not known"
    if attempt >= job.max_attempts:
        return f"its worker ended while it ran, {attempt} times; what it did until then is not known"
    return ""


def reason_of(error: Exception) -> str:
    """Return in words why a runner that raised this failed. Errors of our own are sentences."""
    return str(error) if isinstance(error, ToolcribError) else f"{type(error).__name__}: {error}"


async def run_again(engine: JobEngine, job_id: str) -> str:
    """Submit a job again that failed, was cancelled or cut off, as a new job, and return its id. Raises JobError for
    any other job."""
    status = await engine.status(job_id)
    if status.state not in ("failed", "unknown", "cancelled"):
        raise JobError(f"{job_id} is {status.state}: only jobs that failed, were cancelled or cut off run again")
    return await engine.submit(replace(status.job, id=new_job_id(), not_before=None))


def pause_before(attempt: int) -> float:
    """Return the seconds to wait before an attempt after a failed one: 1, 2, 4 … at most 60."""
    return min(2.0 ** (attempt - 2), 60.0)


class JobEngine(Protocol):
    """Stores jobs, and runs them where `work` was called."""

    name: str
    """What it is, for a person: "in memory", "SQLite …", "Postgres …"."""

    async def place(self) -> str:
        """Return the name of the database, or of the memory, that has these jobs. Raises JobError."""
        ...

    async def submit(self, job: Job) -> str:
        """Store a job and return its id. Raises JobError if it is not plain JSON or cannot be stored."""
        ...

    async def status(self, job_id: str) -> JobStatus:
        """Return a job. Raises JobError if there is none."""
        ...

    async def jobs(self, *, states: Sequence[JobState] = (), limit: int = 100) -> list[JobStatus]:
        """Return jobs, the newest first. An engine may look at the latest ones only, so that a list costs the same
        however many jobs have ended."""
        ...

    async def result(self, job_id: str, timeout: float | None = None) -> JobStatus:
        """Wait for a final state and return it. Raises TimeoutError after `timeout` seconds, JobError if there is no
        such job."""
        ...

    async def cancel(self, job_id: str) -> bool:
        """Cancel a job. Returns whether it was not final yet. Raises JobError."""
        ...

    def events(self, job_id: str) -> AsyncGenerator[JobEvent]:
        """Yield the stored events, then new ones, until the job is final. Raises JobError if there is no such job."""
        ...

    async def signal(self, job_id: str, key: str, data: Any = None) -> bool:
        """Wake a job that waits for this key. A signal that comes before the job parks is kept for it; a second one
        with the same key, or one for a final job, is ignored. Returns whether it counts. Raises JobError if there is no
        such job, or if the data is not plain JSON."""
        ...

    async def work(
        self,
        run: Runner,
        *,
        serves: Served = DEFAULT_SERVED,
        limits: Limits = DEFAULT_LIMITS,
        lost: Callable[[str], Awaitable[None]] = nobody,
    ) -> None:
        """Begin to run these jobs in this process; returns at once. Runners run in the event loop of the caller.
        `lost(job_id)` is called at least once before a job that was cut off, and is not run again, ends. Raises
        JobError if this process may not: it works already, or another one works on this SQLite file."""

    async def workers(self) -> dict[str, Served]:
        """Return the workers that run now, by name, with the jobs that each takes."""
        ...

    async def forget(self, before: float) -> int:
        """Delete some of the jobs that ended before this time (Unix seconds), with their events. Returns how many; 0 if
        none is left."""
        ...

    async def drain(self, timeout: float) -> bool:
        """Take no new jobs, and wait for the running ones. Returns whether all ended in time; what did not goes back to
        the queue, or is unknown if it is not repeatable."""
        ...

    async def aclose(self) -> None:
        """Stop working and close connections. Jobs that run are treated as by `drain(0)`."""
