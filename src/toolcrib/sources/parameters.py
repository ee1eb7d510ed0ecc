"""Parameters of command tools and templates: a full JSON Schema, or the short form `{"p": "string"}`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, cast

from ..core.errors import ToolDefinitionError
from ..core.schema import full_schema
from ..core.text import lazy_regex

PLACEHOLDER = lazy_regex(r"\{\{\s*([A-Za-z_][A-Za-z0-9_-]*)\s*\}\}")
"""`{{name}}` in a template. Other braces, such as `{{.ID}}` of a Go template, are ordinary text."""
TYPES = ("string", "integer", "number", "boolean")
# Some designs use this name for a string that is pasted into the command without quotes. Here it is one argument.
_RAW_STRING = "raw_string"


def parameter_schema(parameters: Mapping[str, Any]) -> dict[str, Any]:
    """Return a full schema. Raises ToolDefinitionError if a short form names an unknown type."""
    if isinstance(parameters.get("properties"), Mapping):
        return full_schema({"type": "object", **parameters})
    spelled: dict[str, Any] = {}
    for name, given in parameters.items():
        if isinstance(given, str) and not (name == "type" and given == "object"):
            kind = "string" if given == _RAW_STRING else given
            if kind not in TYPES:
                raise ToolDefinitionError(f"parameter {name!r}: {given!r} is not a type; known: {', '.join(TYPES)}")
            given = {"type": kind}
        spelled[name] = given
    return full_schema(spelled)


def check_names(names: Iterable[str], schema: Mapping[str, Any]) -> dict[str, Any]:
    """Return the defaults of a template's parameters. Raises ToolDefinitionError if a parameter might have no value."""
    properties = cast("Mapping[str, Any]", schema.get("properties") or {})
    required = set(cast("Iterable[str]", schema.get("required") or ()))
    defaults: dict[str, Any] = {}
    for name in names:
        if name not in properties:
            known = ", ".join(properties) or "none"
            raise ToolDefinitionError(f"{{{{{name}}}}} has no parameter of that name; parameters: {known}")
        declared = properties[name]
        if isinstance(declared, Mapping) and "default" in declared:
            defaults[name] = declared["default"]
        elif name not in required:
            raise ToolDefinitionError(f"parameter {name!r} may be left out, so it needs a default for {{{{{name}}}}}")
    return defaults
