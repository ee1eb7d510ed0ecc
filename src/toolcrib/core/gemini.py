"""Converts a JSON Schema into the OpenAPI 3.0 subset that Gemini accepts.

References are inlined, and unions with null become `nullable`. The description says what the subset cannot express.
Source: Gemini API reference, `Schema`.
"""

from __future__ import annotations

import json
from typing import Any, cast

from .violations import Json, resolve

_KEYWORDS = (
    "type", "description", "enum", "items", "properties", "required", "minimum", "maximum", "minItems", "maxItems",
    "minLength", "maxLength", "pattern", "format", "nullable", "anyOf", "title",
)  # fmt: skip
_FORMATS = frozenset({"float", "double", "int32", "int64", "enum", "date-time"})
_SAID = {
    "exclusiveMinimum": "more than {}", "exclusiveMaximum": "less than {}", "multipleOf": "a multiple of {}",
    "default": "default {}", "const": "always {}", "uniqueItems": "no duplicates",
    "minProperties": "at least {} keys", "maxProperties": "at most {} keys",
}  # fmt: skip


_KINDS: dict[Any, str] = {bool: "boolean", int: "integer", float: "number", str: "string"}
MAX_INLINED = 500
"""Most sub-schemas after inlining references; any more become open objects."""


def gemini_schema(schema: Json) -> Json:
    """Convert the whole schema of a tool's parameters."""
    return _Conversion(schema).convert(schema)


class _Conversion:
    """The state of one conversion; counts the sub-schemas that references add."""

    def __init__(self, root: Json) -> None:
        self._root = root
        self._left = MAX_INLINED

    def convert(self, node: Any, above: tuple[str, ...] = ()) -> Json:
        """Convert one schema. `above` are the references around it: one that repeats is a recursive type."""
        if not isinstance(node, dict):  # true and false
            return {"type": "object", "description": "anything"}
        source = cast("Json", node)
        ref: Any = source.get("$ref")
        self._left -= 1
        if ref in above or self._left < 0:
            return {"type": "object", "description": "nested further in the same way"}
        if isinstance(ref, str):
            above = (*above, ref)
        schema = {**resolve(source, self._root), **{key: value for key, value in source.items() if key != "$ref"}}
        out: Json = {}
        self._merge_all(schema, above)
        _one_type(schema, out)
        self._union(schema, out, above)
        said = _said(schema)
        for key in _KEYWORDS:
            value: Any = schema.get(key)
            if value is None or key in out:
                continue
            if key == "properties":
                value = {name: self.convert(child, above) for name, child in value.items()}
                if not value:
                    continue
            elif key == "items":
                value = self.convert(value, above)
            elif key == "anyOf":
                value = [self.convert(branch, above) for branch in value]
            elif key == "enum":
                if out.get("type", "string") != "string" or not all(isinstance(option, str) for option in value):
                    said.append("one of " + ", ".join(_plain(option) for option in value))
                    continue
                out.setdefault("type", "string")
            elif key == "format" and value not in _FORMATS:
                said.append(f"format {value}")
                continue
            elif key == "required":
                value = [name for name in value if name in schema.get("properties", {})]
                if not value:
                    continue
            out[key] = value
        if out.get("type") == "array" and "items" not in out:  # Gemini refuses an array without them
            out["items"] = {"type": "string"}
        if said:
            text = out.get("description", "")
            out["description"] = f"{text}{' ' if text else ''}({'; '.join(said)})"
        return out

    def _merge_all(self, schema: Json, above: tuple[str, ...]) -> None:
        for part in schema.pop("allOf", ()):
            merged = resolve(part, self._root)
            for key, value in merged.items():
                if key == "properties":
                    schema["properties"] = {**value, **schema.get("properties", {})}
                elif key == "required":
                    schema["required"] = [*schema.get("required", ()), *value]
                else:
                    schema.setdefault(key, value)

    def _union(self, schema: Json, out: Json, above: tuple[str, ...]) -> None:
        branches: list[Any] = schema.pop("oneOf", None) or schema.pop("anyOf", None) or []
        schema.pop("anyOf", None)
        real = [branch for branch in branches if resolve(branch, self._root).get("type") != "null"]
        if len(real) < len(branches):
            out["nullable"] = True
        if len(real) == 1:
            out.update({key: value for key, value in self.convert(real[0], above).items() if key != "nullable"})
            if "description" in schema:
                out.pop("description", None)
        elif real:
            schema["anyOf"] = real


def _one_type(schema: Json, out: Json) -> None:
    """Write `type` as one name: a list becomes `nullable` and `anyOf`, a constant becomes an enum."""
    kinds = schema.get("type")
    if isinstance(kinds, list):
        names = [kind for kind in cast("list[str]", kinds) if kind != "null"]
        if "null" in kinds:
            out["nullable"] = True
        schema.pop("type")
        if len(names) == 1:
            schema["type"] = names[0]
        elif names:
            schema.setdefault("anyOf", [{"type": name} for name in names])
    if "const" in schema:
        if isinstance(schema["const"], str):
            schema.setdefault("enum", [schema["const"]])
        schema.setdefault("type", _KINDS.get(type(schema["const"]), "string"))
    elif "enum" in schema and "type" not in schema and schema["enum"]:
        schema["type"] = _KINDS.get(type(schema["enum"][0]), "string")


def _said(schema: Json) -> list[str]:
    """Describe in words the keywords that the subset lacks."""
    said = [text.format(_plain(schema[key])) for key, text in _SAID.items() if schema.get(key) is not None]
    extra: Any = schema.get("additionalProperties")
    if isinstance(extra, dict) and extra:
        said.append(f"values: {_plain(extra)}")
    elif (extra is True or extra == {}) and not schema.get("properties"):
        said.append("any keys")
    return said


def _plain(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
