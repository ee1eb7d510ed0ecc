"""Find where a word of a command points.

A path is normalised against the directory of its command. Inside the workspace links are followed on the real file
system, one `lstat` per component. Outside it the spelling is enough, because nothing there is allowed silently.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Iterator
from fnmatch import fnmatchcase
from typing import Literal, NamedTuple

from ...boundary.descriptors import unreadable
from ...boundary.real_path import real_path
from ...core.text import lazy_regex
from .parts import CommandPlace, Word
from .table import places

Where = Literal["stream", "workspace", "root", "granted", "readable", "scratch", "outside", "unknown"]


class Spot(NamedTuple):
    """The place a word points to. `path` is absolute, as far as it is known; with `below` the place lies below it."""

    where: Where
    path: str
    below: bool = False
    pattern: str = ""


_FD = lazy_regex(r"/dev/fd/\d+|/proc/self/fd/[012]")
_UNESCAPE = lazy_regex(r"\\(.)", re.DOTALL)
_WILD = lazy_regex(r"(?<!\\)[*?\[]")


def is_below(path: str, root: str) -> bool:
    """Return whether `path` is `root` or lies below it; both are absolute and normalised."""
    return path.startswith(root) and (len(path) == len(root) or path[len(root)] == "/" or root.endswith("/"))


NOWHERE = Spot("stream", "")


def find(word: Word, cwd: str | None, place: CommandPlace, *, found: bool = False) -> Spot:
    """Return the place a word points to when its command runs in `cwd`.

    `found` says that the unknown part was found (by `find -exec`) below the known part, so it cannot lead out of it.
    """
    text = word.text
    if text is None and word.source[:1] in "~$`\"'" and None in word.parts:
        word = _spelled(word, cwd)
        text = word.text
    if text is not None:
        if not text:
            return NOWHERE  # no file has an empty name
        if "\0" in text:
            return Spot("unknown", "")
        path = absolute(text, cwd, place.home)
        return Spot("unknown", "") if path is None else _place_of(path, place)
    if word.many:
        return Spot("unknown", "")
    return _find_partly_known(word, cwd, place, found)


_OTHER_HOME = lazy_regex(r"~([a-z_][\w-]*)(/.*)?", re.DOTALL)
_HERE = lazy_regex(r"\"?(?:\$\(pwd\)|`pwd`)")


def _spelled(word: Word, cwd: str | None) -> Word:
    """Rewrite two spellings that are as good as known: another user's home, and `$(pwd)`."""
    other = _OTHER_HOME.fullmatch(word.source)
    if other is not None and "$" not in word.source and not word.glob:
        return Word((word.source,), word.source)
    if cwd is not None and word.parts[:1] == (None,) and _HERE.match(word.source):
        rest = word.parts[1:]
        joined = f"{cwd}{rest[0]}" if rest and rest[0] is not None else cwd
        return Word((joined, *rest[1:]) if len(rest) > 1 else (joined,), word.source, word.glob)
    return word


def _find_partly_known(word: Word, cwd: str | None, place: CommandPlace, found: bool) -> Spot:
    """Return the known place, up to the last whole component. The rest may be anything below, or elsewhere by `..`."""
    start = word.start
    known, pattern = start, ""
    if word.glob:
        wild = _WILD.search(start)
        if wild is not None:
            known = start[: wild.start()]
            pattern = start[known.rfind("/") + 1 :]
        known = _UNESCAPE.sub(r"\1", known)
    base = known[: known.rfind("/") + 1]
    complete = None not in word.parts
    rest = "".join(part or "" for part in word.parts[1:])
    if found and not word.glob and ".." not in rest and rest[:1] in ("", "/"):  # `{}v` is another name
        complete = True
        if known:  # `{}` of find -exec: the starting point itself, or something below it
            base = known.rstrip("/") + "/"
        pattern = (word.parts[-1] or "").rpartition("/")[2]  # `{}/.env`
    if word.is_process:
        return Spot("stream", "/dev/fd")
    if complete and not base:
        base = "."
    if not base:  # `$x/…` or `name$x`: the word names no folder before `$x`
        if not known or cwd is None:
            return Spot("unknown", "")
        base = "."
    path = absolute(base, cwd, place.home)
    if path is None:
        return Spot("unknown", "")
    spot = _place_of(path, place)
    climbs = complete and "/.." in f"/{pattern}"
    if spot.where == "outside" or (complete and not climbs):
        return Spot("workspace" if spot.where == "root" else spot.where, spot.path, True, pattern)
    return Spot("unknown", spot.path, True, pattern)


def absolute(text: str, cwd: str | None, home: str) -> str | None:
    """Return an absolute path, not normalised; None if the directory it starts from is unknown."""
    if text.startswith("file:"):
        text = re.sub(r"\Afile:(?://(?:localhost)?(?=/))?", "", text)
    if text.startswith("~"):
        name, _, rest = text[1:].partition("/")
        if name not in ("", "+", "-"):
            return f"/home/{name}/{rest}" if name != "root" else f"/root/{rest}"
        text = f"{home}/{rest}"
    if text.startswith("/"):
        return text
    return None if cwd is None else f"{cwd}/{text}"


def _place_of(path: str, place: CommandPlace) -> Spot:
    plain = os.path.normpath(path)
    if plain.startswith("//"):
        plain = plain[1:]
    stream = plain in places.STREAMS or (plain.startswith(("/dev/", "/proc/")) and _FD.fullmatch(plain))
    if stream and "/../" in path:  # behind a link it may be anything
        return Spot("outside", real_path(path))
    if stream:
        return Spot("stream", plain)
    for root in (place.workspace, *place.writable, *place.readable):
        if is_below(plain, root):
            real = _real(path, plain, root)
            if real == plain and root == place.workspace:
                return Spot("root" if plain == root else "workspace", plain)
            return Spot(where_is(real, place), real)
    if _has_dots(path) and (real := real_path(path)) != real_path(plain):  # git, for one, does not follow the link
        return Spot("outside", real)
    return Spot(where_is(plain, place), plain)


def _has_dots(path: str) -> bool:
    return "/../" in path or path.endswith("/..")


def where_is(path: str, place: CommandPlace) -> Where:
    """Return in which part of a place an absolute path lies."""
    if path == place.workspace:
        return "root"
    if is_below(path, place.workspace):
        return "workspace"
    if any(is_below(path, root) for root in place.writable):
        return "granted"
    if any(is_below(path, root) for root in place.readable):
        return "readable"
    if any(is_below(path, root) and path != root for root in place.scratch) and not is_below(place.workspace, path):
        return "scratch"
    return "outside"


def _real(path: str, plain: str, root: str) -> str:
    """Return the path with links below `root` followed. The root itself is assumed to be real."""
    if _has_dots(path):  # `link/..` is not the folder that contains the link
        return real_path(path)
    current = root
    for part in plain[len(root) :].split("/"):
        if not part:
            continue
        current = f"{current}/{part}"
        try:
            if os.readlink(current):
                return real_path(plain)
        except OSError as error:
            if error.errno != 22:  # EINVAL: it exists and is not a link
                return plain
        except ValueError:
            return plain
    return plain


def loose(pattern: str) -> str:
    """Return a pattern of `*` and `?` alone that fits all names that this one fits: the shell's brackets (`[^a]`,
    `[[:alpha:]]`) are not those of fnmatch, and dash, or any shell without a language, takes `?` for one byte."""
    return re.sub(r"\?+", "?*", re.sub(r"\[[^/]*", "*", re.sub(r"\\.", "?", pattern)))


def selected(folder: str, pattern: str, until: float) -> Iterator[str]:
    """Yield the real paths that a pattern may select below a folder. Raises TimeoutError after `until`.

    However many links lead to a folder, it is looked at once for each part of the pattern.
    """
    *above, last = loose(pattern).split("/")
    folders = [folder]
    for part in above:
        folders = list(dict.fromkeys(each for one in folders for each in _fitting(one, part, until)))
    for one in folders:
        yield from _fitting(one, last, until)


def _fitting(folder: str, part: str, until: float) -> Iterator[str]:
    if time.monotonic() > until:
        raise TimeoutError
    if {*part}.isdisjoint("*?"):
        path = f"{folder}/{part}"
        if os.path.lexists(path):
            yield real_path(path)
        return
    names: list[str] = []
    with unreadable:
        names = os.listdir(folder)
    for name in names:
        if fnmatchcase(name, part) and (name[0] != "." or part[0] == "."):
            yield real_path(f"{folder}/{name}")
