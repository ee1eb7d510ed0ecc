"""The files of a call and the path patterns of rules: the spelling of each file, its real path, and what matches them.

Patterns have the syntax of .gitignore, on absolute paths: `//x` is absolute, `~/x` relative to home, `/x` to the folder
of the settings, any other pattern to the workspace. `*` and `?` stay in one directory, `**` crosses directories, a
trailing `/` matches directories only. A pattern without a slash matches at any depth. A pattern that matches a
directory matches everything below it. See gitignore(5); for details that it does not specify, git's wildmatch.c is the
reference. A path is walked once with the set of possible positions in the pattern, so no pattern is slow.
"""

from __future__ import annotations

import functools
import os
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any, cast

from ...boundary.descriptors import unreadable
from ...boundary.real_path import real_path
from ...core.dataclass import dataclass
from ...core.errors import ConfigError
from ...core.text import lazy_regex
from ...core.tool import Access, Tool

_HALF = lazy_regex("[\\ud800-\\udc7f\\udd00-\\udfff]")  # lone surrogates, except those that represent bytes
_ANYTHING = "\ue000"  # a name that no pattern contains
MAX_ENTRIES = 20_000
"""Entries of a directory that are searched for a match of a rule: about 50 ms."""


@dataclass(frozen=True, slots=True)
class File:
    """One file or directory that a call would touch; absolute, normalised paths. `real` has its links resolved."""

    spelled: str
    real: str
    access: Access

    @property
    def paths(self) -> tuple[str, ...]:
        """Both paths, or one if they are equal."""
        return (self.real,) if self.real == self.spelled else (self.spelled, self.real)

    @property
    def is_dir(self) -> bool:
        """Whether it is a directory now."""
        return os.path.isdir(self.real)


def file_at(path: str, folder: str, access: Access, *, by_command: bool = False) -> File:
    """Return the file of a path as the workspace reads it: `~` is home, `..` is resolved in the text. For a command the
    real path is what the kernel opens: behind a link, `..` is the folder above what the link leads to."""
    text = path.replace("\0", "\ufffd")  # no file has such a name, and tools report that; this code only must not fail
    text = _HALF.sub("\ufffd", text)
    if text == "~" or text.startswith("~/"):
        text = os.path.expanduser(text)
    whole = os.path.join(folder, text) if text else folder
    spelled = os.path.normpath(whole)
    spelled = spelled[1:] if spelled.startswith("//") else spelled
    return File(spelled, real_path(whole if by_command else spelled), access)


def files_of(tool: Tool, arguments: Mapping[str, Any], folder: str) -> Iterator[File]:
    """Yield every file in a call's arguments, by the tool's information about its parameters (`Tool.paths`)."""
    paths = tool.paths
    if callable(paths):
        for path, access in paths(arguments):
            yield file_at(path, folder, access)
        return
    for name, access in paths.items():
        value = arguments.get(name)
        if value is None and access == "search":  # these start in the current directory
            value = "."
        for each in cast("list[Any]", value) if isinstance(value, list) else [value]:
            if isinstance(each, str):
                yield file_at(each, folder, access)


@dataclass(frozen=True, slots=True)
class FilePattern:
    """A path pattern, ready to be compared with files, including the folders behind links in it."""

    globs: tuple[PathGlob, ...]

    def refuses(self, file: File) -> bool:
        """Return whether it matches the file: by its spelling or by its real path."""
        return any(glob.match(path, glob.directory and file.is_dir) for glob in self.globs for path in file.paths)

    def refuses_all_in(self, directory: File) -> bool:
        """Return whether it matches a directory or all its content (`secrets/**`): then the directory is not searched
        either."""
        inside = File(f"{directory.spelled}/{_ANYTHING}", f"{directory.real}/{_ANYTHING}", directory.access)
        return self.refuses(directory) or self.refuses(inside)

    def allows(self, file: File) -> bool:
        """Return whether it matches the file both by its spelling and by its real path."""
        return all(any(glob.match(path, glob.directory and file.is_dir) for glob in self.globs) for path in file.paths)

    def reaches_below(self, directory: str) -> bool:
        """Return whether it could match something inside a directory."""
        return any(glob.reaches_below(directory) for glob in self.globs)

    def means_inside(self, file: File) -> bool:
        """Return whether it matches something that is inside a directory now, or what a link there leads to. A
        directory that is too large to search counts."""
        globs = [glob for glob in self.globs if glob.reaches_below(file.real)]
        if not globs or not file.is_dir:
            return False
        waiting, known, seen = [file.real], {file.real}, 0
        while waiting:
            entries: list[os.DirEntry[str]] = []
            with unreadable:
                entries = list(os.scandir(waiting.pop()))
            for entry in entries:
                path = real_path(entry.path) if entry.is_symlink() else entry.path
                is_dir = os.path.isdir(path) if path != entry.path else entry.is_dir(follow_symlinks=False)
                if any(glob.match(each, is_dir) for glob in globs for each in {entry.path, path}):
                    return True
                if is_dir and path not in known and any(glob.reaches_below(path) for glob in globs):
                    known.add(path)
                    waiting.append(path)
            seen += len(entries)
            if seen > MAX_ENTRIES:
                return True
        return False


def file_pattern(spec: str, workspace: str, base: str, home: str, *, allow: bool) -> FilePattern:
    """Return the pattern of a rule. Raises ConfigError for an invalid one.

    Where the workspace's file system ignores case, so does a rule that refuses or asks.
    Links in a rule that allows do not extend it: it must name real folders.
    """
    fold = not allow and ignores_case(workspace)
    glob = parse_glob(spec.casefold() if fold else spec, workspace, base, home, wide=not allow)
    globs = dict.fromkeys([glob, glob.real(follow=not allow)])
    return FilePattern(tuple(replace(each, base=each.base.casefold(), fold=True) if fold else each for each in globs))


@functools.lru_cache(100)
def ignores_case(folder: str) -> bool:
    """Return whether names in a folder are the same in another case, as usually on macOS. Seen by an entry of it, or by
    its own name."""
    with unreadable:
        names = frozenset(os.listdir(folder))
        for name in names:
            if name.isascii() and (other := name.swapcase()) != name and other not in names:
                return os.path.lexists(f"{folder}/{other}")
        above, own = os.path.split(folder)
        return own.swapcase() != own and os.path.samefile(folder, f"{above}/{own.swapcase()}")
    return False


# --- one pattern

_CLASSES = {
    "alnum": "0-9A-Za-z", "alpha": "A-Za-z", "blank": " \t", "cntrl": "\\x00-\\x1f\\x7f", "digit": "0-9",
    "graph": "!-~", "lower": "a-z", "print": " -~", "punct": "!-/:-@\\[-`{-~", "space": " \t\n\r\f\v",
    "upper": "A-Z", "xdigit": "0-9A-Fa-f",
}  # fmt: skip

Segment = Callable[[str], object] | None


@dataclass(frozen=True, slots=True)
class PathGlob:
    """One pattern below one folder. `plain` are the leading parts without wildcards, in which links can be followed."""

    base: str
    segments: tuple[Segment, ...]
    plain: tuple[str, ...] = ()
    directory: bool = False
    fold: bool = False  # where case does not count; the pattern is in lower case then

    def match(self, path: str, is_dir: bool = False) -> bool:
        """Return whether the pattern matches an absolute, normalised path, or a directory above it."""
        base, path = self.base, path.casefold() if self.fold else path
        if path == base:
            return not self.segments
        if not path.startswith(base if base.endswith("/") else f"{base}/"):
            return False
        if not self.segments:
            return True
        if self.plain and not path.startswith(self.plain[0], len(base) + (not base.endswith("/"))):
            return False
        end = len(self.segments)
        places = list(self._places(path))
        return any(end in each for each in places[1:-1]) or (end in places[-1] and (is_dir or not self.directory))

    def reaches_below(self, path: str) -> bool:
        """Return whether the pattern could match something below this directory."""
        path = path.casefold() if self.fold else path
        folder = path if path.endswith("/") else f"{path}/"
        if self.base == path or self.base.startswith(folder):
            return True
        if not path.startswith(self.base if self.base.endswith("/") else f"{self.base}/"):
            return False
        places = list(self._places(path))
        return any(len(self.segments) in each for each in places[:-1]) or bool(places[-1])

    def _places(self, path: str) -> Iterator[set[int]]:
        """Yield the possible positions in the pattern, before the first name of a path and after each; after a name
        that cannot be, an empty set is the last."""
        end = len(self.segments)
        places = self._skip({0})
        yield places
        for part in path[len(self.base) :].strip("/").split("/"):
            after: set[int] = set()
            for place in places - {end}:
                segment = self.segments[place]
                if segment is None:  # `**`
                    after.add(place)
                elif segment(part):
                    after.add(place + 1)
            places = self._skip(after)
            yield places
            if not places:
                return

    def _skip(self, places: set[int]) -> set[int]:
        """Add the positions that follow if a `**` matches no directory."""
        for place in tuple(places):
            while place < len(self.segments) and self.segments[place] is None:
                place += 1
                places.add(place)
        return places

    def real(self, *, follow: bool) -> PathGlob:
        """Return the same pattern below the folder's real path; with `follow`, links in the parts without wildcards are
        followed."""
        plain = self.plain if follow else ()
        folder = os.path.join(self.base, *plain)
        base = real_path(folder)
        if base == folder:
            return self
        return PathGlob(base, self.segments[len(plain) :], (), self.directory)


def parse_glob(spec: str, workspace: str, base: str, home: str, *, wide: bool = False) -> PathGlob:
    """Return the pattern of a rule. Raises ConfigError for a pattern that git would never match, or for a negation.

    `wide` is for rules that refuse or ask: `./name` then matches at any depth, as `name` does. Some people read it that
    way, others as one file.
    """
    text = _without_trailing_spaces(spec)
    if text.startswith("!"):
        raise ConfigError("a path cannot begin with `!`; say what is allowed, asked or denied in rules of their own")
    if not text or "\0" in text:
        raise ConfigError("an empty path")
    if text.startswith("//"):
        return _below("/", text[2:], anchored=True)
    if text == "~" or text.startswith("~/"):
        return _below(home, text[2:], anchored=True)
    if text.startswith("/"):
        return _below(base, text[1:], anchored=True)
    anchored = not wide and text.startswith("./")
    while text.startswith("./"):
        text = text[2:].lstrip("/")
    folder = workspace
    while text == ".." or text.startswith("../"):
        folder, text, anchored = os.path.dirname(folder), text[3:], True
    return _below(folder, "" if text == "." else text, anchored=anchored)


def _below(base: str, text: str, *, anchored: bool) -> PathGlob:
    directory = text.endswith("/") and not text.endswith("\\/")
    text = text[:-1] if directory else text
    if not text:  # the folder itself, with all its content
        return PathGlob(base, ())
    parts = text.split("/")
    if "" in parts:
        parts = [part for part in parts if part]  # `a//b`: git matches nothing with it; people mean a/b
    segments: list[Segment] = [None] if not anchored and "/" not in text else []
    for number, part in enumerate(parts):
        last = number == len(parts) - 1
        if part == "**" and len(parts) + len(segments) - number > 1 and not last:
            segments.append(None)
        elif part == "**":  # at the end: everything inside
            segments.append(_segment("*"))
        else:
            segments.append(_segment(part))
    plain: list[str] = []
    if segments and segments[0] is not None:
        for part in parts:
            if re.search(r"[*?\[\\]", part):
                break
            plain.append(part)
    return PathGlob(base, tuple(segments), tuple(plain), directory)


def _without_trailing_spaces(text: str) -> str:
    stripped = text.rstrip(" ")
    trailing = len(stripped) - len(stripped.rstrip("\\"))
    return stripped + " " if trailing % 2 and len(stripped) < len(text) else stripped


@functools.lru_cache(maxsize=1024)
def _segment(text: str) -> Callable[[str], object]:
    """Return a function that matches one name. Between two stars the first match is final, without backtracking, so it
    is linear."""
    pieces: list[list[str]] = [[]]
    index = 0
    while index < len(text):
        character = text[index]
        index += 1
        if character == "*":
            pieces.append([])
        elif character == "?":
            pieces[-1].append("[^/]")
        elif character == "[":
            expression, index = _bracket(text, index)
            pieces[-1].append(expression)
        elif character == "\\":
            literal, index = _quoted(text, index - 1)
            pieces[-1].append(re.escape(literal))
        else:
            pieces[-1].append(re.escape(character))
    joined = ["".join(piece) for piece in pieces]
    if len(joined) == 1:
        expression = joined[0]
    else:
        inner = "".join(f"(?>[^/]*?{piece})" for piece in joined[1:-1])
        expression = f"{joined[0]}{inner}[^/]*{joined[-1]}"
    return re.compile(rf"(?s:{expression})\Z").match


def _bracket(text: str, index: int) -> tuple[str, int]:
    """Parse a character class, starting after its `[`. Returns it as an expression, and the position of its end."""
    negated = text[index : index + 1] in ("!", "^")
    index += negated
    found: list[str] = []
    previous: str | None = None
    first = True
    while True:
        if index >= len(text):
            raise ConfigError("the path has a `[` without a `]`; write \\[ for the character")
        character = text[index]
        if character == "]" and not first:
            break
        first = False
        if character == "[" and text.startswith("[:", index) and (end := text.find(":]", index + 2)) > 0:
            name = text[index + 2 : end]
            if name not in _CLASSES:
                raise ConfigError(f"the path names an unknown class of characters: [:{name}:]")
            found.append(_CLASSES[name])
            index, previous = end + 2, None
            continue
        if character == "-" and previous is not None and text[index + 1 : index + 2] not in ("", "]"):
            index += 1
            upper, index = _quoted(text, index)
            if previous <= upper:
                found.append(f"{re.escape(previous)}-{re.escape(upper)}")
            previous = None
            continue
        previous, index = _quoted(text, index)
        found.append(re.escape(previous))
    body = "".join(found)
    return (f"[^/{body}]" if negated else f"(?!/)[{body}]"), index + 1


def _quoted(text: str, index: int) -> tuple[str, int]:
    if text[index] == "\\":
        index += 1
        if index >= len(text):
            raise ConfigError("the path ends with a backslash that quotes nothing; write \\\\ for a backslash")
    return text[index], index + 1
