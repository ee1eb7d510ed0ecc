"""Are plain values what the settings take? pydantic checks them: only the sections that are there, one at a time."""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from ..core.settings import annotations_of
from .files import Keys
from .settings import Settings

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
}
"""What we say instead of pydantic, by its type of error."""


@dataclass(frozen=True, slots=True)
class Violation:
    """One value that is wrong: where, why, and the value. `words` are those that a setting of few words takes."""

    path: Keys
    text: str
    given: Any
    words: tuple[str, ...] = ()
    shows_value: bool = True
    """Whether the text is about the value's type or size, so that a message goes on with the value."""


def check(
    values: Mapping[str, Any], folder: Path | None = None, *, from_text: bool = False
) -> tuple[dict[str, Any], list[Violation]]:
    """The values of a configuration in our shape as settings have them, and what is wrong with the others.

    Relative paths start at `folder`. `from_text` is for values that are texts, as those of variables: "5" is a number.
    """
    from pydantic_core import ValidationError

    made: dict[str, Any] = {}
    found: list[Violation] = []
    for name, value in values.items():
        try:
            made[name] = _validator(name, from_text).validate_python(value, context=folder)
        except ValidationError as error:
            found += [_violation(name, each) for each in error.errors(include_url=False)]
    return made, found


@functools.cache
def _validator(name: str, from_text: bool) -> SchemaValidator:
    """Of one key of Settings."""
    from pydantic import TypeAdapter
    from pydantic_core import SchemaValidator

    schema: Any = TypeAdapter(annotations_of(Settings)[name]).core_schema
    return SchemaValidator(schema if from_text else _strict(schema))


def _strict(schema: Any) -> Any:
    """A schema in which a number is not a text, nor true a number. Lists and paths stay as they are."""
    if isinstance(schema, dict):
        node = cast("dict[str, Any]", schema)
        strict = {"strict": True} if node.get("type") in ("bool", "float", "int", "str") else {}
        return {key: _strict(value) for key, value in node.items()} | strict
    return [_strict(each) for each in cast("list[Any]", schema)] if isinstance(schema, list) else schema


def _violation(name: str, error: ErrorDetails) -> Violation:
    path = (name, *map(str, error["loc"]))
    kind, given, context = error["type"], error["input"], error.get("ctx", {})
    if kind == "value_error":
        return Violation(path, str(context["error"]), given, shows_value=False)
    if kind == "literal_error":
        words = tuple(re.findall(r"'([^']*)'", context["expected"]))
        return Violation(path, _one_of(words), given, words)
    text = _TEXTS.get(kind) or error["msg"].removeprefix("Input ")
    return Violation(path, text, given, shows_value=kind != "missing")


def _one_of(words: tuple[str, ...]) -> str:
    *others, last = (f'"{word}"' for word in words)
    return f"can be {', '.join(others)} or {last}" if others else f"can be {last}"
