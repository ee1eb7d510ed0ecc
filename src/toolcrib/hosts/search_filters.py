"""What the searches of hosts look at: their filters of names, and what git ignores."""

from __future__ import annotations

import os
import re
from pathlib import Path

from ..core.text import lazy_regex

GIT_TAKES = lazy_regex(
    r"(?!-)(?:\\[^0-9pPkuxc\0\n]|\[\^?(?:a-z|A-Z|0-9|[^]\\\[\0\n-])+\]|\((?![?*+{])|\)|\|(?![*+?{])"
    r"|[^]\\()\[{}*+?|\0\n]|(?<=[^(|^])[*+?]){1,1000}"
)
"""The patterns that `git grep -E` is sure to take. Where it fails, Gemini CLI searches again without git: what git
ignores is searched, too. One that begins with a dash is an option for `grep`."""
BY_END = lazy_regex(r"[\w./*-]*\*(\.[\w.-]+|\.\{[\w.,-]+\})")
"""Filters that mean names with an end, at any depth, to `git`, `grep` and `rg`. Others are pathspecs: `:/`, `cfg`."""


def pieces(name: str | None, *, elsewhere: bool) -> list[str | None]:
    """Return what a filter may mean: Claude Code reads `*.py,.env` and `*.py .env` as two. What is left out (`!x`) only
    makes the others smaller, and ripgrep takes `#x` for a comment. `elsewhere`: the search is not in the folder where
    the host runs, to which ripgrep takes paths in a filter to be relative; then only the names in it count."""
    each = [piece for word in (name or "").split() for piece in re.split(r",(?![^{]{0,250}\})", word) if piece]
    each = [piece for piece in each if piece[0] != "#"]
    found = [name, *([piece for piece in each if piece[0] != "!"] or each or [None])]
    return [_last(piece) if piece and elsewhere else piece for piece in found]


def _last(piece: str) -> str:
    """Return a pattern for the names that a pattern for paths fits."""
    above, slash, own = piece.rpartition("/")
    if not slash:
        return piece
    return own if own and above[:1] != "!" and {*above}.isdisjoint("[{") else "*"


def is_in_repository(folder: str) -> bool:
    """Return whether ripgrep and git take a real folder to be in a repository: elsewhere nothing is ignored."""
    return any(os.path.exists(above / ".git") for above in (Path(folder), *Path(folder).parents))
