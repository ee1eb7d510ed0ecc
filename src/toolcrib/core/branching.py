"""Bounds the work of a validation by the schema, before a value is looked at.

A validator looks at one value once for each way that leads to it through the schema: `anyOf`, `allOf`, `$ref` and the
like apply several schemas to the same value, and what two of them say about the same property doubles again below.
So 30 definitions that each name the previous one twice take 2³⁰ looks at one number, and an expression that is one of
two kinds of expressions takes two to the power of its depth. Each pattern of `patternProperties` looks at each key.
A value is compared with each member of an `enum` until one is equal, and two lists value by value.
A schema without such ways, and with few patterns and members, is not walked again.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import accumulate
from operator import mul
from typing import Any, cast
from urllib.parse import urljoin

from .dataclass import dataclass
from .errors import ToolDefinitionError
from .json_values import as_object, objects_of, value_at
from .nesting import every, levels, long_integers
from .violations import Json

MAX_WAYS = 100_000
"""Most ways to one value at one place of the schema. With more, the schema is refused."""
MAX_LOOKS = 2_000_000
"""Most looks in one validation: about 0.1 s."""
MAX_BITS = 1024
"""Bits of the longest integer that is checked, about as for a float. One of 4,000 digits takes 1 ms for each check."""
TEXT = 1024
"""Characters of a text that count as another value: a pattern takes 2 µs for them."""
FEW = 64
"""With at most this many looks at any value, the work is a small multiple of the value's size and needs no bound."""

_MAX_EDGES = 500_000  # about 1 s
_MAX_STEPS = 5_000_000
_MAX_LEVELS = 256  # JSON that nests deeper is not read
_LISTS = ("allOf", "anyOf", "oneOf")
_SINGLE = ("not", "if", "then", "else")
_MAPS = ("dependentSchemas", "dependencies")
_REFERENCES = ("$ref", "$dynamicRef", "$recursiveRef")
_IN_PLACE = frozenset({*_LISTS, *_SINGLE, *_MAPS, *_REFERENCES})
_DATA = frozenset({"const", "enum", "default", "examples"})
_ANYTHING: Json = {}
_EXACT = 40
"""Looks that a number takes which is compared or divided exactly, as the validator does with floats and long integers:
1 to 3 µs, and 27 µs for `multipleOf` at the ends of their range."""
_META = ("http://json-schema.org/", "https://json-schema.org/")  # the validator knows these schemas itself


@dataclass(frozen=True, slots=True)
class WorkBound:
    """How much work a schema makes: `most` looks at any one value, or as many as `graph` says for each level.

    `unique`: whether it compares the items of a list, and what they hold, with each other (`uniqueItems`).
    """

    most: int
    graph: Branching | None = None
    unique: bool = False

    def work(self, value: Any) -> int:
        """Return the most looks that a validation of this value needs."""
        counts = levels(value, TEXT)
        if self.graph is None:
            return sum(counts) * self.most
        looks = [self.graph.looks(level) for level in range(len(counts))]
        if self.unique:  # each look at a list is one at all that it holds
            looks = list(accumulate(looks, max))
        return sum(map(mul, counts, looks))

    def takes_too_long(self, value: Any) -> bool:
        """Return whether a validation of this value could take more than MAX_LOOKS."""
        long, longest = long_integers(value)
        if longest > MAX_BITS or (self.unique and self.most * long**2 * 10 > MAX_LOOKS):
            return True
        return self.graph is not None and self.work(value) > MAX_LOOKS


def work_bound(schema: Json, owner: str) -> WorkBound:
    """Return the bound for a schema that the validator accepts.

    Raises ToolDefinitionError if one value alone could take too much work.
    """
    keys: set[str] = set()
    count = more = 0
    for node in tables(schema):
        keys.update(node)
        count += 1
        more += len(as_object(node.get("patternProperties"))) + _comparisons(node)
    unique = "uniqueItems" in keys
    if not _IN_PLACE & keys and more <= FEW:
        return WorkBound(1, None, unique)
    if count + more <= FEW and keys.isdisjoint(_REFERENCES):  # each part of the schema looks at one place of a value
        return WorkBound(count + more, None, unique)
    graph = Branching(schema, owner)
    most = graph.most()
    return WorkBound(most, graph if most > FEW else None, unique)


def _comparisons(node: Json) -> int:
    """Return the looks that a schema takes to compare a value with its constants and to divide it."""
    count = 0 if isinstance(node.get("multipleOf", 1), int) else _EXACT
    options: Any = node.get("enum")
    members: list[Any] = [node.get("const"), *(options if isinstance(options, list) else ())]
    if all(member is None or isinstance(member, str | bool) for member in members):
        return count  # the validator looks a text up in a table
    for each in (inner for member in members for inner in every(member)):
        is_short = isinstance(each, int) and each.bit_length() < 64
        count += 5 if is_short else _EXACT if isinstance(each, int | float) else 1
    return count


def tables(schema: Any) -> Iterator[Json]:
    """Yield every object of a schema, without those in constants, defaults and examples."""
    waiting: list[Any] = [schema]
    while waiting:
        item = waiting.pop()
        if isinstance(item, dict):
            yield cast("Json", item)
            waiting.extend(value for key, value in cast("Json", item).items() if key not in _DATA)
        elif isinstance(item, list):
            waiting.extend(cast("list[Any]", item))


@dataclass(frozen=True, slots=True)
class _Place:
    """What one schema says about a value: looks at the value itself, and schemas for its parts with their number.

    `others` are those of a property or item that is not named, `named` what is different for one that is.
    """

    looks: int
    named: dict[str | int, dict[int, int]]
    others: dict[int, int]


class Branching:
    """How many looks a schema needs at a value of each level."""

    def __init__(self, schema: Json, owner: str) -> None:
        self._owner = owner
        self._references = _References(schema, owner)
        self._edges = self._spent = 0
        self._schemas: dict[int, Json] = {id(schema): schema}
        self._places: dict[int, _Place] = {}
        self._inner: dict[int, list[Json]] = {}
        waiting = [schema]
        while waiting:
            entry = waiting.pop()
            if id(entry) in self._places:
                continue
            place = self._places[id(entry)] = self._place(entry)
            parts = {*place.others, *(key for parts in place.named.values() for key in parts)}
            waiting.extend(self._schemas[part] for part in parts if part not in self._places)
        self._root = id(schema)
        self._last = {key: place.looks for key, place in self._places.items()}
        self._looks = [self._last[self._root]]
        self._settled = False

    def most(self) -> int:
        """Return the looks at a value of the worst level."""
        at, most = 0, 0
        while at < _MAX_LEVELS and most <= FEW and not (self._settled and at >= len(self._looks)):
            most = max(most, self.looks(at))
            at += 1
        return most

    def looks(self, level: int) -> int:
        """Return the most looks at one value on a level of the arguments (0 is the whole)."""
        while len(self._looks) <= min(level, _MAX_LEVELS) and not self._settled:
            self._spent += self._edges
            if self._spent > _MAX_STEPS:  # so deep a value of so large a schema is refused
                self._looks.append(MAX_LOOKS + 1)
                self._settled = True
                break
            following = {key: self._below(place) for key, place in self._places.items()}
            self._settled = following == self._last
            self._last = following
            self._looks.append(following[self._root])
        return self._looks[min(level, len(self._looks) - 1)]

    def _below(self, place: _Place) -> int:
        last = self._last
        others = sum(last[key] * number for key, number in place.others.items())
        named = (sum(last[key] * number for key, number in parts.items()) for parts in place.named.values())
        return min(others + max(0, max(named, default=0)), MAX_LOOKS + 1)

    def _place(self, schema: Json) -> _Place:
        ways = self._ways(schema)
        others: dict[int, int] = {}
        found: dict[str | int, dict[int, int]] = {}
        for node, number in ways:
            named, rest, always = self._parts(node)
            for part in (*rest, *always):
                _add(others, part, number)
            for label, part in named.items():
                counts = found.setdefault(label, {})
                _add(counts, part, number)
                for other in rest:  # the schema of the rest is not asked about a part that is named
                    _add(counts, other, -number)
            self._count(len(named) + 1)
        return _Place(sum(number * (1 + _comparisons(node)) for node, number in ways), found, others)

    def _ways(self, schema: Json) -> list[tuple[Json, int]]:
        """Return every schema that is applied to the same value, with the number of ways to it."""
        order: list[Json] = []
        state: dict[int, bool] = {}  # False while what it leads to is looked at
        waiting: list[tuple[Json, bool]] = [(schema, False)]
        while waiting:
            node, done = waiting.pop()
            if done:
                state[id(node)] = True
                order.append(node)
            elif id(node) not in state:
                state[id(node)] = False
                waiting.append((node, True))
                for inner in self._in_place(node):
                    if state.get(id(inner)) is False:
                        text = "a part of it refers to itself without describing a part of the value"
                        raise ToolDefinitionError(f"{self._owner}: the schema cannot be checked: {text}")
                    waiting.append((inner, False))
        ways: dict[int, int] = {id(schema): 1}
        for node in reversed(order):
            for inner in self._in_place(node):
                ways[id(inner)] = ways.get(id(inner), 0) + ways[id(node)]
                if ways[id(inner)] > MAX_WAYS:
                    raise self._too_many()
        found = [(node, ways[id(node)]) for node in order]
        if sum(number for _, number in found) > MAX_WAYS:
            raise self._too_many()
        return found

    def _too_many(self) -> ToolDefinitionError:
        text = f"its alternatives (anyOf, allOf, oneOf, $ref …) check one value in more than {MAX_WAYS:,} ways"
        return ToolDefinitionError(f"{self._owner}: the schema cannot be checked in a bounded time: {text}")

    def _count(self, edges: int) -> None:
        self._edges += edges
        if self._edges > _MAX_EDGES:
            raise self._too_many()

    def _in_place(self, node: Json) -> list[Json]:
        """Return the schemas that a schema applies to the same value."""
        known = self._inner.get(id(node))
        if known is not None:
            return known
        if _IN_PLACE.isdisjoint(node):
            return []
        found = [item for key in _LISTS for item in objects_of(node.get(key))]
        found += [item for key in _SINGLE for item in objects_of([node.get(key)])]
        found += [item for key in _MAPS for item in _values(node.get(key))]
        for key in _REFERENCES:
            if isinstance(node.get(key), str):
                found += self._references.targets(node, key)
        if "unevaluatedProperties" in node or "unevaluatedItems" in node:
            found += found  # they are asked once more which parts they described
        self._count(len(found))
        self._inner[id(node)] = found
        return found

    def _parts(self, node: Json) -> tuple[dict[str | int, int], list[int], list[int]]:
        """Return schemas of parts: of single ones, of those that are not named here, and of any."""
        named: dict[str | int, Any] = {}
        properties: Any = node.get("properties")
        if isinstance(properties, dict):
            named.update(cast("Json", properties))
        prefix, items = node.get("prefixItems"), node.get("items")
        if isinstance(items, list):
            prefix, items = cast("Any", items), node.get("additionalItems")
        if isinstance(prefix, list):
            named.update(enumerate(cast("list[Any]", prefix)))
        rest = [node.get("additionalProperties"), items]
        always = [node.get(key) for key in ("contains", "propertyNames", "unevaluatedProperties", "unevaluatedItems")]
        tried = as_object(node.get("patternProperties")).values()  # each pattern, at each key
        always += [value if isinstance(value, dict) else _ANYTHING for value in tried]
        return (
            {label: self._known(item) for label, item in named.items() if isinstance(item, dict)},
            [self._known(item) for item in rest if isinstance(item, dict)],
            [self._known(item) for item in always if isinstance(item, dict)],
        )

    def _known(self, schema: Any) -> int:
        self._schemas[id(schema)] = schema
        return id(schema)


def _add(counts: dict[int, int], part: int, number: int) -> None:
    counts[part] = counts.get(part, 0) + number


def _values(value: Any) -> list[Json]:
    return objects_of(list(as_object(value).values()))


class _References:
    """Finds what a reference names, as JSON Schema says: relative to the nearest `$id`, by pointer or by anchor."""

    def __init__(self, root: Json, owner: str) -> None:
        self._owner = owner
        self._named: dict[str, Json] = {"": root}
        self._dynamic: dict[str, list[Json]] = {}
        self._bases: dict[int, str] = {}
        waiting: list[tuple[Any, str]] = [(root, "")]
        while waiting:
            item, base = waiting.pop()
            if isinstance(item, list):
                waiting += [(each, base) for each in cast("list[Any]", item)]
            elif isinstance(item, dict):
                node = cast("Json", item)
                base = self._enter(node, base)
                waiting += [(value, base) for key, value in node.items() if key not in _DATA]

    def _enter(self, node: Json, base: str) -> str:
        for key in ("$id", "id"):
            named = node.get(key)
            if isinstance(named, str) and not named.startswith("#"):
                base = urljoin(base, named).partition("#")[0]
                self._named.setdefault(base, node)
            elif isinstance(named, str):
                self._named.setdefault(f"{base}{named}", node)
        for key in ("$anchor", "$dynamicAnchor"):
            if isinstance(node.get(key), str):
                self._named.setdefault(f"{base}#{node[key]}", node)
        if isinstance(node.get("$dynamicAnchor"), str):
            self._dynamic.setdefault(node["$dynamicAnchor"], []).append(node)
        if node.get("$recursiveAnchor") is True:
            self._dynamic.setdefault("", []).append(node)
        self._bases[id(node)] = base
        return base

    def targets(self, node: Json, key: str) -> list[Json]:
        """Return the schemas that a reference may lead to. Raises ToolDefinitionError if none is found."""
        said: str = node[key]
        base = self._bases.get(id(node), "")
        full = f"{base}{said}" if said.startswith("#") else urljoin(base, said)
        document, _, within = full.partition("#")
        found = self._pointed(document, within) if within[:1] in ("", "/") else self._named.get(full)
        several = self._dynamic.get(within, []) if key != "$ref" else []
        if found is None and not several and not full.startswith(_META):
            raise ToolDefinitionError(f"{self._owner}: the reference {said[:200]!r} in its schema leads nowhere")
        return [*several, *([] if found is None or any(found is each for each in several) else [found])]

    def _pointed(self, document: str, pointer: str) -> Json | None:
        node = value_at(self._named.get(document), pointer)
        if isinstance(node, bool):
            return _ANYTHING
        return cast("Json", node) if isinstance(node, dict) else None
