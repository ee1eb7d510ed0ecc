"""The files that a call names, as rules are held against them: how each is spelled, and which file that really is."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, cast

from ...core.tool import Access, Tool
from .globs import PathGlob, parse_glob

_HALF = re.compile("[\\ud800-\\udc7f\\udd00-\\udfff]")  # of characters; those between stand for bytes
_ANYTHING = "\ue000"  # a name that no pattern spells
MAX_ENTRIES = 20_000
"""Entries of a directory that are looked at for what a rule means inside it: some 50 ms."""


@dataclass(frozen=True, slots=True)
class File:
    """One file or directory that a call would touch; absolute, normalised paths. `real` has its links followed."""

    spelled: str
    real: str
    access: Access

    @property
    def paths(self) -> tuple[str, ...]:
        """Both, or the one that they are."""
        return (self.real,) if self.real == self.spelled else (self.spelled, self.real)

    @property
    def is_dir(self) -> bool:
        """Whether it is a directory now."""
        return os.path.isdir(self.real)


def file_at(path: str, folder: str, access: Access) -> File:
    """The file of a path as the workspace reads it: `~` is home, `..` goes by the letters."""
    text = path.replace("\0", "\ufffd")  # no file has such a name, and tools say so; here it only must not fail
    text = _HALF.sub("\ufffd", text)
    if text == "~" or text.startswith("~/"):
        text = os.path.expanduser(text)
    spelled = os.path.normpath(os.path.join(folder, text) if text else folder)
    spelled = spelled[1:] if spelled.startswith("//") else spelled
    return File(spelled, os.path.realpath(spelled), access)


def files_of(tool: Tool, arguments: Mapping[str, Any], folder: str) -> Iterator[File]:
    """Every file that a call names, by what the tool says of its parameters (`Tool.paths`)."""
    paths = tool.paths
    if callable(paths):
        for path, access in paths(arguments):
            yield file_at(path, folder, access)
        return
    for name, access in paths.items():
        value = arguments.get(name)
        if value is None and access == "search":  # these begin where they are
            value = "."
        for each in cast("list[Any]", value) if isinstance(value, list) else [value]:
            if isinstance(each, str):
                yield file_at(each, folder, access)


@dataclass(frozen=True, slots=True)
class FilePattern:
    """A path pattern ready to be held against files, with the folders behind links in it."""

    globs: tuple[PathGlob, ...]

    def refuses(self, file: File) -> bool:
        """Whether it means the file: by its spelling or by what it really is."""
        return any(glob.match(path, glob.directory and file.is_dir) for glob in self.globs for path in file.paths)

    def refuses_all_in(self, directory: File) -> bool:
        """Whether it means a directory, or whatever is in it (`secrets/**`): then nobody looks through it, either."""
        inside = File(f"{directory.spelled}/{_ANYTHING}", f"{directory.real}/{_ANYTHING}", directory.access)
        return self.refuses(directory) or self.refuses(inside)

    def allows(self, file: File) -> bool:
        """Whether it means the file by its spelling and by what it really is."""
        return all(any(glob.match(path, glob.directory and file.is_dir) for glob in self.globs) for path in file.paths)

    def reaches_below(self, directory: str) -> bool:
        """Whether it could mean something inside a directory."""
        return any(glob.reaches_below(directory) for glob in self.globs)

    def means_inside(self, file: File) -> bool:
        """Whether it means something that is inside a directory now. One that is too large to look through counts."""
        globs = [glob for glob in self.globs if glob.reaches_below(file.real)]
        if not globs or not file.is_dir:
            return False
        waiting, seen = [file.real], 0
        while waiting:
            try:
                entries = list(os.scandir(waiting.pop()))
            except OSError:  # not ours to read, or gone
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
    """The pattern of a rule. Raises ConfigError.

    A rule that allows is not widened by links in it: it names real folders.
    """
    glob = parse_glob(spec, workspace, base, home, wide=not allow)
    return FilePattern(tuple(dict.fromkeys([glob, glob.real(follow=not allow)])))
