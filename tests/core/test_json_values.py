"""JSON from elsewhere: what is not there, or has another form, is empty."""

from __future__ import annotations

from typing import Any

import pytest

from toolcrib.core.json_values import as_array, as_object, objects_of, value_at

ROOT = {"a/b": {"c~d": [10, {"e f": 1}]}, "": 2}


@pytest.mark.parametrize(
    ("pointer", "value"),
    [
        ("", ROOT), ("/a~1b/c~0d/0", 10), ("/a~1b/c~0d/1/e%20f", 1), ("/", 2),
        ("/a~1b/c~0d/2", None), ("/a~1b/c~0d/-1", None), ("/a~1b/c~0d/x", None), ("/none/c", None), ("a", None),
    ],
)  # fmt: skip
def test_pointers(pointer: str, value: Any) -> None:
    assert value_at(ROOT, pointer) == value


def test_forms() -> None:
    assert (as_object([1]), as_object({"a": 1}), as_array({"a": 1}), as_array([1])) == ({}, {"a": 1}, [], [1])
    assert objects_of([{"a": 1}, 2, None]) == [{"a": 1}]
    assert objects_of("text") == []
