"""Write a command on one line and read it back: `\\n`, `\\t`, `\\\\` and `\\u{…}` escape line breaks and invisible
signs."""

from __future__ import annotations

import re

from ...core.errors import ConfigError
from ..plain import plain_line

_ESCAPE = re.compile(r"\\(?:u\{([0-9a-f]{1,6})\}|(.?))", re.DOTALL)
_PLAIN = {"n": "\n", "t": "\t", "r": "\r", "\\": "\\"}
_QUOTED = {value: f"\\{key}" for key, value in _PLAIN.items()}


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
