"""Make the one-line rules that allow one call, or calls like it: they are shown to a person, and stored for "always".

A command is written on one line: `\\n`, `\\t`, `\\\\` and `\\u{…}` escape line breaks and invisible signs.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from typing import Any

from ...core.errors import ConfigError
from ...core.text import lazy_regex
from ...core.tool import Tool
from ..plain import plain_line

_ESCAPE = lazy_regex(r"\\(?:u\{([0-9a-f]{1,6})\}|(.?))", re.DOTALL)
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
    command = tool.command_in(given)
    if command is not None and len(given) == 1:
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


_WORD = lazy_regex(r"[\w./:@=+-]+\Z")


def candidates_for(tool: Tool, arguments: Mapping[str, Any]) -> list[str]:
    """Return rules that match a call, the narrowest first."""
    exact = suggest(tool, arguments)
    found = [exact] if exact else []
    command = tool.command_in(arguments)
    if command is not None:
        words = command.split(" ")
        # never a program with any arguments
        counts = [n for n in (3, 2) if len(words) > n and all(_WORD.match(word) for word in words[:n])]
        return [*found, *(f"exec({' '.join(words[:count])} *)" for count in counts)]
    if tool.origin is not None:
        return [*found, *filter(None, [_name(tool)])]
    for name, form in _FORMS.items():
        value = arguments.get(name)
        if isinstance(value, str) and (pattern := form(value)):
            found.append(f"{tool.name}({pattern})")
    return found


def _folder(path: str) -> str:
    parent = path.rpartition("/")[0]
    return f"{parent}/**" if parent and "*" not in parent and not path.startswith(("/", "~", "..")) else ""


def _domain(url: str) -> str:
    found = re.match(r"https://([a-z0-9.-]+)(?:/|\Z)", url)
    return f"domain:{found[1]}" if found else ""


_FORMS: Mapping[str, Callable[[str], str]] = {"path": _folder, "url": _domain}

# Programs whose first word says what they do, and first words that run any code or change what programs do.
_BY_VERB = lazy_regex("npm|pnpm|yarn|bun|pip3?|uv|poetry|pdm|pipenv|cargo|go|gem|bundle|composer|git|mvn|gradle|dotnet")
_ANY_CODE = lazy_regex(
    "run|exec|x|dlx|tool|config|generate|bisect|submodule|worktree|init|link|script|set|rebase|create|clone|remote"
)


def widen(tool: Tool, arguments: Mapping[str, Any]) -> str | None:
    """Return the narrowest rule that allows this call and others like it, for a person who is asked about one call:
    `exec(npm install *)`. None where such a rule would allow much more than it seems."""
    command = tool.command_in(arguments)
    if command is not None:
        words = command.split(" ")
        if any(arguments.get(name) is not None for name in arguments if name != tool.command_argument):
            return None
        if tool.name != "exec" or not _BY_VERB.fullmatch(words[0]):
            return None
        if len(words) < 2 or not words[1].isidentifier() or _ANY_CODE.fullmatch(words[1]):
            return None
        if not all(map(_WORD.match, words)):
            return None
    exact = suggest(tool, arguments)
    return next((rule for rule in candidates_for(tool, arguments) if rule != exact), None)


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
