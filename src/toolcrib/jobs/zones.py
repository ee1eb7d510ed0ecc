"""Time zones: which moments the clock of a zone shows a local time, and where it is put forward or back."""

from __future__ import annotations

import os
import re
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo, available_timezones

from ..core.errors import UnknownName
from ..core.near import near
from .engine import JobError

MAX_NAME = 64


class ScheduleError(JobError):
    """A schedule cannot be read or kept. The text says what to write instead."""


class NoSuchSchedule(ScheduleError, UnknownName):
    """There is no schedule of that name."""


def zone_of(name: str) -> ZoneInfo:
    """Return a time zone by its IANA name. Raises ScheduleError with similar names."""
    if name and len(name) <= MAX_NAME and re.fullmatch(r"[A-Za-z0-9_+/-]+", name) and not name.startswith("right/"):
        try:
            return ZoneInfo(name)
        except (KeyError, ValueError, OSError):  # an OSError for a folder, such as "Europe"
            pass
    known = {each.rpartition("/")[2].casefold(): each for each in sorted(available_timezones())}
    asked = name[:MAX_NAME].rpartition("/")[2].replace(" ", "_").casefold()
    similar = [known[each] for each in near(asked, known, 3)]
    hint = f"Did you mean {' or '.join(similar)}?" if similar else "Names are like Europe/Berlin or UTC."
    raise ScheduleError(f"unknown time zone {name[:MAX_NAME]!r}. {hint}")


def local_zone() -> str:
    """Return the IANA name of this machine's time zone; UTC where it cannot be found."""
    names = [os.environ.get("TZ", "").lstrip(":")]
    try:
        names.append(os.path.realpath("/etc/localtime").partition("/zoneinfo/")[2])
        with open("/etc/timezone", encoding="ascii", errors="replace") as file:
            names.append(file.readline().strip())
    except OSError:
        pass
    for name in filter(None, names):
        try:
            return zone_of(name).key
        except ScheduleError:
            continue
    return "UTC"


def local_time(moment: float, zone: ZoneInfo) -> datetime:
    """Return what the clock of a zone shows at a moment, without the zone."""
    return datetime.fromtimestamp(moment, zone).replace(tzinfo=None)


def moments(local: datetime, zone: ZoneInfo) -> list[int]:
    """Return the moments at which the clock shows this time: one, two where it is put back, none where it is put
    forward."""
    found = {int(local.replace(tzinfo=zone, fold=fold).timestamp()) for fold in (0, 1)}
    return sorted(moment for moment in found if local_time(moment, zone) == local)


def moment_of(local: datetime, zone: ZoneInfo) -> int:
    """Return the first moment at which the clock shows this time; where it never does, when it is put forward."""
    found = moments(local, zone)
    if found:
        return found[0]
    one, other = (int(local.replace(tzinfo=zone, fold=fold).timestamp()) for fold in (0, 1))
    change = next_change(min(one, other), max(one, other), zone)
    assert change is not None
    return change


def next_change(begin: int, end: int, zone: ZoneInfo) -> int | None:
    """Return the first moment after `begin` whose offset from UTC is not that of `begin`; None if `end` has the same.
    There may be one such moment at most between the two."""
    before = _offset(begin, zone)
    if _offset(end, zone) == before:
        return None
    while end - begin > 1:
        middle = (begin + end) // 2
        begin, end = (middle, end) if _offset(middle, zone) == before else (begin, middle)
    return end


def _offset(moment: int, zone: ZoneInfo) -> timedelta | None:
    return datetime.fromtimestamp(moment, UTC).astimezone(zone).utcoffset()
