"""Schedules: when each is due next, what it does, its latest runs, and what a person does with it."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING

from ...core.dataclass import dataclass
from ...core.errors import ToolError
from .acts import SentForm
from .html import Child, Markup, el
from .page import Frame, as_json, clock, exact, facts, folded, form, link, live, one_line, page

if TYPE_CHECKING:
    from ...jobs.schedules import Schedule, ScheduledRun, Schedules

OpenSchedules = Callable[[], "AbstractContextManager[Schedules]"]
"""Opens the schedules of the workspace."""


@dataclass(frozen=True, slots=True)
class ScheduleList:
    """The schedules, the one that is due next first, and whether a worker runs them."""

    found: Sequence[Schedule]
    has_worker: bool


def read_schedules(schedules: OpenSchedules) -> ScheduleList:
    """Read the schedules of the workspace."""
    with schedules() as opened:
        return ScheduleList(opened.list(), opened.has_worker(time.time()))


def schedules_page(schedules: ScheduleList, engine: str, frame: Frame) -> str:
    """Return the page, with this engine of the settings."""
    from ...jobs.cron_tools import no_worker

    none = el("p", "There are no schedules. `toolcrib schedule add` makes one.")
    return page(
        frame,
        "Schedules",
        live(
            "schedules",
            el("p", no_worker(engine), class_="fault") if schedules.found and not schedules.has_worker else None,
            [_schedule(each, frame) for each in schedules.found] or none,
            name="Schedules, the one that is due next first",
        ),
    )  # fmt: skip


def _schedule(found: Schedule, frame: Frame) -> Markup:
    from ...jobs.cron_tools import next_of, what_of

    body = found.job.body
    rows = [_run(each) for each in found.runs]
    paused = found.state == "paused"
    return el(
        "article",
        el("h2", el("bdi", found.name), " ", el("small", str(found.timing))),
        facts({
            "does": what_of(found),
            "next run": next_of(found).partition(": ")[2],
            "made by": "a model" if found.options.by_model else "a person",
            "if missed": found.options.on_miss,
            "if one runs": found.options.overlap,
        }),
        folded(f"Latest runs ({len(rows)})", el("ul", rows, class_="rows")) if rows else el("p", "It has not run yet."),
        folded("All of what it does", exact(as_json(dict(body)), diff=False)),
        form(
            frame, "schedule",
            el("button", "Run now", name="act", value="run"),
            el("button", "Resume", name="act", value="resume") if paused else
            el("button", "Pause", name="act", value="pause"),
            name=found.name,
        ),
        id=f"schedule-{found.name}", data_version=f"{found.version} {found.state} {found.asked}", tabindex=0,
        data_item=True,
    )  # fmt: skip


def _run(run: ScheduledRun) -> Markup:
    times = f" ×{run.times}" if run.times > 1 else ""
    job: Child = link(run.job, "job", {"id": run.job}) if run.job else None
    bad = run.state in ("failed", "unknown", "cancelled")
    return el("li", clock(run.due), " ", el("strong", run.state, class_="bad" if bad else None), times, " ", job,
              f" {one_line(run.text)}")  # fmt: skip


def act_on_schedule(sent: SentForm, schedules: OpenSchedules, engine: str) -> str:
    """Do what a form says, and return a sentence for the person. Raises ToolcribError."""
    from ...jobs.cron_tools import no_worker

    name, act = sent.get("name"), sent.get("act")
    if act not in ("run", "pause", "resume"):
        raise ToolError("the form names no act")
    with schedules() as opened:
        opened.get(name)
        sent.note(f"{act} the schedule", name)
        if act == "run":
            worker = "" if opened.has_worker(time.time()) else f" {no_worker(engine)}"
            return f"{opened.run(name).name} runs as soon as a worker looks for it.{worker}"
        found = opened.pause(name) if act == "pause" else opened.resume(name)
    return f"{found.name} is paused." if act == "pause" else f"{found.name} goes on."
