"""Makes a tool's definition in the form of each provider.

    openai            {"type": "function", "function": {name, description, parameters, strict?}}   chat completions
    openai-responses  {"type": "function", name, description, parameters, strict}                  responses API
    anthropic         {name, description, input_schema}
    gemini            {name, description, parameters}        OpenAPI 3.0 subset; other keywords move to descriptions
    mcp               {name, title?, description, inputSchema, outputSchema?, annotations, …}   and `Tool.mcp_fields`
    flat              {name, description, input_schema}      `list_schemas()`, as in Nanobot

If a provider cannot express a part, the description says it instead. Validation always uses the full schema.
Sources: OpenAI "Structured outputs: supported schemas", Gemini API `Schema` reference, MCP 2025-11-25 `Tool`.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Literal, cast, get_args

from .one_object import one_object, sub_schemas
from .text import clip, lazy_regex
from .violations import Json, resolve

if TYPE_CHECKING:
    from .tool_spec import ToolFields

Dialect = Literal["openai", "openai-responses", "anthropic", "gemini", "mcp", "flat"]
DIALECTS: tuple[str, ...] = get_args(Dialect)

_ILLEGAL = lazy_regex(r"[^A-Za-z0-9_-]")
MAX_NAME = 64
MAX_DESCRIPTION = 1024
"""Characters of a tool's description that OpenAI takes (the error `string_above_max_length` of its API)."""
_OPENAI = ("openai", "openai-responses")
_PROVIDERS = (*_OPENAI, "anthropic", "gemini")


def legal_name(name: str) -> str:
    """Return a name within `[A-Za-z0-9_-]{1,64}`. A changed name ends in a hash of the original."""
    if len(name) <= MAX_NAME and name and not _ILLEGAL.search(name):
        return name
    return f"{_ILLEGAL.sub('_', name)[: MAX_NAME - 9]}_{_hash(name)}"


def _hash(text: str) -> str:
    from hashlib import sha256

    return sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:8]


def legal_names(names: Iterable[str]) -> dict[str, str]:
    """Return each name with its legal form. All legal forms differ."""
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


def definition(
    tool: ToolFields, schema: Json, dialect: Dialect = "openai", *, compact: bool = False, name: str | None = None
) -> Json:
    """Return a tool's definition in a dialect. Its schema is a copy: callers may change it.

    Raises ValueError if the dialect is unknown.
    """
    if dialect not in DIALECTS:
        raise ValueError(f"unknown dialect {dialect!r}; known: {', '.join(DIALECTS)}")
    withheld = tool.unaccepted
    text = WITHHELD if withheld else tool.summary if compact else tool.description
    body: Json = {"name": name or legal_name(tool.name), "description": text}
    schema = cast("Json", json.loads(json.dumps(schema, default=str)))
    if withheld:
        schema = without_texts(schema)
    elif compact:
        _compact(schema)
    if dialect in _PROVIDERS:
        schema = one_object(schema, plain_names=dialect == "anthropic")
    if dialect in _OPENAI:
        body["description"] = clip(text, MAX_DESCRIPTION)
    if dialect == "mcp":
        return _mcp(tool, body, schema)
    if dialect == "gemini":
        if schema.get("properties"):  # Gemini refuses an object without properties
            body["parameters"] = gemini_schema(schema)
        return body
    strict = strict_schema(schema) if tool.strict and dialect != "flat" else None
    if dialect in ("anthropic", "flat"):
        body["input_schema"] = schema
        if strict is not None:
            body["strict"] = True
        return body
    body["parameters"] = schema if strict is None else strict
    if strict is not None or dialect == "openai-responses":
        body["strict"] = strict is not None
    return {"type": "function", "function": body} if dialect == "openai" else {"type": "function", **body}


AS_SAID = "toolcrib/as-said"
"""In `Tool.mcp_fields`: send these annotations only, and add none of our own."""


SHOWN = "toolcrib/name"
"""In `Tool.mcp_fields`: the name that MCP clients see, one of the tool's own `names`."""


def _mcp(tool: ToolFields, body: Json, schema: Json) -> Json:
    more = cast("Json", json.loads(json.dumps(dict(tool.mcp_fields))))
    as_said, shown = more.pop(AS_SAID, False), more.pop(SHOWN, body["name"])
    if tool.unaccepted:
        return {**body, "name": shown, "inputSchema": schema}
    body = {**more, **body, "name": shown, "inputSchema": schema}
    if tool.title:
        body["title"] = tool.title
    if tool.output_schema is not None:
        body["outputSchema"] = dict(tool.output_schema)
    if as_said:
        return body
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
    said: Json = more.get("annotations") or {}
    body["annotations"] = {**({"title": said["title"]} if isinstance(said.get("title"), str) else {}), **hints}
    return body


WITHHELD = (
    "What the server says of this tool is new or has changed. A person must accept it before it is shown; until then "
    "every call asks."
)
"""The description that a model reads of a tool that needs review: it would follow another one like an order."""
_STRUCTURE = frozenset({
    "type", "properties", "required", "additionalProperties", "items", "prefixItems", "anyOf", "oneOf", "allOf", "$ref",
    "$defs", "definitions", "minimum", "maximum", "minItems", "maxItems", "minLength", "maxLength",
})  # fmt: skip


_NAME = lazy_regex(r"[\w.$-]{1,64}")


def without_texts(node: Any, is_map: bool = False) -> Any:
    """Return the structure of a schema: types and names. `is_map`: the keys are names, not keywords. A name that could
    be a sentence is left out."""
    if isinstance(node, list):
        return [without_texts(each) for each in cast("list[Any]", node) if not _is_sentence(each)]
    if not isinstance(node, dict):
        return node
    return {
        key: without_texts(value, not is_map and key in ("properties", "$defs", "definitions"))
        for key, value in cast("Json", node).items()
        if (_NAME.fullmatch(key) if is_map else key in _STRUCTURE) and not _is_sentence(value)
    }


def _is_sentence(value: Any) -> bool:
    """Whether a value of a schema's structure is text, and neither a name nor a path of names."""
    return isinstance(value, str) and not all(map(_NAME.fullmatch, value.removeprefix("#/").split("/")))


def _compact(schema: Json) -> None:
    """Shorten descriptions to their first sentence, in place."""
    from .functions import first_sentence

    for each in sub_schemas(schema):
        if isinstance(each.get("description"), str):
            each["description"] = first_sentence(each["description"])


# --- strict ----------------------------------------------------------------------------------------------

_STRICT_KEYWORDS = frozenset({
    "type", "properties", "required", "additionalProperties", "description", "enum", "const", "items", "anyOf",
    "$ref", "$defs", "title", "default", "pattern", "format", "multipleOf", "maximum", "exclusiveMaximum",
    "minimum", "exclusiveMinimum", "minItems", "maxItems",
})  # fmt: skip


def strict_schema(schema: Json) -> Json | None:
    """Return the schema under OpenAI's strict rules: all properties required, optional ones nullable, objects closed.

    Returns None if strict mode cannot express it (free-form objects, unsupported keywords).
    """
    try:
        return _strict(schema)
    except _NotStrict:
        return None


class _NotStrict(Exception):
    pass


def _strict(node: Json) -> Json:
    if not set(node) <= _STRICT_KEYWORDS:
        raise _NotStrict
    if "$ref" in node and "$defs" not in node:  # strict mode accepts no other keyword next to it
        return {"$ref": node["$ref"]}
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
        self._merge_all(schema)
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
        if out.get("type") == "array" and not out.get("items"):  # Gemini refuses an array without their type
            out["items"] = {"type": "string"}
        if said:
            text = out.get("description", "")
            out["description"] = f"{text}{' ' if text else ''}({'; '.join(said)})"
        return out

    def _merge_all(self, schema: Json) -> None:
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
