"""Make text safe to show to a person before an approval: nothing is invisible, and nothing moves other text."""

from __future__ import annotations

_BLANK = frozenset("\u034f\u115f\u1160\u17b4\u17b5\u2800\u3164\uffa0\U00016fe4\U0001d159")
"""Characters that Unicode calls graphic but that are invisible."""


def plain(text: str) -> str:
    """Return the text with every character escaped that a terminal or a form would not show, except line feed and tab.

    That is more than `safe` does for a model: zero-width and blank characters, marks that change the direction of
    writing, line separators, carriage returns, variation selectors and tags as well.
    """
    if text.isascii() and text.isprintable():
        return text
    return "".join(c if c in "\n\t" or shows(c) else _escaped(c) for c in text)


def plain_line(text: str) -> str:
    """Do the same as `plain`, with line feeds and tabs escaped too."""
    return plain(text).replace("\n", "\\n").replace("\t", "\\t")


def shows(character: str) -> bool:
    """Return whether a terminal or a form shows a character."""
    code = ord(character)
    selector = 0xFE00 <= code <= 0xFE0F or 0xE0100 <= code <= 0xE01EF or 0x180B <= code <= 0x180F
    return character.isprintable() and character not in _BLANK and not selector


def _escaped(character: str) -> str:
    code = ord(character)
    if character == "\r":
        return "\\r"
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"
