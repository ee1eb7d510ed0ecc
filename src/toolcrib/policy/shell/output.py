"""Compute exactly what a command prints, if its words and its input are certain.

Text that feeds a shell is read as commands in turn, so a wrong text would hide a command. This module computes only
what every common version of a program does in the same way; everything else gives None.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Callable

from .parts import Command
from .wrappers.inner import base_name

_PRINTS = re.compile(r"""BEGIN\s*\{\s*print\s*"([^"\\\n]*)"\s*;?\s*\}""")
_PYTHON = re.compile(r"""\s*print\(\s*(?:'([^'\\\n]*)'|"([^"\\\n]*)")\s*\)\s*;?\s*""")
_PERL = re.compile(r"""\s*(?:print|say)\s*\(?\s*(?:'([^'\\\n]*)'|"([^"\\$@\n]*)")\s*\)?\s*;?\s*""")
_RUBY = re.compile(r"""\s*(?:puts|print)\s*\(?\s*(?:'([^'\\\n]*)'|"([^"\\#\n]*)")\s*\)?\s*;?\s*""")
_NODE = re.compile(r"""\s*console\.log\(\s*(?:'([^'\\\n]*)'|"([^"\\\n]*)"|`([^`$\\]*)`)\s*\)\s*;?\s*""")
_PHP = re.compile(r"""\s*(?:echo|print)\s*\(?\s*(?:'([^'\\\n]*)'|"([^"\\$\n]*)")\s*\)?\s*;?\s*""")


def output(command: Command) -> str | None:
    """Return what a command writes with these words and this input, if that is certain; else None."""
    name = base_name(command.words[0]) if command.words else None
    if name is None or command.assigns:
        return None
    own = _PRINTERS.get(name)
    filtered = _FILTERS.get(name)
    if own is None and filtered is None:
        return None
    texts = [word.text for word in command.args]
    if None in texts or any(r.op not in ("<<", "<<<") or r.fd not in (None, 0) for r in command.redirects):
        return None
    args = [text for text in texts if text is not None]
    if own is not None:
        return own(args)
    given = command.stdin.text.text if command.stdin is not None and command.stdin.text is not None else None
    return None if given is None or filtered is None else filtered(args, given)


def echo(args: list[str]) -> str | None:
    """echo without escapes; their meaning differs between shells."""
    end = "\n"
    if args and args[0] == "-n":
        args, end = args[1:], ""
    if any("\\" in arg for arg in args) or (args and re.fullmatch(r"-[neE]+", args[0])):
        return None
    return " ".join(args) + end


_FORMAT = re.compile(r"(?:[^%\\]|%s|%%|\\[nt\\]|\\0(?![0-7]))*", re.DOTALL)
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
        rounds.append(_formatted(form, values[:slots]))
        values = values[slots:]
        if not values or not slots or len(rounds) > 100:
            return "".join(rounds) if not values or not slots else None


def _formatted(form: str, values: list[str]) -> str:
    """Return a printf format with its next values inserted."""
    taken = iter(values)
    return re.sub(r"%%|%s|\\[nt\\0]", lambda m: _FIXED.get(m.group()) or next(taken, ""), form)


def _place(args: list[str]) -> str | None:
    """which, command -v, type -p: print the place of a system program, if it is certain."""
    names = [arg for arg in args if arg not in ("-v", "-p", "-P", "--")]
    return f"/usr/bin/{names[0]}\n" if len(names) == 1 and re.fullmatch(r"[a-z][\w.+-]*", names[0]) else None


def _command(args: list[str]) -> str | None:
    return _place(args) if args[:1] == ["-v"] else None


def _type(args: list[str]) -> str | None:
    return _place(args) if args[:1] in (["-p"], ["-P"]) else None


def _literal(pattern: re.Pattern[str], *options: str, end: str = "\n") -> Callable[[list[str]], str | None]:
    """Return a handler for a program whose whole code is one print of a literal."""

    def printed(args: list[str]) -> str | None:
        if tuple(args[:-1]) not in {(option,) for option in options} | ({()} if not options else set()):
            return None
        match = pattern.fullmatch(args[-1]) if args else None
        return None if match is None else next(group for group in match.groups() if group is not None) + end

    return printed


def _cat(args: list[str], given: str) -> str | None:
    return given if args in ([], ["-"]) else None


def _tee(args: list[str], given: str) -> str | None:
    return given if all(not arg.startswith("-") or arg == "-a" for arg in args) else None


def _rev(args: list[str], given: str) -> str | None:
    return None if args else "\n".join(line[::-1] for line in given.split("\n"))


def _base64(args: list[str], given: str) -> str | None:
    if len(args) != 1 or args[0] not in ("-d", "--decode", "-D", "-di"):
        return None
    try:
        return base64.b64decode("".join(given.split()), validate=True).decode()
    except (binascii.Error, ValueError):
        return None


def _base32(args: list[str], given: str) -> str | None:
    if args not in (["-d"], ["--decode"]):
        return None
    try:
        return base64.b32decode("".join(given.split())).decode()
    except (binascii.Error, ValueError):
        return None


def _xxd(args: list[str], given: str) -> str | None:
    if args not in (["-r", "-p"], ["-p", "-r"], ["-rp"], ["-ps", "-r"], ["-r", "-ps"]):
        return None
    try:
        return bytes.fromhex("".join(given.split())).decode()
    except ValueError:
        return None


def _tr(args: list[str], given: str) -> str | None:
    """tr with plain characters and ranges."""
    delete = args[:1] == ["-d"]
    sets = [_set(arg) for arg in (args[1:] if delete else args)]
    if len(sets) != (1 if delete else 2) or None in sets or not given.isascii():
        return None
    first, *second = [each for each in sets if each is not None]
    if delete:
        return "".join(char for char in given if char not in first)
    to = second[0]
    if not first or not to:
        return None
    return given.translate({ord(char): to[min(at, len(to) - 1)] for at, char in reversed(list(enumerate(first)))})


def _set(text: str) -> str | None:
    """Return the characters of one of tr's arguments; None for classes and for escapes other than white space."""
    text = text.replace("\\n", "\n").replace("\\t", "\t")
    if not text.isascii() or re.search(r"[\\\[\]]", text) or text.startswith("-"):
        return None
    found, at = "", 0
    while at < len(text):
        if text[at + 1 : at + 2] == "-" and at + 2 < len(text):
            low, high = ord(text[at]), ord(text[at + 2])
            if low > high:
                return None
            found += "".join(map(chr, range(low, high + 1)))
            at += 3
        else:
            found += text[at]
            at += 1
    return found


_SED_S = re.compile(r"s([/|,#:])([\w -]+)\1([\w ./-]*)\1(g?)")
_SED_Y = re.compile(r"y/([\w .-]+)/([\w ./-]+)/")


def _sed(args: list[str], given: str) -> str | None:
    """sed with one substitution or one transliteration of plain characters."""
    script = args[0] if len(args) == 1 else args[1] if len(args) == 2 and args[0] == "-e" else ""
    match = _SED_S.fullmatch(script)
    if match:
        delimiter, old, new, every = match.groups()
        if delimiter in new:
            return None
        return "\n".join(line.replace(old, new, -1 if every else 1) for line in given.split("\n"))
    match = _SED_Y.fullmatch(script)
    if match and len(match[1]) == len(match[2]) and len(set(match[1])) == len(match[1]) and "/" not in match[2]:
        return given.translate(str.maketrans(match[1], match[2]))
    return None


_PRINTERS: dict[str, Callable[[list[str]], str | None]] = {
    "echo": echo,
    "printf": printf,
    "which": _place,
    "command": _command,
    "type": _type,
    **dict.fromkeys(("awk", "gawk", "mawk", "nawk"), _literal(_PRINTS)),
    **dict.fromkeys(("python", "python3"), _literal(_PYTHON, "-c")),
    "perl": _literal(_PERL, "-e", end=""),
    "ruby": _literal(_RUBY, "-e"),
    "node": _literal(_NODE, "-e"),
    "php": _literal(_PHP, "-r", end=""),
}
_FILTERS: dict[str, Callable[[list[str], str], str | None]] = {
    "cat": _cat,
    "tee": _tee,
    "rev": _rev,
    "base64": _base64,
    "base32": _base32,
    "xxd": _xxd,
    "tr": _tr,
    "sed": _sed,
}
