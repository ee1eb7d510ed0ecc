"""Finds the files that a text names with an `@`, as hosts find them: they give their models what is in these files."""

from __future__ import annotations

import os

from ..core.text import lazy_regex
from .hook_events import Unmapped

_QUOTED = lazy_regex(r"@\"([^\"]+)\"")
_WORD = lazy_regex(r"@((?:[^\s\\]|\\.)+)")
_NAME_END = lazy_regex(r"[\W_]")
_MAX_NAMES, _MAX_DEPTH = 200, 2048


def named_files(text: str, folder: str) -> set[str]:
    """Return what is there of all that `@FILE` may name in a text: where a name begins and ends, marks of Markdown may
    say (`_@x_`). Hosts take `..` from the text alone. Raises Unmapped for a word with very many `@`."""
    found: set[str] = set()
    for name in _names(text):
        name = os.path.expanduser("~") + name[1:] if name.startswith("~/") else name
        above = [""] if name.startswith("/") else folder.split("/")
        for part in name.split("/"):
            there = part.strip(".") and len(above) < _MAX_DEPTH
            ends = [len(part), *(end.start() for end in _NAME_END.finditer(part))] if there else []
            base = "/".join(above) if there else ""
            found |= {path for end in ends if 0 < end < 256 and os.path.exists(path := f"{base}/{part[:end]}")}
            if part == "..":
                above = above[:-1] or [""]
            elif part not in ("", "."):
                above.append(part)
    return found


def _names(text: str) -> set[str]:
    found = {*_QUOTED.findall(text)}
    for word in {*_WORD.findall(text)}:
        parts = word.replace("\\ ", " ").split("@")
        if len(parts) > _MAX_NAMES:
            raise Unmapped
        found |= {"@".join(parts[n:]) for n in range(len(parts))}
    return found
