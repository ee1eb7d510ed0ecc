"""What a model or a person may write for a schedule."""

from __future__ import annotations

import random
from datetime import datetime
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolcrib.jobs.schedule import MAX_SECONDS, At, Cron, Every, Timing, shown
from toolcrib.jobs.schedule_text import read_schedule, timing_of
from toolcrib.jobs.zones import ScheduleError, local_zone, zone_of

BERLIN = "Europe/Berlin"
NOW = datetime(2026, 11, 22, 19, 30, 0, tzinfo=ZoneInfo(BERLIN)).timestamp() + 0.5


def moment(text: str) -> int:
    return int(datetime.fromisoformat(text).timestamp())


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("every 10m", Every(600, int(NOW))),
        (" Every  10   Minutes ", Every(600, int(NOW))),
        ("every 1h 30m", Every(5_400, int(NOW))),
        ("every hour", Every(3_600, int(NOW))),
        ("every 45s", Every(45, int(NOW))),
        ("every 2 weeks", Every(14 * 86_400, int(NOW))),
        ("in 5 minutes", At(int(NOW) + 300, BERLIN)),
        ("in 1 day, 2 hours", At(int(NOW) + 26 * 3_600, BERLIN)),
        ("2026-12-01T09:00", At(moment("2026-12-01T09:00+01:00"), BERLIN)),
        ("2026-12-01 09:00:30", At(moment("2026-12-01T09:00:30+01:00"), BERLIN)),
        ("2026-12-01T09:00:00Z", At(moment("2026-12-01T09:00+00:00"), BERLIN)),
        ("at 2026-12-01T09:00-05:00", At(moment("2026-12-01T09:00-05:00"), BERLIN)),
        ("2027-03-28T02:30", At(moment("2027-03-28T03:00+02:00"), BERLIN)),  # left out
        ("2027-10-31T02:30", At(moment("2027-10-31T02:30+02:00"), BERLIN)),  # comes twice
        ("19:30", At(moment("2026-11-23T19:30+01:00"), BERLIN)),
        ("19:30:01", At(moment("2026-11-22T19:30:01+01:00"), BERLIN)),
        ("at 9:05", At(moment("2026-11-23T09:05+01:00"), BERLIN)),
        ("0 9 * * 1-5", Cron("0 9 * * 1-5", BERLIN)),
        ("30 0 9 * * *", Cron("30 0 9 * * *", BERLIN)),
        ("@daily", Cron("@daily", BERLIN)),
    ],
)
def test_forms(text: str, expected: Timing) -> None:
    assert read_schedule(text, NOW, BERLIN) == expected


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("10m", "write 'every 10m', 'in 5 minutes'"),
        ("tomorrow", "is not a schedule"),
        ("", "is not a schedule"),
        ("every day at 9:00", "For a time of each day write a cron expression"),
        ("every 0s", "no length of time"),
        ("in 10 months", "no length of time"),
        ("in 999999999 days", "at most ten years"),
        ("2026-12-01", "not a schedule|not an ISO date with a time"),
        ("2026-13-01T09:00", "not an ISO date"),
        ("2020-01-01T00:00", "is in the past"),
        ("2099-01-01T00:00", "more than ten years"),
        ("0001-01-01T00:00+14:00", "in the past"),
        ("25:00", "not a time of day"),
        ("a b c d e", "not a cron expression: Bad minute"),
        ("60 0 * * *", "not a cron expression"),
        ("0 0 30 2 *", "not a cron expression"),
        ("0 0 * 2 1#5,30", "not a cron expression"),
        ("x" * 500, "at most 300 characters"),
        (f"0 0 * * {'1,' * 120}1", "at most 200 characters"),
    ],
)
def test_what_cannot_be_read_is_explained(text: str, said: str) -> None:
    with pytest.raises(ScheduleError, match=said):
        read_schedule(text, NOW, BERLIN)


WORDS = [
    "every", "in", "at", "10", "m", "h", "1h", "minutes", "2026-12-01", "T", "09:00", ":", "*", "*/5", "/", "0", "L",
    "LW", "#", "1#2", "5L", "-", "1-5", ",", "MON", "²", "٣", "\x00", "\n", "@daily", "@", "9" * 30, "Z", "+25:00",
]  # fmt: skip


@given(text=st.text(max_size=60) | st.lists(st.sampled_from(WORDS), max_size=8).map(" ".join)
       | st.lists(st.sampled_from(WORDS), max_size=8).map("".join))  # fmt: skip
def test_a_hostile_text_is_a_schedule_or_an_error(text: str) -> None:
    for field in ("schedule", "cron_expr", "at"):
        try:
            timing = timing_of(NOW, tz=BERLIN, **{field: text})  # type: ignore[arg-type]
        except ScheduleError as error:
            assert str(error)
            continue
        found = timing.next(NOW)
        assert found is not None
        assert found > NOW
        assert str(timing)


def test_random_cron_fields_are_read_or_refused_and_end_soon() -> None:
    chance = random.Random(7)
    read = 0
    for _ in range(3_000):
        fields = ["".join(chance.choices("0123456789*/,-L#W", k=chance.randint(1, 3))) for _ in range(5)]
        fields = [field if chance.random() < 0.5 else "*" for field in fields]
        try:
            timing = Cron(" ".join(fields), "Africa/Cairo")
        except ScheduleError:
            continue
        read += 1
        found = timing.next(NOW)
        assert found is None or found > NOW
    assert read > 100


@pytest.mark.parametrize(
    ("given_", "said"),
    [
        ({}, "exactly one of .* is required: none is set"),
        ({"every_seconds": 5, "at": "09:00"}, "not every_seconds and at"),
        ({"every_seconds": 5, "tz": BERLIN}, "tz can only be used with"),
        ({"every_seconds": -5}, "an interval has 1 to"),
        ({"every_seconds": MAX_SECONDS + 1}, "an interval has 1 to"),
        ({"cron_expr": "0 9 * * *", "tz": "Europe/Berln"}, "Did you mean Europe/Berlin"),
        ({"cron_expr": "0 9 * * *", "tz": "../../etc/passwd"}, "unknown time zone"),
        ({"cron_expr": "0 9 * * *", "tz": "Europe"}, "unknown time zone"),
    ],
)
def test_exactly_one_form(given_: dict[str, object], said: str) -> None:
    with pytest.raises(ScheduleError, match=said):
        timing_of(NOW, **given_)  # type: ignore[arg-type]


def test_a_time_is_of_the_zone_that_is_named() -> None:
    found = timing_of(NOW, at="2026-12-01T09:00", tz="Asia/Kathmandu")
    assert found == At(moment("2026-12-01T09:00+05:45"), "Asia/Kathmandu")
    assert str(found) == "at 2026-12-01T09:00:00+05:45 (Asia/Kathmandu)"


@given(st.text(max_size=70))
def test_a_hostile_zone_is_refused(name: str) -> None:
    try:
        assert zone_of(name).key == name
    except ScheduleError as error:
        assert "unknown time zone" in str(error)


def test_the_zone_of_this_machine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("TZ", ":Asia/Kathmandu")
    assert local_zone() == "Asia/Kathmandu"
    monkeypatch.setenv("TZ", "no/zone")
    assert zone_of(local_zone())
    assert shown(0, "UTC") == "1970-01-01T00:00:00+00:00 (UTC)"
