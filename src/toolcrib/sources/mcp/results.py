"""From the result of a server's tool to an output: text, pictures, sounds, resources, structured data, labels."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any, cast

import mcp_types

from ...core.labels import META_KEY, Labels, from_wire
from ...core.output import AudioBlock, ContentBlock, ImageBlock, ResourceBlock, TextBlock, ToolOutput
from ...core.wrap import as_text, describe


def output_of(result: mcp_types.CallToolResult, *, trusted: bool) -> ToolOutput:
    """The output. Labels in `_meta.ifc` count only where the server is trusted."""
    blocks = [block for part in result.content for block in blocks_of(part)]
    data: Any = result.structured_content
    labels = labels_of(result.meta) if trusted else None
    output = of_blocks(blocks, "" if data is None else as_text(data))
    if result.is_error:
        return ToolOutput.error(output.for_llm, "tool", content=output.content, data=data, labels=labels)
    return replace(output, data=data, labels=labels)


def of_blocks(blocks: Sequence[ContentBlock], otherwise: str = "") -> ToolOutput:
    """An output of these blocks; `otherwise` is its text where they have none."""
    text = "\n".join(describe(block) for block in blocks) or otherwise or "(no output)"
    plain = all(isinstance(block, TextBlock) for block in blocks)
    return ToolOutput(text, content=tuple(blocks) if not plain or len(blocks) > 1 else ())


def labels_of(meta: Any) -> Labels | None:
    """The labels that a result carries."""
    return from_wire(cast("dict[str, Any]", meta).get(META_KEY)) if isinstance(meta, dict) else None


def blocks_of(part: mcp_types.ContentBlock) -> Iterable[ContentBlock]:
    """One block of content in our form."""
    match part:
        case mcp_types.TextContent():
            return [TextBlock(part.text)]
        case mcp_types.ImageContent():
            data = _decoded(part.data)
            return [_no_base64("an image") if data is None else ImageBlock(data, part.mime_type)]
        case mcp_types.AudioContent():
            data = _decoded(part.data)
            return [_no_base64("a sound") if data is None else AudioBlock(data, part.mime_type)]
        case mcp_types.EmbeddedResource():
            return [resource_block(part.resource)]
        case mcp_types.ResourceLink():
            return [ResourceBlock(str(part.uri), part.mime_type, name=part.title or part.name)]


def resource_block(resource: mcp_types.TextResourceContents | mcp_types.BlobResourceContents) -> ContentBlock:
    """The contents of a resource."""
    uri, mime = str(resource.uri), resource.mime_type
    if isinstance(resource, mcp_types.TextResourceContents):
        return ResourceBlock(uri, mime, text=resource.text)
    data = _decoded(resource.blob)
    return _no_base64(f"the resource {uri[:200]}") if data is None else ResourceBlock(uri, mime, data=data)


def _decoded(text: str) -> bytes | None:
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        return None


def _no_base64(what: str) -> TextBlock:
    return TextBlock(f"[{what} came in a form that is no base64]")
