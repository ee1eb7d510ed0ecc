"""What all tests share: hypothesis profiles, byte code and Ctrl-C for child processes, which tests stay together."""

import os
import re
import signal
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from xdist.scheduler import LoadFileScheduling

settings.register_profile("desk", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("ci", settings.get_profile("desk"), derandomize=True)
settings.load_profile("ci" if os.environ.get("CI") else "desk")

# Tests start hundreds of Python processes. Without byte code each of them would compile every module that it imports.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)

# A shell starts background jobs with SIGINT ignored, and children inherit that: tests of Ctrl-C would wait for ever.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


class FileOrWay(LoadFileScheduling):
    """Keep the tests of a file in one process, and of the gateway's those of one way to the server behind it."""

    def _split_scope(self, nodeid: str) -> str:
        way = re.search(r"(stdio|http)-(both|handshake|modern)", nodeid)
        return f"{super()._split_scope(nodeid)} {way[0] if way else ''}"


def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> LoadFileScheduling | None:
    """Use it for `--dist loadfile`, as `make slow` does."""
    return FileOrWay(config, log) if config.getoption("dist") == "loadfile" else None
