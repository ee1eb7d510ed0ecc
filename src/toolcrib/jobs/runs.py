"""How a job is stored in DBOS: a workflow for each of its runs, and what leads from one run to the next."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from itertools import combinations, product
from typing import Any, TypedDict

import sqlalchemy as sa
from dbos import DBOSClient, EnqueueOptions
from dbos._serialization import DefaultSerializer

from .engine import Job, Limits, Served, pack, pause_before
from .job_store import JobRow, JobStore

APPLICATION = "toolcrib"
VERSION = "1"
"""Fixed: DBOS gives a job to workers of the version that it was stored by, and otherwise would hash our source."""
WORKFLOW = "toolcrib.job"
EVENTS = "events"


def _refuse(_: object, serialized_data: str) -> None:
    """DBOS reads a row as the row says, also as a pickle, and a pickle runs the code of whoever wrote the row."""
    raise ValueError("the row holds a Python pickle, which Toolcrib does not read")


setattr(DefaultSerializer, "deserialize", _refuse)  # noqa: B010 - DBOS has no setting for that


def run_id(job_id: str, run: int) -> str:
    """Return the id of a job's workflow. It is the same each time, so that a run is begun once."""
    return f"{job_id}~{run}" if run else job_id


def split_run_id(workflow_id: str) -> tuple[str, int]:
    """Return the job and the number of the run that a workflow is."""
    job_id, _, run = workflow_id.partition("~")
    return job_id, int(run or 0)


def route(job: Job) -> str:
    """Return the name of a job's queue in DBOS: a queue of its own for each set of tags and each workspace, so that
    only workers that serve them look into it."""
    return _route(job.queue, job.tags, job.workspace)


def _route(queue: str, tags: Sequence[str], workspace: str) -> str:
    return "+".join([queue, *sorted(set(tags))]) + (f" {workspace}" if workspace else "")


def queue_of(route: str) -> str:
    """Return our queue, of which a queue in DBOS has the jobs of some tags and a workspace."""
    return re.split("[+ ]", route, maxsplit=1)[0]


def routes(served: Served) -> list[str]:
    """Return the names of all queues in DBOS whose jobs a worker takes."""
    known = sorted(set(served.tags))
    sets = [chosen for count in range(len(known) + 1) for chosen in combinations(known, count)]
    return [_route(*each) for each in product(served.queues, sets, served.workspaces)]


class QueueLimits(TypedDict):
    """The settings of a queue for DBOS. A limit for partitions makes it a queue with a partition for each tenant."""

    worker_concurrency: int
    global_concurrency: int | None
    partition_concurrency: int | None
    partition_worker_concurrency: int | None
    polling_interval_sec: float


def queue_limits(limits: Limits, poll: float) -> QueueLimits:
    """Return the limits as DBOS wants them: none above one that holds for more jobs. They hold for each queue of DBOS.
    One queue of ours is many of those, for its tags and workspaces: over them the worker counts, with `JobStore`."""
    queue = min((each for each in (limits.queue, limits.total) if each is not None), default=None)
    worker = min(limits.worker, queue or limits.worker)
    tenant = None if limits.tenant is None else min(limits.tenant, queue or limits.tenant)
    return {
        "worker_concurrency": worker,
        "global_concurrency": queue,
        "partition_concurrency": tenant,
        "partition_worker_concurrency": min(worker, tenant or worker),
        "polling_interval_sec": poll,
    }


def enqueue_options(job: Job, run: int, delay: float = 0.0) -> EnqueueOptions:
    """Return where and when a run is to be done."""
    options: EnqueueOptions = {
        "workflow_name": WORKFLOW,
        "workflow_id": run_id(job.id, run),
        "queue_name": route(job),
        "queue_partition_key": f"tenant:{job.tenant}",
        "app_version": VERSION,
    }
    if delay > 0:
        options["delay_seconds"] = delay
    return options


def wake_if_signalled(
    store: JobStore, client: DBOSClient, connection: sa.Connection, job: Job, kept: JobRow, parked: dict[str, Any]
) -> bool:
    """Store the next run of a job that parks or is parked, if a signal that it waits for is there. Returns whether."""
    if not (new := store.new_signals(connection, job.id, kept, parked["waits_for"])):
        return False
    signals = [*map(list, kept.signals), *new]
    store.change(
        connection, job.id, run=kept.run + 1, attempt=1, cut_off=0, taken_from=None, parked=None,
        signals=json.dumps(signals),
    )  # fmt: skip
    client.enqueue_in_transaction(connection, enqueue_options(job, kept.run + 1), pack(job), kept.run + 1)
    return True


def go_on(store: JobStore, client: DBOSClient, job: Job, run: int, outcome: dict[str, Any], first_pause: float) -> None:
    """Park a job, or store its next attempt. Doing it again for one run changes nothing."""

    def store_it(connection: sa.Connection) -> None:
        kept = store.locked(connection, job.id)
        if kept.run != run or kept.cancelled or kept.parked is not None:
            return
        if outcome["state"] == "parked":
            if not wake_if_signalled(store, client, connection, job, kept, outcome):
                store.change(connection, job.id, parked=json.dumps(outcome))
            return
        pause = 0.0 if outcome["cut_off"] else first_pause * pause_before(kept.attempt + 1)
        store.change(
            connection, job.id, run=run + 1, attempt=kept.attempt + 1, cut_off=int(outcome["cut_off"]), taken_from=None
        )
        client.enqueue_in_transaction(connection, enqueue_options(job, run + 1, pause), pack(job), run + 1)

    store.transaction(store_it)
