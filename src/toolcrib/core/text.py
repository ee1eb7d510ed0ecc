"""Shortens a text for a message (to one line, or with an ellipsis), and matches names with patterns.

It also has the regular expressions that are compiled when they are first used: a start loads hundreds, and needs few.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from fnmatch import fnmatchcase
from typing import Any, AnyStr, cast


def clip(text: str, limit: int) -> str:
    """Return the text, cut to `limit` characters. A cut text ends in "…"."""
    return text if len(text) <= limit else f"{text[: limit - 1]}…"


def size(count: int) -> str:
    """Return a number of bytes for people: `1.5 MiB`."""
    amount = float(count)
    for unit in ("B", "KiB", "MiB", "GiB"):
        if amount < 1024 or unit == "GiB":
            return f"{amount:.0f} {unit}" if unit == "B" else f"{amount:.1f} {unit}"
        amount /= 1024
    raise AssertionError


def in_lines(count: int, kind: str = "") -> str:
    """Return a number of lines in words: `1 line`, `2,000 more lines`."""
    return f"{count:,} {kind}line{'s' * (count != 1)}"


def one_line(text: str) -> str:
    """Return the text with each run of white space as one blank, so that it cannot begin a new line."""
    return " ".join(text.split())


def is_web_url(text: str) -> bool:
    """Return whether a text from the settings is an http or https URL with a host and a possible port."""
    from urllib.parse import urlsplit

    try:
        parts = urlsplit(text)
        known = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
        return known and text.isprintable() and " " not in text  # urlsplit passes over ends of lines
    except ValueError:  # http://[x, http://x:99999
        return False


def without_path_keys(text: str) -> str:
    """Return a text in which the addresses have no keys in their paths: some servers take them there."""
    return _PATH.sub(lambda path: _KEY.sub("***", path[0]), text)


def matches(names: str | Iterable[str], patterns: Iterable[str]) -> bool:
    """Return whether one of the names fits one of the patterns, as in settings that name tools: `mcp_github_*`, `exec`.

    Shell wildcards are allowed; letter case counts.
    """
    known = (names,) if isinstance(names, str) else tuple(names)
    return any(fnmatchcase(name, pattern) for pattern in patterns for name in known)


def wildcard(pieces: Sequence[str], text: str) -> bool:
    """Return whether a text consists of the pieces in order, with anything between them; linear except for `find`."""
    first, last = pieces[0], pieces[-1]
    if not text.startswith(first):
        return False
    if len(pieces) == 1:
        return text == first
    if len(text) < len(first) + len(last) or not text.endswith(last):
        return False
    at, end = len(first), len(text) - len(last)
    for piece in pieces[1:-1]:
        at = text.find(piece, at, end)
        if at < 0:
            return False
        at += len(piece)
    return True


def lazy_regex(text: AnyStr, flags: int = 0) -> re.Pattern[AnyStr]:
    """Return the same as `re.compile`, for its methods alone. It is compiled at the first use of one."""
    return cast("re.Pattern[AnyStr]", _Lazy(text, flags))


class _Lazy:
    def __init__(self, text: Any, flags: int) -> None:
        self._given = text, flags

    def __getattr__(self, name: str) -> Any:
        found = getattr(re.compile(*self._given), name)
        setattr(self, name, found)  # from now on this is not called
        return found


_PATH = lazy_regex(r"(?<=://)[^/\s?#]+/[^\s?#\"']*")
_KEY = lazy_regex(r"(?<=/)(?!\$\{)(?=[^/]*?[A-Za-z])(?=[^/]*?(?:[0-9]|[a-z][A-Z]))[^/]{16,}")
