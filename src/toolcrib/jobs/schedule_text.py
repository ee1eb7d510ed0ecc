"""Reads when a schedule is due from what a model or a person wrote: `every 10m`, `in 5 minutes`, a time, cron."""

from __future__ import annotations

import re
from datetime import datetime, timedelta

from ..core.text import lazy_regex
from .schedule import MAX_SECONDS, UNITS, At, Cron, Every, Timing, shown
from .zones import ScheduleError, local_time, local_zone, moment_of, zone_of

FORMS = (
    "'every 10m', 'in 5 minutes', '2026-12-01T09:00' (once), '09:00' (once, when the clock next shows it), or a cron "
    "expression such as '0 9 * * *'"
)
MAX_TEXT = 300
_SPAN = lazy_regex(
    r"(\d{1,9}) *(w|weeks?|d|days?|h|hrs?|hours?|m|mins?|minutes?|s|secs?|seconds?)(?![a-z])[ ,]*", re.ASCII
)
_CLOCK = lazy_regex(r"(\d{1,2}):(\d{2})(?::(\d{2}))?", re.ASCII)


def timing_of(
    now: float,
    *,
    every_seconds: int | None = None,
    cron_expr: str | None = None,
    tz: str | None = None,
    at: str | None = None,
    schedule: str | None = None,
) -> Timing:
    """Read exactly one of the four forms. Without `tz` times are those of this machine's time zone.

    Raises ScheduleError.
    """
    given = {"every_seconds": every_seconds, "cron_expr": cron_expr, "at": at, "schedule": schedule}
    names = [name for name, value in given.items() if value not in (None, "", 0)]
    if len(names) != 1:
        said = f"not {' and '.join(names)}" if names else "none is set"
        raise ScheduleError(f"exactly one of every_seconds, cron_expr, at and schedule is required: {said}")
    if tz and every_seconds:
        raise ScheduleError("tz can only be used with cron_expr, at or schedule: an interval has no time zone")
    zone = zone_of(tz).key if tz else local_zone()
    if every_seconds:
        return Every(every_seconds, int(now))
    if cron_expr:
        return Cron(cron_expr.strip(), zone)
    return _time(at, now, zone) if at else read_schedule(schedule or "", now, zone)


def read_schedule(text: str, now: float, zone: str) -> Timing:
    """Read one string of any form. Raises ScheduleError."""
    words = " ".join(text[: MAX_TEXT + 1].split())
    plain = words.casefold()
    if len(words) > MAX_TEXT:
        raise ScheduleError(f"a schedule has at most {MAX_TEXT} characters")
    if plain.startswith("every "):
        return Every(_span(plain[6:], words), int(now))
    if plain.startswith("in "):
        return At(_near(int(now) + _span(plain[3:], words), now, zone), zone)
    if _CLOCK.fullmatch(plain.removeprefix("at ")) or re.match(r"(at )?\d{4}-", plain):
        return _time(words[3:] if plain.startswith("at ") else words, now, zone)
    if plain.startswith("@") or len(words.split()) in (5, 6):
        return Cron(words, zone)
    raise ScheduleError(f"{words!r} is not a schedule; write {FORMS}")


def _time(text: str, now: float, zone: str) -> At:
    """Read a time of day, or an ISO date with a time."""
    clock = _CLOCK.fullmatch(text.strip())
    if clock is not None:
        return _time_of_day(clock, text, now, zone)
    try:
        if "T" not in text.upper() and ":" not in text:
            raise ValueError("no time of day")
        found = datetime.fromisoformat(text.strip())
        moment = moment_of(found, zone_of(zone)) if found.tzinfo is None else int(found.timestamp())
    except (ValueError, OverflowError):
        raise ScheduleError(f"{text!r} is not an ISO date with a time, such as 2026-12-01T09:00") from None
    return At(_near(moment, now, zone), zone)


def _time_of_day(clock: re.Match[str], text: str, now: float, zone: str) -> At:
    """Read a time of day: the next moment at which the clock shows it."""
    hour, minute, second = (int(part or 0) for part in clock.groups())
    if hour > 23 or minute > 59 or second > 59:
        raise ScheduleError(f"{text!r} is not a time of day; it goes from 00:00 to 23:59")
    here = zone_of(zone)
    local = local_time(now, here).replace(hour=hour, minute=minute, second=second, microsecond=0)
    found = next(m for day in range(3) if (m := moment_of(local + timedelta(days=day), here)) > now)
    return At(found, zone)


def _span(text: str, whole: str) -> int:
    """Return the seconds of a length of time, such as `10m`, `1h 30m` or `hour`."""
    if re.fullmatch(r"second|minute|hour|day|week", text):
        text = f"1 {text}"
    seconds = sum(int(number) * UNITS[unit[0]] for number, unit in _SPAN.findall(text))
    if _SPAN.sub("", text) or not 1 <= seconds <= MAX_SECONDS:
        raise ScheduleError(
            f"{whole!r} has no length of time such as 30s, 10 minutes, 1h 30m or 2 days, at most ten years. For a time "
            "of each day write a cron expression: '0 9 * * *'"
        )
    return seconds


def _near(moment: int, now: float, zone: str) -> int:
    """Check that a moment is to come. Raises ScheduleError."""
    if moment <= now:
        raise ScheduleError(f"this time is in the past: it is {shown(now, zone)}")
    if moment > now + MAX_SECONDS:
        raise ScheduleError("a schedule cannot be more than ten years ahead")
    return moment
