"""Compute the words and assignments of a simple command."""

from __future__ import annotations

import re

from ...core.text import lazy_regex
from . import expansion
from .parts import Command, Word
from .script_walk import ScriptWalk
from .shell_state import OUTER, UNKNOWN, Array, Value, known
from .simple import DECLARATIONS
from .tree import Assign, Lit, Piece, Raw, Simple
from .words import arguments


def words_of(reader: ScriptWalk, node: Simple) -> tuple[Word, ...]:
    """Return a simple command's words. Assignments after `export` and similar builtins are not split."""
    if not node.words:
        return ()
    if node.words[0].plain not in DECLARATIONS:
        return tuple(arguments(node.words, reader))
    words: list[Word] = []
    for raw in node.words:
        first = raw.pieces[0] if raw.pieces else None
        if raw.assign is not None:
            by_name = any(each.plain == "-A" for each in node.words) and raw.assign.name not in reader.array_names
            reader.arrays[raw.assign.name] = array_value(reader, raw.assign, by_name=by_name)
            words.append(Word((f"{getattr(first, 'text', '')}(", None, ")"), raw.source))
        elif raw.plain is None and first is not None and re.match(r"[A-Za-z_]\w*\+?=", getattr(first, "text", "")):
            words.append(declared(reader, raw))
        else:
            words.extend(arguments((raw,), reader))
    return tuple(words)


def declared(reader: ScriptWalk, raw: Raw) -> Word:
    """Return an assignment that is an argument of `export`, as a word."""
    first, *rest = raw.pieces
    text = getattr(first, "text", "")
    name, _, value = text.partition("=")
    pieces = (type(first)(value, getattr(first, "quoted", False)), *rest)  # type: ignore[call-arg]
    parts = expansion.merge([f"{name}=", *expansion.single(pieces, reader, assignment=True)])  # type: ignore[arg-type]
    return Word(parts, raw.source)


def assign_all(reader: ScriptWalk, assigns: tuple[Assign, ...]) -> tuple[tuple[str, Word], ...]:
    """Make assignments that stay in force, and return their names and values."""
    found: list[tuple[str, Word]] = []
    for assign in assigns:
        value = assigned_value(reader, assign)
        reader.state.set(assign.name, value)
        found.append((assign.name, Word(UNKNOWN if isinstance(value, Array) else value, assign.value.source)))
    return tuple(found)


def temporary(reader: ScriptWalk, assigns: tuple[Assign, ...]) -> tuple[tuple[str, Word], ...]:
    """Return the assignments before a command. They hold for that command alone."""
    kept = reader.state.vars.copy()
    found = assign_all(reader, assigns)
    reader.state.vars = kept
    return found


def assigned_value(reader: ScriptWalk, assign: Assign) -> Value | Array:
    """Return the value that an assignment gives to a variable."""
    if assign.subscript is not None:
        expansion.indexed(assign.subscript, reader)
    if assign.array is not None:
        return array_value(reader, assign)
    value = expansion.single(assign.value.pieces, reader, assignment=True)
    text = known(value)
    if text is not None and expansion.runs_later(text):
        expansion.expression(text, reader)
    if assign.subscript is not None:
        return UNKNOWN
    if assign.append:
        if reader.state.vars.get(assign.name, OUTER) == OUTER:
            return OUTER
        before = reader.state.get(assign.name)
        return expansion.merge([*before, *value]) if isinstance(before, tuple) else UNKNOWN
    return value


def array_value(reader: ScriptWalk, assign: Assign, *, by_name: bool = False) -> Value | Array:
    """Return the elements of `name=(…)`; unknown if it has subscripts other than 0, 1, 2 … in order. Other subscripts
    are evaluated, unless the array is certainly one whose elements have names (`declare -A`)."""
    reader.array_names.add(assign.name)
    for raw in () if by_name else assign.array or ():
        if raw.source.startswith("[") and re.search(r"\]\+?=", raw.source) and not _NUMBERED.match(raw.source):
            expansion.evaluates(reader, raw.source)
    given = [_subscripted(raw, at) for at, raw in enumerate(assign.array or ())]
    if all(given) and not assign.append:
        return Array(tuple(expansion.single(pieces, reader, assignment=True) for pieces in given if pieces))
    words = arguments(assign.array or (), reader)
    for word in words:
        if word.glob:  # bash lists the folder
            reader.emit(Command((), ((assign.name, word),)))
    texts = [word.text for word in words]
    if any(text is None or re.match(r"\[[^]]*\]\+?=", text) for text in texts):
        return UNKNOWN
    return UNKNOWN if assign.append else Array(tuple((text or "",) for text in texts))


_NUMBERED = lazy_regex(r"\[[0-9]+\]\+?=")


def _subscripted(raw: Raw, at: int) -> tuple[Piece, ...] | None:
    """Return the value of an element that is written as `[at]=value`."""
    first, *rest = raw.pieces or (Lit("", False),)
    start = f"[{at}]="
    if not isinstance(first, Lit) or first.quoted or not first.text.startswith(start):
        return None
    return (Lit(first.text[len(start) :], False), *rest)
