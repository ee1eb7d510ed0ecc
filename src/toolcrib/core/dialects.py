"""A tool's definition as each provider wants it.

    openai            {"type": "function", "function": {name, description, parameters, strict?}}   chat completions
    openai-responses  {"type": "function", name, description, parameters, strict}                  responses API
    anthropic         {name, description, input_schema}
    gemini            {name, description, parameters}        OpenAPI 3.0 subset; other keywords move to descriptions
    mcp               {name, title?, description, inputSchema, outputSchema?, annotations}
    flat              {name, description, input_schema}      the first design's `list_schemas()`

What a provider cannot express is said in the description instead; validation is always against the full schema.
Sources: OpenAI "Structured outputs: supported schemas", Gemini API `Schema` reference, MCP 2025-11-25 `Tool`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Literal, cast

from .violations import Json, resolve

if TYPE_CHECKING:
    from .tool import Tool

Dialect = Literal["openai", "openai-responses", "anthropic", "gemini", "mcp", "flat"]
DIALECTS: tuple[str, ...] = ("openai", "openai-responses", "anthropic", "gemini", "mcp", "flat")

_ILLEGAL = re.compile(r"[^A-Za-z0-9_-]")
MAX_NAME = 64


def legal_name(name: str) -> str:
    """A name within `[A-Za-z0-9_-]{1,64}`; one that had to change ends in a hash of what it was."""
    if len(name) <= MAX_NAME and name and not _ILLEGAL.search(name):
        return name
    return f"{_ILLEGAL.sub('_', name)[: MAX_NAME - 9]}_{_hash(name)}"


def _hash(text: str) -> str:
    from hashlib import sha256

    return sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:8]


def legal_names(names: Iterable[str]) -> dict[str, str]:
    """Each name with its legal form, no two alike."""
    taken: set[str] = set()
    result: dict[str, str] = {}
    ordered = list(names)
    for name in [n for n in ordered if legal_name(n) == n] + [n for n in ordered if legal_name(n) != n]:
        legal = legal_name(name)
        while legal in taken:
            legal = f"{legal[: MAX_NAME - 9]}_{_hash(f'{name} {legal}')}"
        taken.add(legal)
        result[name] = legal
    return result


def definition(tool: Tool, dialect: str = "openai", *, compact: bool = False, name: str | None = None) -> Json:
    """One tool's definition in a dialect. The schema is a copy: callers may change it."""
    legal = name or legal_name(tool.name)
    text = tool.summary if compact else tool.description
    schema = cast("Json", json.loads(json.dumps(tool.schema, default=str)))
    if compact:
        _compact(schema)
    match dialect:
        case "openai" | "openai-responses":
            function: Json = {"name": legal, "description": text, "parameters": schema}
            strict = strict_schema(schema) if tool.strict else None
            if strict is not None:
                function["parameters"] = strict
            if strict is not None or dialect == "openai-responses":
                function["strict"] = strict is not None
            return (
                {"type": "function", "function": function} if dialect == "openai" else {"type": "function", **function}
            )
        case "anthropic":
            strict = strict_schema(schema) if tool.strict else None
            body: Json = {"name": legal, "description": text, "input_schema": schema}
            if strict is not None:
                body["strict"] = True
            return body
        case "flat":
            return {"name": legal, "description": text, "input_schema": schema}
        case "gemini":
            body = {"name": legal, "description": text}
            if schema.get("properties"):  # Gemini refuses an object without properties
                body["parameters"] = _gemini(schema, schema)
            return body
        case "mcp":
            return _mcp(tool, legal, text, schema)
        case _:
            raise ValueError(f"unknown dialect {dialect!r}; known: {', '.join(DIALECTS)}")


def _mcp(tool: Tool, name: str, text: str, schema: Json) -> Json:
    body: Json = {"name": name, "description": text, "inputSchema": schema}
    if tool.title:
        body["title"] = tool.title
    if tool.output_schema is not None:
        body["outputSchema"] = dict(tool.output_schema)
    hints: Json = {"readOnlyHint": tool.is_read_only}
    if not tool.is_read_only:
        destructive = tool.destructive
        if destructive is None:
            destructive = tool.category in ("destructive", "shell", "hardware")
        hints["destructiveHint"] = destructive
        if tool.idempotent is not None:
            hints["idempotentHint"] = tool.idempotent
    open_world = tool.open_world
    if open_world is None:
        open_world = tool.category in ("network_read", "network_write", "messaging", "shell")
    hints["openWorldHint"] = open_world
    body["annotations"] = hints
    return body


def _compact(node: Any) -> None:
    """Shorten property descriptions to their first sentence, in place."""
    from .docstrings import first_sentence

    if isinstance(node, list):
        for item in cast("list[Any]", node):
            _compact(item)
    elif isinstance(node, dict):
        schema = cast("Json", node)
        if isinstance(schema.get("description"), str):
            schema["description"] = first_sentence(schema["description"])
        for value in schema.values():
            _compact(value)


# --- strict ----------------------------------------------------------------------------------------------

_STRICT_KEYWORDS = frozenset({
    "type", "properties", "required", "additionalProperties", "description", "enum", "const", "items", "anyOf",
    "$ref", "$defs", "title", "default", "pattern", "format", "multipleOf", "maximum", "exclusiveMaximum",
    "minimum", "exclusiveMinimum", "minItems", "maxItems",
})  # fmt: skip


def strict_schema(schema: Json) -> Json | None:
    """The schema under OpenAI's strict rules: every property required, optional ones nullable, objects closed.
    None where strict mode cannot express it (free-form objects, unsupported keywords)."""
    try:
        return _strict(schema)
    except _NotStrict:
        return None


class _NotStrict(Exception):
    pass


def _strict(node: Json) -> Json:
    if not set(node) <= _STRICT_KEYWORDS:
        raise _NotStrict
    out = dict(node)
    out.pop("default", None)
    if node.get("type") == "object" or "properties" in node:
        if node.get("additionalProperties") not in (False, None):
            raise _NotStrict
        properties: Json = node.get("properties", {})
        required = node.get("required", [])
        out["properties"] = {
            key: _strict(value) if key in required else _nullable(_strict(value)) for key, value in properties.items()
        }
        out["required"] = list(properties)
        out["additionalProperties"] = False
    elif not any(key in node for key in ("type", "anyOf", "$ref", "enum", "const")):
        raise _NotStrict
    if isinstance(node.get("items"), dict):
        out["items"] = _strict(node["items"])
    elif node.get("type") == "array":
        raise _NotStrict
    if "anyOf" in node:
        out["anyOf"] = [_strict(branch) for branch in node["anyOf"]]
    if "$defs" in node:
        out["$defs"] = {key: _strict(value) for key, value in node["$defs"].items()}
    return out


def _nullable(node: Json) -> Json:
    kind = node.get("type")
    if kind == "null" or (isinstance(kind, list) and "null" in kind):
        return node
    if isinstance(kind, str) and "enum" not in node and "const" not in node:
        return {**node, "type": [kind, "null"]}
    if "anyOf" in node:
        branches = node["anyOf"]
        if any(branch.get("type") == "null" for branch in branches):
            return node
        return {**node, "anyOf": [*branches, {"type": "null"}]}
    description = node.get("description")
    inner = {key: value for key, value in node.items() if key != "description"}
    return {"anyOf": [inner, {"type": "null"}], **({"description": description} if description else {})}


# --- gemini ----------------------------------------------------------------------------------------------

_GEMINI_KEYWORDS = (
    "type", "description", "enum", "items", "properties", "required", "minimum", "maximum", "minItems", "maxItems",
    "minLength", "maxLength", "pattern", "format", "nullable", "anyOf", "title",
)  # fmt: skip
_GEMINI_FORMATS = frozenset({"float", "double", "int32", "int64", "enum", "date-time"})
_SAID = {
    "exclusiveMinimum": "more than {}", "exclusiveMaximum": "less than {}", "multipleOf": "a multiple of {}",
    "default": "default {}", "const": "always {}", "uniqueItems": "no duplicates",
    "minProperties": "at least {} keys", "maxProperties": "at most {} keys",
}  # fmt: skip


def _gemini(node: Mapping[str, Any], root: Json, depth: int = 0) -> Json:
    """The OpenAPI subset that Gemini takes; references are inlined, other keywords said in the description."""
    schema = {**resolve(node, root), **{k: v for k, v in node.items() if k != "$ref"}}
    if depth > 12:  # a recursive type: stop with an open object
        return {"type": "object", "description": "nested further in the same way"}
    said = [
        text.format(_plain(schema[key])) for key, text in _SAID.items() if key in schema and schema[key] is not None
    ]
    if schema.get("additionalProperties") not in (None, False, True) or (
        schema.get("additionalProperties") is True and not schema.get("properties")
    ):
        said.append(
            "any keys"
            if schema["additionalProperties"] is True
            else f"values: {_plain(schema['additionalProperties'])}"
        )
    if "const" in schema and "enum" not in schema:
        schema["enum"] = [schema["const"]]
        schema.setdefault("type", "string")
    out: Json = {}
    kinds = schema.get("type")
    if isinstance(kinds, list):
        names = [k for k in cast("list[str]", kinds) if k != "null"]
        if len(names) == 1:
            schema["type"] = names[0]
        else:
            schema.pop("type")
            schema["anyOf"] = [{"type": k} for k in names]
        if "null" in kinds:
            out["nullable"] = True
    branches = schema.get("anyOf") or schema.get("oneOf")
    if branches:
        real = [b for b in branches if resolve(b, root).get("type") != "null"]
        if len(real) < len(branches):
            out["nullable"] = True
        if len(real) == 1:
            schema = {**schema, **_gemini(real[0], root, depth + 1)}
            schema.pop("anyOf", None)
        else:
            schema["anyOf"] = real
    for part in schema.get("allOf", ()):
        merged = resolve(part, root)
        schema["properties"] = {**merged.get("properties", {}), **schema.get("properties", {})}
        schema["required"] = [*schema.get("required", ()), *merged.get("required", ())]
        schema.setdefault("type", merged.get("type", "object"))
    for key in _GEMINI_KEYWORDS:
        if key not in schema or key in out:
            continue
        value: Any = schema[key]
        if key == "properties":
            value = {name: _gemini(child, root, depth + 1) for name, child in value.items()}
        elif key == "items":
            value = _gemini(cast("Json", value), root, depth + 1) if isinstance(value, dict) else {"type": "string"}
        elif key == "anyOf":
            value = [_gemini(branch, root, depth + 1) for branch in value]
        elif key == "enum":
            if not all(isinstance(option, str) for option in value):
                said.append("one of " + ", ".join(_plain(option) for option in value))
                continue
        elif key == "format" and value not in _GEMINI_FORMATS:
            said.append(f"format {value}")
            continue
        elif key == "required" and not value:
            continue
        out[key] = value
    if out.get("type") == "object" and not out.get("properties") and depth:
        out.pop("properties", None)
    if said:
        text = out.get("description", "")
        out["description"] = f"{text}{' ' if text else ''}({'; '.join(said)})"
    return out


def _plain(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
