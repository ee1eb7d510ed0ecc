"""Turns the return value of a tool into a `ToolOutput`, and checks it against the tool's output schema."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any, cast

from .bound import map_texts, without_surrogates
from .errors import ToolcribError, Violation
from .output import AudioBlock, ContentBlock, ImageBlock, ResourceBlock, TextBlock, ToolOutput
from .violations import Json

_BLOCKS = (TextBlock, ImageBlock, AudioBlock, ResourceBlock)
_RAW = (bytes, bytearray, *_BLOCKS)
_MAGIC = (
    (b"\x89PNG\r\n\x1a\n", "image/png"), (b"\xff\xd8\xff", "image/jpeg"),
    (b"GIF87a", "image/gif"), (b"GIF89a", "image/gif"),
)  # fmt: skip


def wrap(result: Any) -> ToolOutput:
    """Make an output of a str, None, model, dataclass, dict, number, bytes, image, content block, or list of these."""
    if isinstance(result, ToolOutput):
        return result
    if isinstance(result, str):
        return ToolOutput(str(result))
    if result is None:
        return ToolOutput("(no output)")
    if isinstance(result, _RAW) or _is_picture(result):
        return _of_blocks([_block(result)])
    if isinstance(result, list | tuple):
        items = cast("Sequence[Any]", result)
        if any(isinstance(i, _RAW) or _is_picture(i) for i in items):
            return _of_blocks([_block(item) for item in items])
    try:
        return _of_data(plain(result))
    except ValueError as error:
        if "surrogates" not in str(error):
            raise
        return _of_data(map_texts(plain(map_texts(result, without_surrogates)), without_surrogates))


def _of_data(data: Any) -> ToolOutput:
    text = as_text(data)
    if "NaN" in text or "Infinity" in text:  # JSON has no such numbers: they become texts
        from pydantic_core import from_json, to_json

        data = from_json(to_json(data, inf_nan_mode="strings"))
        text = as_text(data)
    return ToolOutput(text, data=data)


def as_text(data: Any) -> str:
    """Return JSON data as compact text, and a string unchanged."""
    if isinstance(data, str):
        return data
    from pydantic_core import to_json

    return to_json(data, inf_nan_mode="constants", serialize_unknown=True).decode()


def plain(value: Any) -> Any:
    """Return JSON data from models, dataclasses, enums, dates and containers of them. Raises TypeError for what JSON
    cannot say."""
    from pydantic_core import to_jsonable_python

    return to_jsonable_python(value, inf_nan_mode="constants", fallback=_other)


def _other(value: Any) -> Any:
    """Return JSON data for a path, and for what has `tolist`, as numbers and arrays of NumPy."""
    if isinstance(value, os.PathLike):
        return os.fspath(cast("os.PathLike[str]", value))
    if callable(listed := getattr(value, "tolist", None)):
        return listed()
    raise TypeError(
        f"it returned {type(value).__name__}, which cannot be written as JSON: return text, a dict, list or number, "
        "a dataclass or pydantic model, bytes, an image, or a ToolOutput"
    )


def _is_picture(value: Any) -> bool:
    return type(value).__module__.startswith("PIL.") and hasattr(value, "save")


def _block(value: Any) -> ContentBlock:
    if isinstance(value, _BLOCKS):
        return value
    if isinstance(value, bytes | bytearray):
        return _of_bytes(bytes(value))
    if _is_picture(value):
        import io

        buffer = io.BytesIO()
        value.save(buffer, format="PNG")
        return ImageBlock(buffer.getvalue(), "image/png")
    return TextBlock(as_text(value if isinstance(value, str | Mapping) else plain(value)))


def image_type(data: bytes) -> str | None:
    """Return the MIME type of PNG, JPEG, GIF or WebP data by its first bytes, or None."""
    for magic, mime in _MAGIC:
        if data.startswith(magic):
            return mime
    return "image/webp" if data[:4] == b"RIFF" and data[8:12] == b"WEBP" else None


def _of_bytes(data: bytes) -> ContentBlock:
    mime = image_type(data)
    if mime is not None:
        return ImageBlock(data, mime)
    try:
        return TextBlock(data.decode("utf-8"))
    except UnicodeDecodeError:
        return ResourceBlock("data:application/octet-stream", "application/octet-stream", data=data)


def _of_blocks(blocks: list[ContentBlock]) -> ToolOutput:
    one_text = len(blocks) == 1 and isinstance(blocks[0], TextBlock)
    return ToolOutput("\n".join(map(describe, blocks)), content=() if one_text else tuple(blocks))


def describe(block: ContentBlock) -> str:
    """Return a block as text, for a model or person that can read only text."""
    if isinstance(block, TextBlock):
        return block.text
    if isinstance(block, ResourceBlock):
        if block.text is not None:
            return block.text
        size = f", {len(block.data):,} bytes" if block.data is not None else ""
        return f"[resource {block.uri if len(block.uri) < 200 else block.uri[:200] + '…'}{size}]"
    return f"[{block.type} {block.mime_type}, {len(block.data):,} bytes]"


_NOT_DATA = (ToolOutput, TextBlock, ImageBlock, AudioBlock, ResourceBlock)

MAX_VIOLATIONS = 5
"""How many violations of a result are reported: they are the tool's fault, a model cannot correct them."""


def schema_of(annotation: Any) -> Json | None:
    """Return the JSON Schema of a model, dataclass or TypedDict as it is serialized; None for any other annotation."""
    if not isinstance(annotation, type):
        return None
    parents: tuple[type[Any], ...] = annotation.__mro__
    if any(parent in _NOT_DATA for parent in parents):
        return None
    marks = ("model_fields", "__dataclass_fields__", "__required_keys__")  # the last is a TypedDict's
    if not any(hasattr(cast("Any", annotation), mark) for mark in marks):
        return None
    from .schema import core_schema, generate

    try:
        schema = generate(core_schema(annotation), "serialization")
    except Exception:  # without a schema nothing is checked
        return None
    return schema if schema.get("type") == "object" else None


def misfit(data: Any, validator: Any) -> list[str]:
    """Return the violations of structured data under an output schema; empty if the data fits."""
    if data is None:
        return ["it has no structured data"]
    try:
        if validator.is_valid(data):
            return []
        found: list[Violation] = validator.violations(data)
    except (ValueError, TypeError, ToolcribError) as error:
        return [f"it is not JSON data ({error})"[:200]]
    return [v.text for v in found[:MAX_VIOLATIONS]]
