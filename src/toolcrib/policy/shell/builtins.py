"""What the shell's own commands do to its state: directories, variables, aliases, functions.

Each takes the reader, the words and the temporary assignments, changes the state to that after success and returns
the directories in which the command may have failed, like `Reader.node`.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TYPE_CHECKING, TypeAlias

from .parts import Word
from .state import UNKNOWN, Value, known
from .words import expression

if TYPE_CHECKING:
    from .reading import Reader

Directories: TypeAlias = tuple[str | None, ...]
Assigns: TypeAlias = tuple[tuple[str, Word], ...]
Builtin: TypeAlias = Callable[["Reader", tuple[Word, ...], Assigns], Directories]

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_RUNS_LATER = re.compile(r"\[.*(?:\$\(|`)", re.DOTALL)


def operands(words: tuple[Word, ...]) -> tuple[Word, ...]:
    """The words behind options; everything behind a word that cannot be known."""
    at = 1
    while at < len(words):
        text = words[at].text
        if text == "--":
            return words[at + 1 :]
        if text is None or not text.startswith("-") or text == "-":
            break
        at += 1
    return words[at:]


def _cd(reader: Reader, words: tuple[Word, ...], assigns: Assigns) -> Directories:
    """cd: where it leads, or where it was if it fails."""
    state = reader.state
    before = state.cwds
    rest = operands(words)
    target = rest[0].text if len(rest) == 1 else None
    if not rest:
        home = next((word.text for name, word in assigns if name == "HOME"), known(state.get("HOME")))
        target = home
    elif (
        target == "-"
        or any(name == "CDPATH" for name, _ in assigns)
        or (state.get("CDPATH") is not None and target is not None and not target.startswith(("/", "./", "../")))
    ):
        target = None
    if target == "":
        target = "."
    physical = any(word.text and re.fullmatch(r"-\w*P\w*", word.text) for word in words[1:]) or "set -P" in state.vars
    if target is not None and ".." in target.split("/") and physical:
        target = None
    state.go(target)
    return before


def _directory_stack(reader: Reader, words: tuple[Word, ...], assigns: Assigns) -> Directories:
    """pushd to a named directory is cd; anything else with the stack is not tracked."""
    before = reader.state.cwds
    rest = [word for word in words[1:] if word.text != "-n"]
    plain = len(rest) == 1 and rest[0].text is not None and not rest[0].text.startswith(("+", "-"))
    reader.state.go(rest[0].text if words[0].text == "pushd" and plain else None)
    return before


def _leave(reader: Reader, words: tuple[Word, ...], assigns: Assigns) -> Directories:
    """break, continue, return: what follows in this list is not reached."""
    reader.leave()
    reader.state.cwds = ()
    return ()


def _exit(reader: Reader, words: tuple[Word, ...], assigns: Assigns) -> Directories:
    """exit: nothing follows."""
    reader.state.cwds = ()
    return ()


def _declare(reader: Reader, words: tuple[Word, ...], assigns: Assigns) -> Directories:
    """export, declare, local, readonly: assignments with attributes that may change the value (-i, -l, -n)."""
    state = reader.state
    options = "".join(word.text[1:] for word in words[1:] if word.text is not None and word.text[:1] in "-+")
    plain = not reader.via and not set(options) - set("xrgp")
    for word in words[1:]:
        if word.text is not None:
            _expression(reader, word.text)
        match = _NAME.match(word.start)
        if word.many or not word.start:
            state.forget()
        elif match:
            name = match.group()
            rest = word.start[match.end() :]
            if rest.startswith("=") and plain and not rest.startswith("=("):
                state.set(name, _behind(word, match.end() + 1))
            elif rest or not plain:
                state.set(name, UNKNOWN)
            elif words[0].text in ("local", "declare", "typeset") and reader.function is not None:
                state.set(name, UNKNOWN)
    return state.cwds


def _behind(word: Word, at: int) -> Value:
    """A word's value behind its first characters."""
    return (word.start[at:], *word.parts[1:])


def _expression(reader: Reader, text: str) -> None:
    """Read what a subscript in a word would run."""
    if _RUNS_LATER.search(text):
        expression(text, reader)


def _names(reader: Reader, words: tuple[Word, ...], assigns: Assigns) -> Directories:
    """read, mapfile, getopts, unset, wait, printf -v, let, test: any word may name a variable that changes."""
    state = reader.state
    name = words[0].text
    for index, word in enumerate(words[1:], 1):
        if word.text is None:
            if name == "printf" and (words[1].text or "-v") != "-v" and not words[1].start.startswith("-v"):
                break
            if name == "printf" and index > 2:
                break
            state.forget()
            break
        _expression(reader, word.text)
        text = word.text
        for found in re.findall(_NAME, text) if name == "let" else [text.removeprefix("-v").split("[")[0]]:
            if _NAME.fullmatch(found):
                state.set(found, UNKNOWN)
            if name == "unset":
                state.aliases.pop(found, None)
                if found in state.functions:
                    state.functions[found] = (state.functions[found][0], False)
        if name == "printf" and not words[1].start.startswith("-v"):
            break
    for implied in ("REPLY", "MAPFILE", "OPTARG", "OPTIND"):
        if name != "printf":
            state.vars[implied] = UNKNOWN
    return state.cwds


def _read(reader: Reader, words: tuple[Word, ...], assigns: Assigns) -> Directories:
    """read: known where one name takes a known line whole."""
    stdin = reader.commands[-1].stdin if reader.commands else None
    given = stdin.text.text if stdin is not None and stdin.text is not None else None
    rest = operands(words)
    _names(reader, words, assigns)
    if given is None or len(rest) != 1 or rest[0].text is None or words[1:] not in ((words[1],), words[1:][-2:]):
        return reader.state.cwds
    options = [word.text for word in words[1 : len(words) - 1]]
    line = given.split("\n")[0]
    if options in ([], ["-r"]) and "\n" in given and "\\" not in line and not assigns:
        if known(reader.state.get("IFS")) == " \t\n" and not reader.frames:
            reader.state.set(rest[0].text, (line.strip(" \t"),))
    return reader.state.cwds


def _set(reader: Reader, words: tuple[Word, ...], assigns: Assigns) -> Directories:
    """set: positional parameters, and options that change how words expand."""
    state = reader.state
    rest = list(words[1:])
    while rest and rest[0].text is not None and rest[0].text[:1] in ("-", "+") and rest[0].text not in ("--", "-"):
        text = rest.pop(0).text or ""
        if text[1:] and "o" in text and rest:
            rest.pop(0)
    if rest and rest[0].text in ("--", "-"):
        rest.pop(0)
        state.arguments = ()
    if rest:
        exact = not any(word.many or word.glob for word in rest)
        state.arguments = tuple(word.parts for word in rest) if exact else None
    return state.cwds


def _shift(reader: Reader, words: tuple[Word, ...], assigns: Assigns) -> Directories:
    """shift: drops positional parameters."""
    state = reader.state
    count = words[1].text if len(words) == 2 else "1"
    if state.arguments is not None and len(words) < 3 and count is not None and count.isascii() and count.isdigit():
        if int(count) <= len(state.arguments):
            state.arguments = state.arguments[int(count) :]
    else:
        state.arguments = None
    return state.cwds


def _alias(reader: Reader, words: tuple[Word, ...], assigns: Assigns) -> Directories:
    """alias: text that replaces a word in lines to come."""
    for word in words[1:]:
        name, equals, value = (word.text or "").partition("=")
        if word.text is None or (equals and not name):
            # Some name now stands for something unknown.
            reader.emit((Word(UNKNOWN, word.source),), (), (), None, word.source)
        elif equals:
            reader.state.aliases[name] = value
    return reader.state.cwds


def _source(reader: Reader, words: tuple[Word, ...], assigns: Assigns) -> Directories:
    """source: a file may change anything; text that is known was read already."""
    if len(words) > 1 and reader.commands:
        rest = operands(words)
        stdin = next((c.stdin for c in reversed(reader.commands) if c.words == words), None)
        fed = stdin is not None and stdin.text is not None and stdin.text.text is not None
        if not (fed and rest and rest[0].start.startswith("/dev/")):
            reader.state.forget()
    return reader.state.cwds


BUILTINS: dict[str, Builtin] = {
    "cd": _cd,
    "chdir": _cd,
    "pushd": _directory_stack,
    "popd": _directory_stack,
    "break": _leave,
    "continue": _leave,
    "return": _leave,
    "exit": _exit,
    "logout": _exit,
    **dict.fromkeys(("export", "declare", "typeset", "local", "readonly"), _declare),
    **dict.fromkeys(("mapfile", "readarray", "getopts", "unset", "wait", "printf", "let", "test", "["), _names),
    "read": _read,
    "set": _set,
    "shift": _shift,
    "alias": _alias,
    "source": _source,
    ".": _source,
}
