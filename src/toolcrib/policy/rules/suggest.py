"""Make the one-line rule that allows exactly one call: it is shown to a person, and stored for "always like this"."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from ...core.tool import Tool
from .text import quoted


def suggest(tool: Tool, arguments: Mapping[str, Any]) -> str | None:
    """Return a rule that matches this call with these arguments and no other; None if the tool's name cannot be
    written.

    For a command alone it is `exec(=npm test)`: exactly the whole command line, on one line. Otherwise it is a table
    with all arguments. `parse_rule` reads both.
    """
    name = _name(tool)
    if name is None:
        return None
    given = {key: value for key, value in arguments.items() if value is not None}
    command = given.get(tool.command_argument or "")
    if isinstance(command, str) and len(given) == 1:
        return f"{name}(={quoted(command)})"
    table = {"tool": name, "exactly": given}
    text = json.dumps(table, ensure_ascii=False)
    return text if text.isprintable() else json.dumps(table)


def _name(tool: Tool) -> str | None:
    name = tool.name
    if tool.origin is not None:
        if "__" in tool.origin.server:
            return None
        name = f"mcp__{tool.origin.server}__{tool.origin.tool}"
    elif name.startswith("mcp__"):
        return None
    return None if any(c in "*()" or c.isspace() for c in name) else name
