"""Each test that takes `where` runs on an SQLite file and on Postgres."""

from __future__ import annotations

from pathlib import Path

import pytest

from toolcrib.record.connection import Where


@pytest.fixture(params=["sqlite", "postgres"])
def where(request: pytest.FixtureRequest, tmp_path: Path) -> Where:
    """A record that does not exist yet."""
    return tmp_path / "record.db" if request.param == "sqlite" else request.getfixturevalue("postgres_url")
