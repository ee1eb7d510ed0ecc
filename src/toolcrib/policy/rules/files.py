"""The files that a call names, as rules are held against them: how each is spelled, and which file that really is."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from ...core.tool import Access, Tool
from .globs import PathGlob, parse_glob


@dataclass(frozen=True, slots=True)
class File:
    """One file or directory that a call would touch; absolute, normalised paths. `real` has its links followed."""

    spelled: str
    real: str
    access: Access

    @property
    def is_dir(self) -> bool:
        """Whether it is a directory now."""
        return os.path.isdir(self.real)


def file_at(path: str, folder: str, access: Access) -> File:
    """The file of a path as the workspace reads it: `~` is home, `..` goes by the letters."""
    text = path.replace("\0", "\ufffd")  # such a path is refused by the tool; here it only must not fail
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
        for each in value if isinstance(value, list) else [value]:
            if isinstance(each, str):
                yield file_at(each, folder, access)


@dataclass(frozen=True, slots=True)
class FilePattern:
    """A path pattern ready to be held against files, with the folders behind links in it."""

    globs: tuple[PathGlob, ...]

    def refuses(self, file: File) -> bool:
        """Whether it means the file: by its spelling or by what it really is."""
        return any(
            glob.match(path, glob.directory and file.is_dir)
            for glob in self.globs
            for path in {file.spelled, file.real}
        )

    def allows(self, file: File) -> bool:
        """Whether it means the file by its spelling and by what it really is."""
        return all(
            any(glob.match(path, glob.directory and file.is_dir) for glob in self.globs)
            for path in {file.spelled, file.real}
        )

    def reaches_below(self, file: File) -> bool:
        """Whether it could mean something inside a directory."""
        return any(glob.reaches_below(path) for glob in self.globs for path in {file.spelled, file.real})


def file_pattern(spec: str, workspace: str, base: str, home: str, *, allow: bool) -> FilePattern:
    """The pattern of a rule. Raises ConfigError.

    A rule that allows is not widened by links in it: it names real folders.
    """
    glob = parse_glob(spec, workspace, base, home, wide=not allow)
    return FilePattern(tuple(dict.fromkeys([glob, glob.real(follow=not allow)])))
