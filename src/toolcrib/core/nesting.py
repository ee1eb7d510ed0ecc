"""Walks pydantic's core schemas, and limits how deep arguments may nest for a type that contains itself in a union.

pydantic tries every member of a union, so `class A: n: A | B` and `class B: n: A | B` take 2 to the power of the depth
steps: 10 s for 16 levels that a model can write in 100 characters. A discriminated union has no such cost.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, NamedTuple, cast

from .errors import InvalidArguments, Violation
from .text import lazy_regex
from .violations import Json

MAX_PATHS = 4096
"""Most paths through nested unions that a validation of one value may try: about 10 ms."""
MAX_TRIES = 2_000_000
"""Most paths for all values of the arguments together: 0.1 s for numbers, 5 s for objects."""

_OBJECTS = frozenset({"model", "typed-dict", "dataclass", "dict"})
_ARRAYS = frozenset({"list", "tuple", "set", "frozenset"})
_EITHER = frozenset({
    "definition-ref", "definitions", "union", "nullable", "default",
    "function-before", "function-after", "function-wrap",
})  # fmt: skip

_STRING = lazy_regex(rb'"(?:[^"\\]++|\\.)*+"?', re.DOTALL)


class Limit(NamedTuple):
    """How many levels arguments may have, and how many members of a union could hold the same value."""

    levels: int
    widest: int


def deepest(core: Json) -> Limit | None:
    """Return the limit on arguments of a core schema, or None if it needs none."""
    if core.get("type") != "definitions":
        return None  # nothing contains itself
    widest = max((_rivals(node) for node in nodes(core["definitions"]) if node.get("type") == "union"), default=1)
    if widest < 2:
        return None
    levels, paths = 0, widest
    while paths <= MAX_PATHS:
        levels, paths = levels + 1, paths * widest
    return Limit(levels, widest)


def _rivals(union: Json) -> int:
    """Return how many members of a union could hold more of the same."""
    choices: list[Any] = union["choices"]
    kinds: list[str] = [(choice[0] if isinstance(choice, tuple) else choice)["type"] for choice in choices]
    return max(sum(kind in same or kind in _EITHER for kind in kinds) for same in (_OBJECTS, _ARRAYS))


_OPAQUE = frozenset({"config", "metadata", "serialization", "cls", "default", "expected"})
"""Keys of a core schema that hold no further schema."""


def is_opaque(node: Json, key: str) -> bool:
    """Return whether a key of a core schema holds no further schema. In a map of fields, a key is only a name."""
    return key in _OPAQUE and isinstance(node.get("type"), str)


def nodes(core: Any) -> Iterator[Json]:
    """Yield every schema inside a core schema, itself included."""
    if isinstance(core, list | tuple):
        for item in cast("list[Any]", core):
            yield from nodes(item)
    elif isinstance(core, dict):
        node = cast("Json", core)
        yield node
        for key, value in node.items():
            if not is_opaque(node, key):
                yield from nodes(value)


def check_depth(text: str | bytes, limit: Limit) -> None:
    """Raise InvalidArguments if JSON text nests too deeply or has too many values; text that is not JSON passes."""
    from pydantic_core import from_json

    try:
        value = from_json(text)
    except ValueError:
        return
    if is_deeper(value, limit.levels + 1):
        raise InvalidArguments([Violation("", f"arguments are nested too deeply: at most {limit.levels} levels here")])
    tries = sum(count * limit.widest ** max(level - 1, 0) for level, count in enumerate(levels(value)))
    if tries > MAX_TRIES:
        raise InvalidArguments([Violation("", "arguments have too many nested values: give fewer at once")])


def _below(level: list[Any]) -> list[Any]:
    """Return the values in the tables and lists of a level."""
    following: list[Any] = []
    for item in level:
        if isinstance(item, dict):
            following.extend(cast("Json", item).values())
        elif isinstance(item, list):
            following.extend(cast("list[Any]", item))
    return following


def levels(value: Any, text: int | None = None) -> list[int]:
    """Return how many values lie on each level of JSON data; the first is the value itself.

    With `text`, each so many characters of a text or key count as another value.
    """
    counts: list[int] = []
    level: list[Any] = [value]
    while level:
        counts.append(len(level) + (sum(_length(item) // text for item in level) if text else 0))
        level = _below(level)
    return counts


def _length(item: Any) -> int:
    """Return the characters of a text, or of the keys of a table."""
    if isinstance(item, dict):
        return sum(map(len, cast("Json", item)))
    return len(item) if isinstance(item, str) else 0


def is_deeper(value: Any, levels: int) -> bool:
    """Return whether a table or list lies that many levels below the value."""
    level: list[Any] = [value]
    for _ in range(levels):
        level = [item for item in _below(level) if isinstance(item, dict | list)]
    return bool(level)


def has_more_values(value: Any, most: int) -> bool:
    """Return whether JSON data has more than so many values in its tables and lists."""
    waiting, count = [value], 0
    while waiting:
        item = waiting.pop()
        if isinstance(item, dict | list):
            inside = cast("list[Any]", item)
            count += len(inside)
            if count > most:
                return True
            waiting.extend(cast("Json", item).values() if isinstance(item, dict) else inside)
    return False


def has_many_pieces(text: bytes, most: int) -> bool:
    """Return whether JSON text has more strings, or more commas and brackets outside of them, before it is parsed."""
    quotes, marks = text.count(b'"'), sum(map(text.count, (b",", b"[", b"{")))
    if quotes <= most and marks <= most:
        return False
    bare, strings = _STRING.subn(b"", text, count=most + 1)
    return strings > most or sum(map(bare.count, (b",", b"[", b"{"))) > most


def every(value: Any) -> Iterator[Any]:
    """Yield the value and every value in it."""
    waiting = [value]
    while waiting:
        item = waiting.pop()
        yield item
        if isinstance(item, dict):
            waiting.extend(cast("Json", item).values())
        elif isinstance(item, list):
            waiting.extend(cast("list[Any]", item))


def long_integers(value: Any) -> tuple[int, int]:
    """Return how many integers of JSON data no float has exactly (beyond 2⁵³), and the bits of the longest.

    The validator's hash takes many of these for equal, and then compares each with each.
    """
    bits = [bits for item in every(value) if isinstance(item, int) and (bits := item.bit_length()) > 53]
    return len(bits), max(bits, default=0)
