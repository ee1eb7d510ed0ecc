"""Finds the kind of a response body (a page, JSON, other text, or binary data), decodes a text, and shows an answer.

The encoding comes from the byte order mark, the header, the page itself, or else from a guess (WHATWG).
"""

from __future__ import annotations

import codecs
from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal

from ..core.bound import safe
from ..core.dataclass import dataclass
from ..core.output import ToolOutput
from ..core.text import lazy_regex
from .encoding import is_utf8

if TYPE_CHECKING:
    from ..boundary.network.exchange import WebResponse

Kind = Literal["html", "json", "text", "binary"]

_HTML = frozenset({"text/html", "application/xhtml+xml"})
_JSON = frozenset({"application/json", "text/json"})
_TEXT = frozenset(
    {
        "application/xml", "application/javascript", "application/ecmascript", "application/x-javascript",
        "application/yaml", "application/x-yaml", "application/toml", "application/x-sh", "application/sql",
        "application/graphql", "application/x-ndjson", "application/jsonl", "application/rtf", "application/x-tex",
        "application/x-httpd-php", "application/x-www-form-urlencoded", "image/svg+xml",
    }
)  # fmt: skip
_UNKNOWN = frozenset({"", "application/octet-stream", "binary/octet-stream", "application/unknown", "unknown/unknown"})
# The first bytes of common linked files, and the names of their kinds.
_MAGIC = (
    (b"%PDF-", "a PDF document"), (b"PK\x03\x04", "a ZIP archive or Office document"),
    (b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1", "an old Office document"),
    (b"\x89PNG", "a PNG image"), (b"\xff\xd8\xff", "a JPEG image"), (b"GIF8", "a GIF image"),
    (b"\x1f\x8b", "a gzip archive"), (b"\x7fELF", "a Linux program"), (b"MZ", "a Windows program"),
    (b"ID3", "an MP3 sound"), (b"OggS", "an Ogg file"), (b"\x28\xb5\x2f\xfd", "a zstd archive"),
    (b"BZh", "a bzip2 archive"), (b"\xfd7zXZ", "an xz archive"), (b"SQLite format 3\x00", "an SQLite database"),
)  # fmt: skip
_DOCUMENTS = {
    "application/pdf": "a PDF document",
    "application/msword": "a Word document",
    "application/vnd.openxmlformats-officedocument.wordprocessingml.document": "a Word document",
    "application/vnd.ms-excel": "an Excel document",
    "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet": "an Excel document",
    "application/vnd.ms-powerpoint": "a PowerPoint document",
    "application/vnd.openxmlformats-officedocument.presentationml.presentation": "a PowerPoint document",
}
_MARKS = {codecs.BOM_UTF8: "utf-8-sig", codecs.BOM_UTF16_LE: "utf-16", codecs.BOM_UTF16_BE: "utf-16"}
_LOOKED_AT = 4096  # bytes
# The meaning of these labels in pages, by the WHATWG Encoding Standard. Python's codecs of these names know less.
_MEANT = {
    "ascii": "cp1252", "iso8859-1": "cp1252", "latin-1": "cp1252", "iso8859-9": "cp1254", "iso8859-11": "cp874",
    "tis-620": "cp874", "gb2312": "gb18030", "gbk": "gb18030", "euc_kr": "cp949", "shift_jis": "cp932",
    "utf-16-le": "utf-16-le", "big5": "big5hkscs",
}  # fmt: skip
_NEVER = frozenset({"utf-7", "idna", "punycode", "unicode_escape", "raw_unicode_escape", "palmos", "mbcs", "oem"})
_IN_PAGE = lazy_regex(
    rb"""<(?:meta|\?xml)[^>]{0,500}?(?:charset|encoding)\s{0,9}=\s{0,9}["']?\s{0,9}([a-zA-Z0-9_:.-]{1,40})"""
)
_LOOKED_THROUGH = 64 * 1024  # bytes that are searched for the name of the encoding; WHATWG asks for the first 1024


@dataclass(frozen=True, slots=True)
class Body:
    """A description of a body. `name` is the kind of a binary body; `charset` is the header's charset of a text."""

    kind: Kind
    mime: str
    charset: str | None
    name: str = ""


def describe(content_type: str | None, data: bytes) -> Body:
    """Describe a body by its Content-Type, or by its first bytes if the type is missing or cannot be right."""
    mime, charset = _header(content_type)
    head = data[:_LOOKED_AT]
    kind = _declared(mime)
    if kind is None:
        kind = _sniffed(head)
    elif kind == "binary" and b"\0" not in head and _looks_like_html(head):  # a page that explains why there is no file
        kind = "html"
    elif kind != "binary" and b"\0" in head and not head.startswith(tuple(_MARKS)) and not _is_wide(charset):
        kind = "binary"
    return Body(kind, mime, charset, _name(mime, head) if kind == "binary" else "")


def _header(content_type: str | None) -> tuple[str, str | None]:
    if not content_type:
        return "", None
    from email.message import Message

    message = Message()
    message["Content-Type"] = content_type[:500].replace("\n", " ").replace("\r", " ")
    charset = message.get_param("charset")
    mime = content_type.partition(";")[0].partition(",")[0].strip().lower()
    return mime, charset if isinstance(charset, str) else None


def _declared(mime: str) -> Kind | None:
    if mime in _UNKNOWN:
        return None
    if mime in _HTML:
        return "html"
    if mime in _JSON or mime.endswith("+json"):
        return "json"
    if mime.startswith("text/") or mime in _TEXT or mime.endswith(("+xml", "+yaml")):
        return "text"
    return "binary"


def _sniffed(head: bytes) -> Kind:
    if head.startswith(tuple(_MARKS)):
        return "text"
    if any(head.startswith(magic) for magic, _ in _MAGIC) or b"\0" in head:
        return "binary"
    return "html" if _looks_like_html(head) else "text"


def _looks_like_html(head: bytes) -> bool:
    start = head.lstrip()[:200].lower()
    return start.startswith((b"<!doctype html", b"<html", b"<head", b"<body"))


def _is_wide(charset: str | None) -> bool:
    return bool(charset) and (charset or "").lower().startswith(("utf-16", "utf16", "utf-32", "ucs-2", "unicode"))


def _name(mime: str, head: bytes) -> str:
    if mime in _DOCUMENTS:
        return _DOCUMENTS[mime]
    for magic, name in _MAGIC:
        if head.startswith(magic):
            return name
    return f"{mime} data" if mime not in _UNKNOWN else "binary data"


# --- the text


def decode(data: bytes, header: str | None = None, *, markup: bool = False) -> str:
    """Return the text of a body. `header` is the charset of its Content-Type; `markup` also looks for one in the page.

    It never fails: bytes that are not a character become U+FFFD.
    """
    for mark, name in _MARKS.items():
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
    if name in _NEVER:
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


def response(answer: WebResponse, method: str, left_out: Sequence[str] = ()) -> ToolOutput:
    """Return an answer in the form for the model: its status, its final address, and its body."""
    body = describe(answer.headers.get("content-type"), answer.body)
    lines = [f"Status: {answer.status}"]
    if answer.final_url != answer.url and answer.final_url.rstrip("/") != answer.url.rstrip("/"):
        lines.append(f"[redirected to {answer.final_url}]")
    if left_out:
        lines.append(f"[headers left out: {', '.join(left_out)}; credentials go as ${{secret:NAME}}]")
    if answer.retry_after is not None:
        lines.append(f"[the server asks to wait {answer.retry_after:.0f} s]")
    if body.kind == "binary":
        text = f"[{body.name}, {len(answer.body):,} bytes, not shown: it is not text]"
    else:
        text = safe(decode(answer.body, body.charset, markup=body.kind == "html"))
    if answer.cut:
        total = answer.headers.get("content-length", "")
        known = total.isdigit() and "content-encoding" not in answer.headers
        whole = f"{int(total):,} bytes total" if known else f"more than {len(answer.body):,} bytes"
        text += f"\n[TRUNCATED — {whole}]"
    said = "\n".join(lines)
    return ToolOutput(f"{said}\n\n{text}", for_user=f"{method} {answer.final_url}: {answer.status}")
