"""Convert the result of a server's tool to an output: text, images, audio, resources, structured data, labels.

Invalid results are read as far as possible: some servers send content of unknown kinds, no content, or fields of
wrong types.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast

from pydantic import BaseModel

from ...core.empty import EMPTY
from ...core.output import (
    META_KEY,
    NO_OUTPUT,
    WIRE_EMPTY,
    WIRE_META,
    AudioBlock,
    ContentBlock,
    ImageBlock,
    Labels,
    ResourceBlock,
    TextBlock,
    ToolOutput,
    from_wire,
)
from ...core.wrap import as_text, describe, image_type
from .fields import Json, block_extra, foreign_meta, from_base64, result_meta

MAX_SHOWN = 2_000
"""The most characters of JSON that are shown of unknown content."""
MAX_PARTS = 1_000
"""The most parts of a result that are converted each for itself. The texts of further ones are one text."""
_KNOWN = {"content", "structuredContent", "isError", "_meta", "resultType", "toolResult"}
_LINK = ("title", "description", "size", "icons")


def output_of(result: Mapping[str, Any] | BaseModel, *, trusted: bool) -> ToolOutput:
    """Return the output for a raw result or one that the SDK has read.

    Labels in `_meta.ifc` count only if the server is trusted. Keys that are reserved for us are always dropped.
    """
    raw = _wire(result)
    blocks = _blocks(_parts(raw))
    data: Any = raw.get("structuredContent", raw.get("toolResult"))  # the latter until 2024-10-07
    if not blocks and data is None and (rest := {key: raw[key] for key in raw if key not in _KNOWN}):
        blocks = [_odd("the server answered with no content but", rest)]
    text, content = _said(blocks, "" if data is None else as_text(data))
    failed = raw.get("isError") in (True, "true", "True")
    meta: dict[str, Any] = {}
    if said := result_meta(raw.get("_meta")):
        meta[WIRE_META] = said
    if not blocks and data is None:
        meta[WIRE_EMPTY] = True
    return ToolOutput(
        text,
        is_error=failed,
        error_kind="tool" if failed else None,
        content=content,
        data=data,
        meta=meta or EMPTY,
        labels=labels_of(raw.get("_meta")) if trusted else None,
    )


def of_blocks(blocks: Sequence[ContentBlock], meta: Any) -> ToolOutput:
    """Return an output of the blocks of a result, and of its `_meta`."""
    text, content = _said(blocks, "(empty)")
    said = result_meta(meta)
    return ToolOutput(text, content=content, meta={WIRE_META: said} if said else EMPTY)


def _said(blocks: Sequence[ContentBlock], otherwise: str) -> tuple[str, tuple[ContentBlock, ...]]:
    text = "\n".join(map(describe, blocks)) or otherwise or NO_OUTPUT
    if len(blocks) == 1 and isinstance(blocks[0], TextBlock) and blocks[0].extra is EMPTY:
        return text, ()
    return text, tuple(blocks)


def labels_of(meta: Any) -> Labels | None:
    """Return the labels of a result; None if it has none."""
    return from_wire(cast("dict[str, Any]", meta).get(META_KEY)) if isinstance(meta, dict) else None


def _wire(value: Mapping[str, Any] | BaseModel) -> Json:
    if isinstance(value, Mapping):
        return cast("Json", value)
    return value.model_dump(by_alias=True, mode="json", exclude_none=True)


def _parts(raw: Json) -> list[Any]:
    content = raw.get("content")
    if isinstance(content, list):
        return cast("list[Any]", content)
    return [] if content is None else [content]


def _blocks(parts: list[Any]) -> list[ContentBlock]:
    rest = parts[MAX_PARTS:]
    blocks = [block_of(part) for part in parts[:MAX_PARTS]]
    if rest:
        texts = [cast("Json", part).get("text") for part in rest if isinstance(part, dict)]
        said = [text for text in texts if isinstance(text, str)]
        lost = len(rest) - len(said)
        note = [f"[left out: parts without a text, {lost:,}]"] if lost else []
        blocks.append(TextBlock("\n".join([*said, *note])))
    return blocks


def block_of(part: Any) -> ContentBlock:
    """Convert one raw content block, or one that the SDK has read, to our form."""
    if isinstance(part, str):
        return TextBlock(part)
    if not isinstance(part, Mapping) and not hasattr(part, "model_dump"):
        return TextBlock(as_text(part))
    known = _wire(cast("Json", part))
    kind = known.get("type")
    match kind:
        case "text":
            return _text(known)
        case "image" | "audio":
            return _media(known, kind)
        case "resource" if isinstance(known.get("resource"), dict):
            return resource_block(known["resource"], block_extra(known))
        case "resource_link" if isinstance(known.get("uri"), str):
            return _link(known)
        case _ if isinstance(known.get("text"), str):  # an unknown or missing kind with readable text
            return _text(known)
        case _:
            return _odd("content of a kind that is not known:", known)


def _text(part: Json) -> TextBlock:
    text = part.get("text")
    return TextBlock(text if isinstance(text, str) else "" if text is None else as_text(text), extra=block_extra(part))


def _media(part: Json, kind: str) -> ContentBlock:
    what = "an image" if kind == "image" else "a sound"
    data = _decoded(part.get("data"))
    if data is None:
        return _no_base64(what)
    mime = part.get("mimeType")
    if not isinstance(mime, str) or not mime:
        mime = image_type(data)
    if mime is None:
        return TextBlock(f"[{what} of {len(data):,} bytes came without a word on its format]")
    make = ImageBlock if kind == "image" else AudioBlock
    return make(data, mime, extra=block_extra(part))


def _link(part: Json) -> ResourceBlock:
    mime, name = part.get("mimeType"), part.get("name")
    return ResourceBlock(
        part["uri"], mime if isinstance(mime, str) else None, name=name if isinstance(name, str) else None,
        extra=block_extra(part, *(key for key in _LINK if key in part)),
    )  # fmt: skip


def resource_block(resource: Mapping[str, Any] | BaseModel, extra: Mapping[str, Any] = EMPTY) -> ContentBlock:
    """Return the contents of a resource, raw or as the SDK has read them.

    `extra` are the extra fields of the block around it.
    """
    known = _wire(resource)
    uri, mime = str(known.get("uri", "")), known.get("mimeType")
    mime = mime if isinstance(mime, str) else None
    meta = foreign_meta(known.get("_meta"))
    if meta:
        extra = {**extra, "resource": {"_meta": meta}}
    if isinstance(known.get("text"), str):
        return ResourceBlock(uri, mime, text=known["text"], extra=extra)
    if "blob" not in known:
        return ResourceBlock(uri, mime, extra=extra)
    data = _decoded(known["blob"])
    return _no_base64(f"the resource {uri[:200]}") if data is None else ResourceBlock(uri, mime, data=data, extra=extra)


def _decoded(text: Any) -> bytes | None:
    """Decode base64, also with line breaks or as a `data:` address; None if it is invalid."""
    if not isinstance(text, str):
        return None
    data = from_base64(text)
    if data is None:
        bare = "".join((text.partition(",")[2] if text.startswith("data:") else text).split())
        data = from_base64(bare + "=" * (-len(bare) % 4))
    return data


def _no_base64(what: str) -> TextBlock:
    return TextBlock(f"[{what} was not valid base64]")


def _odd(what: str, value: Any) -> TextBlock:
    text = as_text(value)
    return TextBlock(f"[{what} {text if len(text) <= MAX_SHOWN else text[:MAX_SHOWN] + ' …'}]")
