"""Convert one entry of a server's list of tools to our form. Invalid optional fields are dropped, the tool stays."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

import mcp_types
from pydantic import ValidationError

from ...core.empty import EMPTY
from ...core.errors import ToolError
from ...core.output import foreign_meta
from ...core.schema import RawArguments, compile_schema
from .fields import MAX_CHARS, Json, icons, size_of
from .listed import ListedTool

MAX_EXTRA = 4 * 2**20
"""The most characters of JSON that all tools of a server may have in extra fields, which a model does not read."""
_OURS = {"name", "title", "description", "inputSchema", "outputSchema", "annotations", "execution"}
"""The fields that are read, and `execution`: it offers the server's tasks, which we do not pass on."""


def described(entry: Any, room: int, faults: list[str]) -> tuple[ListedTool, int]:
    """Return the tool, and how many of the `room` characters its extra fields took.

    Raises ToolError or ToolDefinitionError if the tool cannot be called: it has no name, or no valid schema. Other
    invalid parts are dropped, with a message in `faults`.
    """
    if not isinstance(entry, dict):
        raise ToolError(f"it is not an object, but {str(entry)[:80]!r}")
    wire = cast("Json", entry)
    name = wire.get("name")
    if not isinstance(name, str):
        raise ToolError(f"its name is not text, but {str(name)[:80]!r}")
    if not name:
        raise ToolError("it has no name")
    short = name[:80]
    if not isinstance(wire.get("inputSchema"), dict):
        raise ToolError(f"{short}: its inputSchema is {'no object' if wire.get('inputSchema') else 'missing'}")
    tool = _read(wire, short, faults)
    hints: Json = {}
    if tool.annotations is not None:
        hints = tool.annotations.model_dump(by_alias=True, mode="json", exclude_none=True)
    title = tool.title or hints.get("title")
    schema = _closed(tool.input_schema)
    RawArguments(schema, short)
    if tool.output_schema is not None:
        compile_schema(dict(tool.output_schema), f"{short}: its output schema")
    extra, size = _extra(wire, short, room, faults)
    listed = ListedTool(
        name, tool.description or "", schema, title if isinstance(title, str) else None, tool.output_schema, hints,
        extra=extra,
    )  # fmt: skip
    return listed, size


def _read(wire: Json, short: str, faults: list[str]) -> mcp_types.Tool:
    """Return the tool as the SDK reads it, without the fields that it cannot read."""
    wire = {key: value for key, value in wire.items() if key in _OURS and key != "execution"}
    try:
        return mcp_types.Tool.model_validate(wire, by_name=False)
    except ValidationError as error:
        places = {each["loc"][:2]: None for each in error.errors(include_url=False, include_input=False)}
    for field, *within in places:
        value = wire.get(str(field))
        if field == "annotations" and within and isinstance(value, dict):
            hints = cast("Json", value)
            wire["annotations"] = {key: hint for key, hint in hints.items() if key != within[0]}
        else:
            wire.pop(str(field), None)
        which = ".".join(map(str, (field, *within)))
        faults.append(f"{short}: its {which[:80]} has a form that is not known, and is left away")
    try:
        return mcp_types.Tool.model_validate(wire, by_name=False)
    except ValidationError as error:
        raise ToolError(f"{short}: {error.errors(include_url=False, include_input=False)[0]['msg'][:300]}") from None


def _extra(wire: Json, short: str, room: int, faults: list[str]) -> tuple[Mapping[str, Any], int]:
    """Return its extra fields, within the size limits, without keys that only we may write."""
    found: Json = {}
    used = 0
    for key, value in wire.items():
        if key in _OURS or value is None:
            continue
        kept: Any = icons(value) if key == "icons" else foreign_meta(value) if key == "_meta" else value
        if kept in ({}, []):
            continue
        size = len(key) + size_of(kept)
        if size > min(MAX_CHARS, room - used):
            faults.append(f"{short}: its {key[:80]} is too long to be passed on")
            continue
        used += size
        found[key] = kept
    return found or EMPTY, used


def _closed(schema: Mapping[str, Any]) -> Json:
    """Return the schema with `type: object`, which some servers omit."""
    if schema.get("type") == "object" or "$ref" in schema:
        return dict(schema)
    return {"type": "object", **{key: value for key, value in schema.items() if key != "type"}}
