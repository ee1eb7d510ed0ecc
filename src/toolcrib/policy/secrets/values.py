"""The forms that a granted secret may have in a text: as it is, quoted, percent-encoded, in base64, in hex."""

from __future__ import annotations

import functools
import html
import json
import re
from base64 import b64encode
from urllib.parse import quote, quote_plus

from .patterns import Span

MIN_SECRET = 8
"""Minimum length of a granted value: a shorter one occurs in many texts by chance."""
_LONG_LINE = 20


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
