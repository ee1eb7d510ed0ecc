"""Matches names with lists of patterns, for settings that name tools: `mcp_github_*`, `exec`."""

from __future__ import annotations

from collections.abc import Iterable
from fnmatch import fnmatchcase


def matches(names: str | Iterable[str], patterns: Iterable[str]) -> bool:
    """Return whether one of the names fits one of the patterns. Shell wildcards are allowed; letter case counts."""
    known = (names,) if isinstance(names, str) else tuple(names)
    return any(fnmatchcase(name, pattern) for pattern in patterns for name in known)
