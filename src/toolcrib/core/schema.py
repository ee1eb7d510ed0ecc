"""Makes a JSON Schema and a strict validator, from annotations or from raw JSON Schema.

Two classes have the same methods: `TypedArguments` (a function's annotations, through one pydantic-core
`arguments` validator: JSON text in, keyword arguments out, nothing in between) and `RawArguments` (a JSON
Schema given as it is, through jsonschema-rs). Both are strict: a bool is not a number, unknown keys are errors,
only finite numbers. Leniency lives in `coerce`, on the failure path only.
"""

from __future__ import annotations

import functools
import inspect
import math
import typing
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Annotated, Any, Literal, cast

from .errors import InvalidArguments, ToolDefinitionError, Violation
from .functions import Docstring, Parameters
from .nesting import check_depth, deepest, is_opaque, nodes
from .text import lazy_regex
from .violations import MISSING_KINDS, UNKNOWN_KINDS, Json, resolve, typed_violations

if TYPE_CHECKING:
    from pydantic.json_schema import GenerateJsonSchema
    from pydantic_core import ErrorDetails, ValidationError

COMPOSING = ("$ref", "$dynamicRef", "anyOf", "allOf", "oneOf", "if", "not", "dependentSchemas", "patternProperties")
"""Keywords that add properties from elsewhere: with one of them, a key cannot be called unknown."""


Beyond = Callable[[Any, str, str], bool]
MANY_ERRORS = 1_000
"""With more errors than this only the first of each array is reported: pydantic collects all, even 500,000."""

_UNTYPED = frozenset({"any", "json", "dict", "function-before", "function-wrap", "function-plain"})
_MAYBE_INFINITE = lazy_regex(r"NaN|Infinity|[0-9][eE]\+?[0-9]{3}|[0-9]{200}")
"""Found in every JSON text with a number that is not finite."""


# --- typed -----------------------------------------------------------------------------------------------


class TypedArguments:
    """Arguments of a typed function: JSON Schema from its annotations, validation by pydantic-core."""

    def __init__(self, parameters: Parameters, doc: Docstring, owner: str) -> None:
        from pydantic import ConfigDict, PydanticUndefinedAnnotation, PydanticUserError
        from pydantic.experimental.arguments_schema import generate_arguments_schema
        from pydantic_core import CoreConfig, SchemaError, SchemaValidator, ValidationError

        if parameters.variadic is not None:
            text = f"{owner}: *{parameters.variadic} has no name a model could use; take a list instead"
            raise ToolDefinitionError(text)
        if parameters.whole is not None:
            text = f"{owner}: {parameters.whole!r} is positional-only; without a schema the arguments are keywords"
            raise ToolDefinitionError(text)
        if parameters.untyped:
            name, *more = parameters.untyped
            named = f"{', '.join(map(repr, parameters.untyped))} {'have' if more else 'has'} no type"
            raise ToolDefinitionError(
                f"{owner}: {named}, so a model would not know what to give; annotate it, as in `{name}: str`, or "
                f"`{name}: Any`"
            )

        def stub(**_: Any) -> None: ...

        stub.__annotations__ = {p.name: p.annotation for p in parameters.visible}
        cast("Any", stub).__signature__ = inspect.Signature(parameters.visible)
        try:
            core = _closed(generate_arguments_schema(stub, "arguments", config=ConfigDict(allow_inf_nan=False)))
            # `_use_prebuilt=False`: else pydantic uses a model's own validator, which ignores unknown keys
            validator = SchemaValidator(core, CoreConfig(allow_inf_nan=False), _use_prebuilt=False)
        except (PydanticUserError, PydanticUndefinedAnnotation, SchemaError) as error:
            raise _no_schema(owner, error) from error
        self._core, self._failure, self._owner = core, ValidationError, owner
        self._texts = [(p, text) for p in parameters.visible if (text := doc.parameters.get(p.name))]
        self._validate = validator.validate_json
        self.closed = not any(p.kind is p.VAR_KEYWORD for p in parameters.visible)
        self._deepest = deepest(core)
        self._open = any(node.get("type") in _UNTYPED for node in nodes(core))  # an untyped value could hold infinity

    @functools.cached_property
    def schema(self) -> Json:
        """The JSON Schema. A call needs it only to explain what is wrong. Raises ToolDefinitionError."""
        from pydantic import PydanticUserError

        try:
            schema = generate(self._core, "validation")
        except PydanticUserError as error:
            raise _no_schema(self._owner, error) from error
        properties, core = schema["properties"], self._core.get("schema", self._core)
        aliases = {each["name"]: each.get("alias") for each in core["arguments_schema"]}
        for parameter, text in self._texts:  # not as a `Field` of each annotation: pydantic takes long for those
            alias, name = aliases.get(parameter.name), parameter.name
            key = alias if isinstance(alias, str) else name
            if name in aliases and not _has_description(parameter.annotation):
                properties[key] = dict(sorted({**properties[key], "description": text}.items()))
        return schema

    def parse(self, text: str | bytes) -> dict[str, Any]:
        """Strictly validate JSON text; returns keyword arguments. Raises ValueError of some kind."""
        if self._deepest is not None:
            check_depth(text, self._deepest)
        kwargs: dict[str, Any] = self._validate(text, strict=True)[1]
        if text[:1] != "{" and not _is_object(text):  # an array would be positional arguments, perhaps none
            raise InvalidArguments([Violation("", "arguments should be an object, not an array")])
        if self._open:
            check_finite(text)
        return kwargs

    def explain(self, error: ValueError, text: str | bytes) -> list[Violation]:
        """All that was wrong, after `parse(text)` raised `error`."""
        if isinstance(error, InvalidArguments):
            return error.violations
        if not isinstance(error, self._failure):
            return [Violation("", str(error)[:500])]
        return typed_violations(self._errors(error, text), text, self.schema)

    def final(
        self, error: ValueError, text: str | bytes, aliases: Mapping[str, str], beyond: Beyond
    ) -> list[Violation] | None:
        """The violations, if no repair or coercion can help; else None. Only a shortcut: None is always correct.
        `beyond` returns whether a value that did not fit has no conversion."""
        if not self.closed or not isinstance(error, self._failure) or error.error_count() > MANY_ERRORS:
            return None
        errors = error.errors(include_url=False)
        for item in errors:
            kind, value = item["type"], item["input"]
            if kind in MISSING_KINDS:
                continue
            if kind in UNKNOWN_KINDS:
                key = item["loc"][-1]
                if len(item["loc"]) == 1 and (key in aliases or key in WRAPPERS):
                    return None
            elif kind == "json_invalid" or not beyond(value, kind, item.get("ctx", {}).get("expected", "")):
                return None
        return typed_violations(errors, text, self.schema)

    def _errors(self, error: ValidationError, text: str | bytes) -> list[ErrorDetails]:
        if error.error_count() > MANY_ERRORS:
            try:
                self._fail_fast.validate_json(text, strict=True)
            except ValueError as fewer:
                if isinstance(fewer, self._failure):
                    error = fewer
        return error.errors(include_url=False)

    @functools.cached_property
    def _fail_fast(self) -> Any:
        """The same validator, but the first wrong item of an array ends it."""
        from pydantic_core import CoreConfig, SchemaValidator

        core = _closed(self._core)  # a copy
        for node in nodes(core):
            if node.get("type") in ("list", "set", "frozenset", "tuple"):
                node["fail_fast"] = True
        return SchemaValidator(core, CoreConfig(allow_inf_nan=False), _use_prebuilt=False)


def _no_schema(owner: str, error: Exception) -> ToolDefinitionError:
    return ToolDefinitionError(f"{owner}: no JSON Schema for its parameters: {error}")


WRAPPERS = ("arguments", "input", "parameters")
"""Keys that models wrap all arguments in."""


def _is_object(text: str | bytes) -> bool:
    return text.lstrip()[:1] in ("{", b"{")


def _has_description(annotation: Any) -> bool:
    from pydantic.fields import FieldInfo

    return typing.get_origin(annotation) is Annotated and any(
        isinstance(m, FieldInfo) and m.description for m in annotation.__metadata__
    )


def _closed(node: Any, config: Mapping[str, Any] | None = None) -> Any:
    """Return a copy of a core schema in which typed objects that do not say otherwise forbid unknown keys."""
    if isinstance(node, list):
        return [_closed(item, config) for item in cast("list[Any]", node)]
    if isinstance(node, tuple):
        return tuple(_closed(item, config) for item in cast("tuple[Any, ...]", node))
    if not isinstance(node, dict):
        return node
    source = cast("Json", node)
    inner = cast("Mapping[str, Any] | None", source.get("config")) or config
    copy: Json = {key: value if is_opaque(source, key) else _closed(value, inner) for key, value in source.items()}
    if copy.get("type") in ("model-fields", "dataclass-args"):
        if "extra_behavior" not in copy and (inner or {}).get("extra_fields_behavior") is None:
            copy["extra_behavior"] = "forbid"
    elif copy.get("type") == "typed-dict" and "extras_schema" not in copy:
        stated: Mapping[str, Any] = getattr(copy.get("cls"), "__pydantic_config__", {})
        copy["extra_behavior"] = stated.get("extra", "forbid")  # pydantic writes "ignore" by default too
    return copy


def check_finite(text: str | bytes) -> None:
    """Raise InvalidArguments if a number in valid JSON text is not finite."""
    if isinstance(text, bytes):
        text = text.decode()
    if _MAYBE_INFINITE.search(text):
        from pydantic_core import from_json

        if not _finite(from_json(text)):
            raise InvalidArguments([Violation("", "numbers must be finite")])


def _finite(value: Any) -> bool:
    if isinstance(value, float):
        return math.isfinite(value)
    if isinstance(value, dict):
        return all(_finite(v) for v in cast("Json", value).values())
    if isinstance(value, list):
        return all(_finite(v) for v in cast("list[Any]", value))
    return True


def core_schema(annotation: Any) -> Any:
    """Return pydantic's core schema of a type. (A TypeAdapter has it, too, but also builds a validator and a
    serializer, and looks for plugins of pydantic in all installed packages.)"""
    from pydantic.experimental.arguments_schema import generate_arguments_schema

    def stub(value: Any) -> None: ...

    stub.__annotations__ = {"value": annotation}
    core: Any = generate_arguments_schema(stub, "arguments")
    if core["type"] == "definitions":
        return {**core, "schema": core["schema"]["arguments_schema"][0]["schema"]}
    return core["arguments_schema"][0]["schema"]


def generate(core: Any, mode: Literal["validation", "serialization"]) -> Json:
    """Return the JSON Schema of a pydantic core schema, without the titles that only repeat names."""
    schema: Json = _generator()(ref_template="#/$defs/{model}").generate(core, mode=mode)
    defs = cast("Json", schema.get("$defs", {}))
    for name, definition in defs.items():
        if definition.get("title") == name:
            del definition["title"]
    if isinstance(schema.get("$ref"), str):
        return {**resolve(schema, schema), "$defs": defs}
    ordered: Json = {"type": schema.get("type", "object"), "properties": schema.get("properties", {})}
    for key in ("required", "additionalProperties", "$defs"):
        if key in schema:
            ordered[key] = schema[key]
    return ordered


@functools.cache
def _generator() -> type[GenerateJsonSchema]:
    """Return pydantic's generator with our changes."""
    from pydantic.json_schema import GenerateJsonSchema

    class Untitled(GenerateJsonSchema):
        """Omit titles: they cost tokens and add nothing."""

        def field_title_should_be_set(self, schema: Any) -> bool:
            return False

        def model_schema(self, schema: Any) -> Json:
            return _said_closed(super().model_schema(schema), schema)

        def dataclass_schema(self, schema: Any) -> Json:
            return _said_closed(super().dataclass_schema(schema), schema)

        def typed_dict_schema(self, schema: Any) -> Json:
            return _said_closed(super().typed_dict_schema(schema), schema)

        def encode_default(self, dft: Any) -> Any:
            # Otherwise pydantic makes a validator of the default's type, for each default.
            if dft is None or type(dft) in (str, bool, int) or (type(dft) is float and math.isfinite(dft)):
                return dft
            return super().encode_default(dft)

    return Untitled


def _said_closed(said: Json, core: Json) -> Json:
    """Return the JSON Schema of a typed object with `additionalProperties: false` where its validator forbids them."""
    inner = core
    while "extra_behavior" not in inner and isinstance(inner.get("schema"), dict):
        inner = cast("Json", inner["schema"])
    if inner.get("extra_behavior") == "forbid":
        said.setdefault("additionalProperties", False)
    return said


# --- raw -------------------------------------------------------------------------------------------------


def full_schema(parameters: Mapping[str, Any]) -> Json:
    """Return a complete object schema, from one or from a map of properties. Raises ToolDefinitionError."""
    composed = any(isinstance(parameters.get(key), list) for key in ("anyOf", "allOf", "oneOf"))
    if parameters.get("type") == "object" or isinstance(parameters.get("$ref"), str) or composed:
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


class RawArguments:
    """Arguments of a tool given by JSON Schema; validation by jsonschema-rs. `closed`: where the schema does not say
    whether further arguments are allowed, they are not."""

    def __init__(self, schema: Mapping[str, Any], owner: str, *, closed: bool = True) -> None:
        from pydantic_core import from_json

        from .json_schema import compile_schema

        self.schema: Json = dict(schema)
        checked = dict(self.schema)
        checked.setdefault("type", "object")
        if closed and not any(key in checked for key in COMPOSING):
            checked.setdefault("additionalProperties", False)
        self.closed = checked.get("additionalProperties") is False
        self._compiled = compile_schema(checked, owner)
        self._is_valid = self._compiled.is_valid
        self._load = from_json

    def parse(self, text: str | bytes) -> dict[str, Any]:
        value = self._load(text, allow_inf_nan=False)
        if not self._is_valid(value):
            raise _Misfit(value)
        check_finite(text)
        return value

    def explain(self, error: ValueError, text: str | bytes) -> list[Violation]:
        if isinstance(error, _Misfit):
            return self._compiled.violations(error.value)
        return error.violations if isinstance(error, InvalidArguments) else [Violation("", f"not valid JSON: {error}")]

    def final(
        self, error: ValueError, text: str | bytes, aliases: Mapping[str, str], beyond: Beyond
    ) -> list[Violation] | None:
        return None


class _Misfit(ValueError):
    """A value that does not fit its schema."""

    def __init__(self, value: Any) -> None:
        super().__init__()
        self.value = value
