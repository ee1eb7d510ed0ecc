"""Does a name fit a list of patterns? For settings that name tools: `mcp_github_*`, `exec`."""

from __future__ import annotations

from collections.abc import Iterable
from fnmatch import fnmatchcase


def matches(names: str | Iterable[str], patterns: Iterable[str]) -> bool:
    """Whether one of the names fits one of the patterns, by shell wildcards and letter case."""
    known = (names,) if isinstance(names, str) else tuple(names)
    return any(fnmatchcase(name, pattern) for pattern in patterns for name in known)
