"""Finds the kind of a file by its first bytes. The name is not used, because it may be wrong."""

from __future__ import annotations

import importlib
import re
from typing import Any, Literal

Container = Literal["pdf", "zip", "ole", "image"]
"""A file format that may hold a document: PDF, ZIP (Office since 2007, OpenDocument), OLE (older Office), an image."""

_PDF_WITHIN = 1024  # PDF viewers search for the header in this many bytes
_IMAGES = (
    (rb"\x89PNG\r\n\x1a\n", "image/png"), (rb"\xff\xd8\xff", "image/jpeg"), (rb"GIF8[79]a", "image/gif"),
    (rb"II\*\0|MM\0\*", "image/tiff"), (rb"RIFF.{4}WEBP", "image/webp"), (rb"BM.{4}\0{4}", "image/bmp"),
    (rb".{4}ftyp(?:avif|avis)", "image/avif"), (rb".{4}ftyp(?:hei[cxms]|hevc|mif1)", "image/heic"),
)  # fmt: skip

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
    return next((mime for pattern, mime in _IMAGES if re.match(pattern, head, re.DOTALL)), None)


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
