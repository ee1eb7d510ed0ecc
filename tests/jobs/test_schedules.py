"""Stored schedules: what people and models change."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from toolcrib.jobs import schedules as schedules_module
from toolcrib.jobs.bodies import MessageBody
from toolcrib.jobs.engine import Job, JobError, pack
from toolcrib.jobs.schedule import At, Cron, Every, timing_to_json
from toolcrib.jobs.schedules import MAX_RUNS, ON_TIME, Schedule, ScheduledRun, ScheduleOptions, Schedules, name_of
from toolcrib.jobs.zones import ScheduleError
from toolcrib.record.connection import Where, is_url
from toolcrib.record.database import connect

NOW = 1_800_000_000
JOB = Job("message", MessageBody("hello").to_json(), tags=("docker",), tenant="t1", repeatable=True)


@pytest.fixture(params=["sqlite", "postgres"])
def where(request: pytest.FixtureRequest, tmp_path: Path) -> Where:
    return tmp_path / "record.db" if request.param == "sqlite" else request.getfixturevalue("postgres_url")


@pytest.fixture
def schedules(where: Where) -> Iterator[Schedules]:
    found = Schedules(where)
    yield found
    found.close()


def test_a_schedule_comes_back_as_it_was_stored(schedules: Schedules, where: Where) -> None:
    options = ScheduleOptions("skip", "allow", 30, delete_after_run=False)
    added = schedules.add("Daily report!", Cron("0 9 * * *", "Europe/Berlin"), JOB, options, now=NOW)
    assert added.name == "daily-report"
    assert added.job == replace(JOB, id="daily-report", body={"text": "hello", "schedule": "daily-report"})
    assert added.due is not None
    assert 0 <= (added.due - 8 * 3_600) % 86_400 <= 30  # 9:00 in Berlin, in winter
    other = Schedules(where)
    assert other.get("daily-report") == added
    assert other.list() == [added]
    other.close()


def test_a_name_is_used_once(schedules: Schedules) -> None:
    schedules.add("a", Every(60, NOW), JOB, now=NOW)
    with pytest.raises(ScheduleError, match="there is a schedule 'a' already"):
        schedules.add(" A ", Every(30, NOW), JOB, now=NOW)
    assert schedules.get("A").timing == Every(60, NOW)
    schedules.remove("a")
    assert schedules.list() == []
    with pytest.raises(ScheduleError, match="there is no schedule 'a'; there are no schedules yet"):
        schedules.remove("a")


def test_each_workspace_has_its_own_schedules(postgres_url: str) -> None:
    a, b = Schedules(postgres_url, "/srv/a"), Schedules(postgres_url, "/srv/b")
    a.add("daily", Every(60, NOW), JOB, now=NOW)
    assert b.list() == []
    with pytest.raises(ScheduleError, match="there are no schedules yet"):
        b.get("daily")
    b.add("daily", Every(30, NOW), JOB, now=NOW)
    a.pause("daily")
    b.run("daily", now=NOW)
    assert (a.get("daily").state, b.get("daily").state) == ("paused", "active")
    assert [each.timing for each in b.to_do(NOW)] == [Every(30, NOW)]
    assert a.to_do(NOW + 999) == []
    a.resume("daily", now=NOW)
    b.delete(b.get("daily"))
    assert (len(a.list()), b.list()) == (1, [])
    a.seen(NOW)
    assert (a.has_worker(NOW), b.has_worker(NOW)) == (True, False)
    a.remove("daily")
    assert a.list() == []
    a.close()
    b.close()


def test_schedules_of_a_record_that_had_one_name_for_all_are_kept(where: Where) -> None:
    connection = connect(where)
    connection.make_tables("schedule", [schedules_module._SCHEMA])
    job = pack(replace(JOB, id="daily", workspace="/srv/a"))
    connection.execute(
        "INSERT INTO schedule VALUES ('daily', ?, ?, '{}', 'active', ?, NULL, 0, '[]', ?, 3)",
        (json.dumps(timing_to_json(Every(60, NOW))), job, NOW + 60, NOW),
    )
    connection.close()
    for workspace, names in (("/srv/a", ["daily"]), ("/srv/b", [])):
        found = Schedules(where, workspace)
        assert [each.name for each in found.list()] == (names if is_url(where) else ["daily"])
        found.close()


@pytest.mark.parametrize("name", ["", "!!", "\n", "..", "\ud800"])
def test_a_name_without_a_letter_is_refused(schedules: Schedules, name: str) -> None:
    with pytest.raises(ScheduleError, match="cannot be the name"):
        schedules.add(name, Every(60, NOW), JOB, now=NOW)
    with pytest.raises(ScheduleError, match="there is no schedule"):
        schedules.get(name)


def test_names_of_any_language() -> None:
    assert name_of("  Täglicher Bericht: 9 Uhr\n") == "täglicher-bericht-9-uhr"
    assert name_of("提醒 喝水") == "提醒-喝水"
    assert len(name_of("x" * 500)) == 60


def test_what_is_over_or_no_job_is_refused(schedules: Schedules) -> None:
    with pytest.raises(ScheduleError, match="never comes"):
        schedules.add("a", At(NOW - ON_TIME, "UTC"), JOB, now=NOW)
    with pytest.raises(JobError, match="cannot be stored"):
        schedules.add("a", Every(60, NOW), Job("call", {"x": object()}), now=NOW)
    assert schedules.list() == []


def test_pause_and_resume(schedules: Schedules) -> None:
    schedules.add("a", Every(60, NOW), JOB, now=NOW)
    assert schedules.pause("a").state == "paused"
    assert schedules.to_do(NOW + 60) == []
    resumed = schedules.resume("a", now=NOW + 300)
    assert (resumed.state, resumed.due) == ("active", NOW + 360)  # what was due meanwhile is left out
    assert schedules.resume("a", now=NOW + 400) == resumed
    assert [each.name for each in schedules.to_do(NOW + 360)] == ["a"]


def test_a_time_that_went_by_in_a_pause_is_not_resumed(schedules: Schedules) -> None:
    schedules.add("a", At(NOW + 60, "UTC"), JOB, now=NOW)
    schedules.pause("a")
    with pytest.raises(ScheduleError, match="which is over"):
        schedules.resume("a", now=NOW + 60)


def test_run_at_once_also_while_paused(schedules: Schedules) -> None:
    schedules.add("a", Every(60, NOW), JOB, now=NOW)
    schedules.pause("a")
    assert schedules.run("a", now=NOW + 5).asked == NOW + 5
    assert [each.name for each in schedules.to_do(NOW + 5)] == ["a"]


def test_only_one_of_two_changes_counts(schedules: Schedules) -> None:
    read = schedules.add("a", Every(60, NOW), JOB, now=NOW)
    moved = replace(read, due=NOW + 120).with_run(ScheduledRun(NOW + 60, "queued", "job-1"))
    assert schedules.move(read, moved)
    assert not schedules.move(read, replace(moved, due=NOW + 180))
    assert schedules.get("a") == replace(moved, version=1)
    assert [each.name for each in schedules.unended("", 10)] == ["a"]
    assert schedules.unended("a", 10) == []
    schedules.remove("a")
    schedules.add("a", Every(60, NOW + 1), JOB, now=NOW + 1)
    assert not schedules.move(replace(read, version=0), moved)  # another schedule of that name


def test_the_runs_that_are_kept() -> None:
    schedule = Schedule("a", Every(60, NOW), JOB)
    schedule = schedule.with_run(ScheduledRun(0, "queued", "first"))
    for due in range(1, 4):
        schedule = schedule.with_run(ScheduledRun(due, "overlap"))
    assert [(run.due, run.times) for run in schedule.runs] == [(3, 3), (0, 1)]
    for due in range(4, 60):
        schedule = schedule.with_run(ScheduledRun(due, "done", f"job-{due}"))
    assert len(schedule.runs) == MAX_RUNS + 1
    assert [run.job for run in schedule.open_runs] == ["first"]  # it has not ended, so it is kept
