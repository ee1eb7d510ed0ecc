"""Read the escapes of `$'…'`."""

from __future__ import annotations

import re

from ...core.text import lazy_regex
from .unsure import Unsure

_ANSI = lazy_regex(
    r"\\(?:x([0-9A-Fa-f]{1,2})|u([0-9A-Fa-f]{1,4})|U([0-9A-Fa-f]{1,8})|([0-7]{1,3})|c(\\\\|.)|(.))", re.DOTALL
)
_ANSI_SIMPLE = {
    "a": "\a", "b": "\b", "e": "\x1b", "E": "\x1b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v",
    "\\": "\\", "'": "'", '"': '"', "?": "?",
}  # fmt: skip


def is_bash_only(text: str) -> bool:
    """Return whether an escape in `$'…'` has another meaning in zsh, which removes the backslash of unknown ones."""
    escapes = _ANSI.finditer(text)
    return any(one[5] is not None or (one[6] is not None and one[6] not in _ANSI_SIMPLE) for one in escapes)


def ansi_c(text: str, source: str = "") -> str:
    """Return the text of `$'…'` (bash's lib/sh/strtrans.c). Raises `Unsure` for bytes that are not characters."""

    def one(match: re.Match[str]) -> str:
        hexadecimal, short, long, octal, control, other = match.groups()
        if other is not None:
            return _ANSI_SIMPLE.get(other, "\\" + other)
        if control is not None:
            if not control[0].isascii():
                raise Unsure("an escape cannot be read", source)
            code = 0x7F if control == "?" else ord(control[0].upper()) & 0x1F
        elif hexadecimal is not None or octal is not None:
            code = int(hexadecimal, 16) if hexadecimal else int(octal, 8) & 0xFF
            if code > 0x7F:
                raise Unsure("an escape makes a byte that is not a character", source)
        else:
            code = int(short or long, 16)
        if code == 0 or code > 0x10FFFF or 0xD800 <= code < 0xE000:
            raise Unsure("an escape makes no character", source)
        return chr(code)

    if "\\" not in text:
        return text
    if re.search(r"\\(?:x\{|[xuU](?![0-9A-Fa-f])|c(?:\\[^\\]|\Z))", text):
        raise Unsure("an escape cannot be read", source)
    return _ANSI.sub(one, text)
