"""Read a text once, from left to right: a position, blanks, comments, nesting, and the error at that position."""

from __future__ import annotations

from ...core.text import lazy_regex
from .tree import Unsure

MAX_DEPTH = 24  # nested constructs: more than people write, and few enough for Python's own stack
_SKIPPED = frozenset(" \t\\#")
_BLANK = lazy_regex(r"(?:[ \t]|\\\n)*")


class Scanner:
    """The text `s`, and `i`, the position up to which it was read."""

    __slots__ = ("depth", "i", "n", "s")
    i: int
    depth: int

    def __init__(self, text: str, depth: int = 0) -> None:
        self.s = text
        self.i = 0
        self.n = len(text)
        self.depth = depth

    def error(self, reason: str) -> Unsure:
        """Return the error for the current position."""
        rest = self.s[self.i : self.i + 30]
        return Unsure(f"{reason}: {rest!r}" if rest else f"{reason} at the end", rest)

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
