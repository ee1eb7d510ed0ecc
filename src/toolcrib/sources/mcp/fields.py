"""Select the extra fields of another server's tools and results that are passed on: icons, `_meta` and similar ones.

Every field that is passed on has the form that MCP defines: one field of a wrong type would make our own clients
reject the whole list or result.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, cast

from ...core.empty import EMPTY
from ...core.output import foreign_meta

Json = dict[str, Any]

MAX_CHARS = 64 * 1024
"""The longest field that is passed on, as JSON, of one tool, block or result."""
MAX_ICONS = 16
_SAFE_ICONS = ("https:", "http:", "data:image/")
_ROLES = ("user", "assistant")
_RESERVED = ("io.modelcontextprotocol/", "modelcontextprotocol.io/", "mcp.dev/")


def size_of(value: Any) -> int:
    """Return the length of a value as JSON, in characters. A value that is nested too deeply counts as infinite."""
    try:
        return len(json.dumps(value))
    except (ValueError, TypeError, RecursionError):
        return 2**62


def icons(value: Any) -> list[Json]:
    """Return the icons whose address a client may load: http(s), or an inline image."""
    found: list[Json] = []
    for each in cast("list[Any]", value)[:MAX_ICONS] if isinstance(value, list) else ():
        icon = cast("Json", each) if isinstance(each, dict) else {}
        src = icon.get("src")
        if not isinstance(src, str) or not src.lower().startswith(_SAFE_ICONS):
            continue
        kept: Json = {"src": src}
        if isinstance(icon.get("mimeType"), str):
            kept["mimeType"] = icon["mimeType"]
        sizes = icon.get("sizes")
        if isinstance(sizes, list) and all(isinstance(size, str) for size in cast("list[Any]", sizes)):
            kept["sizes"] = sizes
        if icon.get("theme") in ("light", "dark"):
            kept["theme"] = icon["theme"]
        found.append(kept)
    return found


def block_annotations(value: Any) -> Json:
    """Return the valid annotations of a block: audience, priority, lastModified."""
    given = cast("Json", value) if isinstance(value, dict) else {}
    found: Json = {}
    audience, priority, modified = given.get("audience"), given.get("priority"), given.get("lastModified")
    if isinstance(audience, list) and all(role in _ROLES for role in cast("list[Any]", audience)):
        found["audience"] = audience
    if isinstance(priority, int | float) and not isinstance(priority, bool) and 0 <= priority <= 1:
        found["priority"] = priority
    if isinstance(modified, str):
        found["lastModified"] = modified
    return found


def result_meta(value: Any) -> Json:
    """Return the parts of a result's `_meta` that may be passed on. The protocol's own keys are only for us."""
    return {key: each for key, each in foreign_meta(value).items() if not key.startswith(_RESERVED)}


def block_extra(part: Json, *more: str) -> Mapping[str, Any]:
    """Return the extra fields of a content block: annotations, `_meta`, and for a link the fields in `more`."""
    if "annotations" not in part and "_meta" not in part and not more:
        return EMPTY
    found: Json = {"annotations": block_annotations(part.get("annotations")), "_meta": foreign_meta(part.get("_meta"))}
    for key in more:
        value = part.get(key)
        if key == "icons":
            found[key] = icons(value)
        elif isinstance(value, int if key == "size" else str) and not isinstance(value, bool):
            found[key] = value
    return {key: value for key, value in found.items() if value not in ({}, [])} or EMPTY
