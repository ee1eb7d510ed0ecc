"""Remove secrets from texts: `redact(text)` returns the same object if there are none.

RE2 looks for the needles of all patterns in one pass; only the patterns whose needle is in the text are tried.
"""

from __future__ import annotations

import functools
import html
import importlib
import json
import re
from base64 import b64encode
from collections.abc import Callable, Iterable, Sequence
from typing import Any
from urllib.parse import quote, quote_plus

from ...core.errors import ConfigError
from ...core.text import one_line
from ..regexes import UserPattern, compile_pattern
from .patterns import CONTEXTS, TOKENS, Span, mask, private_keys

MIN_SECRET = 8
"""Minimum length of a granted value: a shorter one occurs in many texts by chance."""
_LONG_LINE = 20
_MIN_TEXT = 8  # shorter texts are not checked: `a://b:c@d`
_ROUNDS = 4
_LINE_BEFORE = 24  # characters before a bare `***` that identify it

_FINDERS: tuple[tuple[Sequence[str], Callable[[str], list[Span]]], ...] = (
    *((pattern.needles, pattern.spans) for pattern in (*TOKENS, *CONTEXTS)),
    (("IVATE KEY",), private_keys),
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


# --- granted values


class Value:
    """One granted value, with the name it was granted under."""

    def __init__(self, name: str, value: str) -> None:
        self.name, self.value = name, value
        self.mask = f"[secret:{name}]"
        self.forms = tuple(sorted(forms(value), key=len, reverse=True))

    def spans(self, text: str, flat: str) -> list[Span]:
        """Return the positions of any form of it, also with line breaks in it: `flat` is the text after `joined`, if it
        has line breaks."""
        found: list[Span] = []
        for form in self.forms:
            at = text.find(form)
            while at >= 0:
                found.append(Span(at, at + len(form), self.mask))
                at = text.find(form, at + len(form))
        if not found and any(form in flat for form in self.forms):
            found = [Span(*match.span(), self.mask) for match in self._broken.finditer(text)]
        return found

    @functools.cached_property
    def _broken(self) -> re.Pattern[str]:
        gap = r"(?:\r?\n[ \t]{0,8})?"
        return re.compile("|".join(gap.join(map(re.escape, form)) for form in self.forms))


def joined(text: str) -> str:
    """Return a text without its line breaks and the indentation of wrapped lines."""
    return re.sub(r"\r?\n[ \t]{0,8}", "", text)


def forms(value: str) -> set[str]:
    """Return the forms in which a value may be written. For a value with several lines, also of each long line."""
    raw = value.encode("utf-8", "surrogateescape")
    found = {
        value, quote(value), quote(value, safe=""), quote_plus(value), html.escape(value),
        html.escape(value, quote=False),
        repr(value)[1:-1], raw.hex(), raw.hex().upper(), value.replace("'", "'\"'\"'"), value.replace("'", "'\\''"),
    }  # fmt: skip
    found |= {re.sub(r"%[0-9A-F]{2}", lambda m: m[0].lower(), each) for each in (quote(value), quote(value, safe=""))}
    for ascii_only in (True, False):
        once = json.dumps(value, ensure_ascii=ascii_only)[1:-1]
        found |= {once, once.replace("/", "\\/"), json.dumps(once, ensure_ascii=ascii_only)[1:-1]}
    found |= _base64(raw)
    lines = [line.strip() for line in value.splitlines()]
    if len(lines) > 1:
        for line in lines:
            if len(line) >= _LONG_LINE and " " not in line:
                found |= {line, *_base64(line.encode("utf-8", "surrogateescape"))}
    return {form for form in found if len(form) >= MIN_SECRET}


def _base64(raw: bytes) -> set[str]:
    """Return the part of the base64 text that does not depend on the bytes before and after, for each of three
    offsets."""
    found: set[str] = set()
    for offset in range(3):
        encoded = b64encode(bytes(offset) + raw).decode()
        core = encoded[-(-8 * offset // 6) : 8 * (offset + len(raw)) // 6]
        found |= {core, core.replace("+", "-").replace("/", "_")}
    return found
