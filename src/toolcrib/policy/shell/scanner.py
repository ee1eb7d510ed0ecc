"""Read a text once, from left to right: a position, blanks, comments, nesting, and the error at that position."""

from __future__ import annotations

from ...core.text import lazy_regex
from .tree import Unsure

MAX_DEPTH = 24  # nested constructs: more than people write, and few enough for Python's own stack
_SKIPPED = frozenset(" \t\\#")
_BLANK = lazy_regex(r"(?:[ \t]|\\\n)*")


class Scanner:
    """The text `s`, and `i`, the position up to which it was read.

    With `posix` the shell may be one that knows less (dash). `doubts`: what shells read in another way. An inner text
    of an `outer` one shares both.
    """

    __slots__ = ("depth", "doubts", "i", "n", "posix", "s")
    i: int
    depth: int

    def __init__(self, text: str, outer: Scanner | None = None, posix: bool = False) -> None:
        self.s = text
        self.i = 0
        self.n = len(text)
        self.depth: int = outer.depth if outer else 0
        self.posix: bool = outer.posix if outer else posix
        self.doubts: list[Unsure] = outer.doubts if outer else []

    def error(self, reason: str) -> Unsure:
        """Return the error for the current position."""
        rest = self.s[self.i : self.i + 30]
        return Unsure(f"{reason}: {rest!r}" if rest else f"{reason} at the end", rest)

    def bash_only(self, what: str) -> None:
        """Note what `sh` reads in another way, if `sh` may read this text. The reading goes on: known harm counts."""
        if self.posix:
            self.doubts.append(Unsure("shells differ in how they read this", what, "shell:dialect"))

    def enter(self) -> None:
        """Count a level of nesting. Raises `Unsure` if there are too many."""
        self.depth += 1
        if self.depth > MAX_DEPTH:
            raise Unsure("it is nested too deeply", rule="shell:nesting")

    def close(self, char: str) -> None:
        """Skip a closing character. Raises `Unsure` if it is missing."""
        if not self.s.startswith(char, self.i):
            raise self.error(f"{char!r} is missing")
        self.i += 1

    def skip(self) -> str:
        """Skip blanks, continued lines and a comment; return the character that follows, or "" at the end."""
        i = self.i
        char = self.s[i : i + 1]
        if char == " ":  # the most frequent case: one blank, then a word
            i += 1
            char = self.s[i : i + 1]
        if char not in _SKIPPED:
            self.i = i
            return char
        match = _BLANK.match(self.s, i)
        if match:
            self.i = match.end()
        char = self.s[self.i : self.i + 1]
        if char == "#":
            end = self.s.find("\n", self.i)
            self.i = self.n if end < 0 else end
            return "" if end < 0 else "\n"
        return char

    def skip_blanks(self) -> None:
        """Skip blanks and continued lines, but not a comment."""
        match = _BLANK.match(self.s, self.i)
        if match:
            self.i = match.end()
