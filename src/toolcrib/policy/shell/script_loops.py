"""Read loops, and find what is known inside and after them: a body is read until nothing more becomes unknown."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from .parts import Command, Word
from .script_walk import ScriptWalk
from .shell_state import UNKNOWN, LoopPattern, State, Value
from .tree import ArithFor, For, Simple, Unsure, While
from .words import arguments

MAX_ITEMS = 32  # items of a loop that are read one by one


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
        reader.framed(walk)
        reader.state.join(entry)
        if reader.state.same(entry):
            break
    else:
        reader.state.forget()
        reader.framed(walk)
        reader.state.forget()
    reader.conditions -= 1


def for_loop(reader: ScriptWalk, node: For) -> None:
    """Read a loop over words: one by one if they are known."""
    items = arguments(node.words, reader)
    reader.emit(Command((), tuple((node.name, word) for word in items)))  # other programs may obey the variable
    values = None if any(word.many for word in items) else [_item_value(word) for word in items]
    if values is None or len(values) > MAX_ITEMS:
        read_loop(reader, lambda: for_round(reader, node, UNKNOWN))
    elif any(isinstance(value, LoopPattern) or None in value for value in values):
        read_loop(reader, lambda: [for_round(reader, node, value) for value in values])
    else:
        rounds(reader, node, values)


def rounds(reader: ScriptWalk, node: For, values: Sequence[Value | LoopPattern]) -> None:
    """Read a loop over known words, in order."""
    reader.repeats = True
    reader.conditions += 1
    gone: list[State] = []
    for value in values:  # `continue` leaves a round
        gone += reader.framed(lambda value=value: for_round(reader, node, value))
    for state in gone:  # `break`
        reader.state.join(state)
    reader.conditions -= 1


def for_round(reader: ScriptWalk, node: For, value: Value | LoopPattern) -> None:
    """Read one round of a loop over words."""
    reader.state.set(node.name, value)
    reader.fall(reader.items(node.body))


def _item_value(word: Word) -> Value | LoopPattern:
    """Return the value of a loop's variable for one word of its list."""
    if not word.glob:
        return word.parts
    pattern = LoopPattern(word.start)
    if word.splits:  # the variable of a loop around it: a name with a blank becomes several
        return UNKNOWN
    return pattern.parts if None in word.parts or "\\" in word.start else pattern
