"""Bounds an output for the model: safe text, cut in one place; the whole text is spilled to a file that is named."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, cast

from .empty import EMPTY
from .output import WIRE_META, AudioBlock, ContentBlock, ImageBlock, ResourceBlock, TextBlock, ToolOutput

Spill = Callable[[str, str, str | bytes], str | None]
"""`spill(call_id, name, data)` stores data and returns the path for `read_file`, or None if that failed."""

Redact = Callable[[str], str]
"""Removes secrets from a text."""

MAX_BLOCK_BYTES = 5 * 2**20
"""Largest image, audio or resource block (Anthropic's limit for one image)."""
MAX_BLOCKS_BYTES = 20 * 2**20
"""Largest sum of blocks in one output."""
MAX_BLOCKS = 100
"""Most blocks in one output (Anthropic takes 100 images a request)."""
MIN_BLOCK_CHARS = 200
"""With less room than this, a text block is omitted, not cut."""
MIN_DATA_CHARS = 50_000
"""Structured data may always have this many characters of JSON, or `max_output` if that is more."""

MAX_EXTRA_CHARS = 64 * 1024
"""Most characters of JSON in the metadata of all blocks of an output, or in its `_meta`."""

_UNSAFE = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")


_SURROGATE = re.compile("[\ud800-\udfff]")


def _escape(match: re.Match[str]) -> str:
    code = ord(match.group())
    if 0xD800 <= code <= 0xDFFF:
        return "\ufffd"
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"


def safe(text: str) -> str:
    """Escape terminal escapes and bidi controls: C0 without tab, LF and CR; DEL, C1, U+202A-E, U+2066-9."""
    return text if text.isprintable() else _UNSAFE.sub(_escape, text)


def cut(text: str, limit: int, where: str | None) -> str:
    """Cut a text to `limit` characters: its head, a line that says what is missing and where it is, its tail."""
    if len(text) <= limit:
        return text
    kept = f"full output: {where}" if where else "the rest was not kept"
    notice = f"\n\n… [{len(text):,} characters, {{}} omitted here; {kept}] …\n\n"
    room = max(0, limit - len(notice) - 12)
    head = room * 3 // 5
    tail = room - head
    middle = notice.format(f"{len(text) - room:,}")
    return (text[:head] + middle + (text[-tail:] if tail else ""))[:limit]


def bound(
    output: ToolOutput, limit: int, call_id: str, spill: Spill | None = None, redact: Redact | None = None
) -> ToolOutput:
    """Bound an output for the model. Structured data and blocks that are too large are spilled, never cut."""
    text = output.for_llm
    for_user = output.for_user
    if redact is not None:
        text = redact(text)
        for_user = redact(for_user) if for_user else for_user
    if output.meta is not EMPTY:
        output = _bound_meta(output, redact)
    clean = text if text.isprintable() else _UNSAFE.sub(_escape, text)
    if for_user is not None:
        for_user = cut(safe(for_user), max(limit, MIN_DATA_CHARS), None)
    if output.content or output.data is not None:
        return _bound_rest(output, clean, for_user, limit, call_id, spill, redact)
    if len(clean) > limit:
        clean = cut(clean, limit, spill(call_id, "output.txt", clean) if spill is not None else None)
    if clean is output.for_llm and for_user is output.for_user:
        return output
    return replace(output, for_llm=clean, for_user=for_user)


def _bound_meta(output: ToolOutput, redact: Redact | None) -> ToolOutput:
    meta = dict(output.meta)
    if redact is not None:
        meta = map_texts(meta, redact)
    if WIRE_META in meta:
        said = map_texts(meta[WIRE_META], safe)
        if len(_encode(said)) > MAX_EXTRA_CHARS:
            del meta[WIRE_META]
        else:
            meta[WIRE_META] = said
    return output if meta == output.meta else replace(output, meta=meta)


def _bound_rest(
    output: ToolOutput,
    text: str,
    for_user: str | None,
    limit: int,
    call_id: str,
    spill: Spill | None,
    redact: Redact | None,
) -> ToolOutput:
    notes: list[str] = []
    data = output.data
    if data is not None:
        if redact is not None:
            data = map_texts(data, redact)
        try:
            encoded = _encode(data)
        except ValueError:
            data = map_texts(data, without_surrogates)
            encoded = _encode(data)
        if len(encoded) > max(limit, MIN_DATA_CHARS):
            where = spill(call_id, "data.json", encoded) if spill is not None else None
            notes.append(f"[structured data of {len(encoded):,} bytes left out{_at(where)}]")
            data = None
    blocks = _bound_blocks(output.content, limit, call_id, spill, redact, notes)
    said = cut("\n".join(notes), limit // 2, None)
    room = limit - (len(said) + 1 if said else 0)
    if len(text) > room:
        text = cut(text, room, spill(call_id, "output.txt", text) if spill is not None else None)
    if said:
        text = f"{text}\n{said}" if text else said
        if any(isinstance(block, TextBlock) for block in blocks):  # models read the blocks of such an output
            blocks.append(TextBlock(said))
    return replace(output, for_llm=text, for_user=for_user, data=data, content=tuple(blocks))


def _bound_blocks(
    content: tuple[ContentBlock, ...],
    limit: int,
    call_id: str,
    spill: Spill | None,
    redact: Redact | None,
    notes: list[str],
) -> list[ContentBlock]:
    """Return the blocks that fit; spill and note the others. Text is bounded by characters, other blocks by bytes."""
    blocks: list[ContentBlock] = []
    bytes_left, text_left, extra_left = MAX_BLOCKS_BYTES, limit, MAX_EXTRA_CHARS
    for number, block in enumerate(content):
        if len(blocks) == MAX_BLOCKS:
            notes.append(f"[{len(content) - number} more blocks left out]")
            break
        extra = block.extra
        if extra is not EMPTY:
            extra, used = _bound_extra(extra, extra_left, redact, notes)
            extra_left -= used
        if isinstance(block, TextBlock):
            bare = safe(redact(block.text) if redact is not None else block.text)
            if len(bare) > text_left:
                where = spill(call_id, f"text-{number}.txt", bare) if spill is not None else None
                if text_left < MIN_BLOCK_CHARS:
                    notes.append(f"[text of {len(bare):,} characters left out{_at(where)}]")
                    continue
                bare = cut(bare, text_left, where)
            text_left -= len(bare)
            blocks.append(TextBlock(bare, extra=extra))
            continue
        block, size = _measure(block, redact)
        if size > min(MAX_BLOCK_BYTES, bytes_left):
            where = spill(call_id, f"block-{number}.bin", _bytes_of(block)) if spill is not None else None
            notes.append(f"[{block.type} of {size:,} bytes left out{_at(where)}]")
            continue
        bytes_left -= size
        blocks.append(block if extra is block.extra else replace(block, extra=extra))
    return blocks


def _bound_extra(
    extra: Mapping[str, Any], room: int, redact: Redact | None, notes: list[str]
) -> tuple[Mapping[str, Any], int]:
    """Return metadata without secrets and control characters, or empty metadata if it is too long; and its length."""
    known = dict(extra)
    if redact is not None:
        known = map_texts(known, redact)
    known = map_texts(known, safe)
    used = len(_encode(known))
    if used <= room:
        return known, used
    notes.append(f"[{', '.join(known)[:200]} of a block, {used:,} characters, left out]")
    return EMPTY, 0


def _at(where: str | None) -> str:
    return f"; it is in {where}" if where else ""


def _measure(block: ImageBlock | AudioBlock | ResourceBlock, redact: Redact | None) -> tuple[Any, int]:
    if isinstance(block, ResourceBlock):
        if redact is not None:
            block = _resource_without_secrets(block, redact)
        text, name = (None if each is None else safe(each) for each in (block.text, block.name))
        if (text, name) != (block.text, block.name):
            block = replace(block, text=text, name=name)
    return block, len(_bytes_of(block))


def _resource_without_secrets(block: ResourceBlock, redact: Redact) -> ResourceBlock:
    """Redact bytes that may be text. Bytes that are not UTF-8 come back unchanged."""
    data = block.data
    if data is not None:
        data = redact(data.decode("utf-8", "surrogateescape")).encode("utf-8", "surrogateescape")
    text = None if block.text is None else redact(block.text)
    name = None if block.name is None else redact(block.name)
    return replace(block, uri=redact(block.uri), text=text, data=data, name=name)


def _bytes_of(block: ImageBlock | AudioBlock | ResourceBlock) -> bytes:
    if isinstance(block, ResourceBlock):
        return block.text.encode("utf-8", "replace") if block.text is not None else (block.data or b"")
    return block.data


def _encode(data: Any) -> str:
    from pydantic_core import to_json

    return to_json(data, inf_nan_mode="null", serialize_unknown=True).decode()


def map_texts(data: Any, change: Callable[[str], str]) -> Any:
    """Return JSON data with `change` applied to every string, also to keys."""
    if isinstance(data, str):
        return change(data)
    if isinstance(data, dict):
        items = cast("dict[Any, Any]", data).items()
        return {change(k) if isinstance(k, str) else k: map_texts(v, change) for k, v in items}
    if isinstance(data, list | tuple):
        return [map_texts(item, change) for item in cast("list[Any]", data)]
    return data


def without_surrogates(text: str) -> str:
    """Return a text that can be encoded: file names that are not UTF-8 hold lone surrogates."""
    return text.encode("utf-8", "replace").decode() if _SURROGATE.search(text) else text
