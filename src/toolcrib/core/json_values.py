"""Reads JSON that others wrote: what does not have the form that is expected counts as empty."""

from __future__ import annotations

from typing import Any, cast
from urllib.parse import unquote


def as_object(value: Any) -> dict[str, Any]:
    """Return an object; an empty one for any other value."""
    return cast("dict[str, Any]", value) if isinstance(value, dict) else {}


def as_array(value: Any) -> list[Any]:
    """Return an array; an empty one for any other value."""
    return cast("list[Any]", value) if isinstance(value, list) else []


def objects_of(value: Any) -> list[dict[str, Any]]:
    """Return the objects in an array."""
    return [cast("dict[str, Any]", each) for each in as_array(value) if isinstance(each, dict)]


def value_at(root: Any, pointer: str) -> Any:
    """Return the value at a JSON pointer (RFC 6901), which may be percent-encoded as in a URL; None if there is
    none."""
    if pointer[:1] not in ("", "/"):
        return None
    for part in pointer.split("/")[1:]:
        part = unquote(part).replace("~1", "/").replace("~0", "~")
        if isinstance(root, list):
            root = dict(enumerate(cast("list[Any]", root))).get(int(part)) if part.isdecimal() else None
        else:
            root = as_object(root).get(part)
    return root
