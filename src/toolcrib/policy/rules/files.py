"""The files of a call, in the form that rules are compared with: the spelling of each, and its real path."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, cast

from ...core.tool import Access, Tool
from .globs import PathGlob, parse_glob

_HALF = re.compile("[\\ud800-\\udc7f\\udd00-\\udfff]")  # lone surrogates, except those that represent bytes
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


def file_at(path: str, folder: str, access: Access) -> File:
    """Return the file of a path as the workspace reads it: `~` is home, `..` is resolved in the text."""
    text = path.replace("\0", "\ufffd")  # no file has such a name, and tools report that; this code only must not fail
    text = _HALF.sub("\ufffd", text)
    if text == "~" or text.startswith("~/"):
        text = os.path.expanduser(text)
    spelled = os.path.normpath(os.path.join(folder, text) if text else folder)
    spelled = spelled[1:] if spelled.startswith("//") else spelled
    return File(spelled, os.path.realpath(spelled), access)


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
        """Return whether it matches something that is inside a directory now. A directory that is too large to search
        counts."""
        globs = [glob for glob in self.globs if glob.reaches_below(file.real)]
        if not globs or not file.is_dir:
            return False
        waiting, seen = [file.real], 0
        while waiting:
            try:
                entries = list(os.scandir(waiting.pop()))
            except OSError:  # not readable for us, or gone
                continue
            for entry in entries:
                is_dir = entry.is_dir(follow_symlinks=False)
                if any(glob.match(entry.path, is_dir) for glob in globs):
                    return True
                if is_dir and any(glob.reaches_below(entry.path) for glob in globs):
                    waiting.append(entry.path)
            seen += len(entries)
            if seen > MAX_ENTRIES:
                return True
        return False


def file_pattern(spec: str, workspace: str, base: str, home: str, *, allow: bool) -> FilePattern:
    """Return the pattern of a rule. Raises ConfigError for an invalid one.

    Links in a rule that allows do not extend it: it must name real folders.
    """
    glob = parse_glob(spec, workspace, base, home, wide=not allow)
    return FilePattern(tuple(dict.fromkeys([glob, glob.real(follow=not allow)])))
