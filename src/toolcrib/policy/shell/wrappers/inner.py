"""Find what a program runs that runs another one: the usual way of reading options, and the result.

If an option is not listed, it is read both ways, with and without a value.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from ....core.dataclass import dataclass
from ..parts import Word

MAX_INNER = 64
MANY = Word((None,), many=True)
_ASSIGNMENT = re.compile(r"[A-Za-z_][A-Za-z0-9_]*=")


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


@dataclass(frozen=True, slots=True)
class Wrapper:
    """A description of how a program's arguments lead to an inner command.

    `valued` are its options that take the next word, `flags` the others. `optional` short options take a value only
    when it is attached. `operands` words precede the command. `inside`: the shell's own functions and builtins apply.
    With one of `stops` it runs nothing.
    """

    valued: str = ""
    flags: str = ""
    operands: int = 0
    inside: bool = False
    stops: str = ""
    optional: str = ""


@dataclass(slots=True)
class Scan:
    """The result of a pass over options: where operands begin, and the options that were seen."""

    at: int
    values: dict[str, list[Word]]
    seen: set[str]
    doubtful: list[int]


def scan(wrapper: Wrapper, words: tuple[Word, ...]) -> Scan:
    """Skip the options of a wrapper, as getopt does, up to the first operand. After an option that is not listed the
    command may begin at either of the next two words."""
    found = Scan(1, {}, set(), [])
    valued, flags = wrapper.valued.split(), wrapper.flags.split()
    while found.at < len(words):
        text = words[found.at].text
        if text is None or text == "-" or not text.startswith("-"):
            return found
        found.at += 1
        if text == "--":
            return found
        names, attached = _names(text, wrapper)
        found.seen.update(names)
        last = names[-1]
        fits = [full for full in (*valued, *flags) if full == last or (len(last) > 1 and full.startswith(last))]
        full = last if last in fits else (fits or [last])[0]
        found.seen.add(full)
        if attached is not None:
            found.values.setdefault(full, []).append(Word((attached,)))
        elif full in valued and found.at < len(words):
            found.values.setdefault(full, []).append(words[found.at])
            found.at += 1
        elif not fits and full not in wrapper.optional and not full.isdigit():
            found.doubtful += [found.at, found.at + 1]
    return found


def _names(text: str, wrapper: Wrapper) -> tuple[list[str], str | None]:
    """Return the options in one word, and the value attached to the last one."""
    if text.startswith("--"):
        name, equals, value = text[2:].partition("=")
        return [name], value if equals else None
    names: list[str] = []
    for index, letter in enumerate(text[1:], 2):
        names.append(letter)
        takes = letter in wrapper.valued.split() or letter in wrapper.optional
        if takes or letter not in wrapper.flags.split():
            return names, text[index:] if takes and text[index:] else None
    return names, None


def wrapped(wrapper: Wrapper, words: tuple[Word, ...]) -> Iterator[Inner]:
    """Yield the commands that a wrapper runs."""
    found = scan(wrapper, words)
    if found.seen & set(wrapper.stops.split()):
        return
    for start in dict.fromkeys((found.at, *found.doubtful)):
        many = any(word.many for word in words[start : start + wrapper.operands])
        rest = words[start:] if many else words[start + wrapper.operands :]
        if rest:
            yield Inner(rest, inside=wrapper.inside)


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


def replaced(word: Word, mark: str, line: str | None) -> Word:
    """Return a word with all occurrences of a mark replaced by a line, or by an unknown part."""
    parts: list[str | None] = []
    for part in word.parts:
        if part is None or mark not in part:
            parts.append(part)
            continue
        for index, piece in enumerate(part.split(mark)):
            if index:
                parts.append(line)
            if piece:
                parts.append(piece)
    if len(parts) > 1 and None not in parts:
        parts = ["".join(part for part in parts if part is not None)]
    return Word(tuple(parts) or ("",), word.source, word.glob, word.many)
