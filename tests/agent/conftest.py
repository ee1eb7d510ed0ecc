"""Tests that use `record` run with the sessions in a file, and on Postgres."""

from __future__ import annotations

import pytest


@pytest.fixture(params=["sqlite", "postgres"])
def record(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """The address of the record that a toolbox opens; "" for the file of its workspace."""
    url = "" if request.param == "sqlite" else str(request.getfixturevalue("postgres_url"))
    monkeypatch.setenv("TOOLCRIB_RECORD__URL", url)
    return url
