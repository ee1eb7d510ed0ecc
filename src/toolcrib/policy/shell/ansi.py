"""Read the escapes of `$'…'`."""

from __future__ import annotations

import re

from ...core.text import lazy_regex
from .tree import Unsure

_ANSI = lazy_regex(r"\\(?:x([0-9A-Fa-f]{1,2})|u([0-9A-Fa-f]{1,4})|([0-7]{1,3})|([abeEfnrtv\\'\"?]))")
_SIMPLE = {"a": "\a", "b": "\b", "e": "\x1b", "E": "\x1b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}


def ansi_c(text: str, source: str = "") -> str:
    """Return the text of `$'…'` (bash's lib/sh/strtrans.c). Raises `Unsure` for rare escapes, and for those that make
    no character of ASCII."""

    def one(match: re.Match[str]) -> str:
        hexadecimal, short, octal, plain = match.groups()
        if plain is not None:
            return _SIMPLE.get(plain, plain)
        code = int(octal, 8) if octal else int(hexadecimal or short, 16)
        if not 0 < code < 0x80:
            raise Unsure("an escape makes no character of ASCII", source, "shell:rare")
        return chr(code)

    if "\\" in _ANSI.sub("", text):
        raise Unsure("an escape cannot be read", source, "shell:rare")
    return _ANSI.sub(one, text)
