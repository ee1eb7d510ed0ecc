"""When a schedule is due: every N seconds, by a cron expression in a time zone, or once. Nothing here reads a clock.

All moments are whole Unix seconds.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from datetime import datetime, timedelta
from typing import Any

from ..core.dataclass import dataclass
from ..core.extras import how_to_add
from .zones import ScheduleError, local_time, moment_of, moments, next_change, zone_of

DAY = 86_400
MAX_SECONDS = 3_653 * DAY
"""The longest interval, and the farthest moment: ten years."""
MAX_EXPRESSION = 200
UNITS = {"w": 7 * DAY, "d": DAY, "h": 3_600, "m": 60, "s": 1}
_SHORT = {
    "@hourly": "0 * * * *", "@daily": "0 0 * * *", "@midnight": "0 0 * * *", "@weekly": "0 0 * * 0",
    "@monthly": "0 0 1 * *", "@yearly": "0 0 1 1 *", "@annually": "0 0 1 1 *",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Every:
    """Every `seconds`, counted from `start`."""

    seconds: int
    start: int

    def __post_init__(self) -> None:
        if not 1 <= self.seconds <= MAX_SECONDS:
            raise ScheduleError(f"an interval has 1 to {MAX_SECONDS} seconds, not {self.seconds}")

    def next(self, after: float) -> int | None:
        """Return the next moment after this one."""
        return self.start + max(1, int((after - self.start) // self.seconds) + 1) * self.seconds

    def __str__(self) -> str:
        unit, size = next(each for each in UNITS.items() if self.seconds % each[1] == 0)
        return f"every {self.seconds // size}{unit}"


@dataclass(frozen=True, slots=True)
class Cron:
    """By a cron expression, with five fields or with six (seconds first), on the clock of a time zone.

    If the minutes or the hours begin with `*`, it follows what the clock shows: an hour that comes twice counts twice,
    one that is left out does not count. Otherwise each day counts once: what falls into an hour that is left out is due
    when the clock is put forward, and of an hour that comes twice the first one counts.
    """

    expression: str
    zone: str

    def __post_init__(self) -> None:
        zone_of(self.zone)
        self._locals(datetime(2000, 1, 1))

    def next(self, after: float) -> int | None:
        """Return the next moment after this one; None if there is none within 50 years."""
        zone = zone_of(self.zone)
        try:
            return self._shown(after, zone) if self._follows_clock else self._once(after, zone)
        except (StopIteration, OverflowError, ValueError):  # the last two: after the year 9999
            return None

    def _once(self, after: float, zone: Any) -> int:
        found = self._locals(local_time(after, zone))
        while (moment := moment_of(next(found), zone)) <= after:
            pass
        return moment

    def _shown(self, after: float, zone: Any) -> int:
        begin = local_time(after, zone)
        change = next_change(int(after), int(after) + DAY, zone)
        if change is not None:  # up to then the clock runs on, and after it the time may be one that was there before
            first = next(self._locals(begin))
            if first <= local_time(change - 1, zone):
                return int(after) + round((first - begin.replace(microsecond=0)).total_seconds())
            begin = local_time(change, zone) - timedelta(seconds=1)
        for local in self._locals(begin):
            for moment in moments(local, zone):
                if moment > after and (change is None or moment >= change):
                    return moment
        raise StopIteration

    @property
    def _fields(self) -> list[str]:
        return _SHORT.get(self.expression.lower(), self.expression).split()

    @property
    def _follows_clock(self) -> bool:
        return any(field.startswith("*") for field in self._fields[-5:-3])

    def _locals(self, after: datetime) -> Iterator[datetime]:
        """Yield the times after this one on a clock that is never put forward or back. Raises ScheduleError."""
        try:
            from cronsim import CronSim, CronSimError
        except ImportError:
            text = f"cron expressions need the extra `jobs`: {how_to_add('jobs')}. `every 10m` works without it"
            raise ScheduleError(text) from None
        if len(self.expression) > MAX_EXPRESSION:
            raise ScheduleError(f"a cron expression has at most {MAX_EXPRESSION} characters")
        try:
            return CronSim(" ".join(self._fields), after)
        except (CronSimError, ValueError, OverflowError) as error:
            raise ScheduleError(
                f"{self.expression!r} is not a cron expression: {error}. It has five fields: minute, hour, day of "
                "month, month, day of week. '0 9 * * 1-5' is 9:00 on working days"
            ) from None

    def __str__(self) -> str:
        return f"cron: {self.expression} ({self.zone})"


@dataclass(frozen=True, slots=True)
class At:
    """Once. `zone` is the time zone it was written in."""

    moment: int
    zone: str

    def next(self, after: float) -> int | None:
        """Return the moment, if it is after this one."""
        return self.moment if self.moment > after else None

    def __str__(self) -> str:
        return f"at {shown(self.moment, self.zone)}"


Timing = Every | Cron | At
_KINDS: Mapping[str, type[Timing]] = {"every": Every, "cron": Cron, "at": At}


def shown(moment: float, zone: str) -> str:
    """Return a moment for a person or a model: `2026-11-23T09:00:00+01:00 (Europe/Berlin)`."""
    return f"{datetime.fromtimestamp(int(moment), zone_of(zone)).isoformat()} ({zone})"


def next_time(timing: Timing, after: float, name: str = "", jitter: int = 0) -> int | None:
    """Return when a schedule is due next. With `jitter` all times are later by up to so many seconds: as many as the
    name says, so that many schedules for the same minute do not begin at once, and each keeps its distance."""
    later = 0
    if jitter and not isinstance(timing, At):
        later = int.from_bytes(hashlib.sha256(name.encode("utf-8", "replace")).digest()[:8]) % (jitter + 1)
    found = timing.next(after - later)
    return None if found is None else found + later


def timing_to_json(timing: Timing) -> dict[str, Any]:
    """Return a timing as it is stored."""
    kind = next(name for name, cls in _KINDS.items() if isinstance(timing, cls))
    return {"kind": kind, **{name: getattr(timing, name) for name in timing.__slots__}}


def timing_from_json(stored: Mapping[str, Any]) -> Timing:
    """Read a stored timing. Raises ScheduleError if it has another form."""
    values = dict(stored)
    cls = _KINDS.get(str(values.pop("kind", "")))
    if cls is None or values.keys() != set(cls.__slots__):
        raise ScheduleError(
            f"the stored timing {dict(stored)} has another form: it is from another version of Toolcrib"
        )
    return cls(**values)
