"""Unfold programs that run a command once for each of many files or lines: xargs, find, fd, parallel."""

from __future__ import annotations

import re
from collections.abc import Iterator

from ..parts import Word
from ..table.wordlist import words as words_in
from .inner import MANY, Inner, options_of, replaced, starts_of

# With these options the items are not simply what its input holds.
_OTHER_ITEMS = words_in(
    "-a --arg-file -E -e -s -L -l -x --eof --max-chars --max-lines --exit -0 --null -d --delimiter -n --max-args"
)


def xargs(words: tuple[Word, ...], stdin: Word | None) -> Iterator[Inner]:
    """xargs: its command with the items from its input after it, or in place of -I's text. Items that are known but
    not simply separated by blanks are not computed."""
    call = options_of(words)
    marks = call.values("-I", "-i", "--replace", "-J")
    mark = marks[-1].text if marks else "{}" if call.has("-i", "--replace") else None
    text, unread = stdin.text if stdin is not None else None, ""
    if text is not None and (call.has(*_OTHER_ITEMS) or re.search(r"[\\'\"\0]", text)):
        text, unread = None, "the items that known text gives are not computed"
    for start in starts_of(call):
        command = words[start:] or (Word(("echo",)),)
        if mark is not None:
            lines = [None] if text is None else [line.strip(" \t") for line in text.splitlines()]
            for line in filter(lambda line: line != "", lines):
                yield Inner(tuple(replaced(word, mark, (line,)) for word in command), fed=False, unread=unread)
        elif marks or text is None:
            yield Inner((*(command[:1] if marks else command), MANY), fed=False, unread=unread)
        else:
            yield Inner((*command, *(Word((item,)) for item in text.split())), fed=False)


def find(words: tuple[Word, ...], _stdin: Word | None) -> Iterator[Inner]:
    """find: the commands of -exec and similar actions, once for each root. `{}` is the root and an unknown rest."""
    roots, at = list[Word](), 1
    while at < len(words) and words[at].text in ("-H", "-L", "-P", "-D", "-O3", "-O2", "-O1"):
        at += 2 if words[at].text == "-D" else 1
    while at < len(words) and not words[at].start.startswith(("-", "(", "!", ")")):
        roots.append(words[at])
        at += 1
    roots = list(dict.fromkeys(roots)) or [Word((".",))]
    roots = roots if len(roots) <= 8 else [Word((None,))]
    while at < len(words):
        if words[at].text in ("-exec", "-execdir", "-ok", "-okdir"):
            end = at + 1
            while end < len(words) and not _ends_exec(words, end):
                end += 1
            inside = words[at + 1 : end]
            away = Word((None,)) if (words[at].text or "").endswith("dir") else None
            for root in roots:
                if inside:
                    below = (None,) if root.many else (*_literal_start(root), None)
                    filled = tuple(replaced(word, "{}", below) for word in inside)
                    several = filled[-1:] if words[end : end + 1] and words[end].text == "+" else ()
                    yield Inner((*filled, *several), directory=away)
            at = end
        at += 1


def _ends_exec(words: tuple[Word, ...], at: int) -> bool:
    """Return whether a word ends the command of -exec."""
    return words[at].text == ";" or (words[at].text == "+" and words[at - 1].text == "{}")


def _literal_start(word: Word) -> tuple[str | None, ...]:
    """Return the start of a word before any pattern."""
    if not word.glob:
        return word.parts
    return (re.split(r"[*?\[\\]", word.start)[0],)


def fd(words: tuple[Word, ...], _stdin: Word | None) -> Iterator[Inner]:
    """fd: the words after -x or -X are a command."""
    at = next((i for i, w in enumerate(words) if w.text in ("-x", "-X", "--exec", "--exec-batch")), len(words))
    plain = [word for word in words[1:at] if not word.start.startswith("-")]
    roots = list(dict.fromkeys(plain[1:]))[:8] or [Word((".",))]
    while at < len(words):
        end = next((index for index in range(at + 1, len(words)) if words[index].text == ";"), len(words))
        inside = words[at + 1 : end]
        for root in roots if inside else ():
            start = "" if root.many else "".join(part or "" for part in _literal_start(root)).rstrip("/") + "/"
            yield Inner(_fd_filled(inside, (start, None) if start else (None,)))
            name = plain[0].text if plain else None
            if name and re.fullmatch(r"[\w.-]{3,}", name):  # the name it searches for, if directly in the root
                yield Inner(_fd_filled(inside, (f"{start}{name}",)))
        at = end + 1


def _fd_filled(words: tuple[Word, ...], below: tuple[str | None, ...]) -> tuple[Word, ...]:
    """Fill the placeholders of fd's command; without a placeholder the path is the last word."""
    filled = words
    for mark in ("{}", "{/}", "{//}", "{.}", "{/.}"):
        filled = tuple(replaced(word, mark, below if mark == "{}" else (None,)) for word in filled)
    return filled if filled != words else (*words, Word(below))
