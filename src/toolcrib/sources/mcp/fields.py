"""Which fields of another server's tools and results are passed on beside what we read: icons, `_meta` and the like.

Whatever is passed on has the form that MCP gives it: one field of a wrong type would cost our own clients the whole
list or result.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, cast

from ...core.empty import EMPTY
from ...core.output import foreign_meta

Json = dict[str, Any]

MAX_CHARS = 64 * 1024
"""Longest field that is passed on of one tool, block or result, as JSON."""
MAX_ICONS = 16
_SAFE_ICONS = ("https:", "http:", "data:image/")
_ROLES = ("user", "assistant")
_RESERVED = ("io.modelcontextprotocol/", "modelcontextprotocol.io/", "mcp.dev/")


def size_of(value: Any) -> int:
    """Characters of a value as JSON; one that is nested too deeply counts as endless."""
    try:
        return len(json.dumps(value))
    except (ValueError, TypeError, RecursionError):
        return 2**62


def icons(value: Any) -> list[Json]:
    """The icons in a list of them whose address a client may load: http(s), or an image in place."""
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
    """What is right in the annotations of a block: audience, priority, lastModified."""
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
    """The `_meta` of a result that may go on: the protocol's own keys are between that server and us."""
    return {key: each for key, each in foreign_meta(value).items() if not key.startswith(_RESERVED)}


def block_extra(part: Json, *more: str) -> Mapping[str, Any]:
    """What a content block says beside its content: annotations, `_meta`, and `more` of what a link has."""
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
