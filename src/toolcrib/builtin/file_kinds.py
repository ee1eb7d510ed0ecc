"""Finds the kind of a file by its first bytes. The name is not used, because it may be wrong."""

from __future__ import annotations

import importlib
from typing import Any, Literal

Container = Literal["pdf", "zip", "ole", "image"]
"""A file format that may hold a document: PDF, ZIP (Office since 2007, OpenDocument), OLE (older Office), an image."""

_PDF_WITHIN = 1024  # PDF viewers search for the header in this many bytes
_IMAGES = (
    (b"\x89PNG\r\n\x1a\n", "image/png"), (b"\xff\xd8\xff", "image/jpeg"), (b"GIF87a", "image/gif"),
    (b"GIF89a", "image/gif"), (b"II*\0", "image/tiff"), (b"MM\0*", "image/tiff"),
)  # fmt: skip
_HEIF = (b"heic", b"heix", b"hevc", b"heim", b"heis", b"mif1")

_SURE = 0.3  # puremagic's confidence in a signature of three bytes


def container(head: bytes, *, text: bool = False) -> Container | None:
    """Return the format of a file by its first bytes (4 KiB are enough). `text`: the file could also be text."""
    if head.startswith(b"%PDF-") or (not text and b"%PDF-" in head[:_PDF_WITHIN]):
        return "pdf"
    if head.startswith((b"PK\x03\x04", b"PK\x05\x06", b"PK\x07\x08")):
        return "zip"
    if head.startswith(b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"):
        return "ole"
    return "image" if image_type(head) else None


def image_type(head: bytes) -> str | None:
    """Return the MIME type of an image by its first bytes, or None."""
    for magic, mime in _IMAGES:
        if head.startswith(magic):
            return mime
    if head[:4] == b"RIFF" and head[8:12] == b"WEBP":
        return "image/webp"
    if head[:2] == b"BM" and head[6:10] == b"\0\0\0\0":
        return "image/bmp"
    if head[4:8] == b"ftyp":
        return "image/avif" if head[8:12] in (b"avif", b"avis") else "image/heic" if head[8:12] in _HEIF else None
    return None


def described(head: bytes) -> str:
    """Return puremagic's description of a binary file; "" if puremagic is not installed or does not know the file."""
    try:
        puremagic: Any = importlib.import_module("puremagic")
    except ImportError:
        return ""
    try:
        found = puremagic.magic_string(head)
    except (puremagic.PureError, ValueError):
        return ""
    best = next(iter(found), None)
    return str(best.name) if best is not None and best.confidence >= _SURE else ""
