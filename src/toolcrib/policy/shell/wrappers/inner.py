"""Find what a program runs that runs another one: the usual way of reading options, and the result.

If an option is not listed, it is read both ways, with and without a value.
"""

from __future__ import annotations

from collections.abc import Iterator

from ....core.dataclass import dataclass
from ....core.text import lazy_regex
from ..expansion import merge
from ..parts import Command, Word, plain_name
from ..sorting import sort_words
from ..table import lookup
from ..table.program_spec import Program, SortedWords

MAX_INNER = 64
MANY = Word((None,), many=True)
_INSIDE = ("builtin", "command", "exec")  # the shell's own functions and builtins apply to what they run
_ASSIGNMENT = lazy_regex(r"[A-Za-z_][A-Za-z0-9_]*=")


@dataclass(slots=True, unsafe_hash=True)
class Inner:
    """A command that a wrapper runs: `words`, or the shell text `script` with its arguments.

    `reads` says that the script comes from standard input.

    `inside` says that the caller's own functions and builtins apply. `directory` is where it runs if not here (a
    word with a None part for an unknown place). `same` marks text that runs in the calling shell itself (`eval`).
    """

    words: tuple[Word, ...] = ()
    script: Word | None = None
    arguments: tuple[Word, ...] | None = ()
    arg0: Word | None = None
    assigns: tuple[tuple[str, Word], ...] = ()
    directory: Word | None = None
    reads: bool = False
    inside: bool = False
    same: bool = False
    later: bool = False  # it runs at a time when everything may have changed
    posix: bool = False
    fed: bool = True  # whether it reads the wrapper's own standard input
    unread: str = ""  # why a part that is known text was not computed, so that a person has to look at it


def options_of(words: tuple[Word, ...]) -> SortedWords:
    """Return the words of a wrapper sorted by its row in the table, up to the command that it runs."""
    name = plain_name(words[0].text) or ""
    row = lookup(name) or Program(wrapper=True)
    return sort_words(name, row, words[1:], Command(words))


def starts_of(call: SortedWords) -> Iterator[int]:
    """Yield the numbers of the words with which the command of a wrapper may begin."""
    yield from dict.fromkeys(at + 1 for at in (call.rest, *call.doubtful))


def wrapped(words: tuple[Word, ...]) -> Iterator[Inner]:
    """Yield the commands that a wrapper runs."""
    call = options_of(words)
    if call.has(*call.program.stops):
        return
    for start in starts_of(call):
        skipped = words[start : start + call.program.skips]
        unclear = any(word.many or word.glob for word in skipped)
        if unclear or any(not (word.text or "0")[:1].isdigit() for word in skipped):
            yield Inner(words[start:])  # there are versions for which it is no time, priority or mask
        if not unclear and (rest := words[start + len(skipped) :]):
            yield Inner(rest, inside=call.name in _INSIDE)


def split_assignment(word: Word) -> tuple[str, Word] | None:
    """Return NAME and value of a word `NAME=value`, or None."""
    match = _ASSIGNMENT.match(word.start)
    if match is None:
        return None
    name = match.group()[:-1]
    return name, Word((word.start[match.end() :], *word.parts[1:]), word.source, word.glob, word.many)


def joined(words: tuple[Word, ...]) -> Word:
    """Join words with blanks into one text."""
    parts: list[str | None] = []
    for index, word in enumerate(words):
        if index:
            parts.append(" ")
        parts.extend((None,) if word.many or word.glob else word.parts)
    return Word(tuple(parts))


def replaced(word: Word, mark: str, by: tuple[str | None, ...]) -> Word:
    """Return a word with all occurrences of a mark replaced by other parts."""
    if not any(part is not None and mark in part for part in word.parts):
        return word
    parts: list[str | None] = []
    for part in word.parts:
        for index, piece in enumerate(part.split(mark) if part is not None else [None]):
            parts += (*(by if index else ()), piece)
    return Word(merge(parts), word.source, word.glob, word.many)
