"""Regular expressions of users, matched by RE2: in a time that grows with the length of the text, whatever they say.

RE2 has no look-around and no back-references, so a pattern with one is an error when it is read. In Python's `re` some
patterns take exponential time: `(a+)+`, `(.*,)*`.
"""

from __future__ import annotations

import functools
import importlib
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

# What Python's `\w`, `\d` and `\s` mean, for RE2, which by itself knows ASCII only.
_UNICODE = {"w": r"\pL\pN_", "d": r"\p{Nd}", "s": r"\s\v\x1c-\x1f\x{85}\pZ"}
_PIECE = re.compile(r"\\.|\[:\w+:\]|\[\^?\]?|.", re.DOTALL)
_BOUND = re.compile(r"(?<!\\)\{,\d+\}")


@dataclass(frozen=True, slots=True)
class UserPattern:
    """A user's expression. `text` is how it was written."""

    text: str
    _compiled: Any

    def search(self, text: str) -> bool:
        """Whether it occurs in a text. `$` also matches before a line feed at the end, as in Python."""
        text = _encodable(text)
        found = self._compiled.search
        return found(text) is not None or (text.endswith("\n") and found(text[:-1]) is not None)

    def fullmatch(self, text: str) -> bool:
        """Whether it matches a text from beginning to end."""
        return self._compiled.fullmatch(_encodable(text)) is not None

    def spans(self, text: str, group: str) -> Iterator[tuple[int, int]]:
        """Where it occurs in a text: where the named group does, if the expression has it."""
        number = self._compiled.groupindex.get(group, 0)
        return (match.span(number) for match in self._compiled.finditer(_encodable(text)))


def compile_pattern(text: str, *, ignore_case: bool = False, ascii_only: bool = False) -> UserPattern:
    r"""Compile a user's expression. With `ascii_only`, `\w`, `\d` and `\s` match ASCII characters only.

    Raises ValueError with what is wrong with the expression.
    """
    return UserPattern(text, _compiled(text, ignore_case, ascii_only))


@functools.lru_cache(512)
def _compiled(text: str, ignore_case: bool, ascii_only: bool) -> Any:
    if found := _BOUND.search(text):  # RE2 takes it for the letters that it is made of
        raise ValueError(f"{text!r} is not a valid regular expression here: write {found[0].replace('{,', '{0,')}")
    re2: Any = importlib.import_module("re2")  # 30 ms that only those pay who have patterns
    options = re2.Options()
    options.log_errors = False
    options.case_sensitive = not ignore_case
    try:
        return re2.compile(text if ascii_only else _with_unicode(text), options)
    except (re2.error, UnicodeEncodeError) as error:
        said = error.args[0].decode("utf-8", "replace") if isinstance(error.args[0], bytes) else str(error)
        raise ValueError(
            f"{text!r} is not a valid regular expression here: {said}. Patterns are matched by RE2: without "
            r"look-around, back-references, possessive quantifiers and \Z"
        ) from None


def _with_unicode(text: str) -> str:
    r"""Give `\w`, `\d` and `\s` the meaning that they have in Python. `\W` and `\S` in brackets keep that of ASCII."""
    found: list[str] = []
    inside = False
    for piece in _PIECE.findall(text):
        if not inside and piece[0] == "[" and not piece.startswith("[:"):
            inside = True
        elif inside and piece == "]":
            inside = False
        elif len(piece) == 2 and piece[0] == "\\" and (known := _UNICODE.get(piece[1].lower())):
            negated = piece[1].isupper()
            if not inside:
                piece = f"[{'^' if negated else ''}{known}]"
            elif not negated:
                piece = known
        found.append(piece)
    return "".join(found)


def _encodable(text: str) -> str:
    """The text with "?" for each lone surrogate: as long as it was."""
    if text.isascii():
        return text
    return text.encode("utf-8", "replace").decode("utf-8")
