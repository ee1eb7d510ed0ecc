"""The command that adds an extra fits the way in which Toolcrib was installed."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from toolcrib.core import extras
from toolcrib.core.extras import how_to_add


@pytest.fixture
def prefix(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An environment in which Toolcrib was installed from a folder."""
    source, packages = tmp_path / "my source", tmp_path / "lib"
    (packages / "toolcrib-1.dist-info").mkdir(parents=True)
    source.mkdir()
    (source / "pyproject.toml").touch()
    url = json.dumps({"url": source.as_uri(), "dir_info": {}})
    (packages / "toolcrib-1.dist-info" / "direct_url.json").write_text(url)
    monkeypatch.setattr(extras, "__file__", str(packages / "toolcrib" / "core" / "extras.py"))
    monkeypatch.setattr(sys, "prefix", str(tmp_path))
    return tmp_path


def test_with_pip(prefix: Path) -> None:
    assert how_to_add("jobs") == f"pip install '{prefix}/my source[jobs]'"
    (prefix / "my source" / "pyproject.toml").unlink()
    assert how_to_add("jobs") == "pip install 'toolcrib[jobs]'"


def test_with_pipx(prefix: Path) -> None:
    (prefix / "pipx_metadata.json").touch()
    assert how_to_add("jobs") == f"pipx runpip toolcrib install '{prefix}/my source[jobs]'"


@pytest.mark.parametrize(
    ("receipt", "named"),
    [
        ('[tool]\nrequirements = [{ name = "toolcrib", extras = ["web", "docs"] }, { name = "x" }]', "web,docs,jobs"),
        ('[tool]\nrequirements = [{ name = "toolcrib", extras = ["jobs"] }]', "jobs"),
        ("requirements = 1", "jobs"),
        ("nonsense", "jobs"),
    ],
)
def test_with_uv_the_extras_that_are_there_stay(prefix: Path, receipt: str, named: str) -> None:
    (prefix / "uv-receipt.toml").write_text(receipt)
    assert how_to_add("jobs") == f"uv tool install --force '{prefix}/my source[{named}]'"
