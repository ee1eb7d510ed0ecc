"""Check schemas: find what a provider would refuse, or would read in another form than the tool gives it.

Sources: OpenAI, "Structured outputs: supported schemas" (names, arrays, nesting of 10 and 5,000 properties in strict
mode); Anthropic, Messages API (`tools.N.custom.input_schema`: object at the top, no union there, property names);
Google, Gemini function declarations (a subset of OpenAPI 3.0). Toolcrib rewrites schemas for each provider if it can
(core/dialects, core/one_object). The findings are the rest, or concern clients of the MCP server, which get the schema
unchanged.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, cast

from ...core.dialects import strict_schema
from ...core.errors import ToolDefinitionError
from ...core.json_schema import compile_schema
from ...core.json_values import as_object
from ...core.one_object import PROPERTY, UNIONS
from ...core.tool import Tool
from .finding import LintFinding

Json = dict[str, Any]

MAX_DEPTH, MAX_PROPERTIES, MAX_SIZE = 10, 5_000, 40_000
"""Limits: levels, properties, and characters of JSON; a schema of 40,000 characters is about 10,000 tokens in every
turn."""


def check_schema(tool: Tool) -> Iterator[LintFinding]:
    """Check the parameters of a tool, as JSON Schema."""
    schema = tool.schema
    met = [key for key in UNIONS if key in schema]
    if met:
        text = f"has {', '.join(met)} at the top of its schema: OpenAI and Anthropic refuse that"
        remedy = "make it one object, with optional properties"
        yield LintFinding(tool.name, "warning", "top-level-union", text, remedy)
    size = len(json.dumps(schema, default=str))
    if size > MAX_SIZE:
        text = f"has a schema of {size:,} characters, which every turn pays for"
        yield LintFinding(tool.name, "warning", "big-schema", text, "split the tool, or take fewer parameters")
    count = 0
    for path, node, depth in _nodes(schema):
        count += len(as_object(node.get("properties")))
        yield from _node(tool.name, path, node)
        if depth == MAX_DEPTH + 1:
            text = f"nests deeper than {MAX_DEPTH} levels at {path}: OpenAI's strict mode refuses that"
            yield LintFinding(tool.name, "info", "deep-schema", text, "flatten it")
            break
    if count > MAX_PROPERTIES:
        text = f"has {count:,} properties: OpenAI's strict mode takes {MAX_PROPERTIES:,}"
        yield LintFinding(tool.name, "info", "many-properties", text)
    yield from _not_strict(tool)


def _nodes(schema: Json) -> Iterator[tuple[str, Json, int]]:
    """Yield every sub-schema once, with its path and its depth in properties and items; references are not followed."""
    waiting: list[tuple[str, Any, int]] = [("", schema, 0)]
    while waiting:
        path, node, depth = waiting.pop()
        if not isinstance(node, dict):
            continue
        found = cast("Json", node)
        yield path or "the top", found, depth
        if depth > MAX_DEPTH + 1:
            continue
        for name, child in as_object(found.get("properties")).items():
            waiting.append((f"{path}.{name}".lstrip("."), child, depth + 1))
        for name, child in {**as_object(found.get("$defs")), **as_object(found.get("definitions"))}.items():
            waiting.append((f"{path}<{name}>", child, depth))
        waiting.append((f"{path}[]", found.get("items"), depth + 1))
        waiting.append((f"{path}.*", found.get("additionalProperties"), depth + 1))
        for key in ("anyOf", "oneOf", "allOf", "prefixItems"):
            branches = found.get(key)
            if isinstance(branches, list):
                waiting.extend((path, branch, depth) for branch in cast("list[Any]", branches))


def _node(tool: str, path: str, node: Json) -> Iterator[LintFinding]:
    kind = node.get("type")
    properties = as_object(node.get("properties"))
    bad = [name for name in properties if not PROPERTY.fullmatch(name)]
    if bad:
        text = f"has properties at {path} that Anthropic refuses: {bad[:5]}"
        remedy = "use letters, digits, _, . and -, at most 64 of them"
        yield LintFinding(tool, "warning", "property-name", text, remedy)
    required: Any = node.get("required")
    if isinstance(required, list) and properties:
        unknown = [name for name in cast("list[Any]", required) if name not in properties]
        if unknown:
            text = f"requires at {path} what it does not describe: {unknown[:5]}"
            yield LintFinding(tool, "warning", "required-unknown", text, "describe it, or take it off `required`")
    if (kind == "array" or (isinstance(kind, list) and "array" in kind)) and not (
        "items" in node or "prefixItems" in node
    ):
        text = f"does not say what the array at {path} holds: OpenAI and Gemini refuse that"
        yield LintFinding(tool, "warning", "array-items", text, "give it `items`")
    reference = node.get("$ref")
    if isinstance(reference, str) and not reference.startswith("#"):
        text = f"refers at {path} to a schema elsewhere, {reference[:80]!r}, which is not fetched"
        yield LintFinding(tool, "error", "remote-reference", text, "put the schema in, under $defs")
    yield from _default(tool, path, node)


def _default(tool: str, path: str, node: Json) -> Iterator[LintFinding]:
    if node.get("default") is None or "$ref" in node:
        return
    bare = {key: value for key, value in node.items() if key not in ("default", "$defs", "definitions")}
    if "$ref" in str(bare):
        return
    try:
        fits = compile_schema(bare, tool).is_valid(node["default"])
    except (ToolDefinitionError, ValueError):
        return
    if not fits:
        text = f"has a default at {path} that does not fit: {node['default']!r}"[:300]
        yield LintFinding(tool, "warning", "default", text, "mend the default or the type")


def _not_strict(tool: Tool) -> Iterator[LintFinding]:
    if not tool.strict:
        return
    if strict_schema(tool.schema) is None:
        text = "is marked strict, but its schema cannot be: it is sent without"
        yield LintFinding(tool.name, "warning", "not-strict", text, "close its objects and leave out rare keywords")
