"""Regular expressions of users: compiled, and refused where matching could take exponential time.

Python's `re` backtracks and knows no time limit. It takes exponential time where a repeated part can go round in two
ways over the same text: `(a+)+`, `(a|a)*`, `(.*,)*`. That is looked for in the automaton of the expression (Glushkov
1961; the criterion is Weber and Seidl's EDA, 1991). What passes takes polynomial time, of a degree that grows with the
number of parts that can take the same characters (`.*.*.*x` is cubic), so callers limit the length of the text.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

_MANY = 5  # so many repetitions, those of nested repeats multiplied, are taken as without end
_COPIES = 16  # of a part that is repeated a fixed number of times; more say nothing new
_MOST_PLACES = 2_000
_MOST_PAIRS = 50_000  # of places that are looked at together
# What stands for all characters: Latin-1, and one each of other letters, digits, spaces and signs.
_SAMPLE = [chr(n) for n in range(256)] + list("ĀāЖж٣\u2003\u2028中€😀")


class SlowPattern(ValueError):
    """Matching could take exponential time."""


def compile_pattern(text: str, flags: int = 0) -> re.Pattern[str]:
    """A user's expression. Raises ValueError that says what is wrong with it, SlowPattern among them."""
    try:
        found = re.compile(text, flags)
    except (re.error, RecursionError, OverflowError) as error:
        raise ValueError(f"{text!r} is no regular expression: {error}") from None
    if _is_slow(text, flags):
        raise SlowPattern(
            f"{text!r} could take exponential time (or is too long to tell): a part that is repeated can match the "
            "same text in several ways, as in (a+)+ or (.*,)*; write it so that there is one, as in ([^,]*,)*"
        )
    return found


@functools.lru_cache(256)
def _is_slow(text: str, flags: int) -> bool:
    from re import _parser  # pyright: ignore[reportPrivateUsage, reportAttributeAccessIssue, reportUnknownVariableType]

    places = _Places(bool(flags & re.IGNORECASE or re.search(r"\(\?[a-z]*i", text)))
    try:
        places.sequence(_parser.parse(text, flags))  # pyright: ignore[reportUnknownMemberType, reportUnknownArgumentType]
        return _turns_twice(places)
    except (_TurnsTwice, _TooLarge):
        return True


class _TurnsTwice(Exception):
    """A part that is repeated can be matched in two ways."""


class _TooLarge(Exception):
    """The expression has more places than are looked at."""


@dataclass(frozen=True, slots=True)
class _Part:
    """A part of an expression: in how many ways it can be empty (0, 1, 2 or more), and where it can begin and end."""

    empty: int = 1
    first: tuple[int, ...] = ()
    last: tuple[int, ...] = ()


@dataclass(slots=True)
class _Places:
    """The places of an expression that take a character each: which ones (bits of `_SAMPLE`), and what can follow."""

    fold: bool
    takes: list[int] = field(default_factory=list[int])
    follow: list[list[int]] = field(default_factory=list[list[int]])
    doubles: int = 0  # parts so far that can be empty in two ways
    times: float = 1  # how often the repeats around repeat

    def sequence(self, items: Any) -> _Part:
        """Items one after the other."""
        whole = _Part()
        for op, value in items:
            whole = self._then(whole, self._item(str(op), value))
        return whole

    def _then(self, left: _Part, right: _Part) -> _Part:
        self._connect(left.last, right.first)
        return _Part(
            min(2, left.empty * right.empty),
            left.first + right.first if left.empty else left.first,
            right.last + left.last if right.empty else right.last,
        )

    def _connect(self, ends: tuple[int, ...], begins: tuple[int, ...]) -> None:
        for place in ends:
            self.follow[place].extend(begins)

    def _item(self, op: str, value: Any) -> _Part:
        match op:
            case "LITERAL" | "NOT_LITERAL" | "IN" | "ANY" | "GROUPREF":
                return self._place(op, value)
            case "SUBPATTERN":
                return self.sequence(value[3])
            case "ATOMIC_GROUP":
                return self.sequence(value)
            case "BRANCH":
                return self._either(value[1])
            case "GROUPREF_EXISTS":
                return self._either([branch or () for branch in value[1:]])
            case "MAX_REPEAT" | "MIN_REPEAT" | "POSSESSIVE_REPEAT":
                return self._repeat(int(value[0]), int(value[1]), value[2])
            case "ASSERT" | "ASSERT_NOT":
                self.sequence(value[1])  # looked at by itself: it takes nothing
                return _Part()
            case _:  # AT: a position
                return _Part()

    def _either(self, branches: Any) -> _Part:
        parts = [self.sequence(branch) for branch in branches]
        return _Part(
            self._empty(sum(part.empty for part in parts)),
            tuple(place for part in parts for place in part.first),
            tuple(place for part in parts for place in part.last),
        )

    def _empty(self, ways: int) -> int:
        if ways > 1:
            self.doubles += 1
        return min(2, ways)

    def _repeat(self, least: int, most: int, body: Any) -> _Part:
        around, before = self.times, self.doubles
        self.times = around * max(1, most)
        many = self.times >= _MANY and most > 1
        begin = len(self.takes)
        whole = part = self.sequence(body) if most else _Part()
        single = len(self.takes) - begin == 1 and body.getwidth() == (1, 1)
        for _ in range(min(least, _COPIES) - 1):
            whole = self._then(whole, self.sequence(body))
        if many and self.doubles > before:
            raise _TurnsTwice
        if most > max(least, 1) or (many and not single):
            self._connect(whole.last, whole.first)
        self.times = around
        ways = part.empty if most == 1 else 2 * part.empty
        return _Part(self._empty(ways + (not least)), whole.first, whole.last)

    def _place(self, op: str, value: Any) -> _Part:
        if len(self.takes) >= _MOST_PLACES:
            raise _TooLarge
        self.takes.append(_characters(op, value, self.fold))
        self.follow.append([])
        place = (len(self.takes) - 1,)
        return _Part(0, place, place)


def _turns_twice(places: _Places) -> bool:
    """Whether one place can be reached again from itself in two ways over the same text."""
    follow, takes = places.follow, places.takes
    cycle = _components({place: set(after) for place, after in enumerate(follow)})
    for place, after in enumerate(follow):
        again = [each for each in after if cycle[each] == cycle[place]]
        if len(again) != len(set(again)):  # by two repeats at once: (a+)+
            return True
    inside = [[each for each in after if cycle[each] == cycle[place]] for place, after in enumerate(follow)]
    graph: dict[tuple[int, int], set[tuple[int, int]]] = {}
    todo = [(place, place) for place in range(len(takes)) if inside[place]]
    while todo:
        pair = todo.pop()
        if pair in graph:
            continue
        if len(graph) >= _MOST_PAIRS:
            raise _TooLarge
        left, right = pair
        graph[pair] = {(min(a, b), max(a, b)) for a in inside[left] for b in inside[right] if takes[a] & takes[b]}
        todo += graph[pair]
    together = _components(graph)
    same = {number for (left, right), number in together.items() if left == right}
    return any(left != right and number in same for (left, right), number in together.items())


def _components(graph: dict[Any, set[Any]]) -> dict[Any, int]:
    """The strongly connected component of each node, by number (Tarjan 1972, without recursion)."""
    index: dict[Any, int] = {}
    low: dict[Any, int] = {}
    found: dict[Any, int] = {}
    stack: list[Any] = []
    for root in graph:
        work = [] if root in index else [(root, iter(graph[root]))]
        if work:
            index[root] = low[root] = len(index)
            stack.append(root)
        while work:
            node, rest = work[-1]
            for after in rest:
                if after not in index:
                    index[after] = low[after] = len(index)
                    stack.append(after)
                    work.append((after, iter(graph[after])))
                    break
                if after not in found:
                    low[node] = min(low[node], index[after])
            else:
                work.pop()
                if work:
                    low[work[-1][0]] = min(low[work[-1][0]], low[node])
                if low[node] == index[node]:
                    while True:
                        member = stack.pop()
                        found[member] = index[node]
                        if member == node:
                            break
    return found


def _characters(op: str, value: Any, fold: bool) -> int:
    """Which characters of the sample a place takes."""
    match op:
        case "LITERAL" | "NOT_LITERAL":
            found = _bits(lambda c: ord(c) == value, fold)
            if op == "LITERAL":
                return found or 1 << len(_SAMPLE) + value  # a character that is not in the sample
            return _ALL & ~found
        case "IN":
            return _set(value, fold)
        case _:
            return _ALL


def _set(items: Any, fold: bool) -> int:
    found, negated = 0, False
    for op, value in items:
        match str(op):
            case "NEGATE":
                negated = True
            case "RANGE":
                found |= _bits(_between(value[0], value[1]), fold)
            case "CATEGORY":
                found |= _category(str(value))
            case _:
                found |= _characters("LITERAL", value, fold)
    return _ALL & ~found if negated else found


def _bits(takes: Callable[[str], object], fold: bool) -> int:
    found = 0
    for n, char in enumerate(_SAMPLE):
        if takes(char) or (fold and (takes(char.lower()[0]) or takes(char.upper()[0]))):
            found |= 1 << n
    return found


def _between(low: int, high: int) -> Callable[[str], bool]:
    return lambda char: low <= ord(char) <= high


@functools.cache
def _category(name: str) -> int:
    letter = {"DIGIT": "d", "SPACE": "s", "WORD": "w"}[name.rpartition("_")[2]]
    expression = re.compile("\\" + (letter.upper() if "_NOT_" in name else letter))
    return _bits(lambda c: expression.match(c), False)


_ALL = (1 << len(_SAMPLE)) - 1
