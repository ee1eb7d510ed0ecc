"""Select the extra fields of another server's tools and results that are passed on: icons, `_meta` and similar ones.

Every field that is passed on has the form that MCP defines: one field of a wrong type would make our own clients
reject the whole list or result.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from typing import Any

import mcp_types
from pydantic import BaseModel, ValidationError

from ...core.empty import EMPTY
from ...core.json_values import as_array, as_object
from ...core.output import foreign_meta

Json = dict[str, Any]

MAX_CHARS = 64 * 1024
"""The longest field that is passed on, as JSON, of one tool, block or result."""
MAX_ICONS = 16
INFINITE = 2**62
_SAFE_ICONS = ("https:", "http:", "data:image/")
_RESERVED = ("io.modelcontextprotocol/", "modelcontextprotocol.io/", "mcp.dev/")


def size_of(value: Any) -> int:
    """Return the length of a value as JSON, in characters. A value that is nested too deeply counts as infinite."""
    try:
        return len(json.dumps(value))
    except (ValueError, TypeError, RecursionError):
        return INFINITE


def valid_fields(value: Any, model: type[BaseModel]) -> Json:
    """Return the fields of an object that have the form that a model of the protocol defines."""
    given = as_object(value)
    wrong: set[Any] = {None}
    try:
        model.model_validate(given, strict=True, by_name=False)
    except ValidationError as error:
        wrong = {each["loc"][0] for each in error.errors(include_url=False, include_input=False)}
    known = {field.alias for field in model.model_fields.values()} - wrong
    return {key: each for key, each in given.items() if key in known and each is not None}


def from_base64(text: str) -> bytes | None:
    """Decode base64; None if it is invalid."""
    try:
        return base64.b64decode(text, validate=True)
    except ValueError:
        return None


def icons(value: Any) -> list[Json]:
    """Return the icons whose address a client may load: http(s), or an inline image."""
    found = [valid_fields(icon, mcp_types.Icon) for icon in as_array(value)[:MAX_ICONS]]
    return [icon for icon in found if icon.get("src", "").lower().startswith(_SAFE_ICONS)]


def result_meta(value: Any) -> Json:
    """Return the parts of a result's `_meta` that may be passed on. The protocol's own keys are only for us."""
    return {key: each for key, each in foreign_meta(value).items() if not key.startswith(_RESERVED)}


def block_extra(part: Json, *more: str) -> Mapping[str, Any]:
    """Return the extra fields of a content block: annotations, `_meta`, and for a link the fields in `more`."""
    if "annotations" not in part and "_meta" not in part and not more:
        return EMPTY
    found: Json = {
        "annotations": valid_fields(part.get("annotations"), mcp_types.Annotations),
        "_meta": foreign_meta(part.get("_meta")),
    }
    for key in more:
        value = part.get(key)
        if key == "icons":
            found[key] = icons(value)
        elif isinstance(value, int if key == "size" else str) and not isinstance(value, bool):
            found[key] = value
    return {key: value for key, value in found.items() if value not in ({}, [])} or EMPTY
