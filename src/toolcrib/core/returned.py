"""Reads the output schema of a tool from its return annotation, and checks the tool's results against it."""

from __future__ import annotations

from typing import Any, cast

from .errors import ToolcribError
from .output import AudioBlock, ImageBlock, ResourceBlock, TextBlock, ToolOutput
from .violations import Json, raw_violations

_NOT_DATA = (ToolOutput, TextBlock, ImageBlock, AudioBlock, ResourceBlock)

MAX_VIOLATIONS = 5
"""How many violations of a result are reported: they are the tool's fault, a model cannot correct them."""


def schema_of(annotation: Any) -> Json | None:
    """Return the JSON Schema of a model, dataclass or TypedDict as it is serialized; None for any other annotation."""
    if not isinstance(annotation, type):
        return None
    parents: tuple[type[Any], ...] = annotation.__mro__
    if any(parent in _NOT_DATA for parent in parents):
        return None
    marks = ("model_fields", "__dataclass_fields__", "__required_keys__")  # the last is a TypedDict's
    if not any(hasattr(cast("Any", annotation), mark) for mark in marks):
        return None
    from pydantic import TypeAdapter

    from .schema import generate

    try:
        schema = generate(TypeAdapter(cast("Any", annotation)).core_schema, "serialization")
    except Exception:  # without a schema nothing is checked
        return None
    return schema if schema.get("type") == "object" else None


def misfit(data: Any, validator: Any) -> list[str]:
    """Return the violations of structured data under an output schema; empty if the data fits."""
    if data is None:
        return ["it has no structured data"]
    try:
        if validator.is_valid(data):
            return []
        found = raw_violations(validator.iter_errors(data), {})
    except (ValueError, TypeError, ToolcribError) as error:
        return [f"it is not JSON data ({error})"[:200]]
    return [v.text for v in found[:MAX_VIOLATIONS]]
