"""Compiles a JSON Schema that anyone may have written, and checks values with it in a bounded time.

The validator (jsonschema-rs) follows every way through a schema, so `branching` counts them first. Patterns are matched
by an engine that takes linear time, which has neither look-around nor back-references.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from itertools import islice
from typing import Any

from .branching import WorkBound, tables, work_bound
from .errors import ToolDefinitionError, Violation
from .json_values import as_object
from .violations import MAX_VIOLATIONS, Json, properties_of, raw_violations, resolve, unknown_key

MANY_LOOKS = 20_000
"""With more work than this only the first error is reported: jsonschema-rs collects all of them first, at up to 50 µs
each (24 s for 1 MB of wrong items)."""

MAX_COMPILED = 64 * 2**20
"""How many bytes all patterns of a schema may take when they are compiled, as the engine counts them."""
MAX_PATTERN = 10 * 2**20
"""The same for one of them. Only `.{1,4000}` and the like take more than 1 MiB."""

MAX_QUICK = 16 * 2**10
"""The same for a pattern of somebody else: 0.5 µs for a character at most. With 10 MiB it can be 200 µs."""


def compile_schema(schema: Json, owner: str) -> CompiledSchema:
    """Return a validator that never fetches anything, in which no value takes long. Raises ToolDefinitionError."""
    import jsonschema_rs

    try:
        validator = jsonschema_rs.validator_for(schema, retriever=_refuse_remote, pattern_options=_linear(schema))
    except Exception as error:  # its errors share no base class
        text = _refused(error) or f"not a valid JSON Schema: {str(error).splitlines()[0]}"
        raise ToolDefinitionError(f"{owner}: {text}") from error
    return CompiledSchema(schema, validator, work_bound(schema, owner))


def _linear(schema: Json) -> Any:
    """Return the options for the engine that takes linear time. Each pattern gets an equal part of MAX_COMPILED."""
    import jsonschema_rs

    patterns = sum(("pattern" in node) + len(as_object(node.get("patternProperties"))) for node in tables(schema))
    return jsonschema_rs.RegexOptions(size_limit=min(MAX_PATTERN, MAX_COMPILED // max(patterns, 1)))


def _refuse_remote(uri: str) -> Any:
    raise ValueError(f"remote references are not followed: {uri}")


def _refused(error: Exception) -> str:
    """Return the words for a pattern that needs backtracking or too much memory; "" for another error."""
    import jsonschema_rs

    found = getattr(error, "instance", None)
    if not isinstance(found, str) or 'is not a "regex"' not in str(error):
        return ""
    if _compiles(found, jsonschema_rs.RegexOptions()):
        return f"its patterns take more than {MAX_COMPILED >> 20} MiB together; use fewer, or shorter repetitions"
    if not _needs_backtracking(found):
        return ""
    return (
        f"the pattern {found[:200]!r} in its schema has look-around or a back-reference, which cannot be matched in "
        "linear time; write it without, and let the tool check the rest"
    )


def _needs_backtracking(pattern: str) -> bool:
    import jsonschema_rs

    plain, fancy = jsonschema_rs.RegexOptions(), jsonschema_rs.FancyRegexOptions()
    return not _compiles(pattern, plain) and _compiles(pattern, fancy)


def _compiles(pattern: str, options: Any) -> bool:
    import jsonschema_rs

    try:
        jsonschema_rs.validator_for({"pattern": pattern}, pattern_options=options)
    except Exception:  # its errors share no base class
        return False
    return True


def without_slow_patterns(schema: Json) -> tuple[Json, list[str]]:
    """Return somebody else's schema without the patterns that cannot be matched quickly, and these patterns.

    They need backtracking, or a step for each of thousands of states at each character, or are in another notation. The
    descriptions name them instead: whoever wrote the schema checks them. Raises ToolDefinitionError for such a pattern
    in `patternProperties`.
    """
    for node in tables(schema):
        for pattern in as_object(node.get("patternProperties")):
            if _is_slow(pattern):
                raise ToolDefinitionError(f"its pattern {pattern[:200]!r} for names cannot be matched quickly")
    if not any(_is_slow(node.get("pattern")) for node in tables(schema)):
        return schema, []
    copied: Json = copy.deepcopy(schema)
    dropped: list[str] = []
    for node in tables(copied):
        pattern = node.get("pattern")
        if _is_slow(pattern):
            dropped.append(node.pop("pattern"))
            described = node.get("description")
            said = f"{described} " if isinstance(described, str) else ""
            node["description"] = f"{said}(must match the pattern {pattern})"
    return copied, dropped


def _is_slow(pattern: object) -> bool:
    import jsonschema_rs

    return isinstance(pattern, str) and not _compiles(pattern, jsonschema_rs.RegexOptions(size_limit=MAX_QUICK))


class CompiledSchema:
    """A schema with its validator."""

    def __init__(self, schema: Json, validator: Any, bound: WorkBound) -> None:
        self._schema, self._validator, self._bound = schema, validator, bound

    def is_valid(self, value: Any) -> bool:
        """Return whether JSON data fits. What takes too much work does not."""
        return not self._bound.takes_too_long(value) and self._validator.is_valid(value)

    def violations(self, value: Any) -> list[Violation]:
        """Return what is wrong with a value that does not fit."""
        if self._bound.takes_too_long(value):
            text = "arguments are too large, or nested too deeply, to be checked with their schema"
            return [Violation("", f"{text}; give less at once")]
        if self._bound.work(value) <= MANY_LOOKS:
            return raw_violations(self._validator.iter_errors(value), self._schema)
        if self._bound.most == 1:
            return [*raw_violations([self._first_error(value)], self._schema), Violation("", "… and perhaps more")]
        return self._briefly(value)

    def _first_error(self, value: Any) -> Any:
        import jsonschema_rs

        try:
            self._validator.validate(value)
        except jsonschema_rs.ValidationError as error:
            return error
        raise AssertionError("an invalid value has no error")

    def _briefly(self, value: Any) -> list[Violation]:
        """Return the parameters that are wrong, without why: the validator would describe every alternative."""
        found = list(islice(self._wrong_parameters(as_object(value)), MAX_VIOLATIONS + 1))
        if len(found) > MAX_VIOLATIONS:
            found[-1] = Violation("", "… and more")
        return found or [Violation("", f"arguments do not fit the schema {_TOO_MANY}")]

    def _wrong_parameters(self, given: Json) -> Iterator[Violation]:
        node = resolve(self._schema, self._schema)
        known = properties_of(node)
        for key in node.get("required", ()):
            if key not in given:
                yield Violation(key, f"missing required {key}")
        for key, item in given.items():
            if key in known and not member_validator(known[key], self._schema)(item):
                yield Violation(key, f"{key} does not fit its schema {_TOO_MANY}")
            elif key not in known and node.get("additionalProperties") is False:
                yield unknown_key([key], self._schema)


_TOO_MANY = "(it has too many alternatives to say why)"


def member_validator(member: Json, root: Json) -> Callable[[Any], bool]:
    """Return a validator of one part of a compiled schema. References inside it point into the whole schema."""
    import jsonschema_rs

    whole = {key: value for key, value in root.items() if key != "$id"}
    whole["$defs"] = {**whole.get("$defs", {}), "toolcrib-member": member}
    start: Json = {"$ref": "urn:toolcrib:root#/$defs/toolcrib-member"}
    if "$schema" in root:
        start["$schema"] = root["$schema"]
    try:
        registry = jsonschema_rs.Registry([("urn:toolcrib:root", whole)])
        return jsonschema_rs.validator_for(start, registry=registry, pattern_options=_linear(whole)).is_valid
    except Exception:  # a part that cannot be checked alone fits nothing
        return _never


def _never(_value: object) -> bool:
    return False
