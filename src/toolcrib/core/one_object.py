"""Makes of any schema of parameters one that OpenAI, Anthropic and Gemini accept: an object, whose arrays have `items`.

They refuse a whole request because of one tool with `anyOf`, `oneOf`, `allOf`, `not`, `enum` or a reference at the top
of its schema, which MCP allows (SEP-2106). OpenAI and Gemini also refuse an array without `items`, and Anthropic a
property whose name has other signs than `[a-zA-Z0-9_.-]{1,64}` (sources: the errors of these APIs). What gets lost is
said in descriptions, and validation always uses the full schema.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple, cast

from .json_values import as_object
from .text import clip, lazy_regex
from .violations import Json, properties_of, resolve

UNIONS = ("anyOf", "oneOf", "allOf", "not", "enum", "$ref")
"""The keywords that providers refuse at the top of a tool's schema."""
PROPERTY = lazy_regex(r"[a-zA-Z0-9_.-]{1,64}")
"""The names that Anthropic accepts for a property."""
MAPS = ("properties", "$defs", "definitions", "patternProperties")
"""Keywords that hold schemas by name."""
_VALUES = frozenset({"default", "enum", "const", "examples"})
"""Keywords that hold values, not schemas."""
_MAX_PARTS = 200  # of a schema, in which its properties are looked for
_SAID = 500  # characters about what the alternatives are


def sub_schemas(node: Any, is_map: bool = False) -> Iterator[Json]:
    """Yield a schema and all schemas in it; references are not followed. `is_map`: the keys are names, not keywords."""
    if isinstance(node, list):
        for item in cast("list[Any]", node):
            yield from sub_schemas(item)
    elif isinstance(node, dict):
        schema = cast("Json", node)
        if not is_map:
            yield schema
        for key, value in schema.items():
            if is_map or key not in _VALUES:
                yield from sub_schemas(value, not is_map and key in MAPS)


def one_object(schema: Json, *, plain_names: bool = False) -> Json:
    """Return a schema as described above. Changes the given one. `plain_names`: leave out properties whose names
    Anthropic refuses."""
    for each in sub_schemas(schema):
        kind = each.get("type")
        if (kind == "array" or (isinstance(kind, list) and "array" in kind)) and not {"items", "prefixItems"} & {*each}:
            each["items"] = {}
    if any(key in schema for key in UNIONS):
        schema = _flattened(schema)
    for each in sub_schemas(schema) if plain_names else ():
        _leave_out(each)
    return schema


class _Object(NamedTuple):
    """The properties of a schema and of its parts, those that it always requires, and what its alternatives are."""

    properties: Json
    required: list[str]
    said: list[str]


def _flattened(schema: Json) -> Json:
    found = _collect(schema, schema, (), [_MAX_PARTS])
    out = {key: value for key, value in schema.items() if key not in UNIONS}
    out |= {"type": "object", "properties": found.properties}
    if found.required:
        out["required"] = found.required
    else:
        out.pop("required", None)
    if found.said:
        _say(out, "; ".join(found.said))
    return out


def _collect(node: Any, root: Json, above: tuple[str, ...], left: list[int]) -> _Object:
    """Return what a schema says of an object, through references and unions. `left` counts the parts, of which hostile
    references could make any number."""
    left[0] -= 1
    source = as_object(node)
    ref = source.get("$ref")
    found = _Object(dict(properties_of(source)), [key for key in _names(source) if isinstance(key, str)], [])
    if left[0] < 0 or ref in above:
        return found
    if isinstance(ref, str):
        _add(found, _collect(resolve(source, root), root, (*above, ref), left))
    for part in _list(source.get("allOf")):
        _add(found, _collect(part, root, above, left))
    for key in ("anyOf", "oneOf"):
        branches = [_collect(part, root, above, left) for part in _list(source.get(key))]
        for branch in branches:
            for name, value in branch.properties.items():
                known = found.properties.setdefault(name, value)
                if known != value:  # it is another one in each alternative
                    found.properties[name] = {"anyOf": [*_list(as_object(known).get("anyOf") or [known]), value]}
        first = branches[0].required if branches else []
        always = [name for name in first if all(name in each.required for each in branches)]
        found.required.extend(name for name in always if name not in found.required)
        kinds = dict.fromkeys(", ".join(branch.required or branch.properties) for branch in branches)
        if len(kinds) > 1:
            found.said.append("give what one of these needs: " + " | ".join(kind or "nothing" for kind in kinds))
    return found


def _add(found: _Object, part: _Object) -> None:
    for name, value in part.properties.items():
        found.properties.setdefault(name, value)
    found.required.extend(name for name in part.required if name not in found.required)
    found.said.extend(part.said)


def _leave_out(schema: Json) -> None:
    properties = properties_of(schema)
    refused = [name for name in properties if not PROPERTY.fullmatch(name)]
    if not refused:
        return
    schema["properties"] = {name: value for name, value in properties.items() if name not in refused}
    if "required" in schema:
        schema["required"] = [name for name in _names(schema) if name not in refused]
    _say(schema, f"also takes {', '.join(map(repr, refused))}")


def _say(schema: Json, text: str) -> None:
    before = schema.get("description")
    schema["description"] = (
        f"{before} ({clip(text, _SAID)})" if isinstance(before, str) and before else clip(text, _SAID)
    )


def _names(schema: Json) -> list[Any]:
    return _list(schema.get("required"))


def _list(value: Any) -> list[Any]:
    return cast("list[Any]", value) if isinstance(value, list) else []
