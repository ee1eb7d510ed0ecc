"""The catalogue says of the built-in tools what they say themselves."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from toolcrib.builtin.catalogue import FILE
from toolcrib.toolbox.catalogue_file import catalogue


def test_the_catalogue_is_current(tmp_path: Path) -> None:
    missing: list[tuple[str, str]] = []
    found = catalogue(tmp_path, missing)
    absent = {name for name, _ in missing}
    kept: dict[str, list[dict[str, Any]]] = json.loads(Path(FILE).read_text(encoding="utf-8"))
    kept["tools"] = [tool for tool in kept["tools"] if tool["name"] not in absent]
    assert kept == json.loads(json.dumps(found)), "run: python -m toolcrib.toolbox.catalogue_file"
