"""From a `ToolOutput` to the result of an MCP `tools/call`, as the negotiated revision can express it."""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING, Any

from mcp_types.version import MODERN_PROTOCOL_VERSIONS, is_version_at_least

from ..core.labels import META_KEY
from ..core.output import AudioBlock, ContentBlock, ImageBlock, TextBlock, ToolOutput
from ..core.wrap import describe

if TYPE_CHECKING:
    from ..core.tool import Tool

Json = dict[str, Any]

# The revision that introduced each kind of content; older clients get it as words.
AUDIO_SINCE = "2025-03-26"
LINK_SINCE = "2025-06-18"
STRUCTURED_SINCE = "2025-06-18"

META_KIND = "toolcrib/error"
META_APPROVAL = "toolcrib/approval"


def result_of(output: ToolOutput, tool: Tool | None, version: str) -> Json:
    """The wire result: content blocks, structured content where the revision has it, the error flag."""
    result: Json = {"resultType": "complete", "content": _content(output, version)}
    is_error = output.is_error
    if not is_error:
        complaint = _put_structured(result, output, tool, version)
        if complaint is not None:
            is_error = True
            result["content"].append({"type": "text", "text": complaint})
    result["isError"] = is_error
    meta: Json = {} if output.labels is None else {META_KEY: output.labels.wire}
    if output.error_kind is not None:
        meta[META_KIND] = output.error_kind
        approval = output.meta.get("approval_id")
        if isinstance(approval, str):
            meta[META_APPROVAL] = approval
    if meta:
        result["_meta"] = meta
    return result


def offers_structure(tool: Tool | None, version: str) -> bool:
    """Whether a listing at this revision may name the tool's output schema: before 2026 it has to be an object's."""
    if tool is None or tool.output_schema is None or not is_version_at_least(version, STRUCTURED_SINCE):
        return False
    return version in MODERN_PROTOCOL_VERSIONS or tool.output_schema.get("type") == "object"


def _put_structured(result: Json, output: ToolOutput, tool: Tool | None, version: str) -> str | None:
    """Add structured content; a complaint where the tool promised a schema and broke it (the MCP MUST)."""
    data = output.data
    promised = offers_structure(tool, version)
    if data is None:
        if not promised:
            return None
        # A client would throw such a result away whole: as an error the model at least reads the text.
        return "[the structured result that this tool's output schema promises is missing: see above]"
    if promised and tool is not None and (wrong := _violation(tool, data)) is not None:
        return f"[the result does not fit this tool's output schema: {wrong}]"
    if version in MODERN_PROTOCOL_VERSIONS or (
        isinstance(data, dict) and is_version_at_least(version, STRUCTURED_SINCE)
    ):
        result["structuredContent"] = data
    return None


def _violation(tool: Tool, data: Any) -> str | None:
    validator = tool.__dict__.get("output_validator")
    if validator is None:
        import jsonschema_rs

        validator = jsonschema_rs.validator_for(dict(tool.output_schema or {}))
        tool.__dict__["output_validator"] = validator
    for error in validator.iter_errors(data):
        where = "/".join(str(step) for step in error.instance_path)
        return f"{where + ': ' if where else ''}{error.message}"[:500]
    return None


def _content(output: ToolOutput, version: str) -> list[Json]:
    text = output.for_llm
    if not output.content:
        return [{"type": "text", "text": text}]
    shown = "\n".join(describe(block) for block in output.content)
    if text == shown:  # the text only describes the blocks
        return [_block(block, version) for block in output.content]
    if text.startswith(shown):  # something was added after them: a warning, a note on what was left out
        return [
            *(_block(block, version) for block in output.content),
            {"type": "text", "text": text[len(shown) :].strip()},
        ]
    rest = [_block(block, version) for block in output.content if not isinstance(block, TextBlock)]
    return [{"type": "text", "text": text}, *rest] if text else rest


def _block(block: ContentBlock, version: str) -> Json:
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
