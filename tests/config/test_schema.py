"""The published schema is current, and says what the loader says."""

from __future__ import annotations

from pathlib import Path

import jsonschema_rs
import pytest

from toolcrib.config import config_schema
from toolcrib.config.settings import schema_text

PUBLISHED = Path(__file__).parents[2] / "docs/config.schema.json"


def test_the_published_schema_is_current() -> None:
    assert PUBLISHED.read_text(encoding="utf-8") == schema_text(), (
        "run: toolcrib config --schema > docs/config.schema.json"
    )


@pytest.mark.parametrize(
    ("config", "fits"),
    [
        ({}, True),
        ({"mode": "observer", "sandbox": {"profile": "read-only", "env": ["X"]}}, True),
        ({"mcpServers": {"Any Name": {"command": "x", "env": {"K": "v"}}}}, True),
        ({"$schema": "x"}, True),
        ({"mode": "yolo"}, False),
        ({"approval": {"polcy": "x"}}, False),
        ({"custom_tools": [{"name": "x"}]}, False),
    ],
)
def test_the_schema_tells_right_from_wrong(config: dict[str, object], fits: bool) -> None:
    assert jsonschema_rs.validator_for(config_schema()).is_valid(config) is fits


def test_every_setting_is_described_or_plain() -> None:
    schema = config_schema()
    for name, section in schema["$defs"].items():
        assert section.get("description"), name
