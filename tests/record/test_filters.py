"""What a person wrote for times and filters."""

from __future__ import annotations

import time

import pytest

from toolcrib.core.errors import ConfigError
from toolcrib.record.filters import read_filters, read_time


@pytest.mark.parametrize(("text", "ago"), [("90s", 90), ("5m", 300), ("2h", 7200), ("1d", 86400)])
def test_times_ago(text: str, ago: int) -> None:
    found = read_time(text)
    assert found is not None
    assert abs(time.time() - ago - found) < 5


def test_other_times() -> None:
    assert read_time(None) is None
    assert read_time("2026-01-31T12:00:00+00:00") == 1769860800
    assert time.strftime("%H:%M:%S", time.localtime(read_time("9:05"))) == "09:05:00"
    with pytest.raises(ConfigError):
        read_time("25:99")


def test_filters() -> None:
    given = {"tool": "exec", "session": "s", "since": "2026-01-31T12:00:00+00:00", "verdict": "de*", "text": None}
    found = {"tool": "exec", "session_id": "s", "since": 1769860800, "verdict": "de*"}
    assert read_filters(given) == found
    with pytest.raises(ConfigError, match="--verdict takes allow, ask, deny, none, got 'no'"):
        read_filters({"verdict": "no"}, "--")
