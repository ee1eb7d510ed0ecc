"""Read loops, and find what is known inside and after them: a body is read until nothing more becomes unknown."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from . import words as expansion
from .parts import Command, Word
from .state import UNKNOWN, Listed, State, Value, known
from .tree import ArithFor, For, Item, Raw, Simple, Subst, While
from .unsure import Unsure

if TYPE_CHECKING:
    from .reader import Reader

MAX_ITEMS = 32  # items of a loop that are read one by one
_CLIMBS = re.compile(r"(?:\A|/)\.(?:\.?(?:/|\Z)|[.*?\[])")  # a part of a pattern that could match `..`


def note_endless(reader: Reader, node: While) -> None:
    """Note a loop without an end. It is known harm if it starts processes in every round."""
    from .endless import loops_forever

    if loops_forever(node):
        runs_forever(reader, node.body)


def arithmetic_always(reader: Reader, node: ArithFor) -> bool:
    """Return whether `for ((;;))` has no condition and nothing leaves the loop."""
    from .endless import loops_forever

    text = known(expansion.single(node.pieces, reader)) or ""
    parts = text.split(";")
    empty = len(parts) == 3 and parts[1].strip() in ("", "1")
    forever = Simple((), (Raw("true", (), "true"),), (), "true")
    return empty and loops_forever(While((Item(forever),), node.body))


def runs_forever(reader: Reader, body: tuple[Item, ...]) -> None:
    """Note a loop without an end. It is known harm if it starts processes in every round."""
    from .endless import multiplies

    if multiplies(body):
        reader.problem(Unsure("a loop without end starts processes", "", "shell:fork-bomb"), "deny")
    else:
        reader.problem(Unsure("a loop has no end", "", "shell:endless"))


def read_loop(reader: Reader, walk: Callable[[], object]) -> None:
    """Read a loop's body until everything known at its start is still true at its end."""
    reader.repeats = True
    reader.conditions += 1
    for _ in range(6):
        entry = reader.state.copy()
        reader.frames.append([])
        walk()
        for left in reader.frames.pop():
            reader.state.join(left)
        reader.state.join(entry)
        if reader.state.same(entry):
            break
    else:
        reader.state.forget()
        reader.frames.append([])
        walk()
        reader.frames.pop()
        reader.state.forget()
    reader.conditions -= 1


def while_round(reader: Reader, node: While) -> None:
    """Read one round of while or until."""
    failed = reader.items(node.condition)
    reader.fall(failed)
    reader.fall(reader.items(node.body))


def for_loop(reader: Reader, node: For) -> None:
    """Read a loop over words: one by one if they are known."""
    if node.words is None:
        values = None if reader.state.arguments is None else list(reader.state.arguments)
    else:
        items = expansion.arguments(node.words, reader)
        loop_names(reader, node, items)
        listing = listing_of(reader, node.words)
        if listing is not None:
            values = listing
        else:
            values = None if any(word.many for word in items) else [_item_value(word) for word in items]
    if node.select or values is None or len(values) > MAX_ITEMS:
        read_loop(reader, lambda: for_round(reader, node, UNKNOWN))
    elif any(isinstance(value, Listed) or None in value for value in values):
        read_loop(reader, lambda: [for_round(reader, node, value) for value in values])
    else:
        rounds(reader, node, values)


def loop_names(reader: Reader, node: For, items: list[Word]) -> None:
    """Note the loop's variable if it matters by itself: other programs obey it, or it comes from a pattern."""
    told = items if node.name.lower() != node.name else [word for word in items if word.glob]
    if told:
        reader.emit(Command((), tuple((node.name, word) for word in told)))


def listing_of(reader: Reader, raws: tuple[Raw, ...]) -> list[Listed] | None:
    """Return the names of files that a loop's only word, a substitution, lists."""
    pieces = raws[0].pieces if len(raws) == 1 else ()
    if len(pieces) != 1 or not isinstance(pieces[0], Subst):
        return None
    return reader.listings.get(id(pieces[0].body))


def rounds(reader: Reader, node: For, values: Sequence[Value | Listed]) -> None:
    """Read a loop over known words, in order."""
    reader.repeats = True
    reader.conditions += 1
    gone: list[State] = []
    for value in values:
        reader.frames.append([])
        for_round(reader, node, value)
        left = reader.frames.pop()
        for state in left:  # `continue`
            reader.state.join(state)
        gone += left
    for state in gone:  # `break`
        reader.state.join(state)
    reader.conditions -= 1


def for_round(reader: Reader, node: For, value: Value | Listed) -> None:
    """Read one round of a loop over words."""
    reader.state.set(node.name, value)
    if node.select:
        reader.state.vars["REPLY"] = UNKNOWN
    reader.fall(reader.items(node.body))


def _item_value(word: Word) -> Value | Listed:
    """Return the value of a loop's variable for one word of its list."""
    if word.text is not None:
        return (word.text,)
    if word.origin == "listed":
        return Listed(word.parts if None in word.parts else UNKNOWN, "" if None in word.parts else word.start)
    if not word.glob:
        return word.parts
    start = re.split(r"[*?\[\\]", word.start)[0]
    value = (start, None) if start else UNKNOWN
    if None in word.parts or "\\" in word.start or _CLIMBS.search(word.start[start.rfind("/") + 1 :]):
        return value
    return Listed(value, word.start)
