"""Follow the shell's own commands: how they change directories, variables, aliases and functions.

Each function takes the reader, the words and the temporary assignments. It changes the state to the one after success
and returns the directories in which the command may have failed, like `Reader.node`.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TypeAlias

from .expansion import expression, runs_later
from .lexer import NAME
from .parts import Command, Word
from .script_walk import ScriptWalk
from .shell_state import DEFAULT_IFS, OUTER, UNKNOWN, Array, Value, known
from .unsure import Unsure

Directories: TypeAlias = tuple[str | None, ...]
Assigns: TypeAlias = tuple[tuple[str, Word], ...]
Builtin: TypeAlias = Callable[[ScriptWalk, tuple[Word, ...], Assigns], Directories]


def operands(words: tuple[Word, ...]) -> tuple[Word, ...]:
    """Return the words after the options. A word that cannot be known ends the options, too."""
    at = 1
    while at < len(words):
        text = words[at].text
        if text == "--":
            return words[at + 1 :]
        if text is None or not text.startswith("-") or text == "-":
            break
        at += 1
    return words[at:]


def _cd(reader: ScriptWalk, words: tuple[Word, ...], assigns: Assigns) -> Directories:
    """cd, pushd: go to the new directory; return the old one, where the shell is if it fails. popd goes anywhere."""
    state = reader.state
    before = state.cwds
    rest = operands(words)
    target = rest[0].text if len(rest) == 1 else None
    if words[0].text == "popd" or (words[0].text == "pushd" and len(words) == 1):
        target = None
    elif not rest:
        home = next((word.text for name, word in assigns if name == "HOME"), known(state.get("HOME")))
        target = home
    elif (
        target == "-"
        or (words[0].text == "pushd" and (target or "").startswith("+"))
        or any(name == "CDPATH" for name, _ in assigns)
        or (state.get("CDPATH") is not None and target is not None and not target.startswith(("/", "./", "../")))
    ):
        target = None
    if target == "":
        target = "."
    physical = any(word.text and re.fullmatch(r"-\w*P\w*", word.text) for word in words[1:])
    if target is not None and ".." in target.split("/") and physical:
        target = None
    state.go(target)
    return before


def _leave(reader: ScriptWalk, words: tuple[Word, ...], assigns: Assigns) -> Directories:
    """break, continue, return, exit: the statements after it in this list are not reached."""
    if words[0].text not in ("exit", "logout"):
        if not reader.frames:
            return reader.state.cwds
        reader.leave()
    reader.state.cwds = ()
    return ()


def _declare(reader: ScriptWalk, words: tuple[Word, ...], assigns: Assigns) -> Directories:
    """export, declare, local, readonly: assignments with attributes that may change the value (-i, -l, -n)."""
    state = reader.state
    options = "".join(word.text[1:] for word in words[1:] if word.text is not None and word.text[:1] in "-+")
    if "n" in options and words[0].text != "export":
        raise Unsure("a variable is another name for an unknown one", words[0].source)
    plain = (
        not reader.via and not set(options) - set("axrgp") and (words[0].text != "local" or reader.function is not None)
    )
    arrays, reader.arrays = reader.arrays, {}
    for word in words[1:]:
        if word.text is not None:
            _expression(reader, word.text)
        match = NAME.match(word.start)
        if word.many or not word.start:
            state.forget_variables()
        elif match:
            name = match.group()
            rest = word.start[match.end() :]
            array = arrays.get(name)
            if array is None and rest:
                _expanded_again(reader, word, name, options)
            if "a" in options or "A" in options:
                reader.array_names.add(name)
            if array is not None:
                state.set(name, array if plain and rest.startswith("=") else UNKNOWN)
            elif rest.startswith("=") and plain and "a" not in options and not rest.startswith("=("):
                state.set(name, _behind(word, match.end() + 1))
            elif rest or not plain:
                state.set(name, UNKNOWN if rest.startswith("=") else OUTER)
            if words[0].text == "readonly" or set(options) - set("axgp"):
                state.lock(name)
            if not rest and words[0].text in ("local", "declare", "typeset") and reader.function is not None:
                state.set(name, UNKNOWN)
    return state.cwds


def _expanded_again(reader: ScriptWalk, word: Word, name: str, options: str) -> None:
    """Raise `Unsure` if the value of an array is text: bash reads `declare -a x='(…)'` as code."""
    value = word.text.partition("=")[2] if word.text is not None else None
    if value is None and ("a" in options or "A" in options or name in reader.array_names):
        raise Unsure("the elements of an array are read from text", word.source, "shell:arithmetic")
    if value is not None and value.lstrip().startswith("(") and re.search(r"[$`]|[<>]\(", value):
        expression(value, reader)
        raise Unsure("the elements of an array are read from text", word.source, "shell:arithmetic")


def _behind(word: Word, at: int) -> Value:
    """Return a word's value without its first characters."""
    return (word.start[at:], *word.parts[1:])


def _expression(reader: ScriptWalk, text: str) -> None:
    """Read the commands that a subscript in a word would run."""
    if runs_later(text):
        expression(text, reader)


def _names(reader: ScriptWalk, words: tuple[Word, ...], assigns: Assigns) -> Directories:
    """read, mapfile, getopts, let, unset: any word may name a variable that changes."""
    state = reader.state
    for word in words[1:]:
        if word.text is None:
            state.forget_variables()
            continue
        _expression(reader, word.text)
        for name in NAME.findall(word.text):
            state.set(name, UNKNOWN)
            if words[0].text in ("mapfile", "readarray") or "-a" in [each.text for each in words]:
                reader.array_names.add(name)
    for name in ("REPLY", "MAPFILE", "OPTARG", "OPTIND"):
        state.vars[name] = UNKNOWN
    return state.cwds


def _unset(reader: ScriptWalk, words: tuple[Word, ...], assigns: Assigns) -> Directories:
    """unset: variables and functions that may no longer exist."""
    state = reader.state
    for word in words[1:]:
        for name, (bodies, _) in list(state.functions.items()):
            if word.text is None or word.text == name:
                state.functions[name] = (bodies, False)
    return _names(reader, words, assigns)


def _printf(reader: ScriptWalk, words: tuple[Word, ...], assigns: Assigns) -> Directories:
    """printf -v and wait -p: one variable changes."""
    program, *rest = words
    name = rest[1].text if len(rest) > 2 and rest[0].text == "-v" else None
    if program.text == "printf" and name is not None and NAME.fullmatch(name):
        from .produced import printf

        texts = [word.text for word in rest[2:]]
        made = None if None in texts else printf([text for text in texts if text is not None])
        _names(reader, words[:3], assigns)
        reader.state.set(name, UNKNOWN if made is None else (made,))
        return reader.state.cwds
    option = "-v" if program.text == "printf" else "-p"
    if any(word.text is None or word.text.startswith(option) for word in words[1:2]) or (
        option == "-p" and any((word.text or "").startswith("-") for word in words)
    ):
        return _names(reader, words[:3], assigns)
    return reader.state.cwds


def _test(reader: ScriptWalk, words: tuple[Word, ...], assigns: Assigns) -> Directories:
    """test and [: -v evaluates a subscript."""
    for word in words[1:]:
        if word.text is not None:
            _expression(reader, word.text)
    return reader.state.cwds


def _redefine(reader: ScriptWalk, words: tuple[Word, ...], assigns: Assigns) -> Directories:
    """hash -p, enable: from here on a name means another program."""
    harmless = ("-r", "-l", "-t", "-d") if words[0].text == "hash" else ("-a", "-p")
    if any(word.text is None or (word.text.startswith("-") and word.text not in harmless) for word in words[1:]):
        raise Unsure("a command's name is given another meaning", reader.commands[-1].source, "shell:redefined")
    return reader.state.cwds


def _shopt(reader: ScriptWalk, words: tuple[Word, ...], assigns: Assigns) -> Directories:
    """shopt: some options change how this script would have to be read."""
    harmless = {"extglob", "nullglob", "failglob", "globstar", "nocasematch", "lastpipe",
                "expand_aliases", "inherit_errexit", "checkwinsize", "histappend", "globasciiranges"}  # fmt: skip
    names = [word.text for word in words[1:] if word.text is None or not word.text.startswith("-")]
    letters = "".join(word.text for word in words[1:] if word.text is not None and word.text.startswith("-"))
    if ("s" in letters or None in names) and not set(names) <= harmless:
        raise Unsure("a shell option changes how commands are read", reader.commands[-1].source, "shell:options")
    return reader.state.cwds


def _read(reader: ScriptWalk, words: tuple[Word, ...], assigns: Assigns) -> Directories:
    """read: the value is known if one name takes a whole line that is known."""
    state = reader.state
    stdin = reader.commands[-1].stdin if reader.commands else None
    given = stdin.text.text if stdin is not None and stdin.text is not None else None
    _names(reader, words, assigns)
    texts = [word.text for word in words[1:]]
    names = texts[1:] if texts[:1] == ["-r"] else texts
    if given is None or not names or assigns or reader.frames or known(state.get("IFS")) != DEFAULT_IFS:
        return state.cwds
    line, newline, _ = given.partition("\n")
    if not newline or "\\" in line:
        return state.cwds
    line = line.strip(" \t")
    if names[0] == "-a" and len(names) == 2 and NAME.fullmatch(names[1] or ""):
        state.set(names[1] or "", Array(tuple((item,) for item in line.split())))
    elif all(name is not None and NAME.fullmatch(name) for name in names):
        fields = re.split(r"[ \t]+", line, maxsplit=len(names) - 1) if len(names) > 1 else [line]
        for index, name in enumerate(names):
            state.set(name or "", (fields[index] if index < len(fields) else "",))
    return state.cwds


def _mapfile(reader: ScriptWalk, words: tuple[Word, ...], assigns: Assigns) -> Directories:
    """mapfile -t NAME: the value is known if its input is."""
    _names(reader, words, assigns)
    stdin = reader.commands[-1].stdin if reader.commands else None
    given = stdin.text.text if stdin is not None and stdin.text is not None else None
    texts = [word.text for word in words[1:]]
    name = texts[-1] if texts and texts[:-1] == ["-t"] else None
    if given is not None and name is not None and NAME.fullmatch(name) and not reader.frames and "\0" not in given:
        reader.state.set(name, Array(tuple((line,) for line in given.removesuffix("\n").split("\n"))))
    return reader.state.cwds


def _set(reader: ScriptWalk, words: tuple[Word, ...], assigns: Assigns) -> Directories:
    """set: it changes positional parameters, and options for how words expand."""
    state = reader.state
    rest = list(words[1:])
    while rest and rest[0].text is not None and rest[0].text[:1] in ("-", "+") and rest[0].text not in ("--", "-"):
        text = rest.pop(0).text or ""
        named = [rest.pop(0).text for letter in text[1:] if letter == "o" and rest]
        if text[0] == "-" and ("k" in text or not {"keyword", "posix", None}.isdisjoint(named)):
            raise Unsure("a shell option changes how commands are read", text, "shell:options")
    if rest and rest[0].text is None and rest[0].start[:1] in ("", "-", "+"):
        raise Unsure("a shell option changes how commands are read", rest[0].source, "shell:options")
    if rest and rest[0].text in ("--", "-"):
        rest.pop(0)
        state.arguments = ()
    if rest:
        exact = not any(word.many or word.glob for word in rest)
        state.arguments = tuple(word.parts for word in rest) if exact else None
    return state.cwds


def _shift(reader: ScriptWalk, words: tuple[Word, ...], assigns: Assigns) -> Directories:
    """shift: it drops positional parameters."""
    state = reader.state
    state.arguments = state.arguments[1:] if state.arguments is not None and len(words) == 1 else None
    return state.cwds


def _alias(reader: ScriptWalk, words: tuple[Word, ...], assigns: Assigns) -> Directories:
    """alias: it defines text that replaces a word in later lines."""
    for word in words[1:]:
        name, equals, value = (word.text or "").partition("=")
        if word.text is None or (equals and not name):
            # From now on some name is an alias for unknown text.
            reader.emit(Command((Word(UNKNOWN, word.source),), source=word.source))
        elif equals:
            reader.state.aliases[name] = value
    return reader.state.cwds


def _source(reader: ScriptWalk, words: tuple[Word, ...], assigns: Assigns) -> Directories:
    """source: a file may change anything; text that is known has been read already."""
    if len(words) > 1 and reader.commands:
        rest = operands(words)
        stdin = next((c.stdin for c in reversed(reader.commands) if c.words == words), None)
        fed = stdin is not None and stdin.text is not None and stdin.text.text is not None
        if not (fed and rest and rest[0].start.startswith("/dev/")):
            reader.state.forget()
    return reader.state.cwds


_BY_NAMES: dict[str, Builtin] = {
    "cd chdir pushd popd": _cd,
    "break continue return exit logout": _leave,
    "export declare typeset local readonly": _declare,
    "getopts let": _names,
    "mapfile readarray": _mapfile,
    "printf wait": _printf,
    "test [": _test,
    "hash enable": _redefine,
    "unset": _unset,
    "shopt": _shopt,
    "read": _read,
    "set": _set,
    "shift": _shift,
    "alias": _alias,
    "source .": _source,
}
BUILTINS = {name: builtin for names, builtin in _BY_NAMES.items() for name in names.split()}
