"""Compute the words and assignments of a simple command."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from . import words as expansion
from .parts import Command, Word
from .simple import DECLARATIONS
from .state import UNKNOWN, Array, Value, known
from .tree import Assign, Raw, Simple

if TYPE_CHECKING:
    from .reader import Reader


def words_of(reader: Reader, node: Simple) -> tuple[Word, ...]:
    """Return a simple command's words. Assignments after `export` and similar builtins are not split."""
    if not node.words:
        return ()
    if node.words[0].plain not in DECLARATIONS:
        return tuple(expansion.arguments(node.words, reader))
    words: list[Word] = []
    for raw in node.words:
        first = raw.pieces[0] if raw.pieces else None
        if raw.plain is None and first is not None and re.match(r"[A-Za-z_]\w*\+?=", getattr(first, "text", "")):
            words.append(declared(reader, raw))
        else:
            words.extend(expansion.arguments((raw,), reader))
    return tuple(words)


def declared(reader: Reader, raw: Raw) -> Word:
    """Return an assignment that is an argument of `export`, as a word."""
    first, *rest = raw.pieces
    text = getattr(first, "text", "")
    name, _, value = text.partition("=")
    pieces = (type(first)(value, getattr(first, "quoted", False)), *rest)  # type: ignore[call-arg]
    parts = expansion.merge([f"{name}=", *expansion.single(pieces, reader, assignment=True)])  # type: ignore[arg-type]
    return Word(parts, raw.source)


def assign_all(reader: Reader, assigns: tuple[Assign, ...]) -> tuple[tuple[str, Word], ...]:
    """Make assignments that stay in force, and return their names and values."""
    found: list[tuple[str, Word]] = []
    for assign in assigns:
        value = assigned_value(reader, assign)
        reader.state.set(assign.name, value)
        found.append((assign.name, Word(UNKNOWN if isinstance(value, Array) else value, assign.value.source)))
    return tuple(found)


def temporary(reader: Reader, assigns: tuple[Assign, ...]) -> tuple[tuple[str, Word], ...]:
    """Return the assignments before a command. They hold for that command alone."""
    kept = reader.state.vars.copy()
    found = assign_all(reader, assigns)
    reader.state.vars = kept
    return found


def assigned_value(reader: Reader, assign: Assign) -> Value | Array:
    """Return the value that an assignment gives to a variable."""
    if assign.subscript is not None:
        expansion.single(assign.subscript, reader)
    if assign.array is not None:
        return array_value(reader, assign)
    value = expansion.single(assign.value.pieces, reader, assignment=True)
    text = known(value)
    if text is not None and expansion.runs_later(text):
        expansion.expression(text, reader)
    if assign.subscript is not None:
        return UNKNOWN
    if assign.append:
        before = reader.state.get(assign.name)
        return expansion.merge([*before, *value]) if isinstance(before, tuple) else UNKNOWN
    return value


def array_value(reader: Reader, assign: Assign) -> Value | Array:
    """Return the elements of `name=(…)`; unknown if it has subscripts other than 0, 1, 2 … in order."""
    words = expansion.arguments(assign.array or (), reader)
    for word in words:
        if word.glob:  # bash lists the folder
            reader.emit(Command((), ((assign.name, word),)))
    texts = [word.text for word in words]
    if all(text is not None and text.startswith(f"[{at}]=") for at, text in enumerate(texts)):
        texts = [text.partition("=")[2] if text is not None else None for text in texts]
    elif any(text is None or re.match(r"\[[^]]*\]\+?=", text) for text in texts):
        return UNKNOWN
    return UNKNOWN if assign.append else Array(tuple((text or "",) for text in texts))
