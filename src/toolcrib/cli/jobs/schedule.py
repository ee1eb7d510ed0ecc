"""`toolcrib schedule`: messages to the agent, and calls of tools, once or again and again."""

from __future__ import annotations

import shlex
import time
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import asdict, replace
from itertools import islice
from typing import TYPE_CHECKING, Annotated, Any, Literal

from ...core.errors import ToolError
from .. import show
from ..arguments import json_object
from ..exit_codes import OK, REFUSED, USAGE, Usage
from ..options import Options, RecordOptions
from ..reader import Argument, CliCommand, Option, group

if TYPE_CHECKING:
    from ...jobs.schedule import Timing
    from ...jobs.schedules import Schedule, Schedules

Name = Annotated[str, Argument(metavar="NAME", help="The schedule.")]


def listed(options: RecordOptions) -> None:
    """List the schedules: when each is due next, what it does, and how its latest run ended."""
    with opened_schedules(options) as schedules:
        found = schedules.list()
        idle = bool(found) and not schedules.has_worker(time.time())
    if options.json:
        show.out_json([_plain(each) for each in found])
        return
    show.columns(
        [_cells(each) for each in found],
        ("bold",),
        none="There are no schedules. Make one: toolcrib schedule add 'every 1h' 'Look whether the build is green'",
    )
    if idle:
        _no_worker(options)


def shown(options: RecordOptions, name: Name) -> None:
    """Show one schedule, with its latest runs."""
    with opened_schedules(options) as schedules:
        found = schedules.get(name)
        left = [] if schedules.has_worker(time.time()) else [run.job for run in found.open_runs]
    if options.json:
        show.out_json(_plain(found))
        return
    from ...jobs.cron_tools import next_of, what_of

    show.out(f"{found.name}  {found.timing}", "bold")
    deliver: dict[str, Any] = found.job.body.get("deliver") or {}
    show.facts({
        "does": what_of(found), "next": next_of(found).partition(": ")[2],
        "outcome goes to": " ".join(filter(None, (deliver.get("channel"), deliver.get("chat_id")))),
        "if it was missed": found.options.on_miss, "if it still runs": found.options.overlap,
        "later by at most": f"{found.options.jitter} s" if found.options.jitter else None,
    })  # fmt: skip
    show.columns(
        [[show.clock(r.due), r.state + (f" ×{r.times}" if r.times > 1 else ""), r.job, r.text] for r in found.runs],
        ("dim",),
        none="It has not run yet.",
    )
    if left:
        show.say(f"No worker looks at them now. What became of {left[0]}: toolcrib jobs show {left[0]}", "yellow")


async def add(
    options: RecordOptions,
    when: Annotated[
        str,
        Argument(
            metavar="WHEN",
            help="'every 10m', 'in 5 minutes', '2026-12-01T09:00', '09:00' (once), or cron: '0 9 * * 1-5'.",
        ),
    ],
    text: Annotated[list[str] | None, Argument(metavar="MESSAGE", help="What the agent has to do.")] = None,
    name: Annotated[str | None, Option("--name", help="Default: made from the message.")] = None,
    tz: Annotated[str | None, Option("--tz", metavar="ZONE", help="Europe/Berlin … Default: this machine's.")] = None,
    tool: Annotated[str | None, Option("--tool", metavar="NAME", help="Call this tool; no message is needed.")] = None,
    args: Annotated[str, Option("--args", metavar="JSON", help="The arguments of the tool.")] = "{}",
    channel: Annotated[str | None, Option("--channel", help="The channel that gets the outcome.")] = None,
    chat: Annotated[str | None, Option("--chat", metavar="ID", help="The chat of that channel.")] = None,
    on_miss: Annotated[
        Literal["run_once", "skip"], Option("--on-miss", help="After a time without a worker.")
    ] = "run_once",
    overlap: Annotated[
        Literal["skip", "allow"], Option("--overlap", help="While an earlier run has not ended.")
    ] = "skip",
    jitter: Annotated[
        int, Option("--jitter", metavar="SECONDS", help="Later by up to so much, the same each time.", minimum=0)
    ] = 0,
    keep: Annotated[bool, Option("--keep", help="Do not delete it after its last run.")] = False,
) -> int:
    """Add a schedule. `toolcrib worker` runs it; a call is judged now, and again when it runs."""
    from ...jobs.schedule import DAY
    from ...jobs.schedules import ScheduleOptions

    timing = _timing(when, tz)
    if chat is not None and channel is None:
        raise Usage("--chat needs --channel")
    if jitter > DAY:
        raise Usage(f"--jitter: the largest value is {DAY}, a day")
    how = ScheduleOptions(on_miss, overlap, jitter, not keep)
    call = None if tool is None else (tool, json_object(args, "--args"))

    from ...jobs.cron_tools import Scheduling

    async with options.open(warm_up=False) as box:
        known = box.settings.channels
        if channel not in (None, *known):
            raise Usage(
                f"there is no channel {channel!r}; the settings have: {', '.join(known) or 'none'}. "
                f"[channels.{channel}] in the settings adds it"
            )
        with opened_schedules(options, make=True) as schedules:
            scheduling = Scheduling(box, schedules)
            check = None if call is None else await box.check(*call)
            if check is not None and check.verdict == "deny":
                show.error(f"{tool} was not scheduled: {check.reason}")
                return REFUSED if check.step else USAGE
            ctx = replace(box.context, channel=channel, chat_id=chat)
            if not text and call is None:
                raise Usage(
                    f"what is to be done? `toolcrib schedule add {shlex.quote(when)} 'MESSAGE'`, or --tool NAME"
                )
            try:
                job = await scheduling.job_of(" ".join(text or []) or None, call, channel, ctx, by_model=False)
            except ToolError as error:
                raise Usage(str(error)) from None
            made, new = scheduling.add(name, timing, job, how)
            then = scheduling.then(made)
    if options.json:
        show.out_json(_plain(made))
        return OK
    show.say(f"{'Added' if new else 'There was already the same schedule'} {made.name}: {then}")
    if check is not None and check.verdict == "ask":
        show.say("Each run asks first: answer with `toolcrib approvals`, or allow it by a rule.", "yellow")
    return OK


def remove(options: RecordOptions, name: Name) -> None:
    """Remove a schedule. What runs goes on."""
    with opened_schedules(options) as schedules:
        show.say(f"Removed {schedules.remove(name).name}.")


def pause(options: RecordOptions, name: Name) -> None:
    """Let a schedule rest until it is resumed."""
    with opened_schedules(options) as schedules:
        show.say(f"{schedules.pause(name).name} is paused; `toolcrib schedule resume {name}` lets it go on")


def resume(options: RecordOptions, name: Name) -> None:
    """Let a paused schedule go on. What was due meanwhile is left out."""
    from ...jobs.cron_tools import next_of

    with opened_schedules(options) as schedules:
        found = schedules.resume(name)
        show.say(f"{found.name} goes on. {next_of(found)}")


def run_now(options: RecordOptions, name: Name) -> None:
    """Run a schedule at once, in addition to its times."""
    with opened_schedules(options) as schedules:
        found = schedules.run(name)
        show.say(f"{found.name} runs as soon as a worker looks for it; see `toolcrib schedule show {found.name}`")
        if not schedules.has_worker(time.time()):
            _no_worker(options)


def next_times(
    options: RecordOptions,
    count: Annotated[int, Argument(metavar="N", help="How many times.", minimum=1)] = 5,
    name: Annotated[str | None, Option("--name", help="Of this schedule only.")] = None,
    when: Annotated[str | None, Option("--when", help="Of this text, to try it: '0 9 * * 1-5'.")] = None,
    tz: Annotated[str | None, Option("--tz", metavar="ZONE", help="The time zone of --when.")] = None,
) -> None:
    """Show when schedules are due next, or when one would be."""
    import heapq

    from ...jobs.engine import Job
    from ...jobs.schedules import Schedule

    now = time.time()
    if when is not None:
        timing = _timing(when, tz)
        found = [Schedule(when, timing, Job("message", {}), due=timing.next(now))]
    else:
        with opened_schedules(options) as schedules:
            found = [schedules.get(name)] if name is not None else schedules.list()
    moments = heapq.merge(*(_times(each) for each in found if each.state == "active"))
    rows = list(islice(moments, count))
    if options.json:
        show.out_json([{"due": moment, "time": text, "name": each} for moment, text, each in rows])
    else:
        show.columns([[text, each] for _, text, each in rows], (None, "bold"), none="Nothing is due.")


def _times(schedule: Schedule) -> Generator[tuple[int, str, str]]:
    from ...jobs.cron_tools import zone_of
    from ...jobs.schedule import shown

    moment = schedule.due
    while moment is not None:
        yield moment, shown(moment, zone_of(schedule)), schedule.name
        moment = schedule.next(moment)


def _timing(when: str, tz: str | None) -> Timing:
    """Read when a schedule is due. Raises Usage."""
    from ...jobs.schedule_text import timing_of
    from ...jobs.zones import ScheduleError

    try:
        return timing_of(time.time(), schedule=when, tz=tz)
    except ScheduleError as error:
        raise Usage(str(error)) from None


@contextmanager
def opened_schedules(options: RecordOptions, *, make: bool = False) -> Generator[Schedules]:
    """Open the schedules. With `make` their record on Postgres need not be there."""
    from ...jobs.placing import named_by
    from ...jobs.schedules import Schedules
    from ...jobs.zones import NoSuchSchedule, ScheduleError

    settings = options.settings(quiet=True)
    state = Options.state(options, settings) if make else options.state(settings)
    schedules = Schedules(state.record, named_by(settings.workspace))
    try:
        yield schedules
    except NoSuchSchedule:
        raise
    except ScheduleError as error:  # what was typed does not fit
        raise Usage(str(error)) from None
    finally:
        schedules.close()


def _no_worker(options: RecordOptions) -> None:
    from ...jobs.cron_tools import no_worker

    show.say(no_worker(options.settings(quiet=True).jobs.engine), "yellow")


def _plain(schedule: Schedule) -> dict[str, Any]:
    from ...jobs.schedule import timing_to_json

    return {
        "name": schedule.name, "timing": timing_to_json(schedule.timing), "when": str(schedule.timing),
        "state": schedule.state, "due": schedule.due, "kind": schedule.job.kind, "body": dict(schedule.job.body),
        "options": asdict(schedule.options), "runs": [asdict(run) for run in schedule.runs],
    }  # fmt: skip


def _cells(schedule: Schedule) -> list[str]:
    from ...jobs.cron_tools import next_of, what_of

    last = schedule.runs[0].state if schedule.runs else "-"
    return [schedule.name, str(schedule.timing), next_of(schedule).partition(": ")[2], last, what_of(schedule)]


COMMAND = group(
    listed,
    "Messages to the agent and calls of tools, once or again and again. Without a command: list them.",
    {
        "list": CliCommand(listed), "show": CliCommand(shown), "add": CliCommand(add),
        "remove": CliCommand(remove, without=("json",)), "pause": CliCommand(pause, without=("json",)),
        "resume": CliCommand(resume, without=("json",)), "run": CliCommand(run_now, without=("json",)),
        "next": CliCommand(next_times),
    },
)  # fmt: skip
