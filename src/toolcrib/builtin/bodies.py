"""Finds the kind of a response body: a page, JSON, other text, or binary data."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

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
_MARKS = (b"\xef\xbb\xbf", b"\xff\xfe", b"\xfe\xff")
_LOOKED_AT = 4096  # bytes


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
    elif kind != "binary" and b"\0" in head and not head.startswith(_MARKS) and not _is_wide(charset):
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
    if head.startswith(_MARKS):
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
