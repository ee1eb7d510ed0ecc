"""Converts arguments that do not fit, without changing their meaning.

Runs only after a strict parse failed. In this order: broken JSON is repaired where that is lossless,
double-encoded arguments are decoded, a wrapper like `{"arguments": …}` is removed, other spellings of
parameters are renamed, and then one table converts single values:

    "42", "4.5"          where only a number fits       42, 4.5
    "true", "false"      where only a boolean fits      True, False
    3.0                  where only an integer fits     3
    "[1]", "{…}"         where only an array or object  decoded
    42, 4.5, true        where only text fits           "42", "4.5", "true"
    "get"                where "GET" fits, and no other  "GET"
    "<https://a.b>"      where a URI is expected        without the brackets, quotes, backticks or blanks
    null                 for an optional parameter      absent

A value is converted only if it does not fit as it is and exactly one conversion does. A boolean never
becomes a number nor a number a boolean.
"""

from __future__ import annotations

import functools
import json
import math
from collections.abc import Mapping
from typing import Any, cast

from .branching import WorkBound, tables, work_bound
from .errors import InvalidArguments, ToolDefinitionError, Violation
from .json_schema import member_validator
from .schema import WRAPPERS
from .text import lazy_regex
from .violations import JSON_TYPES, TYPE_KINDS, Json, kind_of, properties_of, resolve

MAX_VISITS = 200_000
"""Most values that one coercion converts, about 0.3 s; the rest stay. A validator that is made for it counts as many as
its schema has parts."""
_OPTIONS_OF_A_VISIT = 16  # of an enum, which are all looked at
MAX_AS_TEXT = 1e300
"""A larger number stays: infinity has no text in JSON, and Python refuses integers of more than 4300 digits."""
FEW_WAYS = 8
MAX_WAYS_TRIED = 20_000
"""Unions convert nothing where more than FEW_WAYS lead to a value and a validation needs more looks than this: for
unions inside unions the work is the number of members to the power of the depth."""

_NUMBER = lazy_regex(r"-?(?:0|[1-9]\d*)(\.\d+)?([eE][+-]?\d+)?\Z")


def parse_object(text: str | bytes) -> Json:
    """Parse a model's arguments as a JSON object, with lossless repairs. Raises InvalidArguments if that fails."""
    try:
        raw = text.decode() if isinstance(text, bytes) else text
    except UnicodeDecodeError as error:
        raise _invalid(f"arguments are not valid UTF-8 ({error.reason} at byte {error.start})") from None
    value: Any = {} if not raw.strip() else _load(raw)
    for _ in range(2):  # arguments encoded twice, seen in the wild from several providers
        if isinstance(value, str) and value.lstrip().startswith(("{", '"')):
            value = _load(value)
    if not isinstance(value, dict):
        raise _invalid(f'arguments should be a JSON object like {{"name": value}}, not {kind_of(value)}')
    return cast("Json", value)


def _invalid(text: str) -> InvalidArguments:
    return InvalidArguments([Violation("", text)])


def _load(text: str) -> Any:
    try:
        return json.loads(text, parse_constant=_no_constant)
    except InvalidArguments:
        raise
    except json.JSONDecodeError as error:
        from .repair import repair

        repaired = repair(text)
        if repaired is not None:
            return repaired
        what = error.msg.removesuffix(" at")  # "Unterminated string starting at"
        raise _invalid(f"arguments are not valid JSON ({what} at line {error.lineno} column {error.colno})") from None
    except RecursionError:
        raise _invalid("arguments are nested too deeply") from None
    except ValueError:  # Python refuses integers of more than 4300 digits
        raise _invalid("a number in the arguments has too many digits") from None


def _no_constant(name: str) -> Any:
    raise _invalid(f"numbers must be finite, not {name}")


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


class Coercion:
    """`coercion(value)` converts what does not fit one schema and has exactly one lossless reading. Never raises."""

    def __init__(self, schema: Json) -> None:
        self._root = schema
        self._members: dict[int, Any] = {}  # validators of union members, by the identity of their schemas
        self._cost = sum(1 for _ in tables(schema))

    def __call__(self, value: Json) -> Json:
        one = _Pass(self._root, self._members, self._cost, self._has_few_ways(value))
        return cast("Json", one.coerce(value, self._root, 0))

    @functools.cached_property
    def _bound(self) -> WorkBound | None:
        try:
            return work_bound(self._root, "")
        except ToolDefinitionError:
            return None

    def _has_few_ways(self, value: Json) -> bool:
        """Return whether every member of every union can be tried."""
        bound = self._bound
        return bound is not None and (bound.most <= FEW_WAYS or bound.work(value) <= MAX_WAYS_TRIED)


class _Pass:
    """The state of one coercion."""

    def __init__(self, root: Json, members: dict[int, Any], cost: int, tries_unions: bool) -> None:
        self._root, self._members, self._cost, self._tries_unions = root, members, cost, tries_unions
        self._left = MAX_VISITS

    def coerce(self, value: Any, schema: Any, depth: int) -> Any:
        node = resolve(schema, self._root)
        self._left -= 1 + len(_options(node)) // _OPTIONS_OF_A_VISIT
        if not node or depth > 128 or self._left < 0:
            return value
        for key in ("anyOf", "oneOf"):
            if key in node:
                value = self._union(value, node[key], depth)
        for part in node.get("allOf", ()):
            value = self.coerce(value, part, depth + 1)
        value = _coerce_leaf(value, _kinds(node))
        if isinstance(value, str):
            return _unwrapped(value) if node.get("format") == "uri" else _option(value, node)
        if isinstance(value, dict):
            return self._object(cast("Json", value), node, depth)
        if isinstance(value, list):
            prefix: list[Any] = node.get("prefixItems", [])
            rest = node.get("items", {})
            return [
                self.coerce(item, prefix[i] if i < len(prefix) else rest, depth + 1)
                for i, item in enumerate(cast("list[Any]", value))
            ]
        return value

    def _object(self, value: Json, node: Json, depth: int) -> Json:
        properties = properties_of(node)
        required = node.get("required", ())
        extra = node.get("additionalProperties", {})
        out: Json = {}
        for key, item in value.items():
            known = properties.get(key)
            if item is None and known is not None and key not in required and not _accepts_null(known, self._root):
                continue
            out[key] = self.coerce(item, known if known is not None else extra, depth + 1)
        return out

    def _union(self, value: Any, schemas: list[Any], depth: int) -> Any:
        if not self._tries_unions:
            return value
        members = [resolve(schema, self._root) for schema in schemas]
        if len(members) == 2:  # `X | None`: nothing becomes null, so it is X that counts
            for one, other in (members, members[::-1]):
                if other.get("type") == "null":
                    return value if value is None else self.coerce(value, one, depth + 1)
        if isinstance(value, float) and value.is_integer():  # JSON Schema takes 3.0 for an integer, Python does not
            kinds = {kind for member in members for kind in _kinds(member)}
            return value if "number" in kinds or not all(_kinds(m) for m in members) else _coerce_leaf(value, kinds)
        if any(self._fits(value, member) for member in members):
            return value
        results: list[Any] = []
        for member in members:
            candidate = self.coerce(value, member, depth + 1)
            if self._fits(candidate, member) and not any(_same(candidate, result) for result in results):
                results.append(candidate)
        return results[0] if len(results) == 1 else value

    def _fits(self, value: Any, member: Json) -> bool:
        self._left -= 1 + (len(cast("list[Any]", value)) if isinstance(value, list | dict) else 0)
        if self._left < 0:
            return True  # keep it
        is_valid = self._members.get(id(member))
        if is_valid is None:
            self._left -= self._cost
            is_valid = self._members[id(member)] = member_validator(member, self._root)
        return is_valid(value)


def _unwrapped(url: str) -> str:
    text = url.strip()
    if len(text) > 2 and text[0] + text[-1] in ('""', "''", "``", "<>"):
        inner = text[1:-1].strip()
        if inner.startswith(("http://", "https://")) and not set(inner) & {text[0], text[-1]}:
            return inner
    return text


def _same(a: Any, b: Any) -> bool:
    return type(a) is type(b) and a == b


def _options(node: Json) -> list[Any]:
    """Return the only values that fit a schema, as far as it names them."""
    options: Any = node.get("enum", [node["const"]] if "const" in node else [])
    return cast("list[Any]", options) if isinstance(options, list) else []


def _folded(text: str) -> str:
    """Return a text as options are compared with it."""
    return text.strip().casefold()


_BLANKS = 100  # around an option


def _option(text: str, node: Json) -> str:
    """Return the option that is this text but for its case, if it is the only one; else the text."""
    options = [each for each in _options(node) if isinstance(each, str)]
    if len(text) > 3 * max(map(len, options), default=0) + _BLANKS:  # a letter is folded to three at most
        return text
    folded = _folded(text)
    same = [each for each in options if each.casefold() == folded]
    return same[0] if len(same) == 1 and text not in options else text


def beyond_coercion(value: Any, kind: str, options: str) -> bool:
    """Return whether the table has no conversion for a value that did not fit. `kind` and `options` are what pydantic
    says is wrong, and was expected. Only a shortcut: False is always correct."""
    if isinstance(value, str):
        text = value.strip()
        if kind == "value_error":
            return False
        if kind in ("literal_error", "enum") and (not text.isalnum() or _folded(text) in options.casefold()):
            return False  # as in `_option`
        return bool(text) and text[0] not in "[{-0123456789" and text.lower() not in ("true", "false")
    if kind == "string_type" and isinstance(value, int | float):
        return False
    if isinstance(value, float):
        return not value.is_integer()
    return isinstance(value, int) or (kind in TYPE_KINDS and isinstance(value, dict | list))


def _kinds(node: Json) -> set[str]:
    kind = node.get("type")
    if isinstance(kind, str):
        return {kind}
    if isinstance(kind, list):
        return {k for k in cast("list[Any]", kind) if isinstance(k, str)}
    if options := _options(node):
        return {JSON_TYPES.get(type(option), "string") for option in options}
    if "properties" in node:
        return {"object"}
    return set()


def _accepts_null(schema: Any, root: Json, depth: int = 0) -> bool:
    """Return whether null may fit a schema. In unclear cases, return True: null stays, and the validation decides."""
    node = resolve(schema, root)
    if not node or depth > 16:
        return True
    kinds = _kinds(node)
    if kinds and "null" not in kinds:
        return False
    for key in ("anyOf", "oneOf"):
        if key in node and not any(_accepts_null(branch, root, depth + 1) for branch in node[key]):
            return False
    return all(_accepts_null(part, root, depth + 1) for part in node.get("allOf", ()))


def _coerce_leaf(value: Any, kinds: set[str]) -> Any:
    """Convert a single value by the table. `kinds` are the JSON types that fit; if it is empty, all types fit."""
    own = JSON_TYPES.get(type(value))
    if not kinds or own in kinds or (own == "integer" and "number" in kinds):
        return value
    if kinds - {"null"} == {"string"} and isinstance(value, bool | int | float):
        return json.dumps(value) if -MAX_AS_TEXT < value < MAX_AS_TEXT else value
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
        if JSON_TYPES.get(type(decoded)) in kinds & {"array", "object"}:
            readings.append(decoded)
    return readings[0] if len(readings) == 1 else value
