"""Find out what substitutions and pipes print, if that is certain: the words of echo and printf, passed on or not."""

from __future__ import annotations

import re

from ...core.text import lazy_regex
from .parts import Command, Word, plain_name
from .script_walk import ScriptWalk
from .tree import Group, Node, PipedCommands, Simple


def output(command: Command) -> str | None:
    """Return what a command writes with these words and this input, if that is certain; else None."""
    name = plain_name(command.name)
    texts = [word.text for word in command.args]
    if name is None or command.assigns or None in texts:
        return None
    if any(r.op not in ("<<", "<<<") or r.fd not in (None, 0) for r in command.redirects):
        return None
    args = [text for text in texts if text is not None]
    if name == "echo":
        return echo(args)
    if name == "printf":
        return printf(args)
    if name == "which" or args[:1] in (["-v"], ["-p"], ["-P"]):  # command -v, type -p: the place of a program
        names = [arg for arg in args if arg not in ("-v", "-p", "-P")]
        plain = len(names) == 1 and re.fullmatch(r"[a-z][\w.+-]*", names[0])
        return f"/usr/bin/{names[0]}\n" if plain and name in ("which", "command", "type") else None
    passes = (name == "cat" and args in ([], ["-"])) or (
        name == "tee" and not any(arg[0] == "-" for arg in args if arg)
    )
    return command.given if passes and command.stdin is not None and not command.stdin.shared else None


def echo(args: list[str]) -> str | None:
    """echo without escapes and a lone dash: their meaning differs between shells."""
    end = "\n"
    if args and args[0] == "-n":
        args, end = args[1:], ""
    if any("\\" in arg for arg in args) or (args and re.fullmatch(r"-[neE]*", args[0])):
        return None
    return " ".join(args) + end


_FORMAT = lazy_regex(r"(?:[^%\\]|%s|%%|\\[nt\\]|\\0(?![0-7]))*", re.DOTALL)
_FIXED = {"%%": "%", "\\n": "\n", "\\t": "\t", "\\\\": "\\", "\\0": "\0"}


def printf(args: list[str]) -> str | None:
    """printf of plain text, %s, %% and the escapes that every shell knows."""
    if args[:1] == ["--"]:
        args = args[1:]
    if not args or args[0].startswith("-") or not _FORMAT.fullmatch(args[0]):
        return None
    form, values = args[0], args[1:]
    slots = len(re.findall(r"%%|%s", form)) - form.count("%%")
    rounds: list[str] = []
    while True:
        taken = iter(values[:slots])
        rounds.append(re.sub(r"%%|%s|\\[nt\\0]", lambda m, taken=taken: _FIXED.get(m.group()) or next(taken, ""), form))
        values = values[slots:]
        if not values or not slots or len(rounds) > 100:
            return "".join(rounds) if not values or not slots else None


def produced(reader: ScriptWalk, node: Node, found: tuple[Command, ...]) -> str | None:
    """Return the exact output of a simple command, a group of such, or a pipeline's last one, if it is known."""
    if isinstance(node, Group) and not node.redirects:
        if len(found) != len(node.body):
            return None
        texts = [
            produced(reader, item.node, (command,)) if isinstance(item.node, Simple) and not item.background else None
            for item, command in zip(node.body, found, strict=True)
        ]
        return None if None in texts else "".join(text for text in texts if text is not None)
    last = node.commands[-1] if isinstance(node, PipedCommands) else node
    if not isinstance(last, Simple) or not found or not last.words:
        return None
    command = found[-1]
    if command.via != reader.via or command.source != last.source or (command.name or "") in reader.state.functions:
        return None
    return output(command)


def as_word(text: str | None) -> Word | None:
    """Return a word for known text."""
    return None if text is None else Word((text,))
