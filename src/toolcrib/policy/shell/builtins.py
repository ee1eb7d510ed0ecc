"""Follow the shell's own commands: how they change directories, variables and functions.

Each function takes the reader and the command. It changes the state to the one after success, and may return the
directories in which the command may have failed, like `Reader.node`; without them it did not go anywhere.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TypeAlias

from ...core.text import lazy_regex
from .expansion import other_shell, other_time, runs_later
from .lexer import NAME
from .parts import Command, Word
from .script_walk import ScriptWalk
from .shell_state import OUTER, UNKNOWN, known
from .table.shell import SET_NAMES
from .table.wordlist import words
from .tree import Unsure

Directories: TypeAlias = tuple[str | None, ...]
Builtin: TypeAlias = Callable[[ScriptWalk, Command], Directories | None]


def operands(command: Command) -> tuple[Word, ...]:
    """Return the words after the options. A word that cannot be known ends the options, too."""
    for at, word in enumerate(command.args):
        if word.text == "--":
            return command.args[at + 1 :]
        if word.text is None or not word.text.startswith("-") or word.text == "-":
            return command.args[at:]
    return ()


def _cd(reader: ScriptWalk, command: Command) -> Directories:
    """cd, pushd: go to the new directory; return the old one, where the shell is if it fails. popd goes anywhere."""
    state = reader.state
    before = state.cwds
    rest = operands(command)
    reader.physical = reader.physical or rest != command.args  # -P follows links
    certain = len(rest) == 1 and not (reader.physical and ".." in rest[0].start.split("/"))
    target = rest[0].text if certain else None
    if not command.args and command.name != "pushd":
        target = next((word.text for name, word in command.assigns if name == "HOME"), known(state.get("HOME")))
    if command.name == "popd" or (target or "").startswith(("-", "+")):  # an entry of the list of folders
        target = None
    state.go(target)
    return before


def _leave(reader: ScriptWalk, command: Command) -> Directories | None:
    """break, continue, return, exit: the statements after it in this list are not reached."""
    if command.name not in ("exit", "logout"):
        if not reader.frames:
            return None
        reader.leave()
    reader.state.cwds = ()
    return ()


def _declare(reader: ScriptWalk, command: Command) -> None:
    """export, declare, local, readonly: assignments. What attributes make of values is not computed."""
    options = {letter for word in command.args if word.start[:1] in ("-", "+") for letter in word.start[1:]}
    if options not in ({"p"}, {"x"}) and (options or command.name != "export"):
        other_shell(reader, command.source)
    for word in command.args:
        runs_later(word.text, reader)
        match = NAME.match(word.start)
        if word.many or not word.start:
            reader.state.forget_variables()
        elif match:
            rest = word.start[match.end() :]
            if "n" in options or (rest and options & set("aAilu") and not re.match(r"\w+\+?=\(", word.source)):
                raise Unsure("attributes change what a value means", command.source, "shell:evaluated")
            plain = rest.startswith("=") and not rest.startswith("=(") and not reader.via
            reader.state.set(match.group(), (rest[1:], *word.parts[1:]) if plain else OUTER)


def _names(reader: ScriptWalk, command: Command) -> None:
    """read, mapfile, getopts, let, unset: any word may name a variable that changes."""
    state = reader.state
    for word in command.args:
        if word.text is None:
            state.forget_variables()
            continue
        runs_later(word.text, reader)
        for name in NAME.findall(word.text):
            state.set(name, UNKNOWN)
    for name in ("REPLY", "MAPFILE", "OPTARG", "OPTIND"):
        state.vars[name] = UNKNOWN


def _unset(reader: ScriptWalk, command: Command) -> None:
    """unset: variables and functions that may no longer exist."""
    reader.state.doubt_functions()
    _names(reader, command)


def _printf(reader: ScriptWalk, command: Command) -> None:
    """printf -v: a variable changes."""
    if any(word.text is None or word.text.startswith("-v") for word in command.args[:1]):
        _names(reader, command)


def _test(reader: ScriptWalk, command: Command) -> None:
    """test and [: -v evaluates a subscript."""
    for word in command.args:
        runs_later(word.text, reader)


_HARMLESS = words("-s -u -q -p extglob nullglob failglob globstar nocasematch lastpipe inherit_errexit")


def _shopt(reader: ScriptWalk, command: Command) -> None:
    """shopt: some options change how this script would have to be read."""
    if not all(word.text in _HARMLESS for word in command.args):
        raise Unsure("a shell option changes how commands are read", command.source, "shell:options")


def _read(reader: ScriptWalk, command: Command) -> None:
    """read, mapfile: an array is of bash alone. Text that is known would give known values: they are not computed."""
    texts = [word.text for word in command.args]
    if command.name != "read" or any(text is None or re.match(r"-\w*[aA]", text) for text in texts):
        other_shell(reader, command.source)
    if command.given is not None and not reader.frames:
        reader.problem(Unsure("the variables that known text gives are not computed", command.source, "shell:rare"))
    _names(reader, command)


_SET_LETTERS = lazy_regex(r"[-+][abefhmnpuvxCo]+")  # that all shells know


def _set(reader: ScriptWalk, command: Command) -> None:
    """set: it changes positional parameters, and options for how words expand."""
    state = reader.state
    rest, fails = list(command.args), False
    while rest and rest[0].text is not None and rest[0].text[:1] in ("-", "+") and rest[0].text not in ("--", "-"):
        text = rest.pop(0).text or ""
        named = [rest.pop(0).text for letter in text[1:] if letter == "o" and rest]
        fails = fails or not (_SET_LETTERS.fullmatch(text) and SET_NAMES.issuperset(named))
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
    if fails:  # then nothing has changed
        state.arguments = None


def _shift(reader: ScriptWalk, command: Command) -> None:
    """shift: it drops positional parameters."""
    state = reader.state
    state.arguments = state.arguments[1:] if state.arguments is not None and not command.args else None


def _trap(reader: ScriptWalk, command: Command) -> None:
    """trap: what runs between commands may set what they were read with; in a function zsh runs it at its end."""
    given = operands(command)
    ends = reader.function is None and all(word.text in _ENDS for word in given[1:])
    if given and (given[0].glob or (given[0].text not in ("", "-") and not ends)):
        other_time(reader, command.source)


_ENDS = words("EXIT 0 INT TERM HUP QUIT SIGINT SIGTERM SIGHUP SIGQUIT")


def _source(reader: ScriptWalk, command: Command) -> None:
    """source: a file may change anything; text that is known has been read already."""
    rest = operands(command)
    if command.args and not (command.given is not None and rest and rest[0].start.startswith("/dev/")):
        reader.state.forget()


_BY_NAMES: dict[str, Builtin] = {
    "cd chdir pushd popd": _cd,
    "break continue return exit logout": _leave,
    "export declare typeset local readonly": _declare,
    "getopts let wait": _names,
    "printf": _printf,
    "test [": _test,
    "unset": _unset,
    "shopt": _shopt,
    "read mapfile readarray": _read,
    "set": _set,
    "shift": _shift,
    "source .": _source,
    "trap": _trap,
}
BUILTINS = {name: builtin for names, builtin in _BY_NAMES.items() for name in names.split()}
