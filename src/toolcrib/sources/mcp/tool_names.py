"""Create the names of servers' tools: legal for every provider, and unique."""

from __future__ import annotations

import hashlib
from collections.abc import Container

from ...core.text import lazy_regex

MAX_NAME = 64
_ILLEGAL = lazy_regex(r"[^A-Za-z0-9_-]+")
_MCP = lazy_regex(r"[A-Za-z0-9_.-]{1,128}")
_LEGAL = lazy_regex(rf"[A-Za-z0-9_-]{{1,{MAX_NAME}}}")
_MANY = lazy_regex(r"_{2,}")


def tool_name(server: str, tool: str, prefix: str | None = None) -> str:
    """Return `mcp_{server}_{tool}`, or the tool's name behind another prefix, within `[A-Za-z0-9_-]{1,64}`.

    Runs of `_` become one, so that a server's name cannot be read in two ways. A legal name behind a configured
    prefix is not changed. A name that is too long, or has no legal characters, ends in a hash of the original.
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
    return _hashed(name, server, tool)


def own_name(server: str, tool: str, prefix: str | None = None) -> str:
    """Return the name of a tool whose `tool_name` another one has. It does not depend on that one."""
    return _hashed(tool_name(server, tool, prefix), server, tool)


def is_exact(name: str, tool: str, prefix: str | None) -> bool:
    """Return whether a `tool_name` has the server's name for the tool unchanged."""
    return name.endswith(f"_{tool}") if prefix is None else name == prefix + tool


def shown_name(tool: str, prefix: str | None) -> str | None:
    """Return the name that MCP clients see for a tool whose server has an empty prefix.

    It is the tool's own name, if that is legal in MCP (2025-11-25: dots, and 128 characters) but not for every
    model provider; otherwise None.
    """
    if prefix != "" or _LEGAL.fullmatch(tool) or not _MCP.fullmatch(tool):
        return None
    return tool


def free_name(name: str, taken: Container[str], separator: str = "_") -> str:
    """Return the name, or the name with the first free number: `mcp_a_read_2`."""
    number = 1
    candidate = name
    while candidate in taken:
        number += 1
        end = f"{separator}{number}"
        candidate = f"{name[: MAX_NAME - len(end)]}{end}"
    return candidate


def _plain(text: str) -> str:
    return _MANY.sub("_", _ILLEGAL.sub("_", text)).strip("_")


def _hashed(name: str, server: str, tool: str) -> str:
    return f"{name[: MAX_NAME - 9]}_{_hash(f'{server} {tool}')}"


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:8]
