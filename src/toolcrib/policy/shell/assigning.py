"""Compute the words and assignments of a simple command."""

from __future__ import annotations

import re

from . import expansion
from .parts import Command, Word
from .script_walk import ScriptWalk
from .shell_state import OUTER, UNKNOWN, Value, known
from .simple import DECLARATIONS
from .tree import Assign, Raw, Simple, Unsure
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
        if raw.plain is None and first is not None and re.match(r"[A-Za-z_]\w*\+?=", getattr(first, "text", "")):
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
        found.append((assign.name, Word(value, assign.value.source)))
    return tuple(found)


def temporary(reader: ScriptWalk, assigns: tuple[Assign, ...]) -> tuple[tuple[str, Word], ...]:
    """Return the assignments before a command. They hold for that command alone."""
    kept = reader.state.vars.copy()
    found = assign_all(reader, assigns)
    reader.state.vars = kept
    return found


def assigned_value(reader: ScriptWalk, assign: Assign) -> Value:
    """Return the value that an assignment gives to a variable."""
    if assign.subscript is not None:
        expansion.indexed(assign.name, assign.subscript, reader)
    if assign.array is not None:
        read_array(reader, assign)
        return UNKNOWN
    value = expansion.single(assign.value.pieces, reader, assignment=True)
    expansion.runs_later(known(value), reader)
    if assign.subscript is not None:
        return UNKNOWN
    if assign.append:
        if reader.posix:
            raise Unsure("`sh` takes this for a program", f"{assign.name}+={assign.value.source}", "shell:dialect")
        if reader.state.vars.get(assign.name, OUTER) == OUTER:
            return OUTER
        before = reader.state.get(assign.name)
        return expansion.merge([*before, *value]) if before is not None else UNKNOWN
    return value


def read_array(reader: ScriptWalk, assign: Assign) -> None:
    """Read the elements of `name=(…)`: what they run, and what they list. Their values are not computed."""
    expansion.other_shell(reader, f"{assign.name}=(…)")
    for word in arguments(assign.array or (), reader):
        if word.glob:  # bash lists the folder
            reader.emit(Command((), ((assign.name, word),)))
