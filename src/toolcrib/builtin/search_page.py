"""The answers of `glob` and `grep`: pages of paths and lines, and notes about the rest."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import field
from typing import TYPE_CHECKING

from ..boundary.read_only_run import Stop
from ..boundary.ripgrep import MAX_LINE, Mode, Query
from ..core.dataclass import dataclass
from ..core.text import lazy_regex
from .listing import place_name, printable_path

if TYPE_CHECKING:
    from ..boundary.file_search import SearchResults

MAX_CHARACTERS = 40_000  # per page: less than the pipeline's bound, so that no page is cut in the middle

_UNITS: Mapping[Mode, str] = {"files": "files", "lines": "matching lines", "count": "files", "names": "files"}
_RECORD = lazy_regex(rb"(\d+)(?::(\d+):|-)")
_BETWEEN = r"\s\"'`,;(){}<>\[\]&|"
# The last word of the shown part of a long line, and ripgrep's text after it. Half a word may be half a secret.
_CUT_SHORT = lazy_regex(rf"(?<![^{_BETWEEN}])[^{_BETWEEN}]*( \[\.\.\. [^\]]*\])\Z")


@dataclass(frozen=True, slots=True)
class MatchLine:
    """One line of a file: `column` is the beginning of a match, or 0 for a line of context."""

    number: int
    column: int
    text: str


@dataclass(slots=True)
class FoundLines:
    """The matches of a search: for each path its lines, or the number of matches. `skipped` matches are not held."""

    lines: dict[str, list[MatchLine]] = field(default_factory=dict[str, list[MatchLine]])
    counts: dict[str, int] = field(default_factory=dict[str, int])
    matches: int = 0
    skipped: int = 0
    stopped: Stop | None = None
    binary: bool = False


def entries(query: Query, answer: SearchResults) -> Iterator[tuple[str, MatchLine | None, int]]:
    """Yield (path, line, count) from the output of a search: a line, or the number of matching lines."""
    if query.mode == "files":
        for names in answer.names():
            for name in names:
                yield _name(name), None, 1
        return
    for name, record in answer.records():
        if query.mode == "count":
            yield _name(name), None, int(record)
        elif head := _RECORD.match(record):
            text = record[head.end() :].decode("utf-8", "replace").rstrip("\r")
            column = int(head[2] or 0)
            if len(record) > MAX_LINE and (cut := _CUT_SHORT.search(text)):
                beyond = f" [... a long line; the match is at byte {column}]" if column > MAX_LINE else cut[1]
                text = text[: cut.start()] + beyond
            yield _name(name), MatchLine(int(head[1]), column, text), 0


def _name(name: bytes) -> str:
    return os.fsdecode(name.removeprefix(b"./"))


def _by_parts(path: str) -> list[str]:
    return path.split("/")  # the same order as ripgrep's --sort=path


def pick_files(found: FoundLines, base: str, offset: int, limit: int, counts: bool) -> tuple[list[str], int]:
    """Return the lines of a page, one per file, and the number of files that they show."""
    names = sorted(found.counts, key=_by_parts)[offset : offset + limit]
    page = fit(shown_path(base, name) + (f":{found.counts[name]}" if counts else "") for name in names)
    return page, len(page)


def fit(lines: Iterable[str]) -> list[str]:
    """Return as many lines as fit on a page, but at least one."""
    page: list[str] = []
    size = 0
    for line in lines:
        size += len(line) + 1
        if size > MAX_CHARACTERS and page:
            break
        page.append(line)
    return page


def pick_lines(found: FoundLines, base: str, offset: int, limit: int, context: int) -> tuple[list[str], int]:
    """Return the lines of a page with their context, and the number of matches that they show."""
    page: list[str] = []
    index = shown = size = 0
    for name in sorted(found.lines, key=_by_parts):
        lines, path = found.lines[name], shown_path(base, name)
        wanted: list[int] = []  # line numbers of the page's matches in this file
        for line in lines:
            if line.column:
                if offset <= index < offset + limit and size <= MAX_CHARACTERS:
                    wanted.append(line.number)
                    size += len(line.text) + len(path) + 10
                index += 1
        if not wanted:
            continue
        shown += len(wanted)
        matched = set(wanted)
        near = {n for at in wanted for n in range(at - context, at + context + 1)} if context else matched
        last = None
        for line in lines:
            if line.number in near and (line.number in matched or not line.column or context):
                if context and page and (last is None or line.number > last + 1):
                    page.append("--")
                mark = ":" if line.column else "-"
                page.append(f"{path}{mark}{line.number}{mark}{line.text}")
                last = line.number
    return page, shown


def what_is_left(query: Query, found: FoundLines, offset: int, shown: int) -> list[str]:
    """Return notes that say which matches the page does not show, and how to get them."""
    unit, end = _UNITS[query.mode], offset + shown
    if not shown or (found.stopped != "enough" and found.matches == shown):
        if query.mode == "count" and len(found.counts) > 1:
            return [f"{sum(found.counts.values()):,} matching lines in {len(found.counts):,} files"]
        return []
    if found.stopped == "enough":
        return [f"{unit} {offset + 1:,} to {end:,}; there are more: offset={end}"]
    more = f": offset={end}" if end < found.matches else ""
    return [f"{unit} {offset + 1:,} to {end:,} of {found.matches:,}{more}"]


def shown_path(base: str, name: str) -> str:
    """Return a path relative to the workspace, always on one line."""
    return printable_path(name if base == "." else f"{base}/{name}")


def join_page(lines: list[str], notes: list[str]) -> str:
    return "\n".join([*lines, *(f"[{note}]" for note in notes)])


def no_names(pattern: str, path: str, hidden: bool, no_ignore: bool) -> str:
    place = place_name(path)
    text = f"No files match {pattern} in {place}."
    if "/" not in pattern and pattern != "**":
        text += f" (Only files directly in {place} were looked at; **/{pattern} looks below it, too.)"
    elif not (hidden and no_ignore):
        text += " (Hidden files and those in .gitignore were left out; hidden=true and no_ignore=true find them.)"
    return text


def no_matches(query: Query, path: str, offset: int, matches: int) -> str:
    if matches:
        return f"Nothing at offset {offset}: there are only {matches:,} {_UNITS[query.mode]}."
    text = f"No matches for {query.pattern} in {place_name(path)}."
    if not query.stdin:
        left_out = ["binary files", "files that hold secrets or cannot be read"]
        left_out += [] if query.hidden else ["hidden files"]
        left_out += [] if query.no_ignore else ["those in .gitignore"]
        text += f" (Not searched: {', '.join(left_out)}.)"
    return text
