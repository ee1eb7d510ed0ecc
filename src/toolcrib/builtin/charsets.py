"""Decodes the bytes of a page: by its byte order mark, the header, the page itself, or else by a guess (WHATWG)."""

from __future__ import annotations

import codecs
import re

from .encoding import is_utf8

_MARKS = ((codecs.BOM_UTF8, "utf-8-sig"), (codecs.BOM_UTF16_LE, "utf-16"), (codecs.BOM_UTF16_BE, "utf-16"))
# The meaning of these labels in pages, by the WHATWG Encoding Standard. Python's codecs of these names know less.
_MEANT = {
    "ascii": "cp1252", "iso8859-1": "cp1252", "latin-1": "cp1252", "iso8859-9": "cp1254", "iso8859-11": "cp874",
    "tis-620": "cp874", "gb2312": "gb18030", "gbk": "gb18030", "euc_kr": "cp949", "shift_jis": "cp932",
    "utf-16-le": "utf-16-le", "big5": "big5hkscs",
}  # fmt: skip
_TEXT = frozenset({"utf-7", "idna", "punycode", "unicode_escape", "raw_unicode_escape", "palmos", "mbcs", "oem"})
_IN_PAGE = re.compile(
    rb"""<(?:meta|\?xml)[^>]{0,500}?(?:charset|encoding)\s{0,9}=\s{0,9}["']?\s{0,9}([a-zA-Z0-9_:.-]{1,40})"""
)
_LOOKED_THROUGH = 64 * 1024  # bytes that are searched for the name of the encoding; WHATWG asks for the first 1024


def decode(data: bytes, header: str | None = None, *, markup: bool = False) -> str:
    """Return the text of a body. `header` is the charset of its Content-Type; `markup` also looks for one in the page.

    It never fails: bytes that are not a character become U+FFFD.
    """
    for mark, name in _MARKS:
        if data.startswith(mark):
            return data.decode(name, "replace")
    named = codec(header) if header else None
    if named is None and markup:
        found = _IN_PAGE.search(data[:_LOOKED_THROUGH])
        named = codec(found[1].decode("ascii")) if found else None
        if named is not None and named.startswith("utf-16"):  # the name could not have been read in UTF-16
            named = "utf-8"
    return data.decode(named or ("utf-8" if is_utf8(data) else _guess(data)), "replace")


def codec(label: str) -> str | None:
    """Return Python's codec for a label in a page, or None if the label is unknown or must not be used."""
    try:
        name = codecs.lookup(label.strip().strip("\"'")).name
    except (LookupError, ValueError):
        return None
    if name in _TEXT:
        return None
    try:
        b"a".decode(name, "replace")  # rot13, hex, zip do not make text, but would accept empty bytes
    except (LookupError, UnicodeError):
        return None
    return _MEANT.get(name, name)


def _guess(data: bytes) -> str:
    try:
        from turbohtml.detect import detect
    except ImportError:
        return "cp1252"
    found = detect(data[:_LOOKED_THROUGH]).encoding
    return (codec(found) if found else None) or "cp1252"
