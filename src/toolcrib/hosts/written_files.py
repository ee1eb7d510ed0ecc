"""Says what follows from a file that a call writes: hosts give their models the files that it names with an `@`, and a
command that runs already, or with the call, was judged by the names and `.gitignore` that were there before."""

from __future__ import annotations

import contextlib
import os
import re
import unicodedata
from collections.abc import Iterator

from ..boundary.own_files import beginning_of
from ..core.text import lazy_regex
from .hook_events import Unmapped

MAX_TEXT = 4 * 2**20
_QUOTED = lazy_regex(r"@\"([^\"]+)\"")
_WORD = lazy_regex(r"@((?:[^\s\\]|\\.)+)")
_NAME_END = lazy_regex(r"[\W_]")
_MAX_NAMES, _MAX_DEPTH = 200, 2048
_IGNORING = frozenset({".gitignore", ".ignore", ".rgignore"})
_SHOWS_MORE = lazy_regex(r"^(?:\+?!|-)", re.MULTILINE)
"""In what is added to such a file, or in a patch of it."""
_ODD = lazy_regex(r"\A-|\s")
"""A name that `git grep x *` takes for an option, or `cat $f` for several words."""


def text_of(path: str) -> str:
    """Return the text of a file, as far as it is looked at."""
    return beginning_of(path, MAX_TEXT).decode(errors="replace").replace("\r\n", "\n")


def has_odd_name(whole: str) -> bool:
    """Return whether a file, or a folder on the way to it, would be new and has such a name."""
    folder, name = os.path.split(whole)
    return bool(name) and not os.path.lexists(whole) and (_ODD.search(name) is not None or has_odd_name(folder))


def shows_more(name: str, before: str, after: str) -> bool:
    """Return whether searches may find more after a change of a file that says what they leave out."""
    base = before and f"{before.rstrip()}\n"
    grown = f"{after}\n".startswith(base)
    return name in _IGNORING and (not grown or _SHOWS_MORE.search(after[len(base) :]) is not None)


def named_files(text: str, folder: str, known: str = "") -> set[str]:
    """Return what is there of all that `@FILE` may name in a text, and not in the `known` one: where a name begins and
    ends, marks of Markdown may say (`_@x_`). Hosts take `..` from the text alone. Raises Unmapped for a word with very
    many `@`."""
    found: set[str] = set()
    here: set[str] | None = None
    with contextlib.suppress(OSError):
        here = {_plain(name) for name in os.listdir(folder)}
    for name in _names(text, known):
        name = os.path.expanduser("~") + name[1:] if name.startswith("~/") else name
        above = [""] if name.startswith("/") else folder.split("/")
        for part in name.split("/"):
            there = part.strip(".") and len(above) < _MAX_DEPTH
            ends = [len(part), *(end.start() for end in _NAME_END.finditer(part))] if there else []
            base = "/".join(above) if there else ""
            pieces = {part[:end] for end in ends if 0 < end < 256}
            if base == folder and here is not None:  # most words with an `@` name nothing here
                pieces = {piece for piece in pieces if _plain(piece) in here}
            found |= {path for piece in pieces if os.path.exists(path := f"{base}/{piece}")}
            if part == "..":
                above = above[:-1] or [""]
            elif part not in ("", "."):
                above.append(part)
    return found


def has_new_names(text: str, known: str) -> bool:
    """Return whether a text names files with an `@`, there or not, that the known one does not name."""
    return next(_names(text, known), None) is not None


def _plain(name: str) -> str:
    return unicodedata.normalize("NFC", name).casefold()


def _names(text: str, known: str) -> Iterator[str]:
    yield from {*_QUOTED.findall(text)} - {*_QUOTED.findall(known)}
    for word in {*_WORD.findall(text)} - {*_WORD.findall(known)}:
        parts = word.replace("\\ ", " ").split("@")
        if len(parts) > _MAX_NAMES:
            raise Unmapped
        for n in range(len(parts)):  # one at a time: each may be as long as the text
            yield "@".join(parts[n:])
