"""Find what one command reads, writes, executes and connects to, by the table of programs.

`effects_of` looks a program up, sorts its words into options and operands, and says what each of them means. It does
not know the workspace: `judge` weighs the effects. Information-flow labels and previews read them, too.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from ...boundary.sensitive_names import sensitive_by
from .kinds import KINDS, PATH_KINDS
from .parts import Command, Redirect, Word
from .sorting import SortedWords, cut, literal, sort_words
from .table import lookup
from .table.spec import Program, is_risky, parse_operands

SYSTEM_FOLDERS = (
    "/bin/",
    "/usr/bin/",
    "/usr/local/bin/",
    "/sbin/",
    "/usr/sbin/",
    "/usr/local/sbin/",
    "/opt/homebrew/bin/",
)


@dataclass(slots=True, unsafe_hash=True)
class Effect:
    """One thing that a command does.

    `kind` is one of `PATH_KINDS` (then `target` is the path's word), one of `KINDS`, or `shell` (then the target is a
    separate command line). `reason` completes the sentence "`command` …" if the kind's own phrase does not. `cwd` is
    set if the path is not relative to the command's own directory; `code` is a program text and its language.
    """

    kind: str
    target: Word | str | None = None
    reason: str = ""
    rule: str = ""
    cwd: str | None = None
    code: tuple[str, str] | None = None


def effects_of(command: Command) -> tuple[Effect, ...]:
    """Return everything one command does, as far as the table knows. Something unknown is an effect, too."""
    found: list[Effect] = list(_of_redirects(command.redirects)) if command.redirects else []
    if command.assigns:
        from .table.environment import assignment

        own = command.name in ("read", "mapfile", "readarray")  # these builtins sort their words in a different way
        for name, value in command.assigns:
            if name == "IFS" and own:
                continue
            found += assignment(name, value, exported=bool(command.words))
            if value.glob and not command.words:
                found.append(Effect("list", value))
    if command.words:
        name = command.words[0].text
        if command.via and name in _RUNS_OTHERS and command.via[-1] not in _IN_THE_SHELL:
            found.append(Effect("execute"))  # not the builtin but a program of that name, which may run the other words
        found += _of_program(command)
        if name in _PRINTERS:
            found += _of_variables(command)
        for word in command.words:
            if word.glob and (
                _PATHISH.match(word.start) or word.source[:1] == "~"
            ):  # bash lists the folder, whatever the program does later
                found.append(Effect("list", word))
    return tuple(found)


_RUNS_OTHERS = frozenset({"alias", "bg", "builtin", "command", "eval", "exec", "fc", "source", ".", "time", "trap"})
_IN_THE_SHELL = frozenset({"builtin", "command", "eval", "trap", "time", "sh", "bash", "dash", "ash", "zsh", "ksh"})
_PRINTERS = frozenset({"echo", "printf", "cat", "tee", "base64", "xxd", "od", "rev", "tr", "sed", "print"})
_SECRET_NAME = re.compile(r"\$\{?[!#]?\w*(?:KEY|TOKEN|SECRET|PASS|CRED|AUTH)|\$\{!", re.IGNORECASE)


def _of_variables(command: Command) -> Iterator[Effect]:
    """Yield the printing of environment variables whose names say that they may hold a secret."""
    for word in (*command.args, *(r.text for r in command.redirects if r.text is not None)):
        if None in word.parts and _SECRET_NAME.search(word.source):
            yield Effect("unknown", word, "prints a variable that may hold a secret", "shell:environment")
            return


def _of_redirects(redirects: Iterable[Redirect]) -> Iterator[Effect]:
    for redirect in redirects:
        if redirect.op in ("<<", "<<<") or redirect.target is None:
            continue
        target = redirect.target
        if redirect.op in (">&", "<&") and re.fullmatch(r"\d*-?", target.text or "x"):
            continue
        if target.start.startswith(("/dev/tcp/", "/dev/udp/")):
            yield Effect("reverse-shell", target, f"opens a connection through {target.start}", "shell:dev-tcp")
        elif redirect.op in ("<", "<&"):
            yield Effect("read", target)
        elif redirect.op == "<>":
            yield Effect("read", target)
            yield Effect("write", target)
        else:
            yield Effect("write", target)


def program_name(command: Command) -> str | None:
    """Return the plain name of a command's program. System folders count as PATH; any other path gives None."""
    name = command.name
    if name is None or "/" not in name:
        return name
    if "/." in name or "//" in name or name[0] == ".":  # an indirect path
        if name[0] != "/" and command.cwd is None:
            return None
        name = posixpath.normpath(name if name[0] == "/" else f"{command.cwd}/{name}")
        name = f"/{name.lstrip('/')}"
    for folder in SYSTEM_FOLDERS:
        if name.startswith(folder) and "/" not in name[len(folder) :] and len(name) > len(folder):
            return name[len(folder) :]
    return None


def _of_program(command: Command) -> Iterable[Effect]:
    name = program_name(command)
    if name is None:
        if command.name is None:
            return [Effect("unknown", command.words[0], "names its program only when it runs", "shell:unknown-program")]
        return [Effect("execute", command.words[0], f"runs {command.name}, whose code is not known", "shell:script")]
    known = lookup(name)
    if known is None:
        return [Effect("unknown", command.words[0], "is a program that is not known here", "shell:unknown-program")]
    return of_words(name, known, command.args, command)


_VERBOSE = ("-v", "--verbose")
_HELP = ("--help", "--version", "-help", "-version", "--usage")


def of_words(
    name: str, known: Program, words: Sequence[Word], command: Command, above: SortedWords | None = None
) -> Iterable[Effect]:
    """Return the effects of a program with these words; sub-commands are followed."""
    if (
        words
        and words[0].text in _HELP
        and (len(words) == 1 or not known.wrapper)
        and all(w.text in _VERBOSE for w in words[1:])
    ):
        return []
    call = sort_words(name, known, words, command, above)
    if known.subs is None:
        return _of_call(call)
    found = list(of_options(call))
    if not call.operands:
        below = known.subs.get("")
        return [*found, *(of_words(name, below, (), command, call) if below else [])]
    text = call.operands[0].text
    below = known.subs.get(text) if text is not None else None
    rest = call.operands[1:]
    if below is None:
        below, rest = known.subs.get("*"), call.operands
    if below is None:
        return [
            *found,
            Effect("unknown", call.operands[0], f"is a use of {name} that is not known here", "shell:unknown-use"),
        ]
    return [*found, *of_words(f"{name} {text}", below, rest, command, call)]


def _of_call(call: SortedWords) -> Iterable[Effect]:
    if call.program.handler is not None:
        return call.program.handler(call)
    return plain(call)


def plain(call: SortedWords, operands: str | None = None) -> list[Effect]:
    """Return the effects that follow from the roles of options and operands alone."""
    found = list(of_options(call))
    program = call.program
    if call.unsure and is_risky(program.options):
        found.append(
            Effect("unknown", None, "has words that could be options, known only when it runs", "shell:unknown-option")
        )
    if program.does:
        found += [Effect(kind) for kind in program.does]
    found += of_operands(call.operands, operands or _operand_roles(call))
    return found


def _operand_roles(call: SortedWords) -> str:
    """Return the operands' roles, unless an option changes them."""
    roles = call.program.operands
    for given in call.options:
        if given.option.operands:
            changed = given.option.operands
            return " ".join(_changed(role, changed) for role in roles.split())
    return roles


def _changed(role: str, to: str) -> str:
    if role.rstrip("*") == "text" and to != "text":
        return role
    return to + ("*" if role.endswith("*") else "")


def of_options(call: SortedWords) -> Iterator[Effect]:
    """Yield the effects of the given options, by their roles."""
    for given in call.options:
        if given.option.effect:
            yield Effect(
                given.option.effect, given.value, "" if given.option.effect != "unknown" else f"uses {given.name}"
            )
        if given.value is not None and given.option.role != "text":
            yield from of_role(given.option.role, given.value)
    if call.program.closed:
        for name in call.unlisted:
            yield Effect("unknown", None, f"has an option that is not known here ({name})", "shell:unknown-option")
    for word in call.odd:
        if word.text is None or "/" in word.text or word.text.startswith(("~", "..")):
            yield Effect("read", word)


def of_operands(words: Sequence[Word], roles: str) -> Iterator[Effect]:
    """Give each operand its role, and yield the effects."""
    first, rest, last = parse_operands(roles)
    ends = len(words) - len(last)
    for index, word in enumerate(words):
        if last and index >= max(ends, len(first)):
            role = last[index - ends]
        elif index < len(first):
            role = first[index]
        elif rest is not None:
            role = rest
        else:
            role = "maybe"
        if role != "text":
            yield from of_role(role, word)
        if word.many and last and rest is not None:  # any of its files may be the last one
            yield from of_role(last[-1], word)


def _maybe(word: Word) -> Iterator[Effect]:
    """Treat a word as a path if it looks like one: it points elsewhere, or is the name of a secret (`HEAD:.env`)."""
    if _PATHISH.match(word.start):
        yield Effect("read", word)
        return
    text = word.text
    if text is None:
        if word.glob:
            yield Effect("read", word)
        return
    for name in (text, text.partition(":")[2]):
        if name and sensitive_by(name) is not None:
            yield Effect("read", literal(name))
            return


# A command line that only starts a shell.
SHELL_ONLY = re.compile(r"(?:exec\s+)?(?:/usr)?(?:/bin/)?(?:ba|da|z|k|c|tc|fi)?sh(?:\s+-[ilps]+)*(?:\s+[0-9<>&]+)*")
_PATHISH = re.compile(r"(?:[/~]|\.\.?(?:/|\Z)|file:)|.*/\.\.(?:/|\Z)", re.DOTALL)
_REMOTE = re.compile(r"(?:[\w.+-]+@)?[\w.\[\]-]+:(?!/?/?\Z)|\w+://")
HARMLESS_PROGRAM = re.compile(r"\s*|(?:cat|less|more|head|tail|true|false|:)(?: -\w+)*")


def of_role(role: str, word: Word) -> Iterator[Effect]:
    """Yield the effects of a word in a role."""
    if role in PATH_KINDS:
        if word.start.startswith(("/dev/tcp/", "/dev/udp/")) and role == "read":
            role = "list"
        yield Effect(role, word)
    elif role == "maybe":
        yield from _maybe(word)
    elif role == "maybelist":
        if _PATHISH.match(word.start):
            yield Effect("list", word)
    elif role == "remote":
        if _REMOTE.match(word.start):
            yield Effect("network", word)
        else:
            yield Effect("read", word)
    elif role == "remotewrite":
        if _REMOTE.match(word.start):
            yield Effect("network", word)
        else:
            yield Effect("write", word)
    elif role in ("host", "url"):
        yield from _of_url(word)
    elif role == "names":
        yield Effect("read", word)
        yield Effect("named", word)
    elif role == "send":
        yield from _sent(word)
    elif role == "program":
        yield from of_program_word(word)
    elif role == "exec":
        yield Effect("execute", word, f"runs {word.text or 'something'}, whose code is not known", "shell:script")
    elif role == "shell":
        yield Effect("shell", word)
    elif role == "gitsetting":
        from .table.git import setting

        yield from setting(word)
    elif role == "aptsetting":
        if re.search(
            r"invoke|dir::bin|::run\b|proxy-auto-detect", "".join(part or "" for part in word.parts), re.IGNORECASE
        ):
            yield Effect("hijack", word, "makes apt run a program")
    elif role == "data":  # curl's -d: `@file` is read
        at = word.start.find("@")
        if at >= 0:
            yield from _sent(cut(word, at + 1))
    elif role != "text":
        yield Effect(role, word)


def _sent(word: Word) -> Iterator[Effect]:
    """Yield the sending of a file to another machine; `-` means the input from a pipe."""
    if word.text != "-":
        yield Effect("send", word)


def of_program_word(word: Word) -> Iterator[Effect]:
    """Yield the effect of naming a program to run instead of a tool's own (a pager, an editor, a remote shell)."""
    text = word.text
    if text is not None and HARMLESS_PROGRAM.fullmatch(text):
        return
    if text is not None:
        yield Effect("shell", word)
    yield Effect("hijack", word, f"makes another program run {text or 'something'}", "shell:hijack")


def _of_url(word: Word) -> Iterator[Effect]:
    if word.start.lower().startswith("file:"):
        yield Effect("read", word)
    else:
        yield Effect("network", word)


def is_known_kind(kind: str) -> Literal[True]:
    """Return True. Raises KeyError for a kind without a verdict: the tests of the table call this function."""
    if kind not in PATH_KINDS and kind != "shell":
        KINDS[kind]
    return True
