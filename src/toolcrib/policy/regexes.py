"""Match regular expressions of users with RE2: in time linear in the length of the text, whatever the expression.

RE2 has no look-around and no back-references, so a pattern with one is an error when it is read. In Python's `re` some
patterns take exponential time: `(a+)+`, `(.*,)*`.
"""

from __future__ import annotations

import functools
import importlib
import re
from collections.abc import Iterator
from typing import Any

from ..core.dataclass import dataclass
from ..core.text import lazy_regex

# The meaning of Python's `\w`, `\d` and `\s` for RE2, which by default knows ASCII only.
_UNICODE = {"w": r"\pL\pN_", "d": r"\p{Nd}", "s": r"\s\v\x1c-\x1f\x{85}\pZ"}
_PIECE = lazy_regex(r"\\.|\[:\w+:\]|\[\^?\]?|.", re.DOTALL)
_BOUND = lazy_regex(r"(?<!\\)\{,\d+\}")


@dataclass(frozen=True, slots=True)
class UserPattern:
    """A user's expression. `text` is its original spelling."""

    text: str
    _compiled: Any

    def search(self, text: str) -> bool:
        """Return whether it occurs in a text. `$` also matches before a line feed at the end, as in Python."""
        text = _encodable(text)
        found = self._compiled.search
        return found(text) is not None or (text.endswith("\n") and found(text[:-1]) is not None)

    def fullmatch(self, text: str) -> bool:
        """Return whether it matches a text from beginning to end."""
        return self._compiled.fullmatch(_encodable(text)) is not None

    def spans(self, text: str, group: str) -> Iterator[tuple[int, int]]:
        """Yield the positions where it occurs in a text, or those of the named group if the expression has it."""
        number = self._compiled.groupindex.get(group, 0)
        return (match.span(number) for match in self._compiled.finditer(_encodable(text)))


def compile_pattern(text: str, *, ignore_case: bool = False, ascii_only: bool = False) -> UserPattern:
    r"""Compile a user's expression. With `ascii_only`, `\w`, `\d` and `\s` match ASCII characters only.

    Raises ValueError that says what is wrong with the expression.
    """
    return UserPattern(text, _compiled(text, ignore_case, ascii_only))


@functools.lru_cache(512)
def _compiled(text: str, ignore_case: bool, ascii_only: bool) -> Any:
    if found := _BOUND.search(text):  # RE2 reads this as literal characters
        raise ValueError(f"{text!r} is not a valid regular expression here: write {found[0].replace('{,', '{0,')}")
    re2: Any = importlib.import_module("re2")  # takes 30 ms; only needed if there are patterns
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
    r"""Return the expression with Python's meaning of `\w`, `\d` and `\s`. `\W` and `\S` in brackets keep their ASCII
    meaning."""
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
    """Return the text with "?" for each lone surrogate; the length stays the same."""
    if text.isascii():
        return text
    return text.encode("utf-8", "replace").decode("utf-8")
