"""Finds the encoding of a text file, and encodes a changed text so that the unchanged bytes stay the same."""

from __future__ import annotations

import codecs

from ..core.dataclass import dataclass
from ..core.errors import ToolError
from ..core.text import lazy_regex

SAMPLE = 64 * 1024
_NUL_SAMPLE = 8 * 1024  # like git: a file with a NUL in the first 8,000 bytes is binary

_BOMS = (  # UTF-32 before UTF-16: the mark of UTF-32 begins with the mark of UTF-16
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF32_LE, "utf-32-le"),
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)

# Encodings in which a byte of ASCII is always this character: lines can be counted without decoding, and secrets are
# seen. In others a byte before it may make another character of it (Shift JIS), or all bytes mean others (EBCDIC).
_PLAIN = ("utf-8", "ascii", "latin-1", "iso8859", "cp125", "koi8", "mac-roman")

_NOT_OF_FILES = ("idna", "punycode", "undefined")


@dataclass(frozen=True, slots=True)
class Encoding:
    """An encoding, and how it was found. `guess` is set if other encodings are possible; `bom` is written back."""

    name: str
    bom: bytes = b""
    guess: bool = False
    given: bool = False

    @property
    def plain(self) -> bool:
        """Whether a byte of ASCII is always this character, and this character always this byte."""
        return self.name.startswith(_PLAIN)

    def decode(self, data: bytes) -> str:
        """Return a whole file as text, in such a way that `encode` returns exactly the same bytes."""
        body = data[len(self.bom) :] if self.bom and data.startswith(self.bom) else data
        try:
            return body.decode(self.name, "surrogateescape" if self.name == "utf-8" else "strict")
        except UnicodeDecodeError as error:
            raise ToolError(
                f"the file is not valid {self.name} (byte {error.start}); it cannot be changed as text"
            ) from None

    def encode(self, text: str) -> bytes:
        """Return a text as bytes of this file. Raises ToolError that names a character which the encoding lacks, or if
        the file would be read in another encoding because of its beginning."""
        try:
            data = self.bom + text.encode(self.name, "surrogateescape" if self.name == "utf-8" else "strict")
        except UnicodeEncodeError as error:
            char = text[error.start]
            if 0xD800 <= ord(char) <= 0xDFFF:
                raise ToolError("the text contains a lone surrogate, which no file can hold") from None
            raise ToolError(
                f"the file is {self.name}, which has no character {char!r}; leave it out, or rewrite the file as UTF-8"
            ) from None
        found = detect(data[:SAMPLE])
        if found is not None and not found.plain and found.name != self.name:
            raise ToolError(f"the file would begin like one in {found.name}, and be read as that; begin it differently")
        return data


UTF8 = Encoding("utf-8")
_BEYOND_ASCII = lazy_regex("[^\x00-\x7f]+")


def named_encoding(name: str, sample: bytes = b"") -> Encoding:
    """Return the encoding with a name, and with the byte order mark at the beginning of the file."""
    try:
        found = codecs.lookup(name)
    except (LookupError, ValueError):
        raise ToolError(f"unknown encoding {name!r}; common ones: utf-8, utf-16, cp1252, latin-1, shift_jis") from None
    if not getattr(found, "_is_text_encoding", True) or found.name in _NOT_OF_FILES:
        raise ToolError(f"{name!r} is not a text encoding")
    plain = {"iso8859-1": "latin-1", "utf-8-sig": "utf-8"}.get(found.name, found.name)
    for bom, marked in _BOMS:
        if sample.startswith(bom) and (marked == plain or marked.rpartition("-")[0] == plain):
            return Encoding(marked, bom, given=True)
    return Encoding({"utf-16": "utf-16-le", "utf-32": "utf-32-le"}.get(plain, plain), given=True)


def detect(sample: bytes) -> Encoding | None:
    """Detect the encoding of a file by its beginning. Returns None for binary data."""
    for bom, name in _BOMS:
        if sample.startswith(bom):
            return Encoding(name, bom)
    if b"\0" in sample[:_NUL_SAMPLE]:
        return _wide(sample[:_NUL_SAMPLE])
    if is_utf8(sample):
        return UTF8
    controls = sum(sample.count(bytes([c])) for c in (*range(1, 9), *range(14, 27), *range(28, 32)))
    if controls * 20 > len(sample):  # text has hardly any; compressed data has about one byte in ten
        return None
    return not_quite_utf8(sample)


def whole_text(data: bytes, shown: str) -> tuple[str, Encoding]:
    """Return the text of a whole file, and the encoding that makes the same bytes of it. Raises ToolError."""
    sample = data[:SAMPLE]
    found = detect(sample)
    if found is None:
        raise ToolError(f"{shown} is a binary file; it cannot be changed as text")
    if found == UTF8 and sample.isascii() and not data.isascii():
        try:  # the sample was plain ASCII: the rest of the file decides
            data.decode("utf-8")
        except UnicodeDecodeError:
            found = not_quite_utf8(data)
    elif found.guess and found.plain:
        found = single_byte(data)
    return found.decode(data), found


def not_quite_utf8(data: bytes) -> Encoding:
    """Return the encoding of bytes that are not valid UTF-8: UTF-8 with some bad bytes, or a single-byte encoding."""
    replaced = data.decode("utf-8", "replace")
    bad = replaced.count("\ufffd")
    good = sum(map(len, _BEYOND_ASCII.findall(replaced))) - bad
    return UTF8 if good >= bad else single_byte(data)


def single_byte(data: bytes) -> Encoding:
    """Return Windows-1252 if it defines all the bytes, else Latin-1, which defines every byte."""
    try:
        data.decode("cp1252")
    except UnicodeDecodeError:
        return Encoding("latin-1", guess=True)
    return Encoding("cp1252", guess=True)


def is_utf8(data: bytes) -> bool:
    """Return whether the data is the beginning of valid UTF-8; the last character may be cut off."""
    if data.isascii():
        return True
    try:
        codecs.getincrementaldecoder("utf-8")().decode(data)
    except UnicodeDecodeError:
        return False
    return True


def _wide(sample: bytes) -> Encoding | None:
    """Detect UTF-16 or UTF-32 without a mark. Works only for mostly ASCII text, without NULs once it is decoded."""
    for width, name in ((4, "utf-32-le"), (4, "utf-32-be"), (2, "utf-16-le"), (2, "utf-16-be")):
        length, half = divmod(len(sample), width)
        text = sample.decode(name, "ignore")
        mostly_ascii = len(text.encode("ascii", "ignore")) >= 0.7 * length
        if mostly_ascii and length >= 4 and not half and "\0" not in text:
            return Encoding(name, guess=True)
    return None
