"""Checks with pydantic whether a plain value fits a section of the settings. Absent sections cost nothing."""

from __future__ import annotations

import functools
import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

if TYPE_CHECKING:
    from pydantic_core import ErrorDetails, SchemaValidator

_TEXTS = {
    "missing": "is missing",
    "bool_type": "should be true or false",
    "bool_parsing": "should be true or false",
    "tuple_type": "should be a list",
    "dict_type": "should be a table of settings",
    "dataclass_type": "should be a table of settings",
    "path_type": "should be a path",
    "unexpected_keyword_argument": "there is no such setting",
}
"""Our texts in place of pydantic's, by the type of error."""


Keys = tuple[str, ...]
"""Where a setting is: its key, and those of the tables around it."""


@dataclass(frozen=True, slots=True)
class Violation:
    """One wrong value: its place, the reason, and the value. `words` are the words that the setting allows."""

    path: Keys
    text: str
    given: Any
    words: tuple[str, ...] = ()
    shows_value: bool = True
    """Whether the text is about the value's type or size, so that a message goes on with the value."""


def check(
    annotation: Any, value: Any, path: Keys, folder: Path | None = None, *, from_text: bool = False
) -> tuple[Any, list[Violation]]:
    """Check a value. Returns it in the form of the settings (a section, for example), and its violations.

    `path` is its place. Relative paths in it start at `folder`. `from_text` is for values that are texts, such as
    those of environment variables: then "5" is a number.
    """
    from pydantic_core import ValidationError

    try:
        return _validator(annotation, from_text).validate_python(value, context=folder), []
    except ValidationError as error:
        return None, [_violation(path, each) for each in error.errors(include_url=False)]


@functools.cache
def _validator(annotation: Any, from_text: bool) -> SchemaValidator:
    from pydantic import TypeAdapter
    from pydantic_core import SchemaValidator

    schema: Any = TypeAdapter(annotation).core_schema
    return SchemaValidator(schema if from_text else _strict(schema))


def _strict(schema: Any) -> Any:
    """Return a schema in which a text is not a number, and true is not a number. Lists and paths do not change."""
    if isinstance(schema, dict):
        node = cast("dict[str, Any]", schema)
        strict = {"strict": True} if node.get("type") in ("bool", "float", "int", "str") else {}
        return {key: _strict(value) for key, value in node.items()} | strict
    return [_strict(each) for each in cast("list[Any]", schema)] if isinstance(schema, list) else schema


def _violation(path: Keys, error: ErrorDetails) -> Violation:
    path = (*path, *(str(key) for key in error["loc"] if key != "[key]"))
    kind, given, context = error["type"], error["input"], error.get("ctx", {})
    if kind == "value_error":
        return Violation(path, str(context["error"]), given, shows_value=False)
    if kind == "literal_error":
        words = tuple(re.findall(r"'([^']*)'", context["expected"]))
        return Violation(path, _one_of(words), given, words)
    text = _TEXTS.get(kind) or error["msg"].removeprefix("Input ")
    return Violation(path, text, given, shows_value=kind not in ("missing", "unexpected_keyword_argument"))


def _one_of(words: tuple[str, ...]) -> str:
    *others, last = (f'"{word}"' for word in words)
    return f"can be {', '.join(others)} or {last}" if others else f"can be {last}"
