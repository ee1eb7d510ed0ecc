"""What all tests share: hypothesis profiles, the folders of a run, child processes, which tests stay together."""

import gc
import os
import re
import shutil
import signal
import sys
import tempfile
from collections import Counter
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from xdist.scheduler import LoadFileScheduling

from .nursery import _born, forked_python, nursery
from .postgres import own_postgres, postgres_cluster, postgres_url

__all__ = ["_born", "forked_python", "nursery", "own_postgres", "postgres_cluster", "postgres_url"]

settings.register_profile("desk", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("ci", settings.get_profile("desk"), derandomize=True)
settings.load_profile("ci" if os.environ.get("CI") else "desk")

# Tests start hundreds of Python processes. Without byte code each of them would compile every module that it imports.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)

# A shell starts background jobs with SIGINT ignored, and children inherit that: tests of Ctrl-C would wait for ever.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


EACH_IS_LONG = (
    "test_kill.py",
    "test_options_for_real.py",
    "test_reading_against_bash.py",
    "test_reading_against_shells.py",
    "test_versions.py",
    "test_wings.py",
)
"""Files in which each slow test takes a minute: one process for all would run alone at the end."""


class FileOrWay(LoadFileScheduling):
    """Keep the tests of a file in one process, but long ones, and of the gateway's those of one way to the server
    behind it."""

    def _split_scope(self, nodeid: str) -> str:
        if nodeid.partition("::")[0].endswith(EACH_IS_LONG):
            return nodeid
        way = re.search(r"(stdio|http)-(both|handshake|modern)", nodeid)
        return f"{super()._split_scope(nodeid)} {way[0] if way else ''}"


def pytest_xdist_auto_num_workers() -> int:
    """Return the number of processes for `-n auto`: two more than there are cores, because many tests wait."""
    return (os.cpu_count() or 1) + 2


own_homes = pytest.StashKey[str]()
gc.disable()  # until all tests are collected: nearly all that is made until then stays


def pytest_configure(config: pytest.Config) -> None:
    """Give the run folders of its own for state, settings and data: the person's neither change a test nor grow."""
    if not hasattr(config, "workerinput"):  # a worker of xdist has its environment from the process that starts it
        config.stash[own_homes] = folder = tempfile.mkdtemp(prefix="toolcrib-tests-")
        for name in ("XDG_STATE_HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME"):
            os.environ[name] = os.path.join(folder, name)
        os.environ["TOOLCRIB_HOOKD"] = "off"


def pytest_unconfigure(config: pytest.Config) -> None:
    if folder := config.stash.get(own_homes, None):
        shutil.rmtree(folder, ignore_errors=True)


def pytest_itemcollected(item: pytest.Item) -> None:
    """Leave what needs Postgres to the slow suite: its start takes seconds, and many machines have none."""
    given = item.callspec.params.values() if isinstance(item, pytest.Function) and hasattr(item, "callspec") else ()
    needs = any("postgres" in each for each in getattr(item, "fixturenames", ()))
    if needs or any(isinstance(each, str) and each == "postgres" for each in given):
        item.add_marker(pytest.mark.slow)


@pytest.hookimpl(trylast=True)  # when the others are left out
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Give a slow test longer before it counts as hanging, unless it says how long itself. What takes long comes first,
    for it would run alone at the end: in the slow suite long tests and the files with the fewest, else those of no
    room."""
    if config.getoption("markexpr") == "slow":
        tests = Counter(item.path for item in items)
        items.sort(key=lambda item: 1 if item.path.name in EACH_IS_LONG else tests[item.path])
    else:
        items.sort(key=lambda item: len(item.path.parts))
    for item in items:
        if item.get_closest_marker("slow") and not item.get_closest_marker("timeout"):
            item.add_marker(pytest.mark.timeout(1800))


def pytest_collection_finish() -> None:
    """Keep the collected tests out of every later garbage collection, and collect less often: it took a tenth of the
    time."""
    gc.freeze()
    gc.set_threshold(10_000, 20, 10)
    gc.enable()


def pytest_runtest_setup() -> None:
    """Let each test log as much a minute as if it was the first one of its process."""
    if (logs := sys.modules.get("toolcrib.policy.secrets.logs")) is not None:
        logs._few._places.clear()


def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> LoadFileScheduling | None:
    """Use it for `--dist loadfile`, as `make slow` does."""
    return FileOrWay(config, log) if config.getoption("dist") == "loadfile" else None


@pytest.fixture
def programs_in_tmp(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let programs be found by their names in the tests' own folders, which lie in the system's temporary one."""
    monkeypatch.setattr("toolcrib.boundary.programs.temporary_folders", tuple)
