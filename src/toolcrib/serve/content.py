"""Convert a `ToolOutput` to the result of an MCP `tools/call`, as the negotiated revision can express it."""

from __future__ import annotations

import base64
from typing import Any

from mcp_types.version import MODERN_PROTOCOL_VERSIONS, is_version_at_least

from ..core.empty import EMPTY
from ..core.output import (
    META_KEY,
    NO_OUTPUT,
    WIRE_EMPTY,
    WIRE_META,
    AudioBlock,
    ContentBlock,
    ImageBlock,
    TextBlock,
    ToolOutput,
    foreign_meta,
)
from ..core.tool import Tool
from ..core.wrap import describe, misfit

Json = dict[str, Any]

# The revision that introduced each kind of content. Older clients get such content as text.
AUDIO_SINCE = "2025-03-26"
LINK_SINCE = "2025-06-18"
STRUCTURED_SINCE = "2025-06-18"
EXTRA_SINCE = {
    "annotations": "2024-11-05", "_meta": "2025-06-18", "resource": "2025-06-18",
    "title": LINK_SINCE, "description": LINK_SINCE, "size": LINK_SINCE, "icons": "2025-11-25",
}  # fmt: skip
"""The revision that introduced each extra field of a block. Older clients do not get the field."""
_OF_LINKS = ("title", "description", "size", "icons")

META_KIND = "toolcrib/error"
META_APPROVAL = "toolcrib/approval"


def result_of(output: ToolOutput, tool: Tool | None, version: str) -> Json:
    """Return the wire result: content blocks, structured content if the revision has it, and the error flag."""
    complaint = None if output.is_error else _complaint(output, tool, version)
    content = _content(output, version)
    if complaint is not None:
        content.append({"type": "text", "text": complaint})
    result: Json = {"resultType": "complete", "content": content, "isError": output.is_error or complaint is not None}
    data = output.data
    known = isinstance(data, dict) or (data is not None and version in MODERN_PROTOCOL_VERSIONS)  # before 2026: objects
    if complaint is None and known and is_version_at_least(version, STRUCTURED_SINCE):
        result["structuredContent"] = data
    meta: Json = {} if output.meta is EMPTY else foreign_meta(output.meta.get(WIRE_META))
    if output.labels is not None:
        meta[META_KEY] = output.labels.wire
    if output.error_kind is not None:
        meta[META_KIND] = output.error_kind
        approval = output.meta.get("approval_id")
        if isinstance(approval, str):
            meta[META_APPROVAL] = approval
    if meta:
        result["_meta"] = meta
    return result


def offers_structure(tool: Tool | None, version: str) -> bool:
    """Whether a listing at this revision may include the tool's output schema.

    Before 2026 it must be an object's schema.
    """
    if tool is None or tool.output_schema is None or not is_version_at_least(version, STRUCTURED_SINCE):
        return False
    return version in MODERN_PROTOCOL_VERSIONS or tool.output_schema.get("type") == "object"


def _complaint(output: ToolOutput, tool: Tool | None, version: str) -> str | None:
    """Return a complaint if the output breaks the schema that the tool promised (an MCP MUST).

    It is checked again: since the pipeline checked it, secrets were removed or a hook may have changed it.
    """
    if tool is None or not offers_structure(tool, version):
        return None
    if output.data is None:
        # A client would discard the whole result. As an error, the model can at least read the text.
        return "[the structured result that this tool's output schema promises is missing: see above]"
    wrong = "; ".join(misfit(output.data, tool.output_validator))[:500]
    return f"[the result does not fit this tool's output schema: {wrong}]" if wrong else None


def _content(output: ToolOutput, version: str) -> list[Json]:
    text = output.for_llm
    if not output.content:
        if text == NO_OUTPUT and output.meta is not EMPTY and output.meta.get(WIRE_EMPTY):
            return []
        return [{"type": "text", "text": text}]
    blocks = [_block(block, version) for block in output.content]
    shown = "\n".join(map(describe, output.content))
    if text.startswith(shown):  # the text describes the blocks; a warning or a note may follow
        added = text[len(shown) :].strip()
        return [*blocks, {"type": "text", "text": added}] if added else blocks
    rest = [_block(block, version) for block in output.content if not isinstance(block, TextBlock)]
    return [{"type": "text", "text": text}, *rest] if text else rest


def _block(block: ContentBlock, version: str) -> Json:
    wire = _bare(block, version)
    for key, value in block.extra.items():
        since = EXTRA_SINCE.get(key)
        if since is None or not is_version_at_least(version, since):
            continue
        if key in _OF_LINKS and wire["type"] != "resource_link":
            continue
        if key != "resource":
            wire[key] = value
        elif wire["type"] == "resource":  # extra fields of the embedded resource
            wire["resource"] = {**value, **wire["resource"]}
    return wire


def _bare(block: ContentBlock, version: str) -> Json:
    if isinstance(block, TextBlock):
        return {"type": "text", "text": block.text}
    if isinstance(block, ImageBlock):
        return {"type": "image", "data": block.base64(), "mimeType": block.mime_type}
    if isinstance(block, AudioBlock):
        if not is_version_at_least(version, AUDIO_SINCE):
            return {"type": "text", "text": describe(block)}
        return {"type": "audio", "data": block.base64(), "mimeType": block.mime_type}
    body: Json = {"uri": block.uri}
    if block.mime_type is not None:
        body["mimeType"] = block.mime_type
    if block.text is not None:
        return {"type": "resource", "resource": {**body, "text": block.text}}
    if block.data is not None:
        return {"type": "resource", "resource": {**body, "blob": base64.b64encode(block.data).decode("ascii")}}
    if not is_version_at_least(version, LINK_SINCE):
        return {"type": "text", "text": describe(block)}
    return {"type": "resource_link", "name": block.name or block.uri, **body}
