"""Make the one-line rule that allows exactly one call: it is shown to a person, and stored for "always like this".

A command is written on one line: `\\n`, `\\t`, `\\\\` and `\\u{…}` escape line breaks and invisible signs.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from ...core.errors import ConfigError
from ...core.tool import Tool
from ..plain import plain_line

_ESCAPE = re.compile(r"\\(?:u\{([0-9a-f]{1,6})\}|(.?))", re.DOTALL)
_PLAIN = {"n": "\n", "t": "\t", "r": "\r", "\\": "\\"}
_QUOTED = {value: f"\\{key}" for key, value in _PLAIN.items()}


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


def quoted(text: str) -> str:
    """Return the text on one line, with nothing invisible in it."""
    return "".join(_QUOTED.get(c) or (c if plain_line(c) == c else f"\\u{{{ord(c):x}}}") for c in text)


def unquoted(text: str) -> str:
    """Return the text that `quoted` escaped. Raises ConfigError for an escape that `quoted` does not write."""
    return _ESCAPE.sub(_character, text)


def _character(found: re.Match[str]) -> str:
    code, letter = found[1], found[2]
    if code is not None and int(code, 16) < 0x110000:
        return chr(int(code, 16))
    if letter in _PLAIN:
        return _PLAIN[letter]
    raise ConfigError(f"{found[0]!r} is not an escape here; write \\\\ for a backslash")
