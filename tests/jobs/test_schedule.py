"""When schedules are due: against an independent library, and by hand in the hours in which the clock is changed."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import datetime
from itertools import pairwise
from zoneinfo import ZoneInfo

import pytest
from croniter import croniter
from hypothesis import example, given
from hypothesis import strategies as st

from toolcrib.jobs.schedule import (
    MAX_SECONDS,
    At,
    Cron,
    Every,
    Timing,
    next_time,
    timing_from_json,
    timing_to_json,
)
from toolcrib.jobs.zones import ScheduleError, next_change

ZONES = ["UTC", "Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "Africa/Cairo", "America/Santiago"]
"""Lord Howe puts its clock forward by half an hour; Cairo and Santiago at midnight."""
SELDOM = [
    "0 9 * * 1-5", "30 2 * * *", "15 1 * * 0", "0 0 1 * *", "0 0 29 2 *", "59 23 31 12 *", "0 0 L * *", "0 12 * * 1#1",
    "0 0 13 * 5", "0 0 */2 * *", "0 0 */2 * 1", "0 0 * * 7", "0 0 * * SUN", "0 0 1 JAN-MAR MON", "0 0 31 * *",
    "30 0 * * *", "0 22-23 * * *", "59 1 * * 6", "0 3 1-7 * MON", "45 2 * 3,10,11 *", "0 0 * 2 *", "0 2 8-14 3 0",
    "1 1 1 1 *", "0 18 * * FRI,SAT", "0 4 * * 1#5", "0 8 1,15 * *", "0 0 30 4,6,9,11 *",
]  # fmt: skip
OFTEN = [
    "*/30 * * * *", "0 */2 * * *", "30 * * * *", "5,10 2,3 * * *", "*/20 2 * * *", "*/20 0-3 * * *", "0 * * * *",
    "0 0-23/3 * * *", "10-50/20 1-2 * * *", "0 9-17 * * 1-5", "*/15 0 * * *", "7 */4 * * 0,6", "59 23,0,1,2 * * *",
]  # fmt: skip


def at(text: str, zone: str, fold: int = 0) -> int:
    return int(datetime.fromisoformat(text).replace(tzinfo=ZoneInfo(zone), fold=fold).timestamp())


def due(timing: Timing, begin: int, end: int) -> Iterator[int]:
    moment = timing.next(begin)
    while moment is not None and moment < end:
        yield moment
        moment = timing.next(moment)


def independent(expression: str, zone: str, begin: int, end: int) -> Iterator[int]:
    start = datetime.fromtimestamp(begin, ZoneInfo(zone))
    found = croniter(expression, start, ret_type=datetime, implement_cron_bug=True)  # the "bug" is what cron does
    while (moment := int(found.get_next(datetime).timestamp())) < end:
        yield moment


def compare(expression: str, zone: str, begin: int, end: int) -> None:
    """croniter differs in three ways, all on the days of a change. It runs a job of a certain time twice if the clock
    shows this time twice, and it moves a job that follows the clock out of an hour that is left out, like one of a
    certain time; cron (Debian's, whose rules these are) does neither. And where half an hour comes twice (Lord Howe),
    it looks at one time in it only, and can leave out the others: those are in the test by hand."""
    ours = set(due(Cron(expression, zone), begin, end))
    theirs = set(independent(expression, zone, begin, end))
    follows = any(field.startswith("*") for field in expression.split()[:2])
    for moment in ours - theirs:
        assert follows, expression
        assert zone == "Australia/Lord_Howe", expression
        assert datetime.fromtimestamp(moment, ZoneInfo(zone)).fold == 1, expression
    for moment in theirs - ours:
        if follows:
            assert next_change(moment - 60, moment, ZoneInfo(zone)) == moment, expression
        else:
            assert datetime.fromtimestamp(moment, ZoneInfo(zone)).fold == 1, expression


def test_there_are_forty_expressions() -> None:
    assert len(set(SELDOM + OFTEN)) == 40


@pytest.mark.slow
@pytest.mark.parametrize("zone", ZONES)
def test_years_agree_with_an_independent_library(zone: str) -> None:
    """Three years, and one of what is due several times a day."""
    for expressions, end in ((SELDOM, "2029-01-01"), (OFTEN, "2027-01-01")):
        for expression in expressions:
            compare(expression, zone, at("2026-01-01", zone), at(end, zone))


@pytest.mark.parametrize("zone", ZONES[1:])
def test_the_days_of_a_change_agree(zone: str) -> None:
    day = at("2026-01-01", zone)
    changes = 0
    for begin in range(day, day + 366 * 86_400, 86_400):
        if next_change(begin, begin + 86_400, ZoneInfo(zone)):
            changes += 1
            for expression in (*SELDOM[:4], *OFTEN):
                compare(expression, zone, begin - 86_400, begin + 2 * 86_400)
    assert changes == 2


@pytest.mark.parametrize(
    ("expression", "zone", "begin", "expected"),
    [
        # the hour that is left out: 2:00 to 3:00
        ("30 2 * * *", "Europe/Berlin", "2026-03-28T12:00", ["2026-03-29T03:00+02:00", "2026-03-30T02:30+02:00"]),
        ("0,30 2 * * *", "Europe/Berlin", "2026-03-29T00:00", ["2026-03-29T03:00+02:00", "2026-03-30T02:00+02:00"]),
        ("30 * * * *", "Europe/Berlin", "2026-03-29T00:45", ["2026-03-29T01:30+01:00", "2026-03-29T03:30+02:00"]),
        ("*/30 2 * * *", "Europe/Berlin", "2026-03-29T00:00", ["2026-03-30T02:00+02:00"]),
        ("0 0 2 * * *", "Europe/Berlin", "2026-03-29T00:00", ["2026-03-29T03:00+02:00"]),
        # left out at midnight
        ("0 0 * * *", "Africa/Cairo", "2026-04-23T12:00", ["2026-04-24T01:00+03:00", "2026-04-25T00:00+03:00"]),
        ("@daily", "America/Santiago", "2026-09-05T12:00", ["2026-09-06T01:00-03:00", "2026-09-07T00:00-03:00"]),
        # half an hour is left out: 2:00 to 2:30
        ("15 2 * * *", "Australia/Lord_Howe", "2026-10-03T12:00", ["2026-10-04T02:30+11:00", "2026-10-05T02:15+11:00"]),
        ("*/20 5 * * *", "Australia/Lord_Howe", "2026-10-04T00:00",
         ["2026-10-04T05:00+11:00", "2026-10-04T05:20+11:00", "2026-10-04T05:40+11:00"]),
        # the hour that comes twice: 2:00 to 3:00
        ("30 2 * * *", "Europe/Berlin", "2026-10-25T00:00", ["2026-10-25T02:30+02:00", "2026-10-26T02:30+01:00"]),
        ("*/30 2 * * *", "Europe/Berlin", "2026-10-25T00:00",
         ["2026-10-25T02:00+02:00", "2026-10-25T02:30+02:00", "2026-10-25T02:00+01:00", "2026-10-25T02:30+01:00",
          "2026-10-26T02:00+01:00"]),
        ("59 * * * *", "America/New_York", "2026-11-01T00:30",
         ["2026-11-01T00:59-04:00", "2026-11-01T01:59-04:00", "2026-11-01T01:59-05:00", "2026-11-01T02:59-05:00"]),
        ("* 1 1 11 *", "America/New_York", "2026-11-01T01:58", ["2026-11-01T01:59-04:00", "2026-11-01T01:00-05:00"]),
        ("*/15 1 * * *", "Australia/Lord_Howe", "2026-04-05T01:20",  # 1:30 to 2:00 comes twice
         ["2026-04-05T01:30+11:00", "2026-04-05T01:45+11:00", "2026-04-05T01:30+10:30", "2026-04-05T01:45+10:30"]),
        ("*/20 0-3 * * *", "Australia/Lord_Howe", "2026-04-05T01:15",
         ["2026-04-05T01:20+11:00", "2026-04-05T01:40+11:00", "2026-04-05T01:40+10:30", "2026-04-05T02:00+10:30"]),
    ],
)  # fmt: skip
def test_the_hours_of_a_change(expression: str, zone: str, begin: str, expected: list[str]) -> None:
    found = due(Cron(expression, zone), at(begin, zone), at("2030-01-01", zone))
    wanted = [int(datetime.fromisoformat(text).timestamp()) for text in expected]
    assert [next(found) for _ in wanted] == wanted


def test_a_schedule_that_begins_in_the_second_pass_of_an_hour() -> None:
    begin = at("2026-10-25T02:15", "Europe/Berlin", fold=1)
    assert Cron("*/30 * * * *", "Europe/Berlin").next(begin) == at("2026-10-25T02:30", "Europe/Berlin", fold=1)
    assert Cron("30 2 * * *", "Europe/Berlin").next(begin) == at("2026-10-26T02:30", "Europe/Berlin")


@given(
    seconds=st.integers(1, MAX_SECONDS),
    start=st.integers(1_700_000_000, 1_900_000_000),
    later=st.floats(-1e6, 1e8, allow_nan=False),
)
def test_an_interval_is_counted_from_its_start(seconds: int, start: int, later: float) -> None:
    moment = Every(seconds, start).next(start + later)
    assert moment is not None
    assert moment > start + later
    assert (moment - start) % seconds == 0
    assert moment - seconds <= max(start + later, start)


@given(
    expression=st.sampled_from([*SELDOM, *OFTEN]),
    zone=st.sampled_from(ZONES),
    after=st.floats(1_750_000_000, 1_900_000_000),
)
@example("*/30 * * * *", "Europe/Berlin", 1792886400.5)
def test_the_next_moment_is_after_and_nothing_is_between(expression: str, zone: str, after: float) -> None:
    timing = Cron(expression, zone)
    moment = timing.next(after)
    assert moment is not None
    assert moment > after
    assert timing.next(moment - 1) == moment
    assert timing.next((after + moment) / 2) == moment


def test_what_never_comes() -> None:
    year_9999 = at("9999-06-01", "UTC")
    assert Cron("0 0 1 1 *", "UTC").next(year_9999) is None
    assert Cron("*/5 0 1 1 *", "Europe/Berlin").next(year_9999) is None
    assert At(100, "UTC").next(100) is None


def test_jitter_is_the_same_for_a_name_and_keeps_the_distance() -> None:
    timing = Cron("0 * * * *", "UTC")
    offsets = set[int]()
    for name in map(str, range(200)):
        times = [1_800_000_000]
        while len(times) < 5:
            times.append(next_time(timing, times[-1], name, 59) or 0)
        offsets.add(times[1] % 3600)
        assert {later - earlier for earlier, later in pairwise(times[1:])} == {3600}
    assert min(offsets) >= 0
    assert max(offsets) <= 59
    assert len(offsets) > 40
    assert next_time(At(2_000_000_000, "UTC"), 0, "a", 59) == 2_000_000_000


@pytest.mark.parametrize("timing", [Every(90, 5), Cron("0 9 * * 1-5", "Europe/Berlin"), At(2_000_000_000, "UTC")])
def test_a_timing_comes_back_as_it_was_stored(timing: Timing) -> None:
    assert timing_from_json(json.loads(json.dumps(timing_to_json(timing)))) == timing


@pytest.mark.parametrize("stored", [{}, {"kind": "often"}, {"kind": "every", "seconds": 3}, {"kind": "at", "at": 3}])
def test_another_stored_form_is_refused(stored: dict[str, object]) -> None:
    with pytest.raises(ScheduleError, match="another form"):
        timing_from_json(stored)
