"""Bounds an output for the model: safe text, cut in one place; the whole text is spilled to a file that is named."""

from __future__ import annotations

import contextlib
import functools
import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any, cast

from .empty import EMPTY
from .output import WIRE_META, AudioBlock, ContentBlock, ImageBlock, ResourceBlock, TextBlock, ToolOutput
from .text import lazy_regex

Spill = Callable[[str, str, str | bytes], str | None]
"""`spill(call_id, name, data)` stores data and returns the path for `read_file`, or None if that failed."""

Redact = Callable[[str], str]
"""Removes secrets from a text."""


MAX_ID = 200
"""Longest id of a call or session, in characters, before what keeps it unique."""


def clean_id(ident: str, redact: Redact | None) -> str:
    """Return the id of a call or session without secrets and control characters, and not too long: whoever chose it may
    have put anything in. It stays unique."""
    try:
        clean = ident if redact is None else redact(ident)
    except Exception:  # as in every other text, nothing of it is shown then
        clean = "(withheld)"
    clean = clean[:MAX_ID]
    if not clean.isprintable():
        clean = "".join(c if c.isprintable() else "?" for c in clean)
    if clean == ident:
        return ident
    from hashlib import sha256

    return f"{clean}-{sha256(ident.encode('utf-8', 'surrogatepass')).hexdigest()[:12]}"


LONG = 50_000
"""Characters above which a text is long: to look for secrets in a million of a hostile one takes seconds."""
_START = 20_000
"""Most characters of long arguments in events and the record."""


def start_of(text: str, redact: Redact) -> str:
    """Return arguments without secrets, for events and the record; of very long ones only the beginning.

    A secret at the place of the cut is not recognized, so as much is left out as one may have.
    """
    if len(text) <= 2 * LONG:
        return redact(text)
    note = f"… [{len(text):,} characters]"
    return redact(text[: _START - len(note) + LONG])[:-LONG] + note


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

_UNSAFE = lazy_regex("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")


_SURROGATE = lazy_regex("[\ud800-\udfff]")


@functools.cache
def _escape(character: str) -> str:
    code = ord(character)
    if 0xD800 <= code <= 0xDFFF:
        return "\ufffd"
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"


def safe(text: str) -> str:
    """Escape terminal escapes and bidi controls: C0 without tab, LF and CR; DEL, C1, U+202A-E, U+2066-9."""
    return text if text.isprintable() else _UNSAFE.sub(lambda found: _escape(found[0]), text)


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
    return _Bounding(limit, call_id, spill, redact).bound(output)


class _Bounding:
    """The bounds of one output: its limit, what redacts it, and where its parts are spilled."""

    def __init__(self, limit: int, call_id: str, spill: Spill | None, redact: Redact | None) -> None:
        self._limit, self._call_id, self._spill, self._redact = limit, call_id, spill, redact
        self._notes: list[str] = []
        """What was left out, for the model."""

    def bound(self, output: ToolOutput) -> ToolOutput:
        text = safe(self._clean(output.for_llm))
        for_user = output.for_user
        if for_user is not None:
            for_user = cut(safe(self._clean(for_user)), max(self._limit, MIN_DATA_CHARS), None)
        if output.meta is not EMPTY:
            output = self._bound_meta(output)
        if output.content or output.data is not None:
            return self._bound_rest(output, text, for_user)
        text = self._cut(text, self._limit)
        if text is output.for_llm and for_user is output.for_user:
            return output
        return replace(output, for_llm=text, for_user=for_user)

    def _clean(self, data: Any) -> Any:
        """Return a text, or JSON data with its texts, without secrets."""
        return data if self._redact is None else redacted(data, self._redact)

    def _spilled(self, name: str, data: str | bytes) -> str | None:
        return None if self._spill is None else self._spill(self._call_id, name, data)

    def _leave_out(self, what: str, name: str, data: str | bytes) -> None:
        where = self._spilled(name, data)
        self._notes.append(f"[{what} left out{f'; it is in {where}' if where else ''}]")

    def _cut(self, text: str, limit: int, name: str = "output.txt") -> str:
        return text if len(text) <= limit else cut(text, limit, self._spilled(name, text))

    def _bound_meta(self, output: ToolOutput) -> ToolOutput:
        meta = self._clean(dict(output.meta))
        if WIRE_META in meta:
            meta[WIRE_META] = map_texts(meta[WIRE_META], safe)
            if len(_encode(meta[WIRE_META])) > MAX_EXTRA_CHARS:
                del meta[WIRE_META]
        return output if meta == output.meta else replace(output, meta=meta)

    def _bound_rest(self, output: ToolOutput, text: str, for_user: str | None) -> ToolOutput:
        data = self._clean(output.data)
        if data is not None:
            try:
                encoded = _encode(data)
            except ValueError:
                data = map_texts(data, without_surrogates)
                encoded = _encode(data)
            if len(encoded) > max(self._limit, MIN_DATA_CHARS):
                self._leave_out(f"structured data of {len(encoded):,} bytes", "data.json", encoded)
                data = None
        blocks = self._bound_blocks(output.content)
        said = cut("\n".join(self._notes), self._limit // 2, None)
        text = self._cut(text, self._limit - (len(said) + 1 if said else 0))
        if said:
            text = f"{text}\n{said}" if text else said
            if any(isinstance(block, TextBlock) for block in blocks):  # models read the blocks of such an output
                blocks.append(TextBlock(said))
        return replace(output, for_llm=text, for_user=for_user, data=data, content=tuple(blocks))

    def _bound_blocks(self, content: tuple[ContentBlock, ...]) -> list[ContentBlock]:
        """Return the blocks that fit; spill and note the others. Text is bounded by characters, other blocks by
        bytes."""
        blocks: list[ContentBlock] = []
        bytes_left, text_left, extra_left = MAX_BLOCKS_BYTES, self._limit, MAX_EXTRA_CHARS
        for number, block in enumerate(content):
            if len(blocks) == MAX_BLOCKS:
                self._notes.append(f"[{len(content) - number} more blocks left out]")
                break
            extra, used = self._bound_extra(block.extra, extra_left)
            extra_left -= used
            if isinstance(block, TextBlock):
                text, name = safe(self._clean(block.text)), f"text-{number}.txt"
                if len(text) > text_left and text_left < MIN_BLOCK_CHARS:
                    self._leave_out(f"text of {len(text):,} characters", name, text)
                    continue
                text = self._cut(text, text_left, name)
                text_left -= len(text)
                blocks.append(TextBlock(text, extra=extra))
                continue
            if isinstance(block, ResourceBlock):
                block = self._bound_resource(block)
            size = len(_bytes_of(block))
            if size > min(MAX_BLOCK_BYTES, bytes_left):
                self._leave_out(f"{block.type} of {size:,} bytes", f"block-{number}.bin", _bytes_of(block))
                continue
            bytes_left -= size
            kind = None if block.mime_type is None else self._clean(block.mime_type)
            if kind is not None and kind != block.mime_type:
                block = replace(block, mime_type=kind)
            blocks.append(block if extra is block.extra else replace(block, extra=extra))
        return blocks

    def _bound_extra(self, extra: Mapping[str, Any], room: int) -> tuple[Mapping[str, Any], int]:
        """Return metadata without secrets and control characters, or empty metadata if it is too long; and its
        length."""
        if extra is EMPTY:
            return EMPTY, 0
        known = map_texts(self._clean(dict(extra)), safe)
        used = len(_encode(known))
        if used <= room:
            return known, used
        self._notes.append(f"[{', '.join(known)[:200]} of a block, {used:,} characters, left out]")
        return EMPTY, 0

    def _bound_resource(self, block: ResourceBlock) -> ResourceBlock:
        """Return a resource without secrets. Bytes may be text: they are redacted, and come back unchanged if they
        are not UTF-8."""
        data = block.data
        if data is not None and self._redact is not None:
            data = self._redact(data.decode("utf-8", "surrogateescape")).encode("utf-8", "surrogateescape")
        text, name = (None if each is None else safe(self._clean(each)) for each in (block.text, block.name))
        return replace(block, uri=self._clean(block.uri), text=text, data=data, name=name)


def _bytes_of(block: ImageBlock | AudioBlock | ResourceBlock) -> bytes:
    if isinstance(block, ResourceBlock):
        return block.text.encode("utf-8", "replace") if block.text is not None else (block.data or b"")
    return block.data


def _encode(data: Any) -> str:
    from pydantic_core import to_json

    return to_json(data, inf_nan_mode="null", serialize_unknown=True).decode()


def is_long(output: ToolOutput) -> bool:
    """Return whether the texts of an output together are long."""
    parts = [output.for_llm, output.for_user, output.data, output.meta]
    with contextlib.suppress(TypeError):  # a host's own output may have any attributes: `bound` refuses it
        parts += [getattr(block, "text", None) for block in output.content]
    return are_long(parts)


def are_long(parts: list[Any]) -> bool:
    """Return whether the texts in JSON data together are long. It empties the list."""
    left = LONG
    while parts and left >= 0:
        part: Any = parts.pop()
        if isinstance(part, str):
            left -= len(part)
        elif isinstance(part, dict | list | tuple):
            left -= len(cast("list[Any]", part))
            parts += [*part, *part.values()] if isinstance(part, dict) else part
    return left < 0


_WITHHELD = "(withheld)"
_MAX_NUMBER = 1e300  # larger ones have no text that `str` makes


def redacted(data: Any, redact: Redact) -> Any:
    """Return JSON data without secrets: in each text, key and number, and in the JSON of them all. There a name says
    what a value is (`"SecretAccessKey": …`), and a secret may be in several values: the lines of a key, the numbers of
    its bytes."""
    data = map_texts(data, redact)
    if not isinstance(data, dict | list):
        return data
    found = _redacted_json(cast("Any", data), redact)
    if found is _WITHHELD:  # it would not be JSON any more
        parts = {key: _redacted_json(value, redact) for key, value in _entries(cast("Any", data))}
        found = _redacted_json(parts if isinstance(data, dict) else list(parts.values()), redact)
    return found


def _entries(data: dict[Any, Any] | list[Any]) -> Iterable[tuple[Any, Any]]:
    return data.items() if isinstance(data, dict) else enumerate(data)


def _redacted_json(data: Any, redact: Redact) -> Any:
    text = json.dumps(data, ensure_ascii=False, default=str, skipkeys=True)
    if (shown := redact(text)) == text:
        return data
    try:
        return json.loads(shown)
    except ValueError:
        return _WITHHELD


def map_texts(data: Any, change: Callable[[str], str]) -> Any:
    """Return JSON data with `change` applied to every string, also to keys. A number whose text it changes becomes
    that text."""
    if isinstance(data, str):
        return change(data)
    if isinstance(data, dict):
        items = cast("dict[Any, Any]", data).items()
        return {map_texts(k, change) if isinstance(k, str | int | float) else k: map_texts(v, change) for k, v in items}
    if isinstance(data, list | tuple):
        return [map_texts(item, change) for item in cast("list[Any]", data)]
    if isinstance(data, int | float) and 9_999_999 < abs(data) < _MAX_NUMBER:
        return data if (shown := change(text := str(data))) == text else shown
    return data


def without_surrogates(text: str) -> str:
    """Return a text that can be encoded: file names that are not UTF-8 hold lone surrogates."""
    return text.encode("utf-8", "replace").decode() if _SURROGATE.search(text) else text
