"""Remove secrets from texts: `redact(text)` returns the same object if there are none.

In the common case one check is enough: does the text have a run of 19 key characters, or one of a few words? Only then
are patterns tried, and only those whose needle is in the text.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable
from typing import Any

from ...core.errors import ConfigError
from ..regexes import UserPattern, compile_pattern
from . import pem
from .patterns import CONTEXTS, TOKENS, Pattern, Span, mask
from .values import MIN_SECRET, Value, joined

# Classes of characters, one byte each: "a" and "b" may occur in a key, and no key consists of "a" alone.
_WORD = b"abcdefghijklmnopqrstuvwxyz-_"
_MARKED = b"ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
_RUNS = bytes(97 if byte in _WORD or byte in _MARKED else 32 for byte in range(256))
_MARKS = bytes(97 if byte in _WORD else 98 if byte in _MARKED else 32 for byte in range(256))
_RUN = b"a" * 19
_BEFORE = 48  # characters before a run that may belong to the secret: `123456789:`, `SG.`, `API_KEY = "`
_MIN_TEXT = 8  # shorter texts are not checked: `a://b:c@d`
_ROUNDS = 4

_NEAR = tuple(
    (needle, pattern) for pattern in (*TOKENS, *CONTEXTS) if not pattern.context for needle in pattern.needles
)
_ANYWHERE = tuple((needle, pattern) for pattern in CONTEXTS if pattern.context for needle in pattern.needles)


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
        near = _near_runs(text)
        if (
            near
            or "earer " in text
            or "asic " in text
            or "ecret" in text
            or "SECRET" in text
            or "ASSW" in text
            or "Key=" in text
            or (":/" in text and "@" in text)  # a path has only one slash of `://`
            or "IVATE KEY" in text
            or self.own
            or self._stands(text)
        ):
            return self._replaced(text, near)
        return text

    def spans(self, text: str, near: str | None = None) -> list[Span]:
        """Return the secrets in a text, in order, without nested ones. `near` is the result of `_near_runs`, if
        known."""
        found = [span for value in self.values for span in value.spans(text)]
        held = len(found)
        for pattern in _candidates(text, _near_runs(text) if near is None else near):
            found += pattern.spans(text)
        for pattern in self.own:
            found += _own_spans(pattern, text)
        if "IVATE KEY" in text:
            found += pem.spans(text)
        if self.allow:
            found = found[:held] + [span for span in found[held:] if text[span.start : span.end] not in self.allow]
        return _merged(found) if len(found) > 1 else found

    def _stands(self, text: str) -> bool:
        """Return whether a granted value may be in the text."""
        if not self.values:
            return False
        if any(value.stands_in(text) for value in self.values):
            return True
        if "\n" not in text:
            return False
        text = joined(text)
        return any(value.stands_in(text) for value in self.values)

    def _replaced(self, text: str, near: str | None) -> str:
        for _ in range(_ROUNDS):  # repeat, in case a mask and the text next to it look like a secret
            found = self.spans(text, near)
            if not found:
                break
            text, near = replaced(text, found), None
        return text


def replaced(text: str, spans: Iterable[Span]) -> str:
    """Return the text with masks in place of the secrets."""
    parts: list[str] = []
    position = 0
    for start, end, shown in spans:
        parts += text[position:start], shown
        position = end
    return "".join([*parts, text[position:]])


def _candidates(text: str, near: str) -> Iterable[Pattern]:
    """Return the patterns that may match in the text."""
    found = {id(pattern): pattern for needle, pattern in _NEAR if needle in near} if near else {}
    found |= {id(pattern): pattern for needle, pattern in _ANYWHERE if needle in text}
    return found.values()


def _near_runs(text: str) -> str:
    """Return the runs of key characters that are long enough for a key, each with a little of the text before it.

    Empty if no needle is in it: then no pattern that needs such a run can match.
    """
    characters = text.encode("ascii", "replace")
    runs = characters.translate(_RUNS)
    at = runs.find(_RUN)
    if at < 0:
        return ""
    marks = characters.translate(_MARKS)
    parts: list[str] = []
    done = 0
    while at >= 0:
        end = runs.find(b" ", at + len(_RUN))
        end = len(text) if end < 0 else end
        if marks.find(b"b", at, end) >= 0:
            parts.append(text[max(done, at - _BEFORE) : end])
            done = end
        at = runs.find(_RUN, end)
    near = "\n".join(parts)
    return near if near and _needles().search(near) else ""


@functools.cache
def _needles() -> re.Pattern[str]:
    """Return one expression for all needles, as a tree of their letters: one step per character, for any number of
    needles."""
    tree: dict[str, Any] = {}
    for needle, _ in _NEAR:
        place = tree
        for character in needle:
            place = place.setdefault(character, {})
        place[""] = {}
    return re.compile(_branches(tree))


def _branches(tree: dict[str, Any]) -> str:
    if "" in tree:
        return ""
    parts = [re.escape(character) + _branches(inner) for character, inner in sorted(tree.items())]
    return parts[0] if len(parts) == 1 else f"(?:{'|'.join(parts)})"


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
