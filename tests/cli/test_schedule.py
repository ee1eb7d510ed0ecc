"""`toolcrib schedule`, in a process of its own."""

from __future__ import annotations

import json

import pytest

from toolcrib.jobs.bodies import CallBody, MessageBody
from toolcrib.jobs.schedules import ScheduledRun, Schedules

from .conftest import Cli


def test_with_the_engine_in_memory_nothing_says_to_start_a_worker(cli: Cli) -> None:
    cli.write("toolcrib.toml", '[jobs]\nengine = "memory"\n')
    cli("trust", "--yes")
    added = cli("schedule", "add", "every 10m", "Drink")
    called = cli("call", "cron", "action=add", "message=Drink more", "every_seconds:=3600")
    for text in (added.stderr, called.stdout, cli("schedule").stderr, cli("schedule", "run", "drink").stderr):
        assert "they run only while `toolcrib chat` or `toolcrib channels` runs here" in text
        assert "start it" not in text
        assert "`toolcrib jobs`" not in text
    assert 'There are no workers: jobs.engine is "memory"' in cli("jobs", "workers").stderr


def test_add_list_next_show_pause_run_remove(cli: Cli) -> None:
    assert "There are no schedules" in cli("schedule").stderr
    done = cli("schedule", "add", "every 10m", "Drink", "water")
    assert "Added drink-water: every 10m" in done.stderr
    assert "No worker runs now" in done.stderr
    report = cli.json(
        "schedule", "add", "0 9 29 2 *", "--tz", "Europe/Berlin", "--tool", "read_file", "--args",
        '{"path": "a.txt"}', "--name", "report", "--jitter", "60", "--on-miss", "skip", "--json",
    )  # fmt: skip
    assert report["timing"] == {"kind": "cron", "expression": "0 9 29 2 *", "zone": "Europe/Berlin"}
    assert report["body"] == {"tool": "read_file", "arguments": {"path": "a.txt"}, "schedule": "report"}
    assert report["options"] == {
        "on_miss": "skip",
        "overlap": "skip",
        "jitter": 60,
        "delete_after_run": True,
        "by_model": False,
    }
    assert [each["name"] for each in json.loads(cli("schedule", "--json").stdout)] == ["drink-water", "report"]
    assert cli("schedule", "next", "3").stdout.count("drink-water") == 3
    assert "is paused" in cli("schedule", "pause", "drink-water").stderr
    assert "drink-water" not in cli("schedule", "next", "3").stdout
    assert "(paused)" in cli("schedule", "show", "drink-water").stdout
    assert "goes on" in cli("schedule", "resume", "drink-water").stderr
    assert "as soon as a worker" in cli("schedule", "run", "drink-water").stderr
    (record,) = cli.home.glob(".local/state/toolcrib/*/record.db")
    schedules = Schedules(record)
    found = schedules.get("drink-water")
    assert schedules.move(found, found.with_run(ScheduledRun(found.due or 0, "queued", "sched-drink-1")))
    schedules.close()
    assert "What became of sched-drink-1: toolcrib jobs show" in cli("schedule", "show", "drink-water").stderr
    cli("schedule", "remove", "report")
    assert "there are: drink-water" in cli("schedule", "show", "report", code=2).stderr


def test_the_tools_are_there_for_call(cli: Cli) -> None:
    assert "Created job 'hi'" in cli("call", "cron", "action=add", "message=hi", "every_seconds=60").stdout
    assert "- hi (id: hi, every 1m)" in cli("call", "cron", "action=list").stdout
    assert cli("check", "cron", "action=add", "message=hi", "every_seconds=10", code=3).stdout.startswith("ask  cron")
    assert cli("list", "schedule_task").stdout.startswith("schedule_task\nmessaging")
    done = cli("call", "schedule_task", "task=hi there", "schedule=09:00", "channel=cli")
    assert "Task created: hi there, schedule: at 2" in done.stdout


def test_next_tries_a_text(cli: Cli) -> None:
    rows = cli.json("schedule", "next", "2", "--when", "0 12 1 1 *", "--tz", "Asia/Kathmandu", "--json")
    assert [row["time"][4:] for row in rows] == ["-01-01T12:00:00+05:45 (Asia/Kathmandu)"] * 2


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["soon", "hi"], 2, "'soon' is not a schedule"),
        (["every 1h"], 2, "`toolcrib schedule add 'every 1h' 'MESSAGE'`, or --tool NAME"),
        (["every 1h", "hi", "--tool", "glob", "--args", '{"pattern": "*"}'], 2, "give exactly one"),
        (["every 1h", "hi", "--tz", "Mars"], 2, "unknown time zone 'Mars'"),
        (["every 1h", "--tool", "glob", "--args", "{}"], 2, "missing required pattern"),
        (["every 1h", "--tool", "exec", "--args", '{"command": "rm -rf /"}'], 3, "was not scheduled"),
        (["every 1h", "hi", "--channel", "nowhere"], 2, "[channels.nowhere] in the settings adds it"),
        (["every 1h", "hi", "--chat", "1"], 2, "--chat needs --channel"),
        (["every 1h", "hi", "--on-miss", "never"], 2, "run_once or skip"),
        (["every 1h", "hi", "--jitter", "86401"], 2, "--jitter: the largest value is 86400"),
        (["0 0 31 2 *", "hi"], 2, "is not a cron expression"),
    ],
)
def test_what_is_refused(cli: Cli, words: list[str], code: int, said: str) -> None:
    assert said in cli("schedule", "add", *words, code=code).stderr
    assert cli.json("schedule", "--json") == []


def test_what_a_person_schedules_has_no_labels(cli: Cli) -> None:
    cli("schedule", "add", "in 2 hours", "Stretch", "--name", "s")
    done = cli("schedule", "add", "every 1h", "--tool", "delete_file", "--args", '{"path": "a"}', "--name", "d")
    assert "Each run asks first" in done.stderr
    (record,) = cli.home.glob(".local/state/toolcrib/*/record.db")
    schedules = Schedules(record)
    assert MessageBody.from_json(schedules.get("s").job.body) == MessageBody("Stretch", schedule="s")
    assert CallBody.from_json(schedules.get("d").job.body) == CallBody("delete_file", {"path": "a"}, schedule="d")
    schedules.close()


@pytest.mark.parametrize("count", ["0", "-1", "many"])
def test_a_number_that_is_none_is_an_error(cli: Cli, count: str) -> None:
    said = cli("schedule", "next", count, code=2).stderr
    assert "the smallest value is 1" in said or "not a whole number" in said


def test_the_schedules_of_a_shared_record(cli: Cli, postgres_url: str) -> None:
    cli("schedule", "add", "every 1h", "hi", "--db", postgres_url)
    assert "hi" in cli("schedule", "--db", postgres_url).stdout
    assert "There are no schedules" in cli("schedule").stderr
