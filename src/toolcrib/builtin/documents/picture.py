"""Turns image files into a form that models accept: upright, not too large, and without the camera's metadata."""

from __future__ import annotations

import io
from typing import Any, Literal

from ...core.output import ImageBlock
from ..file_kinds import image_type
from .document import ParsedDocument, Part, Refused

MAX_SIDE = 1568  # larger sides are scaled down by the providers anyway (Anthropic's documented limit)
MAX_BYTES = 3_500_000  # base64 makes 5 MB of 3.75 MB, the smallest limit of the large providers
MAX_PIXELS = 64_000_000  # decoding needs up to 4 bytes per pixel, and scaling needs the same again
_FORMATS = {
    "image/png": "PNG", "image/jpeg": "JPEG", "image/gif": "GIF", "image/webp": "WEBP", "image/tiff": "TIFF",
    "image/bmp": "BMP", "image/avif": "AVIF",
}  # fmt: skip
_BARE = frozenset({b"IHDR", b"PLTE", b"tRNS", b"IDAT", b"IEND"})  # PNG chunks without personal data
_ORIENTATION = 0x0112  # EXIF
_QUALITY = 85


def open_image(data: bytes) -> ParsedDocument:
    """Open an image with one part, or a TIFF with one part per page. Raises Refused if it cannot be read."""
    mime = image_type(data[:64]) or ""
    if mime not in _FORMATS:
        raise Refused(f"it is {mime}, which cannot be shown; convert it to PNG or JPEG")
    import PIL.Image

    PIL.Image.MAX_IMAGE_PIXELS = None  # we check the size here, before anything is decoded
    try:
        image = PIL.Image.open(io.BytesIO(data), formats=[_FORMATS[mime]])
        count: int = getattr(image, "n_frames", 1)
    except Exception as error:  # Pillow raises many types of errors for broken files
        raise Refused(f"it is a damaged image: {error}") from None
    many = mime == "image/tiff" and count > 1
    notes = (f"the first of its {count:,} frames",) if count > 1 and not many else ()

    def part(number: int) -> Part:
        try:
            if many:
                image.seek(number - 1)
            size = f"{image.width}×{image.height} pixels"
            if image.width * image.height > MAX_PIXELS:
                raise Refused(f"it has {size}; at most {MAX_PIXELS:,} are decoded")
            return Part((f"{mime}, {size}",), (_picture(image, data, mime, count),))
        except Refused:
            raise
        except Exception as error:
            raise Refused(f"it is a damaged image: {error}") from None

    return ParsedDocument("image", "pillow", "page" if many else "", count if many else 1, part, notes=notes)


def _picture(image: Any, data: bytes, mime: str, frames: int) -> ImageBlock:
    if mime == "image/png" and _fits(image, data) and frames == 1 and _is_bare(data):
        image.load()  # raises if the image is damaged
        return ImageBlock(data, mime)
    upright = mime == "image/jpeg" and image.getexif().get(_ORIENTATION, 1) == 1
    if upright and image.mode in ("RGB", "L") and _fits(image, data):
        image.info.pop("comment", None)
        kept = saved(image, "JPEG", quality="keep", icc_profile=image.info.get("icc_profile"))
        if len(kept.data) <= MAX_BYTES:
            return kept
    return _scaled(image, lossless=mime in ("image/png", "image/gif", "image/bmp", "image/tiff"))


def _fits(image: Any, data: bytes) -> bool:
    return len(data) <= MAX_BYTES and max(image.size) <= MAX_SIDE


def _is_bare(data: bytes) -> bool:
    """Return whether a PNG holds only the picture: no text, no time, no data after its end."""
    at = 8
    while at + 12 <= len(data):
        name = data[at + 4 : at + 8]
        if name not in _BARE:
            return False
        at += 12 + int.from_bytes(data[at : at + 4], "big")
        if name == b"IEND":
            return at == len(data)
    return False


def _scaled(image: Any, *, lossless: bool) -> ImageBlock:
    from PIL import ImageOps

    if image.mode in ("P", "PA"):
        image = image.convert("RGBA" if "transparency" in image.info or image.mode == "PA" else "RGB")
    elif image.mode.startswith("I") or image.mode == "F":
        image = _eight_bits(image)
    image.draft("RGB", (MAX_SIDE, MAX_SIDE))  # JPEG decodes at a fraction of its size
    image = ImageOps.exif_transpose(image)
    image.thumbnail((MAX_SIDE, MAX_SIDE))
    if lossless or image.mode in ("LA", "RGBA"):
        exact = saved(_bare(image, ("1", "L", "LA", "RGB", "RGBA")), "PNG")
        if len(exact.data) <= MAX_BYTES:
            return exact
    return saved(_bare(_on_white(image), ("L", "RGB")), "JPEG", quality=_QUALITY)


def saved(image: Any, kind: Literal["PNG", "JPEG"], **options: Any) -> ImageBlock:
    """Return an image as a file of this kind."""
    out = io.BytesIO()
    image.save(out, kind, **options)
    return ImageBlock(out.getvalue(), f"image/{kind.lower()}")


def _bare(image: Any, modes: tuple[str, ...]) -> Any:
    """Return only the pixels of an image, in one of these modes."""
    image = image if image.mode in modes else image.convert("RGB")
    image.info.clear()
    return image


def _on_white(image: Any) -> Any:
    if image.mode not in ("LA", "RGBA"):
        return image
    import PIL.Image

    ground = PIL.Image.new("RGBA", image.size, "white")
    ground.alpha_composite(image.convert("RGBA"))
    return ground


def _eight_bits(image: Any) -> Any:
    """Scale 16-bit and floating-point grey values to the 8 bits that a screen shows."""
    low, high = image.getextrema()
    times = 255.0 / ((high - low) or 1)
    return image.convert("F").point(lambda value: value * times - low * times).convert("L")  # pyright: ignore
