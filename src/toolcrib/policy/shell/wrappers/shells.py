"""Unfold programs and builtins that give text to a shell, or run words as another user or in another environment."""

from __future__ import annotations

from collections.abc import Iterator

from ..parts import STANDARD_INPUT, Word, plain_name
from ..table.shell import SET_NAMES, shell_options
from .inner import Inner, joined, options_of, split_assignment, starts_of

POSIX_SHELLS = frozenset({"sh", "dash", "ash", "yash", "hush"})


def env(words: tuple[Word, ...], _stdin: Word | None) -> Iterator[Inner]:
    """env: assignments and a command. -S splits a string into further words, but not a quoted one."""
    call = options_of(words)
    strings = call.values("-S", "--split-string")
    strings += [word for name, word in call.odd if "--split-string".startswith(name)]
    if strings:
        text = strings[-1].text
        if text is None or not {*text}.isdisjoint("\\$#'\""):
            words = (Word((None,), strings[-1].source), *words[call.rest + 1 :])
            yield Inner(words, unread="text that is split into a command is not read")
            return
        yield from env((words[0], *(Word((part,)) for part in text.split()), *words[call.rest + 1 :]), None)
        return
    directory = next(iter(call.values("-C", "--chdir")[-1:]), None)
    if directory is not None and ".." in directory.start.split("/"):  # it follows links before the `..`
        directory = Word((None,))
    for start in starts_of(call):
        at = start + (1 if start < len(words) and words[start].text == "-" else 0)
        assigns: list[tuple[str, Word]] = []
        while at < len(words) and (words[at].text is not None or words[at].start) and "=" in words[at].start:
            assigns.append(split_assignment(words[at]) or (words[at].start.split("=")[0], words[at]))
            at += 1
        if at < len(words):
            yield Inner(words[at:], assigns=tuple(assigns), directory=directory)


def shell(words: tuple[Word, ...], _stdin: Word | None) -> Iterator[Inner]:
    """sh and similar shells: -c text, a file, or standard input."""
    posix = plain_name(words[0].text) in POSIX_SHELLS
    groups, values, rest = shell_options(words[1:])
    dark = rest[0] if rest and rest[0].text is None else Word(("",))
    unsure = dark.many or (dark.text is None and dark.start[:1] in ("", "-", "+"))
    # -k takes assignments anywhere, and with other options the text would have to be read in another way
    if unsure or any("k" in group for group in groups) or any(word.text not in SET_NAMES for word in values):
        yield Inner(script=Word((None,)), posix=posix)
        return
    rest = rest[1:] if rest and rest[0].text in ("-", "--") else rest
    has_text = any(group[0] == "-" and "c" in group for group in groups)
    from_input = any("s" in group for group in groups)
    many = any(word.many for word in rest)
    if has_text:
        yield Inner(
            script=rest[0] if rest and not rest[0].many else Word((None,)),
            arg0=rest[1] if len(rest) > 1 and not many else None,
            arguments=None if many else rest[2:],
            posix=posix,
        )
    elif from_input or not rest or rest[0].text in STANDARD_INPUT:
        yield Inner(reads=True, arguments=None if many else rest if from_input else rest[1:], posix=posix)
    elif rest[0].is_process:
        yield Inner(reads=True, arguments=None if many else rest[1:], posix=posix)


def evaluate(words: tuple[Word, ...], _stdin: Word | None) -> Iterator[Inner]:
    """eval: its words are joined and run in this same shell."""
    rest = words[2:] if len(words) > 1 and words[1].text == "--" else words[1:]
    if rest:
        yield Inner(script=joined(rest), inside=True, same=True, arguments=None)


def source(words: tuple[Word, ...], _stdin: Word | None) -> Iterator[Inner]:
    """source and `.` of standard input or a process substitution; other modules judge a file."""
    rest = words[2:] if len(words) > 1 and words[1].text == "--" else words[1:]
    if rest and (rest[0].text in STANDARD_INPUT or rest[0].is_process):
        yield Inner(reads=True, inside=True, same=True, arguments=None)


def trap(words: tuple[Word, ...], _stdin: Word | None) -> Iterator[Inner]:
    """trap: this shell runs its first operand later."""
    rest = words[2:] if len(words) > 1 and words[1].text == "--" else words[1:]
    if len(rest) > 1 and rest[0].text not in ("-", "-p", "-l", ""):
        yield Inner(script=rest[0], inside=True, arguments=None)
        yield Inner(script=rest[0], inside=True, arguments=None, later=True)


def alias(words: tuple[Word, ...], _stdin: Word | None) -> Iterator[Inner]:
    """alias: a later command may be its text, with any words behind it."""
    for word in words[1:]:
        if word.text is None or "=" in word.text[1:]:
            text = word.text.partition("=")[2] if word.text is not None else None
            yield Inner(script=Word((text, ' "$@"')), inside=True, arguments=None, later=True)


def callback(words: tuple[Word, ...], _stdin: Word | None) -> Iterator[Inner]:
    """mapfile -C and compgen -C run shell text; compgen -W expands its words."""
    if any(word.text is None or word.start.startswith(("-C", "-W", "-F")) for word in words[1:]):
        yield Inner(script=Word((None,)), inside=True, unread="text that is run for each line or word is not read")
