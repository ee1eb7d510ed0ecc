"""Remove secrets from texts: `redact(text)` returns the same object if there are none.

RE2 looks for the needles of all patterns in one pass; only the patterns whose needle is in the text are tried.
"""

from __future__ import annotations

import functools
import importlib
import re
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from ...core.errors import ConfigError
from ...core.text import one_line
from ..regexes import UserPattern, compile_pattern
from . import pem
from .patterns import CONTEXTS, TOKENS, Span, mask
from .values import MIN_SECRET, Value, joined

_MIN_TEXT = 8  # shorter texts are not checked: `a://b:c@d`
_ROUNDS = 4
_LINE_BEFORE = 24  # characters before a bare `***` that identify it

_FINDERS: tuple[tuple[Sequence[str], Callable[[str], list[Span]]], ...] = (
    *((pattern.needles, pattern.spans) for pattern in (*TOKENS, *CONTEXTS)),
    (("IVATE KEY",), pem.spans),
)
"""Functions that find one kind of secret, each with the texts of which one must be there."""


class Redactor:
    """Recognizes the secrets of one toolbox: known formats, and the granted values.

    `patterns` are further regular expressions (if one has a group `s`, only the group is the secret); `allow` are texts
    that only look like secrets. Values can be granted at any time and from any thread.
    """

    def __init__(self, *, patterns: Iterable[str] = (), allow: Iterable[str] = ()) -> None:
        self.allow = frozenset(allow)
        self.own = tuple(_own(number, expression) for number, expression in enumerate(patterns))
        self.values: tuple[Value, ...] = ()

    def grant(self, name: str, value: str) -> None:
        """Hide this value in all texts from now on. Raises ConfigError for a value that is too short to be
        recognized."""
        if len(value) < MIN_SECRET:
            raise ConfigError(
                f"secrets.{name}: the value has {len(value)} characters; a secret needs at least {MIN_SECRET}, because "
                "it is removed from every text, and shorter values are in many texts by chance"
            )
        if not any(known.value == value for known in self.values):
            self.values = (*self.values, Value(name, value))

    def redact(self, text: str) -> str:
        """Return the text without secrets; the same object if there are none. Never raises."""
        if len(text) < _MIN_TEXT:
            return text
        for _ in range(_ROUNDS):  # repeat, in case a mask and the text next to it look like a secret
            found = self.spans(text)
            if not found:
                break
            text = replaced(text, found)
        return text

    def spans(self, text: str) -> list[Span]:
        """Return the secrets in a text, in order, without nested ones."""
        flat = joined(text) if self.values and "\n" in text else ""
        found = [span for value in self.values for span in value.spans(text, flat)]
        granted = len(found)
        numbers: list[int] = _needles().Match(text.encode("ascii", "replace")) or []
        for number in numbers:
            found += _FINDERS[number][1](text)
        for pattern in self.own:
            found += _own_spans(pattern, text)
        if self.allow:
            found = found[:granted] + [
                span for span in found[granted:] if text[span.start : span.end] not in self.allow
            ]
        return _merged(found) if len(found) > 1 else found

    def lost_by(self, current: str, new: str) -> str | None:
        """Return why writing `new` over `current` would destroy a secret: its mask is in `new`. None if it would not.

        A model that was only shown the mask may write it. A mask that is in `current` itself is ordinary text.
        """
        if not may_be_masked(new):
            return None
        for span in self.spans(current):
            shown = span.mask
            if not shown.strip("\\n* "):  # `***` alone could be anything: compare the beginning of its line too
                line = current[: span.start].rpartition("\n")[2][-_LINE_BEFORE:]
                shown = f"{line}{shown}".strip()
            if shown in new and shown not in current:
                return (
                    f"{one_line(shown)!r} is in the text, but the file has a secret in its place: that is how "
                    "secrets are shown, and writing it would destroy this one. Leave its line alone; change the other "
                    "lines with edit_file"
                )
        return None


def may_be_masked(text: str) -> bool:
    """Return whether a text may hold a mask. This quick check comes before a file is read and searched."""
    return "***" in text or "[secret:" in text


def replaced(text: str, spans: Iterable[Span]) -> str:
    """Return the text with masks in place of the secrets."""
    parts: list[str] = []
    position = 0
    for start, end, shown in spans:
        parts += text[position:start], shown
        position = end
    return "".join([*parts, text[position:]])


@functools.cache
def _needles() -> Any:
    """Return an RE2 set; its `Match` takes bytes and returns the numbers of the finders that may find something."""
    needles = importlib.import_module("re2").Set.SearchSet()
    for texts, _ in _FINDERS:
        needles.Add("|".join(map(re.escape, texts)))
    needles.Compile()
    return needles


def _merged(spans: list[Span]) -> list[Span]:
    """Return the spans in order. Overlapping spans become one, with the mask of the first; granted values come before
    patterns."""
    merged: list[Span] = []
    for span in sorted(spans, key=lambda each: (each.start, -each.end)):
        if merged and span.start < merged[-1].end:
            last = merged[-1]
            merged[-1] = Span(last.start, max(last.end, span.end), last.mask)
        else:
            merged.append(span)
    return merged


def _own(number: int, expression: str) -> UserPattern:
    try:
        found = compile_pattern(expression, ascii_only=True)
    except ValueError as error:
        raise ConfigError(f"redact.patterns[{number}]: {error}") from None
    if found.search(""):
        raise ConfigError(f"redact.patterns[{number}]: it matches where nothing is, and would mask everything")
    return found


def _own_spans(pattern: UserPattern, text: str) -> list[Span]:
    return [Span(start, end, mask(text[start:end])) for start, end in pattern.spans(text, "s") if start < end]
