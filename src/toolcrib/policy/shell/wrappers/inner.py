"""Find what a program runs that runs another one: the usual way of reading options, and the result.

If an option is not listed, it is read both ways, with and without a value.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator
from dataclasses import dataclass

from ..parts import Word

SYSTEM_DIRECTORIES = frozenset(
    f"{root}{leaf}" for root in ("", "/usr", "/usr/local", "/run/current-system/sw") for leaf in ("/bin", "/sbin")
) | {"/opt/homebrew/bin", "/opt/local/bin", "/snap/bin"}
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

    `flags` and `valued` are its short options without and with a value, `long` and `long_valued` the long ones;
    `optional` short options take a value only when it is attached. `operands` words precede the command.
    `assigns` says that NAME=value words may precede it, too. `directory` names options that give the working directory,
    `script` those whose value (or, for a flag, the remaining words joined) is text for a shell.
    """

    flags: str = ""
    valued: str = ""
    long: str = ""
    long_valued: str = ""
    optional: str = ""
    operands: int = 0
    assigns: bool = False
    directory: str = ""
    script: str = ""
    joined: bool = False
    inside: bool = False
    stops: str = ""  # options with which it runs nothing
    elsewhere: bool = False  # the inner command's directory is unknown


@dataclass(slots=True)
class Scan:
    """The result of a pass over options: where operands begin, and the options that were seen."""

    at: int
    values: dict[str, list[Word]]
    seen: set[str]
    doubtful: list[int]


def base_name(word: Word | None) -> str | None:
    """Return the program that a word names, if it is a bare name or lies in a system directory; else None."""
    text = word.text if word is not None else None
    if text is None:
        return None
    if "/" not in text:
        return text
    directory, name = posixpath.split("/" + posixpath.normpath(text).lstrip("/") if text[0] == "/" else text)
    return name if directory in SYSTEM_DIRECTORIES else None


def scan(wrapper: Wrapper, words: tuple[Word, ...], start: int = 1) -> Scan:
    """Skip the options of a wrapper, as getopt does, up to the first operand."""
    found = Scan(start, {}, set(), [])
    while found.at < len(words):
        word = words[found.at]
        text = word.text
        if text is None or text == "-" or not text.startswith("-"):
            return found
        found.at += 1
        if text == "--":
            return found
        if text.startswith("--"):
            _long(wrapper, text[2:], words, found)
        else:
            _short(wrapper, text[1:], words, found)
    return found


def _long(wrapper: Wrapper, text: str, words: tuple[Word, ...], found: Scan) -> None:
    """Read one long option, perhaps abbreviated."""
    name, equals, value = text.partition("=")
    valued = [option for option in wrapper.long_valued.split() if option.startswith(name)]
    plain = [option for option in wrapper.long.split() if option.startswith(name)]
    full = name if name in valued or name in plain else (valued or plain or [name])[0]
    found.seen.add(full)
    if equals:
        found.values.setdefault(full, []).append(Word((value,)))
    elif full in valued:
        _take(words, found, full)
    elif full not in plain:
        found.doubtful.append(found.at)
        found.doubtful.append(found.at + 1)


def _short(wrapper: Wrapper, letters: str, words: tuple[Word, ...], found: Scan) -> None:
    """Read a group of short options."""
    for index, letter in enumerate(letters):
        found.seen.add(letter)
        rest = letters[index + 1 :]
        if letter in wrapper.optional:
            if rest:
                found.values.setdefault(letter, []).append(Word((rest,)))
            return
        if letter in wrapper.valued:
            if rest:
                found.values.setdefault(letter, []).append(Word((rest,)))
            else:
                _take(words, found, letter)
            return
        if letter not in wrapper.flags and letter not in wrapper.stops:
            found.doubtful.append(found.at)
            found.doubtful.append(found.at + 1)
            return


def _take(words: tuple[Word, ...], found: Scan, option: str) -> None:
    """Take the next word as an option's value."""
    if found.at < len(words):
        found.values.setdefault(option, []).append(words[found.at])
        found.at += 1


def wrapped(wrapper: Wrapper, words: tuple[Word, ...]) -> Iterator[Inner]:
    """Yield the commands that a wrapper from `rows` runs."""
    found = scan(wrapper, words)
    scripts = [value for option in wrapper.script.split() for value in found.values.get(option, ())]
    directory = Word((None,)) if wrapper.elsewhere else None
    for option in wrapper.directory.split():
        for value in found.values.get(option, ()):
            directory = value
    for script in scripts:
        yield Inner(script=script, directory=directory, posix=True)
    if any(letter in found.seen for letter in wrapper.stops if letter != "*") or wrapper.stops == "*":
        return
    for start in dict.fromkeys((found.at, *found.doubtful)):
        yield from inner_at(wrapper, words, start, found, directory)


def inner_at(
    wrapper: Wrapper, words: tuple[Word, ...], start: int, found: Scan, directory: Word | None
) -> Iterator[Inner]:
    """Yield the inner command, if it begins at a word or after assignments and operands there."""
    at = start
    assigns: list[tuple[str, Word]] = []
    while wrapper.assigns and at < len(words) and (assign := split_assignment(words[at])):
        assigns.append(assign)
        at += 1
    many = any(word.many for word in words[start : at + wrapper.operands])
    rest = words[at:] if many else words[at + wrapper.operands :]
    if wrapper.operands and rest and "c" in wrapper.script.split() and rest[0].text in ("-c", "--command"):
        yield Inner(script=joined(rest[1:2]), directory=directory, posix=True)
        return
    if not rest:
        return
    if "*" in wrapper.script.split():
        if not wrapper.joined:
            yield from (Inner(script=word, directory=directory, posix=True) for word in rest)
            return
        if not found.seen & {"x", "exec"}:
            yield Inner(script=joined(rest), directory=directory, posix=True)
            return
    yield Inner(rest, assigns=tuple(assigns), directory=directory, inside=wrapper.inside)


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
