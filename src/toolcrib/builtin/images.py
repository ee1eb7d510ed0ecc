"""Image files as blocks that a model can look at: as they are if small, else scaled down with Pillow."""

from __future__ import annotations

import importlib
import io
import warnings
from typing import Any

from ..core.errors import ToolError
from ..core.output import ImageBlock

MAX_SIDE = 1568  # larger sides are scaled down by the providers anyway (Anthropic's documented limit)
MAX_BYTES = 3_500_000  # base64 makes 5 MB of 3.75 MB, the smallest limit of the large providers
_MAX_PIXELS = 64_000_000  # decoding takes up to 4 bytes a pixel

_READABLE = {  # what models take without conversion
    "image/png": "PNG",
    "image/jpeg": "JPEG",
    "image/gif": "GIF",
    "image/webp": "WEBP",
}


def image_type(head: bytes) -> str | None:
    """The MIME type of an image by its first bytes."""
    for magic, mime in (
        (b"\x89PNG\r\n\x1a\n", "image/png"),
        (b"\xff\xd8\xff", "image/jpeg"),
        (b"GIF87a", "image/gif"),
        (b"GIF89a", "image/gif"),
        (b"II*\0", "image/tiff"),
        (b"MM\0*", "image/tiff"),
    ):
        if head.startswith(magic):
            return mime
    if head[:4] == b"RIFF" and head[8:12] == b"WEBP":
        return "image/webp"
    if head[:2] == b"BM" and head[6:10] == b"\0\0\0\0":
        return "image/bmp"
    return None


def image_block(data: bytes, mime: str, name: str) -> ImageBlock:
    """The image as a model can take it; ToolError says what is missing where it cannot be made so."""
    pillow = _pillow()
    if pillow is None:
        if mime in _READABLE and len(data) <= MAX_BYTES:
            return ImageBlock(data, mime)
        problem = f"is {len(data):,} bytes" if mime in _READABLE else f"is {mime}"
        raise ToolError(f"{name} {problem}; showing it needs Pillow: pip install 'toolcrib[docs]'")
    try:
        return _scaled(pillow, data, mime)
    except ToolError:
        raise
    except Exception as error:  # Pillow raises whatever a broken file makes it raise
        raise ToolError(f"{name} cannot be read as an image: {error}") from None


def _scaled(pillow: Any, data: bytes, mime: str) -> ImageBlock:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # size is judged below
        image = pillow.open(io.BytesIO(data))
    with image:
        if image.width * image.height > _MAX_PIXELS:
            raise ToolError(f"the image has {image.width}×{image.height} pixels, more than {_MAX_PIXELS:,}")
        if mime in _READABLE and len(data) <= MAX_BYTES and max(image.size) <= MAX_SIDE:
            return ImageBlock(data, mime)
        image.thumbnail((MAX_SIDE, MAX_SIDE))
        lossless = image.mode in ("P", "LA", "PA", "RGBA", "1", "L") or mime == "image/png"
        out = io.BytesIO()
        if lossless:
            image.save(out, "PNG")
            if out.tell() <= MAX_BYTES:
                return ImageBlock(out.getvalue(), "image/png")
            out = io.BytesIO()
        image.convert("RGB").save(out, "JPEG", quality=85)
        return ImageBlock(out.getvalue(), "image/jpeg")


def _pillow() -> Any:
    try:
        return importlib.import_module("PIL.Image")
    except ImportError:
        return None
