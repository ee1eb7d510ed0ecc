"""Match arguments other than paths, commands and addresses: single values with `*`, or all arguments."""

from __future__ import annotations

import functools
import json
from collections.abc import Mapping
from typing import Any, cast

from ...core.tool import Tool, ToolCategory
from .commands import wildcard

CANONICAL = frozenset({"command", "file_path", "path", "url"})
"""Parameters for which Claude Code's rules have a special form in parentheses; `url:x` and so on is ignored."""


def args_fit(wanted: Mapping[str, Any], arguments: Mapping[str, Any]) -> bool:
    """Return whether every named argument is given and equals one of the values. A list or table never does."""
    return all(_fits(value, arguments.get(name)) for name, value in wanted.items())


def exactly(wanted: Mapping[str, Any], arguments: Mapping[str, Any]) -> bool:
    """Return whether these are exactly the arguments. null is the same as absent; 1 is not 1.0 or true."""
    return canonical(wanted) == canonical(arguments)


def canonical(arguments: Mapping[str, Any]) -> str:
    """Return arguments as JSON text that is equal only for equal arguments."""
    given = {key: value for key, value in arguments.items() if value is not None}
    return json.dumps(given, sort_keys=True, separators=(",", ":"), ensure_ascii=True)


def has_star(value: Any) -> bool:
    """Return whether a value of `args` can match more than one text."""
    choices = cast("list[Any]", value) if isinstance(value, list) else [value]
    return any(isinstance(each, str) and len(_pieces(each)) > 1 for each in choices)


def _fits(wanted: Any, given: Any) -> bool:
    if given is None or isinstance(given, list | Mapping):
        return False
    choices = cast("list[Any]", wanted) if isinstance(wanted, list) else [wanted]
    text = given if isinstance(given, str) else _number(given)
    return any(
        wildcard(_pieces(each), text) if isinstance(each, str) else not isinstance(given, str) and _number(each) == text
        for each in choices
    )


def _number(value: float) -> str:
    """Return a number or boolean as text: 80 and 80.0 are the same number for a tool."""
    return str(int(value)) if isinstance(value, float) and value.is_integer() else json.dumps(value)


@functools.lru_cache(4096)
def _pieces(pattern: str) -> tuple[str, ...]:
    """Return the pattern split at its stars; `\\*` is a star and `\\\\` a backslash."""
    pieces = [""]
    escaped = False
    for character in pattern:
        if escaped:
            pieces[-1] += character if character in "*\\" else f"\\{character}"
            escaped = False
        elif character == "\\":
            escaped = True
        elif character == "*":
            pieces.append("")
        else:
            pieces[-1] += character
    pieces[-1] += "\\" * escaped
    return tuple(pieces)


def hint_of(tool: Tool, hint: str) -> bool:
    """Return a hint of a tool. If an MCP server does not give it, MCP's default counts: the worst case."""
    if hint == "read_only":
        return tool.is_read_only
    value = getattr(tool, hint)
    if value is not None:
        return value
    if hint == "destructive" and tool.category == ToolCategory.DESTRUCTIVE:
        return True
    return tool.origin is not None and hint != "idempotent" and not tool.is_read_only
