"""Tests that use `record` run with the sessions in a file, and on Postgres."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace

import pytest

from toolcrib.agent import limits


@pytest.fixture(params=["sqlite", "postgres"])
def record(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """The address of the record that a toolbox opens; "" for the file of its workspace."""
    url = "" if request.param == "sqlite" else str(request.getfixturevalue("postgres_url"))
    monkeypatch.setenv("TOOLCRIB_RECORD__URL", url)
    return url


@pytest.fixture
def passing_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """The seconds of a run are those of the loop's clock, so that a test can let them pass (`pass_time`)."""
    monkeypatch.setattr(limits, "time", SimpleNamespace(monotonic=lambda: asyncio.get_running_loop().time()))
