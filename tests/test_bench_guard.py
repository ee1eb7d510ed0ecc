"""The guard on figures (`make bench-check`) sees a doubling and survives noise."""

import importlib.util
import sys
import time
import tomllib
from itertools import chain, repeat
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parent.parent / "benchmarks/guard.py"
spec = importlib.util.spec_from_file_location("bench_guard", SCRIPT)
assert spec and spec.loader
guard = importlib.util.module_from_spec(spec)
sys.modules["bench_guard"] = guard
spec.loader.exec_module(guard)


def group(*ratios, margin=1.5):
    """A group of one row, `row`, that measures these ratios, the last one for ever."""
    coming = chain(ratios, repeat(ratios[-1]))
    return {"group": guard.Group({"row": margin}, lambda: {"row": next(coming)})}


def spinning(factor):
    """A group whose row does `factor` times the work of its floor, in CPU time that is really measured."""

    def work(steps):
        return sum(n * n for n in range(steps))

    def measure():
        times = {"ours": [], "floor": []}
        for _ in range(100):
            for name, steps in (("floor", 5_000), ("ours", 5_000 * factor)):
                start = time.thread_time()
                work(steps)
                times[name].append(time.thread_time() - start)
        return {"row": min(times["ours"]) / min(times["floor"])}

    return {"group": guard.Group({"row": guard.CPU}, measure)}


def failed(groups, recorded):
    return [outcome.row for outcome in guard.check(groups, recorded) if outcome.failed]


def test_a_row_that_takes_twice_its_time_fails():
    assert failed(spinning(2), {"row": 1.0}) == ["row"]
    assert failed(spinning(1), {"row": 1.0}) == []


def test_noise_in_two_of_three_measurements_does_not_fail():
    assert failed(group(3.0, 2.1, 1.4), {"row": 1.0}) == []
    assert failed(group(3.0, 2.1, 1.6), {"row": 1.0}) == ["row"]


def test_a_row_is_measured_again_only_if_it_fails():
    taken = []
    groups = {"group": guard.Group({"row": 1.5}, lambda: taken.append(1) or {"row": 1.0})}
    assert failed(groups, {"row": 1.0}) == []
    assert len(taken) == 1


def test_walls_of_processes_have_a_wider_margin():
    assert failed(group(1.9, margin=guard.WALL), {"row": 1.0}) == []
    assert failed(group(2.1, margin=guard.WALL), {"row": 1.0}) == ["row"]


def test_a_row_without_a_recorded_value_fails_and_one_that_cannot_run_does_not(capsys):
    assert failed(group(1.0), {}) == ["row"]
    assert failed({"group": guard.Group({"row": 1.5}, dict)}, {"row": 1.0}) == []
    assert "skipped" in capsys.readouterr().out


def test_recording_keeps_the_comments(tmp_path):
    path = tmp_path / "recorded.toml"
    path.write_text("# why\nrow = 2.0  # of the row\nrow-2 = 3.0\n")
    guard.record(group(1.0, 1.2, 1.4), path, ["row"])
    assert path.read_text() == "# why\nrow = 1.2  # of the row\nrow-2 = 3.0\n"


def test_recording_a_new_row_adds_a_line(tmp_path):
    path = tmp_path / "recorded.toml"
    path.write_text("other = 2.0\n")
    guard.record(group(1.0), path, ["group"])
    assert tomllib.loads(path.read_text()) == {"other": 2.0, "row": 1.0}


def test_each_row_has_a_recorded_value_and_no_value_is_without_a_row():
    rows = {row for each in guard.GROUPS.values() for row in each.margins}
    assert set(tomllib.loads(guard.RECORDED.read_text())) == rows


@pytest.mark.parametrize("margin", [guard.CPU, guard.CALL, guard.WALL])
def test_no_margin_lets_more_than_a_doubling_through(margin):
    assert 1.5 <= margin <= 2.0


def test_the_page_has_each_row_and_says_whether_its_target_is_met(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(SCRIPT.parent)
    page = importlib.import_module("page")
    rows = {row for each in guard.GROUPS.values() for row in each.margins}
    published = SCRIPT.parent.parent / "docs/benchmarks.md"
    assert {match["row"] for match in page._ROW.finditer(published.read_text())} == rows
    table = "Measured on\n| a | `row` | ≤ 2 × | – |\n| b | `row-megabytes` | ≤ 60 MB | – |\n| c | `none` | – | 1 × |\n"
    filled = page.filled(table, {"row": 2.5, "row-megabytes": 51.7}, "Measured on a day")
    assert filled == (
        "Measured on a day\n"
        "| a | `row` | ≤ 2 × | 2.5 ×, **not met** |\n"
        "| b | `row-megabytes` | ≤ 60 MB | 52 MB, met |\n"
        "| c | `none` | – | 1 × |\n"
    )
    assert page.picture(filled, {"row": 2.5, "row-megabytes": 51.7}).count("<rect") == 3
