"""Describes wrong arguments so that a model can correct them: a path, the expected value, and the received value."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Any, cast

from .errors import Violation
from .json_values import as_object, value_at
from .text import clip, lazy_regex

if TYPE_CHECKING:
    from pydantic_core import ErrorDetails

Json = dict[str, Any]

MAX_VIOLATIONS = 50
"""Most violations that are listed; the rest are counted."""
MAX_PATH = 200
"""Longest path or key that is shown in full."""


# --- texts -----------------------------------------------------------------------------------------------


def path_text(location: Sequence[str | int]) -> str:
    """`("items", 0, "name")` as `items[0].name`."""
    text = ""
    for part in location:
        if isinstance(part, int):
            text = f"{text}[{part}]"
        else:
            text = f"{text}.{part}" if text else part
        if len(text) > MAX_PATH:
            return clip(text, MAX_PATH)
    return text


def show(value: Any, limit: int = 60) -> str:
    """Return a value as short JSON-like text for an error message."""
    if (
        isinstance(value, str)
        and len(value) < limit - 1
        and value.isprintable()
        and '"' not in value
        and "\\" not in value
    ):
        return f'"{value}"'
    if isinstance(value, dict):  # never write 1 MB to show 60 characters
        value = dict(islice(cast("Json", value).items(), limit))
    elif isinstance(value, str | list):
        value = cast("Any", value)[: limit + 1]
    from pydantic_core import to_json

    try:
        text = to_json(value, inf_nan_mode="constants").decode()
    except Exception:
        text = repr(value)
    return clip(text, limit)


JSON_TYPES: dict[Any, str] = {
    bool: "boolean", int: "integer", float: "number", str: "string", list: "array", dict: "object", type(None): "null",
}  # fmt: skip
"""JSON's words for the types of Python."""
_ARTICLES = {"integer": "an integer", "array": "an array", "object": "an object", "null": "null"}


def kind_of(value: Any) -> str:
    """JSON's word for the type of JSON data, with its article."""
    return _article(JSON_TYPES.get(type(value), type(value).__name__))


def _article(kind: str) -> str:
    return _ARTICLES.get(kind, f"a {kind}")


# --- schemas ---------------------------------------------------------------------------------


def resolve(schema: Any, root: Json) -> Json:
    """Return a sub-schema with its local `$ref`s followed; {} if one leads nowhere."""
    seen = 0
    while isinstance(schema, dict) and isinstance(cast("Json", schema).get("$ref"), str) and seen < 16:
        ref = cast("Json", schema)["$ref"]
        if not ref.startswith("#"):
            return {}
        schema, seen = value_at(root, ref[1:]), seen + 1
    return as_object(schema) if seen < 16 else {}


def known_keys(location: Sequence[str | int], root: Json) -> list[str]:
    """Return the property names that a schema knows at a place, through local references and unions."""
    nodes = [resolve(root, root)]
    for part in location:
        following: list[Json] = []
        for node in _alternatives(nodes, root):
            child: Any = node.get("items") if isinstance(part, int) else properties_of(node).get(part)
            if child is None and not isinstance(part, int):
                child = node.get("additionalProperties")
            if isinstance(child, dict):
                following.append(resolve(child, root))
        nodes = following[:64]
    return sorted({key for node in _alternatives(nodes, root) for key in properties_of(node)})


def properties_of(node: Mapping[str, Any]) -> Json:
    """Return the `properties` of a schema, {} if it has none."""
    return as_object(node.get("properties"))


def _alternatives(nodes: list[Json], root: Json, depth: int = 4) -> list[Json]:
    found = list(nodes)
    if depth:
        for node in nodes:
            for key in ("anyOf", "oneOf", "allOf"):
                branches = [resolve(b, root) for b in node.get(key, ())]
                found += _alternatives(branches, root, depth - 1)
                if len(found) > 256:
                    return found
    return found


def unknown_key(location: Sequence[str | int], schema: Json) -> Violation:
    """Return the text for an unknown key, with the closest known one."""
    from .near import near

    path, key = path_text(location), str(location[-1])[:100]
    keys = known_keys(location[:-1], schema)
    if key in keys:
        return Violation(path, f"{path} is a parameter of another alternative")
    if best := near(key, keys):
        return Violation(path, f"unknown parameter {path}; did you mean {best[0]}?")
    listed = ", ".join(keys[:20]) + (", …" if len(keys) > 20 else "")
    return Violation(path, f"unknown parameter {path}; " + (f"known: {listed}" if keys else "none are taken here"))


# --- typed arguments ----------------------------------------------------------------------------------

MISSING_KINDS = frozenset({
    "missing", "missing_argument", "missing_keyword_only_argument", "missing_positional_only_argument",
})  # fmt: skip
UNKNOWN_KINDS = frozenset({"unexpected_keyword_argument", "extra_forbidden"})

TYPE_KINDS = {
    "string_type": "string", "int_type": "integer", "int_from_float": "integer", "float_type": "number",
    "bool_type": "boolean", "list_type": "array", "tuple_type": "array", "set_type": "array",
    "frozen_set_type": "array", "dict_type": "object", "model_type": "object", "dataclass_type": "object",
    "none_required": "null", "model_attributes_type": "object", "typed_dict_type": "object",
    "int_parsing": "integer", "float_parsing": "number", "bool_parsing": "boolean", "mapping_type": "object",
    "decimal_type": "number", "dataclass_exact_type": "object",
}  # fmt: skip
"""pydantic's errors of type, and what JSON calls the type that was expected."""
_EXPECTED = {kind: _article(expected) for kind, expected in TYPE_KINDS.items()}
_new = cast("Any", tuple).__new__  # a NamedTuple's own `__new__` costs one more call

BOUND_KINDS = {
    "greater_than_equal": (">=", "ge"), "greater_than": (">", "gt"),
    "less_than_equal": ("<=", "le"), "less_than": ("<", "lt"),
}  # fmt: skip

_LEAD = lazy_regex(r"^(\w+ should|Value error,|Assertion failed,)\s*")


def typed_violations(errors: Sequence[ErrorDetails], text: str | bytes, schema: Json) -> list[Violation]:
    """pydantic's errors on JSON text as violations, at most MAX_VIOLATIONS of them and a count of the rest."""
    for error in errors:
        if len(error["loc"]) > 1:
            found = _nested_violations(errors[: 4 * MAX_VIOLATIONS], text, schema)
            break
    else:
        found = [_typed(error, error["loc"], schema) for error in errors[: MAX_VIOLATIONS + 1]]
    if len(found) <= MAX_VIOLATIONS:
        return found
    more = max(len(errors), len(found)) - MAX_VIOLATIONS
    return [*found[:MAX_VIOLATIONS], Violation("", f"… and {more} more")]


def _nested_violations(errors: Sequence[ErrorDetails], text: str | bytes, schema: Json) -> list[Violation]:
    """Violations below the top level: the labels of union members leave the paths, members' errors are joined."""
    from pydantic_core import from_json

    value = from_json(text)
    located = [(_location(error, value), error) for error in errors]
    wanted: dict[tuple[str | int, ...], list[str]] = {}
    deepest: set[tuple[str | int, ...]] = set()  # places below which something else is wrong
    for location, error in located:
        kind = TYPE_KINDS.get(error["type"])
        if kind is not None:
            wanted.setdefault(location, []).append(kind)
        deepest.update(location[:n] for n in range(len(location)))
    found: dict[Violation, None] = {}  # a set that keeps its order
    for location, error in located:
        kinds = wanted.get(location)
        if error["type"] in TYPE_KINDS and kinds is not None:
            if location in deepest and isinstance(error["input"], dict | list):
                continue  # another member of the union came further
            path = path_text(location)
            names = " or ".join(dict.fromkeys(_article(kind) for kind in kinds))
            violation = Violation(path, f"{path or 'arguments'} should be {names}, got {show(error['input'])}")
        else:
            violation = _typed(error, location, schema)
        found[violation] = None
    return list(found)


def _location(error: ErrorDetails, value: Any) -> tuple[str | int, ...]:
    """Return where an error is in the JSON value: pydantic's location without the labels of union members."""
    location: list[str | int] = []
    parts = error["loc"]
    keeps_last = error["type"] in MISSING_KINDS or error["type"] in UNKNOWN_KINDS
    for number, part in enumerate(parts):
        if isinstance(value, dict) and part in value:
            value = cast("Json", value)[cast("str", part)]
        elif isinstance(value, list) and isinstance(part, int) and part < len(cast("list[Any]", value)):
            value = cast("list[Any]", value)[part]
        elif not (keeps_last and number == len(parts) - 1) and isinstance(part, str):
            continue
        location.append(part)
    return tuple(location)


def _typed(error: ErrorDetails, location: Sequence[str | int], schema: Json) -> Violation:
    kind = error["type"]
    if kind in UNKNOWN_KINDS:
        return unknown_key(location, schema)
    path = str(location[0]) if len(location) == 1 else path_text(location)
    name = path or "arguments"
    value = error.get("input")
    expected = _EXPECTED.get(kind)
    if expected is not None:
        return _new(Violation, (path, f"{name} should be {expected}, got {show(value)}"))
    if kind in MISSING_KINDS:
        return Violation(path, f"missing required {name}")
    context = error.get("ctx") or {}
    if kind in ("literal_error", "enum"):
        return _new(Violation, (path, f"{name} must be one of {context.get('expected')}, got {show(value)}"))
    if kind in BOUND_KINDS:
        sign, key = BOUND_KINDS[kind]
        return Violation(path, f"{name} must be {sign} {context.get(key)}, got {show(value)}")
    if kind == "finite_number":
        return Violation(path, f"{name} must be a finite number")
    if kind in ("unexpected_positional_argument", "arguments_type"):
        said = "an array" if kind == "unexpected_positional_argument" else kind_of(value)
        return Violation("", f"arguments should be an object, not {said}")
    if kind == "json_invalid":
        return Violation("", f"not valid JSON: {context.get('error', error['msg'])}")
    message = _LEAD.sub("", error["msg"])[:500]
    if (lead := _LEAD.match(error["msg"])) is not None and lead[1].endswith("should"):
        return Violation(path, f"{name} should {message}, got {show(value)}")
    return Violation(path, f"{name}: {message}")


# --- raw arguments ------------------------------------------------------------------------------------

_RAW_BOUNDS = {"minimum": ">=", "exclusiveMinimum": ">", "maximum": "<=", "exclusiveMaximum": "<"}


def raw_violations(errors: Iterable[Any], schema: Json) -> list[Violation]:
    """jsonschema-rs's errors as violations, at most MAX_VIOLATIONS of them and a word on the rest."""
    found: dict[Violation, None] = {}
    for error in errors:
        for violation in _raw(error, schema):
            found[violation] = None
        if len(found) > MAX_VIOLATIONS:
            return [*list(found)[:MAX_VIOLATIONS], Violation("", "… and more")]
    return list(found)


def _raw(error: Any, schema: Json) -> list[Violation]:
    location = list(error.instance_path)
    path = path_text(location)
    name = path or "arguments"
    value = error.instance
    kind = error.kind
    about_a_name = kind.name == "propertyNames"  # its path ends with the keyword that a name violates
    keyword = str(error.schema_path[-1]) if error.schema_path and not about_a_name else ""
    if keyword == "required":
        missing = path_text([*location, kind.property])
        return [Violation(missing, f"missing required {missing}")]
    if keyword in ("additionalProperties", "unevaluatedProperties") and hasattr(kind, "unexpected"):
        return [unknown_key([*location, key], schema) for key in kind.unexpected[: MAX_VIOLATIONS + 1]]
    if keyword == "type":
        kinds = " or ".join(_article(str(t)) for t in kind.types)
        return [Violation(path, f"{name} should be {kinds}, got {show(value)}")]
    if keyword == "enum":
        options = ", ".join(show(o) for o in kind.options[:20]) + (", …" if len(kind.options) > 20 else "")
        return [Violation(path, f"{name} must be one of {options}, got {show(value)}")]
    if keyword in _RAW_BOUNDS:
        return [Violation(path, f"{name} must be {_RAW_BOUNDS[keyword]} {kind.limit}, got {show(value)}")]
    if kind.name == "oneOf_multiple_valid" or not getattr(kind, "context", None):
        return [Violation(path, f"{name}: {clip(error.message, 200)}")]
    return [_raw_union(kind.context, schema, path, name, value)]


def _raw_union(context: list[list[Any]], schema: Json, path: str, name: str, value: Any) -> Violation:
    """One violation that says what each member of a union would have needed."""
    members = [branch[:3] for branch in context[:8]]
    if all(len(branch) == 1 and path_text(branch[0].instance_path) == path for branch in members):
        kinds = [str(t) for branch in members for t in getattr(branch[0].kind, "types", ())]
        if len(kinds) >= len(members):
            names = " or ".join(dict.fromkeys(_article(kind) for kind in kinds))
            return Violation(path, f"{name} should be {names}, got {show(value)}")
    texts = [" and ".join(v.text for error in branch for v in _raw(error, schema)) for branch in members]
    said = "; or ".join(dict.fromkeys(texts))
    return Violation(path, f"{name} fits none of its alternatives: {clip(said, 1000)}")
