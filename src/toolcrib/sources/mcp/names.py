"""What a server's tool is called here: legal for every provider, and no two alike."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable

MAX_NAME = 64
_ILLEGAL = re.compile(r"[^A-Za-z0-9_-]+")
_MCP = re.compile(r"[A-Za-z0-9_.-]{1,128}")
_LEGAL = re.compile(rf"[A-Za-z0-9_-]{{1,{MAX_NAME}}}")
_MANY = re.compile(r"_{2,}")


def tool_name(server: str, tool: str, prefix: str | None = None) -> str:
    """`mcp_{server}_{tool}`, or the tool's name behind another prefix, within `[A-Za-z0-9_-]{1,64}`.

    Runs of `_` become one, so that a server's name cannot be read two ways; what is legal behind a prefix of the
    configuration's own stays as it is. A name that is too long, or of which
    nothing legal is left, ends in a hash of what it was.
    """
    if prefix is not None and _LEGAL.fullmatch(prefix + tool) and any(c.isalnum() for c in tool):
        return prefix + tool
    plain = _plain(tool)
    if not any(c.isalnum() for c in plain):
        plain = _hash(tool)
    start = f"mcp_{_plain(server)}_" if prefix is None else _ILLEGAL.sub("_", prefix)
    name = _MANY.sub("_", start + plain) if prefix is None else start + plain
    if len(name) <= MAX_NAME:
        return name
    return f"{name[: MAX_NAME - 9]}_{_hash(f'{server} {tool}')}"


def shown_name(tool: str, prefix: str | None) -> str | None:
    """What MCP clients may see a tool as where its server's tools have no prefix: its own name, if that is legal in MCP
    (2025-11-25: dots, and 128 characters) and not for every provider of models."""
    if prefix != "" or _LEGAL.fullmatch(tool) or not _MCP.fullmatch(tool):
        return None
    return tool


def free_name(name: str, taken: Callable[[str], bool]) -> str:
    """The name, or with the first number behind it that is free: `mcp_a_read_2`."""
    number = 1
    candidate = name
    while taken(candidate):
        number += 1
        end = f"_{number}"
        candidate = f"{name[: MAX_NAME - len(end)]}{end}"
    return candidate


def _plain(text: str) -> str:
    return _MANY.sub("_", _ILLEGAL.sub("_", text)).strip("_")


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:8]
