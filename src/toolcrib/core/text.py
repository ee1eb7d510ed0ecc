"""Shortens a text for a message (to one line, or with an ellipsis), and matches names with patterns."""

from __future__ import annotations

from collections.abc import Iterable
from fnmatch import fnmatchcase


def clip(text: str, limit: int) -> str:
    """Return the text, cut to `limit` characters. A cut text ends in "…"."""
    return text if len(text) <= limit else f"{text[: limit - 1]}…"


def one_line(text: str) -> str:
    """Return the text with each run of white space as one blank, so that it cannot begin a new line."""
    return " ".join(text.split())


def matches(names: str | Iterable[str], patterns: Iterable[str]) -> bool:
    """Return whether one of the names fits one of the patterns, as in settings that name tools: `mcp_github_*`, `exec`.

    Shell wildcards are allowed; letter case counts.
    """
    known = (names,) if isinstance(names, str) else tuple(names)
    return any(fnmatchcase(name, pattern) for pattern in patterns for name in known)
