"""From annotations or raw JSON Schema to a schema to publish and a strict validator to run.

Two kinds share one interface: `TypedArguments` (a function's annotations, through one pydantic-core
`arguments` validator: JSON text in, keyword arguments out, nothing in between) and `RawArguments` (a JSON
Schema given as it is, through jsonschema-rs). Both are strict: bool is no number, unknown keys are errors,
only finite numbers. Leniency lives in `coerce`, on the failure path only.
"""

from __future__ import annotations

import inspect
import math
import re
import typing
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Protocol, cast

from .context import ToolContext
from .docstrings import Docstring
from .errors import InvalidArguments, ToolDefinitionError, Violation

Json = dict[str, Any]

COMPOSING = (
    "$ref",
    "$dynamicRef",
    "anyOf",
    "allOf",
    "oneOf",
    "if",
    "not",
    "dependentSchemas",
    "patternProperties",
)
"""Keywords that let a schema compose its properties elsewhere; where one stands, unknown keys cannot be judged."""


class Arguments(Protocol):
    """What the pipeline needs to know of a tool's parameters."""

    schema: Json
    closed: bool  # whether unknown top-level keys are errors

    def parse(self, text: str | bytes) -> dict[str, Any]:
        """Strictly validate JSON text; returns keyword arguments. Raises ValueError of some kind."""
        ...

    def violations(self, text: str | bytes) -> list[Violation]:
        """All the ways in which JSON text does not fit; empty if it does."""
        ...


# --- typed -----------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Parameters:
    """A function's visible parameters, with resolved annotations, and the name its context goes to."""

    visible: tuple[inspect.Parameter, ...]
    context: str | None


def _is_context(annotation: Any) -> bool:
    if annotation is ToolContext:
        return True
    if typing.get_origin(annotation) is Annotated:
        return _is_context(typing.get_args(annotation)[0])
    args = typing.get_args(annotation)
    return bool(args) and ToolContext in args and all(a in (ToolContext, type(None)) for a in args)


def read_parameters(fn: Callable[..., Any], owner: str) -> Parameters:
    """Resolve a function's annotations and split off the context parameter."""
    target = fn if inspect.isroutine(fn) or inspect.isclass(fn) else getattr(fn, "__call__", fn)  # noqa: B004
    try:
        signature = inspect.signature(fn)
        hints = typing.get_type_hints(getattr(target, "__func__", target), include_extras=True)
    except (NameError, TypeError, ValueError) as error:
        raise ToolDefinitionError(f"{owner}: cannot read its annotations: {error}") from error
    visible: list[inspect.Parameter] = []
    context: str | None = None
    for name, parameter in signature.parameters.items():
        annotation: Any = hints.get(name, Any)
        if _is_context(annotation):
            if context is not None:
                raise ToolDefinitionError(f"{owner}: two parameters are annotated ToolContext")
            if parameter.kind is parameter.POSITIONAL_ONLY:
                raise ToolDefinitionError(f"{owner}: the context parameter {name!r} must not be positional-only")
            context = name
            continue
        if parameter.kind is parameter.VAR_POSITIONAL:
            raise ToolDefinitionError(f"{owner}: *{name} has no name a model could use; take a list instead")
        if parameter.kind is parameter.POSITIONAL_ONLY:
            raise ToolDefinitionError(f"{owner}: {name!r} is positional-only; tools are called by keyword")
        kind = parameter.kind if parameter.kind is parameter.VAR_KEYWORD else parameter.KEYWORD_ONLY
        visible.append(parameter.replace(kind=kind, annotation=annotation))
    return Parameters(tuple(visible), context)


class TypedArguments:
    """Arguments of a typed function: JSON Schema from its annotations, validation by pydantic-core."""

    def __init__(self, parameters: Parameters, doc: Docstring, owner: str) -> None:
        from pydantic import ConfigDict, PydanticUserError, TypeAdapter
        from pydantic.errors import PydanticSchemaGenerationError
        from pydantic_core import SchemaError, SchemaValidator, core_schema

        def stub(**_: Any) -> None: ...

        described = [_describe(p, doc.parameters.get(p.name)) for p in parameters.visible]
        stub.__annotations__ = {p.name: p.annotation for p in described}
        cast("Any", stub).__signature__ = inspect.Signature([p.replace(annotation=p.annotation) for p in described])
        try:
            adapter: Any = TypeAdapter(cast("Any", stub), config=ConfigDict(allow_inf_nan=False))
            core = _arguments_schema(adapter.core_schema)
            self.schema: Json = _generate(core)
            # `_use_prebuilt=False`: else a model's own validator, which ignores unknown keys, stands in for ours
            validator = SchemaValidator(core, core_schema.CoreConfig(allow_inf_nan=False), _use_prebuilt=False)
        except (PydanticUserError, PydanticSchemaGenerationError, SchemaError) as error:
            raise ToolDefinitionError(f"{owner}: no JSON Schema for its parameters: {error}") from error
        self._validate = validator.validate_json
        self.closed = not any(p.kind is p.VAR_KEYWORD for p in parameters.visible)
        self._open = _has_untyped(core)  # an untyped value could hold infinity

    def parse(self, text: str | bytes) -> dict[str, Any]:
        kwargs: dict[str, Any] = self._validate(text, strict=True)[1]
        if self._open and not _finite(kwargs):
            raise InvalidArguments([Violation("", "numbers must be finite")])
        return kwargs

    def violations(self, text: str | bytes) -> list[Violation]:
        from pydantic import ValidationError

        try:
            self.parse(text)
        except ValidationError as error:
            return [
                _typed_violation(cast("dict[str, Any]", e), self.schema)
                for e in error.errors(include_url=False, include_context=True)
            ]
        except InvalidArguments as error:
            return error.violations
        return []


def _describe(parameter: inspect.Parameter, text: str | None) -> inspect.Parameter:
    """The parameter with its docstring's description, unless its annotation has one already."""
    if not text or parameter.kind is parameter.VAR_KEYWORD:
        return parameter
    from pydantic import Field
    from pydantic.fields import FieldInfo

    annotation = parameter.annotation
    if typing.get_origin(annotation) is Annotated and any(
        isinstance(m, FieldInfo) and m.description for m in annotation.__metadata__
    ):
        return parameter
    return parameter.replace(annotation=Annotated[annotation, Field(description=text)])


def _arguments_schema(core: Json) -> Any:
    """The `arguments` schema inside a `call` schema, its typed objects closed to unknown keys."""
    if core["type"] == "definitions":
        return {**_closed(core), "schema": _arguments_schema(core["schema"])}
    if core["type"] == "call":
        return _closed(core["arguments_schema"])
    return _closed(core)


def _closed(node: Any, config: Mapping[str, Any] | None = None) -> Any:
    """A copy of a core schema in which typed objects that do not say otherwise forbid unknown keys."""
    if isinstance(node, list):
        return [_closed(item, config) for item in cast("list[Any]", node)]
    if isinstance(node, tuple):
        return tuple(_closed(item, config) for item in cast("tuple[Any, ...]", node))
    if not isinstance(node, dict):
        return node
    source = cast("Json", node)
    inner = cast("Mapping[str, Any] | None", source.get("config")) or config
    copy: Json = {
        key: value if key in ("config", "metadata", "serialization", "cls") else _closed(value, inner)
        for key, value in source.items()
    }
    if copy.get("type") in ("model-fields", "typed-dict", "dataclass-args"):
        stated = (inner or {}).get("extra_fields_behavior")
        if "extra_behavior" not in copy and stated is None:
            copy["extra_behavior"] = "forbid"
    return copy


def _has_untyped(node: Any) -> bool:
    if isinstance(node, list | tuple):
        return any(_has_untyped(item) for item in cast("list[Any]", node))
    if not isinstance(node, dict):
        return False
    schema = cast("Json", node)
    if schema.get("type") in ("any", "json", "dict", "function-before", "function-wrap", "function-plain"):
        return True
    return any(_has_untyped(v) for k, v in schema.items() if k not in ("metadata", "serialization", "config"))


def _finite(value: Any) -> bool:
    if isinstance(value, float):
        return math.isfinite(value)
    if isinstance(value, dict):
        return all(_finite(v) for v in cast("Json", value).values())
    if isinstance(value, list):
        return all(_finite(v) for v in cast("list[Any]", value))
    return True


def _generate(core: Any) -> Json:
    from pydantic.json_schema import GenerateJsonSchema

    class Untitled(GenerateJsonSchema):
        """Leaves out the titles that repeat names: they cost a model tokens and say nothing."""

        def field_title_should_be_set(self, schema: Any) -> bool:
            return False

    schema: Json = Untitled(ref_template="#/$defs/{model}").generate(core, mode="validation")
    defs = cast("Json", schema.get("$defs", {}))
    for name, definition in defs.items():
        if definition.get("title") == name:
            del definition["title"]
    ordered: Json = {"type": "object", "properties": schema.get("properties", {})}
    for key in ("required", "additionalProperties", "$defs"):
        if key in schema:
            ordered[key] = schema[key]
    return ordered


# --- raw -------------------------------------------------------------------------------------------------


def full_schema(parameters: Mapping[str, Any]) -> Json:
    """A complete object schema from either a complete one or a bare map of properties (spec 1.2)."""
    if parameters.get("type") == "object":
        return dict(parameters)
    if isinstance(parameters.get("$ref"), str) or any(
        isinstance(parameters.get(key), list) for key in ("anyOf", "allOf", "oneOf")
    ):
        return dict(parameters)
    properties: Json = {}
    for name, value in parameters.items():
        if isinstance(value, str):  # {"p": "string"}, the shorthand of command tools
            properties[name] = {"type": value}
        elif isinstance(value, Mapping):
            properties[name] = dict(cast("Mapping[str, Any]", value))
        else:
            raise ToolDefinitionError(f"parameter {name!r}: expected a JSON Schema object, got {value!r}")
    return {
        "type": "object",
        "properties": properties,
        "required": [name for name, value in properties.items() if "default" not in value],
    }


def _refuse_remote(uri: str) -> Any:
    raise ValueError(f"remote references are not followed: {uri}")


def compile_schema(schema: Json, owner: str) -> Any:
    """A jsonschema-rs validator that never fetches anything."""
    import jsonschema_rs

    try:
        return jsonschema_rs.validator_for(schema, retriever=_refuse_remote)
    except Exception as error:  # its errors share no base class
        raise ToolDefinitionError(f"{owner}: not a valid JSON Schema: {str(error).splitlines()[0]}") from error


class RawArguments:
    """Arguments of a tool given by JSON Schema; validation by jsonschema-rs."""

    def __init__(self, schema: Mapping[str, Any], owner: str) -> None:
        from pydantic_core import from_json

        self.schema: Json = dict(schema)
        checked = dict(self.schema)
        checked.setdefault("type", "object")
        if not any(key in checked for key in COMPOSING):
            checked.setdefault("additionalProperties", False)
        self.closed = checked.get("additionalProperties") is False
        self._validator = compile_schema(checked, owner)
        self._is_valid = self._validator.is_valid
        self._load = from_json

    def parse(self, text: str | bytes) -> dict[str, Any]:
        value = self._load(text, allow_inf_nan=False)
        if not self._is_valid(value) or not _finite(value):
            raise InvalidArguments(self._explain(value))
        return value

    def violations(self, text: str | bytes) -> list[Violation]:
        try:
            value = self._load(text, allow_inf_nan=False)
        except ValueError as error:
            return [Violation("", f"not valid JSON: {error}")]
        if self._is_valid(value) and _finite(value):
            return []
        return self._explain(value)

    def _explain(self, value: Any) -> list[Violation]:
        found = [v for e in self._validator.iter_errors(value) for v in _raw_violations(e, self.schema)]
        return found or [Violation("", "numbers must be finite")]


# --- the texts -------------------------------------------------------------------------------------------


def path_text(location: typing.Sequence[str | int]) -> str:
    """`("items", 0, "name")` as `items[0].name`."""
    text = ""
    for part in location:
        text += f"[{part}]" if isinstance(part, int) else (f".{part}" if text else part)
    return text


def show(value: Any, limit: int = 60) -> str:
    """A value as short JSON-like text for an error message."""
    from pydantic_core import to_json

    try:
        text = to_json(value).decode()
    except Exception:
        text = repr(value)
    return text if len(text) <= limit else text[: limit - 1] + "…"


_JSON_NAMES: dict[Any, str] = {
    bool: "a boolean", int: "an integer", float: "a number", str: "a string",
    list: "an array", dict: "an object", type(None): "null",
}  # fmt: skip


def kind_of(value: Any) -> str:
    """What JSON calls a value, with its article."""
    return _JSON_NAMES.get(type(value), type(value).__name__)


_ARTICLES = {"integer": "an integer", "array": "an array", "object": "an object", "null": "null"}


def _article(kind: str) -> str:
    return _ARTICLES.get(kind, f"a {kind}")


_TYPED_KINDS = {
    "string_type": "string", "int_type": "integer", "int_from_float": "integer", "float_type": "number",
    "bool_type": "boolean", "list_type": "array", "tuple_type": "array", "set_type": "array",
    "dict_type": "object", "model_type": "object", "dataclass_type": "object", "none_required": "null",
    "model_attributes_type": "object", "typed_dict_type": "object", "int_parsing": "integer",
    "float_parsing": "number", "bool_parsing": "boolean", "mapping_type": "object",
}  # fmt: skip

_TYPED_BOUNDS = {
    "greater_than_equal": (">=", "ge"), "greater_than": (">", "gt"),
    "less_than_equal": ("<=", "le"), "less_than": ("<", "lt"),
}  # fmt: skip


def _typed_violation(error: dict[str, Any], schema: Json) -> Violation:
    kind: str = error["type"]
    location = [p for p in error["loc"] if isinstance(p, int) or not _is_tag(p)]
    path = path_text(location)
    name = path or "arguments"
    value = error.get("input")
    context: Json = error.get("ctx") or {}
    if kind in (
        "missing",
        "missing_argument",
        "missing_keyword_only_argument",
        "missing_positional_only_argument",
    ):
        return Violation(path, f"missing required {name}")
    if kind in ("unexpected_keyword_argument", "extra_forbidden"):
        return Violation(path, unknown_key(path, location, schema))
    if kind == "unexpected_positional_argument" or kind == "arguments_type":
        return Violation("", f"arguments should be an object, not {kind_of(value)}")
    if kind == "json_invalid":
        return Violation("", f"not valid JSON: {context.get('error', error['msg'])}")
    if kind in _TYPED_KINDS:
        return Violation(path, f"{name} should be {_article(_TYPED_KINDS[kind])}, got {show(value)}")
    if kind in _TYPED_BOUNDS:
        sign, key = _TYPED_BOUNDS[kind]
        return Violation(path, f"{name} must be {sign} {context.get(key)}, got {show(value)}")
    if kind in ("literal_error", "enum"):
        return Violation(path, f"{name} must be one of {context.get('expected')}, got {show(value)}")
    if kind == "finite_number":
        return Violation(path, f"{name} must be a finite number")
    message: str = error["msg"]
    message = re.sub(r"^(Input should|Value error,|Assertion failed,|Value should)\s*", "", message)
    lead = "should " if error["msg"].startswith(("Input should", "Value should")) else ""
    return Violation(path, f"{name} {lead}{message}, got {show(value)}" if lead else f"{name}: {message}")


def _is_tag(part: str) -> bool:
    """Whether a location part is pydantic's label of a union member, not a key."""
    return bool(re.fullmatch(r"(function-\w+|nullable|lax-or-strict|json-or-python)?\[.*\]|[a-z-]+\[.*\]", part))


def _resolve(schema: Any, root: Json) -> Json:
    seen = 0
    while isinstance(schema, dict) and isinstance(schema.get("$ref"), str) and seen < 16:  # type: ignore[reportUnknownMemberType]
        ref = cast("Json", schema)["$ref"]
        node: Any = root
        if not ref.startswith("#"):
            return {}
        for part in ref.lstrip("#/").split("/") if ref != "#" else ():
            part = part.replace("~1", "/").replace("~0", "~")
            node = cast("Json", node).get(part) if isinstance(node, dict) else None
        schema, seen = node, seen + 1
    return cast("Json", schema) if isinstance(schema, dict) else {}


def resolve(schema: Any, root: Json) -> Json:
    """A sub-schema with its local `$ref`s followed; {} where there is nothing to follow."""
    return _resolve(schema, root)


def known_keys(location: typing.Sequence[str | int], root: Json) -> list[str]:
    """The property names that a schema knows at a place, through local references and unions."""
    nodes = [_resolve(root, root)]
    for part in location:
        following: list[Json] = []
        for node in _alternatives(nodes, root):
            child: Any = node.get("items") if isinstance(part, int) else node.get("properties", {}).get(part)
            if child is None and not isinstance(part, int):
                child = node.get("additionalProperties")
            if isinstance(child, dict):
                following.append(_resolve(child, root))
        nodes = following
    return sorted({key for node in _alternatives(nodes, root) for key in node.get("properties", {})})


def _alternatives(nodes: list[Json], root: Json, depth: int = 4) -> list[Json]:
    found = list(nodes)
    if depth:
        for node in nodes:
            for key in ("anyOf", "oneOf", "allOf"):
                branches = [_resolve(b, root) for b in node.get(key, ())]
                found += _alternatives(branches, root, depth - 1)
    return found


def unknown_key(path: str, location: typing.Sequence[str | int], schema: Json) -> str:
    """The text for a key that the schema does not know, with the closest known one."""
    from rapidfuzz import process

    key = str(location[-1])
    keys = known_keys(location[:-1], schema)
    best = process.extractOne(key, keys, score_cutoff=60)
    if best is not None:
        return f"unknown parameter {path}; did you mean {best[0]}?"
    listed = ", ".join(keys[:20]) + (", …" if len(keys) > 20 else "")
    return f"unknown parameter {path}; known: {listed}" if keys else f"unknown parameter {path}; none are taken here"


_RAW_BOUNDS = {"minimum": ">=", "exclusiveMinimum": ">", "maximum": "<=", "exclusiveMaximum": "<"}


def _raw_violations(error: Any, schema: Json) -> list[Violation]:
    location = list(error.instance_path)
    path = path_text(location)
    name = path or "arguments"
    value = error.instance
    kind = error.kind
    keyword = str(error.schema_path[-1]) if error.schema_path else ""
    if keyword == "required":
        missing = path_text([*location, kind.property])
        return [Violation(missing, f"missing required {missing}")]
    if keyword in ("additionalProperties", "unevaluatedProperties") and hasattr(kind, "unexpected"):
        places = [[*location, key] for key in kind.unexpected]
        return [Violation(path_text(p), unknown_key(path_text(p), p, schema)) for p in places]
    if keyword == "type":
        kinds = " or ".join(_article(str(t)) for t in kind.types)
        return [Violation(path, f"{name} should be {kinds}, got {show(value)}")]
    if keyword == "enum":
        options = ", ".join(show(o) for o in kind.options)
        return [Violation(path, f"{name} must be one of {options}, got {show(value)}")]
    if keyword in _RAW_BOUNDS:
        return [Violation(path, f"{name} must be {_RAW_BOUNDS[keyword]} {kind.limit}, got {show(value)}")]
    message: str = error.message
    return [Violation(path, f"{name}: {message[:200]}")]
