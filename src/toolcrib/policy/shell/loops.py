"""Read loops, and find what is known inside and after them: a body is read until nothing more becomes unknown."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from .parts import Command, Word
from .script_walk import ScriptWalk
from .state import UNKNOWN, Listed, State, Value
from .tree import ArithFor, For, Raw, Simple, Subst, While
from .unsure import Unsure
from .words import arguments

MAX_ITEMS = 32  # items of a loop that are read one by one
_CLIMBS = re.compile(r"(?:\A|/)\.(?:\.?(?:/|\Z)|[.*?\[])")  # a part of a pattern that could match `..`


def note_forks(reader: ScriptWalk, node: While | ArithFor) -> None:
    """Note a loop without an end that starts something in every round and waits for none of it: known harm."""
    if isinstance(node, While):
        condition = node.condition[0].node if len(node.condition) == 1 else None
        words = condition.words if isinstance(condition, Simple) else ()
        always = bool(words) and words[0].plain in (("false",) if node.until else (":", "true", "[", "test", "sleep"))
    else:
        always = True
    names = {item.node.words[0].plain for item in node.body if isinstance(item.node, Simple) and item.node.words}
    if always and any(item.background for item in node.body) and not names & {"wait", "break", "exit", "return"}:
        reader.problem(Unsure("a loop without end starts processes", "", "shell:fork-bomb"), "deny")


def read_loop(reader: ScriptWalk, walk: Callable[[], object]) -> None:
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


def while_round(reader: ScriptWalk, node: While) -> None:
    """Read one round of while or until."""
    failed = reader.items(node.condition)
    reader.fall(failed)
    reader.fall(reader.items(node.body))


def for_loop(reader: ScriptWalk, node: For) -> None:
    """Read a loop over words: one by one if they are known."""
    if node.words is None:
        values = None if reader.state.arguments is None else list(reader.state.arguments)
    else:
        items = arguments(node.words, reader)
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


def loop_names(reader: ScriptWalk, node: For, items: list[Word]) -> None:
    """Note the loop's variable if it matters by itself: other programs obey it, or it comes from a pattern."""
    told = items if node.name.lower() != node.name else [word for word in items if word.glob]
    if told:
        reader.emit(Command((), tuple((node.name, word) for word in told)))


def listing_of(reader: ScriptWalk, raws: tuple[Raw, ...]) -> list[Listed] | None:
    """Return the names of files that a loop's only word, a substitution, lists."""
    pieces = raws[0].pieces if len(raws) == 1 else ()
    if len(pieces) != 1 or not isinstance(pieces[0], Subst):
        return None
    return reader.listings.get(id(pieces[0].body))


def rounds(reader: ScriptWalk, node: For, values: Sequence[Value | Listed]) -> None:
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


def for_round(reader: ScriptWalk, node: For, value: Value | Listed) -> None:
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
