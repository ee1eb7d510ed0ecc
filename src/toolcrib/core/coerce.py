"""What is done for arguments that do not fit, without changing what they mean.

Runs only after a strict parse failed. In this order: broken JSON is repaired where that is lossless,
double-encoded arguments are decoded, a wrapper like `{"arguments": …}` is removed, other spellings of
parameters are renamed, and then one table converts single values (spec 2.2, 2.3):

    "42", "4.5"          where only a number fits       42, 4.5
    "true", "false"      where only a boolean fits      True, False
    3.0                  where only an integer fits     3
    "[1]", "{…}"         where only an array or object  decoded
    null                 for an optional parameter      absent

A value is converted only if it does not fit as it is and exactly one conversion does. A boolean never
becomes a number nor a number a boolean.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from typing import Any, cast

from .errors import InvalidArguments, Violation
from .schema import Json, compile_schema, kind_of, resolve

WRAPPERS = ("arguments", "input", "parameters")
_NUMBER = re.compile(r"-?(?:0|[1-9]\d*)(\.\d+)?([eE][+-]?\d+)?\Z")
_KINDS: dict[Any, str] = {
    bool: "boolean", int: "integer", float: "number", str: "string",
    list: "array", dict: "object", type(None): "null",
}  # fmt: skip


def parse_object(text: str | bytes) -> Json:
    """A JSON object from what a model sent as arguments, with lossless repairs. Raises InvalidArguments."""
    raw = text.decode("utf-8", "replace") if isinstance(text, bytes) else text
    value: Any = {} if not raw.strip() else _load(raw)
    for _ in range(2):  # arguments encoded twice, seen in the wild from several providers
        if isinstance(value, str) and value.lstrip().startswith("{"):
            value = _load(value)
    if not isinstance(value, dict):
        raise InvalidArguments(
            [Violation("", f'arguments should be a JSON object like {{"name": value}}, not {kind_of(value)}')]
        )
    return cast("Json", value)


def _load(text: str) -> Any:
    try:
        return json.loads(text, parse_constant=_no_constant)
    except json.JSONDecodeError as error:
        repaired = _repair(text)
        if repaired is not None:
            return repaired
        where = f"line {error.lineno} column {error.colno}"
        raise InvalidArguments([Violation("", f"arguments are not valid JSON ({error.msg} at {where})")]) from None
    except RecursionError:
        raise InvalidArguments([Violation("", "arguments are nested too deeply")]) from None


def _no_constant(name: str) -> Any:
    raise InvalidArguments([Violation("", f"numbers must be finite, not {name}")])


def _repair(text: str) -> Json | None:
    """Repaired JSON if the repair kept every word of the text and closed nothing that was cut off."""
    import json_repair

    stripped = re.sub(r"\A```(?:json)?\s*|\s*```\Z", "", text.strip())
    if len(stripped) > 200_000 or not stripped.startswith("{") or not stripped.endswith("}"):
        return None  # an object that is cut off has lost something: never guess the rest
    try:
        value: Any = json_repair.loads(stripped, skip_json_loads=True)
    except (ValueError, RecursionError):
        return None
    if not isinstance(value, dict) or _words(stripped) != _words(json.dumps(value, ensure_ascii=False)):
        return None
    return cast("Json", value)


_WORD = re.compile(r"[^\s\"'{}\[\],:\\]+")


def _words(text: str) -> list[str]:
    """The words of a text in order, with the spellings that Python and JSON have for the same constant joined."""
    constants = {"True": "true", "False": "false", "None": "null"}
    plain = re.sub(r"\\[nrt]", " ", text)
    return [constants.get(str(word), str(word)) for word in _WORD.findall(plain)]


def unwrap(value: Json, schema: Json) -> Json:
    """Remove a wrapper `{"arguments": {...}}` if the tool has no parameter of that name."""
    if len(value) == 1:
        (key,) = value
        if key in WRAPPERS and key not in schema.get("properties", {}):
            inner: Any = value[key]
            if isinstance(inner, str) and inner.lstrip().startswith("{"):
                inner = _load(inner)
            if isinstance(inner, dict):
                return cast("Json", inner)
    return value


def rename(value: Json, aliases: Mapping[str, str]) -> Json:
    """Rename other spellings of parameters. Raises InvalidArguments where one is given in two spellings."""
    if not any(key in aliases for key in value):
        return value
    renamed: Json = {}
    spelled: dict[str, str] = {}
    for key, item in value.items():
        name = aliases.get(key, key)
        if name in renamed:
            raise InvalidArguments(
                [Violation(name, f"{spelled[name]} and {key} are the same parameter; give {name} once")]
            )
        renamed[name], spelled[name] = item, key
    return renamed


def coerce(value: Json, schema: Json) -> Json:
    """Convert what does not fit `schema` and has exactly one lossless reading. Never raises."""
    return cast("Json", _coerce(value, schema, schema, 0))


def _coerce(value: Any, schema: Any, root: Json, depth: int) -> Any:
    node = resolve(schema, root)
    if depth > 64 or not node:
        return value
    branches = [resolve(b, root) for key in ("anyOf", "oneOf") for b in node.get(key, ())]
    if branches:
        return _coerce_union(value, branches, root, depth)
    for part in node.get("allOf", ()):
        value = _coerce(value, part, root, depth + 1)
    value = _coerce_leaf(value, _kinds(node))
    if isinstance(value, dict):
        return _coerce_object(cast("Json", value), node, root, depth)
    if isinstance(value, list):
        items = cast("list[Any]", value)
        prefix: list[Any] = node.get("prefixItems", [])
        rest = node.get("items", {})
        return [_coerce(item, prefix[i] if i < len(prefix) else rest, root, depth + 1) for i, item in enumerate(items)]
    return value


def _coerce_object(value: Json, node: Json, root: Json, depth: int) -> Json:
    properties: Json = node.get("properties", {})
    required = node.get("required", ())
    extra = node.get("additionalProperties", {})
    out: Json = {}
    for key, item in value.items():
        known = properties.get(key)
        if item is None and known is not None and key not in required and not _accepts_null(known, root):
            continue
        out[key] = _coerce(item, known if known is not None else extra, root, depth + 1)
    return out


def _coerce_union(value: Any, branches: list[Json], root: Json, depth: int) -> Any:
    fits = [_fits(value, branch, root) for branch in branches]
    if any(fits):
        return value
    results: list[Any] = []
    for branch in branches:
        candidate = _coerce(value, branch, root, depth + 1)
        if _fits(candidate, branch, root) and not any(_same(candidate, r) for r in results):
            results.append(candidate)
    return results[0] if len(results) == 1 else value


def _same(a: Any, b: Any) -> bool:
    return type(a) is type(b) and a == b


def _fits(value: Any, schema: Json, root: Json) -> bool:
    whole: Json = {**schema, **({"$defs": root["$defs"]} if "$defs" in root else {})}
    if "definitions" in root:
        whole["definitions"] = root["definitions"]
    try:
        return compile_schema(whole, "branch").is_valid(value)
    except Exception:  # a schema that cannot stand alone decides nothing
        return False


def _kinds(node: Json) -> set[str]:
    kind = node.get("type")
    if isinstance(kind, str):
        return {kind}
    if isinstance(kind, list):
        return {k for k in cast("list[Any]", kind) if isinstance(k, str)}
    options: Any = node.get("enum", [node["const"]] if "const" in node else None)
    if isinstance(options, list):
        return {_KINDS.get(type(o), "string") for o in cast("list[Any]", options)}
    if "properties" in node:
        return {"object"}
    return set()


def _accepts_null(schema: Any, root: Json) -> bool:
    node = resolve(schema, root)
    if not node:
        return True  # an untyped parameter takes null as it is
    if any(_accepts_null(b, root) for key in ("anyOf", "oneOf") for b in node.get(key, ())):
        return True
    kinds = _kinds(node)
    return "null" in kinds or not (kinds or "anyOf" in node or "oneOf" in node or "allOf" in node)


def _coerce_leaf(value: Any, kinds: set[str]) -> Any:
    """The table. `kinds` are the JSON types that fit; empty means all do."""
    own = _KINDS.get(type(value))
    if not kinds or own in kinds or (own == "integer" and "number" in kinds):
        return value
    if isinstance(value, float):
        return int(value) if "integer" in kinds and value.is_integer() and abs(value) < 2**53 else value
    if not isinstance(value, str):
        return value
    readings: list[Any] = []
    text = value.strip()
    number = _NUMBER.match(text) if len(text) <= 40 else None
    if number and kinds & {"integer", "number"}:
        whole = not number.group(1) and not number.group(2)
        if whole:
            readings.append(int(text))
        else:
            parsed = float(text)
            if "number" in kinds and math.isfinite(parsed):
                readings.append(parsed)
            elif parsed.is_integer() and abs(parsed) < 2**53:
                readings.append(int(parsed))
    if "boolean" in kinds and text.lower() in ("true", "false"):
        readings.append(text.lower() == "true")
    if kinds & {"array", "object"} and text[:1] in ("[", "{"):
        try:
            decoded = json.loads(text)
        except (ValueError, RecursionError):
            decoded = None
        if _KINDS.get(type(decoded)) in kinds & {"array", "object"}:
            readings.append(decoded)
    return readings[0] if len(readings) == 1 else value
