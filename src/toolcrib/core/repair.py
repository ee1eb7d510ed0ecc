"""Repairs broken JSON, if it can be read in one way only.

Models send Python dicts, trailing commas, raw newlines inside strings, `\\d` in regular expressions, code fences.
All of these can be read without loss. An object that is cut off has lost data, and an unescaped quote could end a
string or belong to it: such text is refused, never completed or guessed.
"""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Iterator
from typing import Any, cast

from .text import lazy_regex
from .violations import Json

MAX_LITERAL = 200_000
"""Longest text that is tried as a Python literal."""
MAX_GUESSED = 20_000
"""Longest text given to json-repair, which takes quadratic time on hostile input (0.5 s for 100,000 characters)."""

_FENCE = lazy_regex(r"\A```(?:json)?\s*|(?<!\s)\s*```\Z")
_ESCAPE = lazy_regex(r'(\\["\\/bfnrt]|\\u[0-9a-fA-F]{4})|\\')
_PYTHON_ESCAPE = lazy_regex(r"\\x[0-9a-fA-F]{2}|\\U[0-9a-fA-F]{8}")
_ODD_ESCAPE = lazy_regex(r"\\[^'\"\\/bfnrtu]")
_STRING = lazy_regex(r'"(?:[^"\\]|\\.)*"', re.DOTALL)
_WORD = lazy_regex(r"[^\s\"'{}\[\],:\\]+")
_CONSTANTS = {"True": "true", "False": "false", "None": "null"}


def repair(text: str) -> Json | None:
    """Return the object that a broken JSON text means, or None if that is not certain."""
    plain = _FENCE.sub("", text.strip())
    if not plain.startswith("{") or not plain.endswith("}"):
        return None
    for attempt in (_json, _python, _guess):
        value = attempt(plain)
        if isinstance(value, dict):
            return cast("Json", value)
    return None


def _json(text: str) -> Any:
    """Read JSON with raw control characters in strings, or backslashes that escape nothing."""
    candidates = [text]
    if not _PYTHON_ESCAPE.search(text):  # `\\x1f` is one character to Python and four to a careless JSON writer
        candidates.append(_ESCAPE.sub(lambda m: m.group(1) or "\\\\", text))
    for candidate in candidates:
        try:
            return json.loads(candidate, strict=False, parse_constant=_refuse)
        except (ValueError, RecursionError):
            continue
    return None


def _refuse(name: str) -> Any:
    raise ValueError(name)


def _python(text: str) -> Any:
    """Read a Python literal that has only what JSON has too."""
    if len(text) > MAX_LITERAL or _ODD_ESCAPE.search(text):
        return None
    try:
        value = ast.literal_eval(text)
        if not _is_json(value):
            return None
        written = json.dumps(value, ensure_ascii=False, allow_nan=False)
    except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
        return None
    return value if "\\" in text or _words(text) == _words(written) else None


def _is_json(value: Any) -> bool:
    if isinstance(value, dict):
        items = cast("dict[Any, Any]", value).items()
        return all(isinstance(key, str) and _is_json(item) for key, item in items)
    if isinstance(value, list):
        return all(_is_json(item) for item in cast("list[Any]", value))
    return value is None or isinstance(value, str | int | float)


def _guess(text: str) -> Any:
    """Return the result of json-repair, if it added, dropped and reinterpreted nothing."""
    if len(text) > MAX_GUESSED or "\\" in text or "'" in text:
        return None
    bare = _STRING.sub(" ", text)
    if '"' in bare:  # a string that does not end, or one that ended early
        return None
    import json_repair

    try:
        value: Any = json_repair.loads(text, skip_json_loads=True)
        written = json.dumps(value, ensure_ascii=False, allow_nan=False)
    except (ValueError, RecursionError):
        return None
    bare_written = _STRING.sub(" ", written)
    if any(bare.count(sign) != bare_written.count(sign) for sign in "{}[]:"):
        return None
    if _words(text) != _words(written):
        return None
    quoted = [match.group()[1:-1] for match in _STRING.finditer(text)]
    for string, is_key in _strings(value):
        if quoted and quoted[0] == string:
            del quoted[0]
        elif not is_key:  # `{"a": NaN}` and `{"a": }` hold no string
            return None
    return value if not quoted else None


def _words(text: str) -> list[str]:
    """The words of a text in order, with the spellings that Python and JSON have for the same constant joined."""
    return [_CONSTANTS.get(word, word) for word in cast("list[str]", _WORD.findall(text))]


def _strings(value: Any) -> Iterator[tuple[str, bool]]:
    """Every string in a JSON value in the order of the text, and whether it is a key."""
    if isinstance(value, str):
        yield value, False
    elif isinstance(value, dict):
        for key, item in cast("Json", value).items():
            yield key, True
            yield from _strings(item)
    elif isinstance(value, list):
        for item in cast("list[Any]", value):
            yield from _strings(item)
