"""The tools `glob` and `grep`: find files by name and by content, on ripgrep."""

from __future__ import annotations

import contextlib
import heapq
import os
import re
import stat
from collections.abc import Generator, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Annotated, Any, Literal

from pydantic import Field

from ..boundary.globs import BadPattern, expand_braces, normalize, split_prefix
from ..boundary.readonly import Stop
from ..boundary.ripgrep import LONGEST_LINE, Mode, Query, Ripgrep, find_ripgrep, is_meant
from ..boundary.search import Answer, Haystack, search
from ..boundary.sensitive import sensitive_by
from ..boundary.workspace import Workspace
from ..core.context import ToolContext
from ..core.errors import OutsideWorkspace, ToolError
from ..core.output import ToolOutput
from ..core.tool import Tool, tool
from ..core.verdict import Judgement

OutputMode = Literal["files_with_matches", "content", "count"]

SECONDS = 20.0  # a search that takes longer is answered with what it found until then
MOST_CHARACTERS = 40_000  # of a page: below the pipeline's bound, so that no page is cut in its middle
# A search keeps at most this many matches and sorts them afterwards. Where there are more it is run again in the
# order of paths, on one thread, and stopped at the page's end. So pages are the same whatever the threads did.
MOST_SORTED = 2_000
MOST_HELD = 100_000  # names beyond the wanted ones before the oldest are let go
MOST_BYTES = 16 << 20  # of lines that are held, context included

_MODES: Mapping[OutputMode, Mode] = {"files_with_matches": "files", "content": "lines", "count": "count"}
_UNITS: Mapping[Mode, str] = {"files": "files", "lines": "matching lines", "count": "files", "names": "files"}
_RECORD = re.compile(rb"(\d+)(?::(\d+):|-)")
_CUT_SHORT = re.compile(r" \[\.\.\. [^\]]*\]\Z")  # what ripgrep puts after the shown part of a long line


@dataclass(frozen=True, slots=True)
class _Line:
    """One line of a file: `column` is where a match begins, 0 in a line of context."""

    number: int
    column: int
    text: str


@dataclass(slots=True)
class _Found:
    """What a search found: for each path its lines, or how many match. `skipped` matches are not held."""

    lines: dict[str, list[_Line]] = field(default_factory=dict[str, list[_Line]])
    counts: dict[str, int] = field(default_factory=dict[str, int])
    matches: int = 0
    skipped: int = 0
    stopped: Stop | None = None
    binary: bool = False


class SearchTools:
    """`glob` and `grep` over a workspace. `ripgrep` is a configured path; None looks for one."""

    def __init__(self, workspace: Workspace, *, ripgrep: str | None = None, seconds: float = SECONDS) -> None:
        self.workspace = workspace
        self.seconds = seconds
        self._configured = ripgrep
        self._looked_for: list[Ripgrep | None] = []
        self._above: tuple[str, ...] | None = None

    @property
    def ripgrep(self) -> Ripgrep | None:
        """The ripgrep in use, looked for once; None means Python's slower stand-in."""
        if not self._looked_for:
            self._looked_for.append(find_ripgrep(self._configured, outside=self.workspace.root))
        return self._looked_for[0]

    def tools(self) -> list[Tool]:
        """Both tools."""
        return [
            tool(self.glob, category="filesystem_read", judge=self._judge_glob, timeout=self.seconds + 10),
            tool(
                self.grep,
                category="filesystem_read",
                aliases={"head_limit": "limit", "query": "pattern", "include": "glob", "-i": "ignore_case"},
                judge=self._judge_grep,
                timeout=2 * self.seconds + 10,
            ),
        ]

    def glob(
        self,
        pattern: Annotated[str, Field(min_length=1)],
        path: str = ".",
        limit: Annotated[int, Field(ge=1, le=100_000)] = 100,
        hidden: bool = False,
        no_ignore: bool = False,
        *,
        ctx: ToolContext,
    ) -> ToolOutput:
        """Find files by name, newest first. `*` stays in one directory, `**` crosses them, `{a,b}` is either.

        Hidden files and what .gitignore excludes are left out unless asked for. Links are not followed.

        Args:
            pattern: Pattern relative to `path`, such as `**/*.py` or `src/**/test_*.{js,ts}`; `*.md` is top level only.
            path: Directory to search.
            limit: Largest number of files to return.
            hidden: Also find hidden files (never inside .git).
            no_ignore: Also find files that .gitignore excludes.
        """
        with _pattern_errors():
            if pattern.startswith("/"):
                path, pattern = split_prefix(pattern)
                path = path or "/"
            prefix, rest = split_prefix(normalize(pattern))
            include = tuple(expand_braces(rest))
        hidden = hidden or any(part.startswith(".") for name in include for part in name.split("/"))
        query = Query("names", include=include, hidden=hidden, no_ignore=no_ignore)
        where = f"{path}/{prefix}" if prefix else path
        newest, total, stopped = list[str](), 0, None
        with contextlib.ExitStack() as stack:
            haystack: Haystack | None = self._directory(path, stack)
            if prefix:
                try:
                    haystack = self._directory(where, stack)
                except OutsideWorkspace:
                    raise
                except ToolError:
                    haystack = None  # no such directory: nothing matches
            if haystack is not None:
                newest, total, stopped = self._newest(query, haystack, limit, ctx)
        if not newest:
            return ToolOutput(_page([_no_names(pattern, path, hidden, no_ignore)], self._why_stopped(stopped)))
        base = self.workspace.relative(where)
        page = _fit(_shown(base, name) for name in newest)
        notes = [f"{len(page):,} of {total:,} files, newest first"] if total > len(page) else []
        return ToolOutput(_page(page, [*notes, *self._why_stopped(stopped)]))

    def grep(
        self,
        pattern: Annotated[str, Field(min_length=1)],
        path: str = ".",
        glob: str | None = None,
        type: Annotated[str, Field(pattern=r"^[A-Za-z0-9_+-]{1,40}$")] | None = None,  # noqa: A002
        ignore_case: bool = False,
        fixed_strings: bool = False,
        output_mode: OutputMode = "files_with_matches",
        context: Annotated[int, Field(ge=0, le=100)] = 0,
        limit: Annotated[int, Field(ge=1, le=10_000)] = 250,
        offset: Annotated[int, Field(ge=0, le=1_000_000)] = 0,
        hidden: bool = False,
        no_ignore: bool = False,
        *,
        ctx: ToolContext,
    ) -> ToolOutput:
        """Search the content of files for a regular expression, line by line.

        Answers with the paths of files that match, or with `path:line:text`, or with counts. Binary files, hidden
        files, what .gitignore excludes and files that hold secrets are left out; links are not followed.

        Args:
            pattern: Regular expression (Rust syntax: no look-around, no backreferences).
            path: File or directory to search.
            glob: Only files whose name fits, such as `*.py`, `src/**/*.{js,ts}`, or not: `!*.min.js`.
            type: Only files of this kind, such as py, js, rust, md.
            ignore_case: Upper and lower case are the same.
            fixed_strings: The pattern is plain text, no regular expression.
            output_mode: files_with_matches (paths), content (lines), or count (matching lines per file).
            context: Lines to show before and after each match (with content).
            limit: Largest number of files or matching lines to return.
            offset: Skip this many first, for the next page.
            hidden: Also search hidden files (never inside .git).
            no_ignore: Also search files that .gitignore excludes.
        """
        with _pattern_errors():
            include, exclude = _name_filter(glob)
        query = Query(
            _MODES[output_mode],
            pattern,
            fixed_strings,
            ignore_case,
            include,
            exclude,
            type,
            context,
            hidden or any(part.startswith(".") for name in include for part in name.split("/")),
            no_ignore,
        )
        with contextlib.ExitStack() as stack:
            haystack = self._file_or_directory(path, stack)
            single = haystack.stdin is not None
            if single:  # named by the caller: filters by name say nothing about it
                query = replace(query, include=(), exclude=(), type=None, stdin=True)
            found = self._collect(query, haystack, path, MOST_SORTED, 0, ctx)
            if found.stopped == "enough":  # lines of one file are in order as they are
                query = replace(query, in_order=not single)
                found = self._collect(query, haystack, path, offset + limit + 1, offset, ctx)
        if found.binary:
            return ToolOutput(f"{path} is a binary file, and it has a match. exec can look into it.")
        base = "." if single else self.workspace.relative(path)
        if query.mode == "lines":
            page, shown = _pick_lines(found, base, offset - found.skipped, limit, context)
        else:
            page, shown = _pick_files(found, base, offset - found.skipped, limit, query.mode == "count")
        notes = [*_what_is_left(query, found, offset, shown), *self._why_stopped(found.stopped)]
        if not page:
            page = [_no_matches(query, path, offset, found.matches)]
        return ToolOutput(_page(page, notes))

    # Before it runs

    def _judge_glob(self, args: Mapping[str, Any], ctx: ToolContext) -> Judgement | None:
        pattern = args.get("pattern", "")
        path = split_prefix(pattern)[0] if pattern.startswith("/") else args.get("path", ".")
        return self.workspace.judge_path(path or "/", read=False)

    def _judge_grep(self, args: Mapping[str, Any], ctx: ToolContext) -> Judgement | None:
        return self.workspace.judge_path(args.get("path", "."))  # a secret file that is named is asked about

    # Where to search

    def _directory(self, path: str, stack: contextlib.ExitStack) -> Haystack:
        try:
            directory = self.workspace.open_dir(path)
        except FileNotFoundError:
            raise ToolError(f"there is no {path} in the workspace; glob finds paths by name") from None
        except NotADirectoryError:
            raise ToolError(f"{path} is not a directory") from None
        except OSError as error:
            if isinstance(error, ToolError):
                raise
            raise ToolError(f"{path} cannot be opened: {error.strerror}") from error
        stack.callback(os.close, directory)
        place = self.workspace.locate(path)
        if not place.parts:
            return Haystack(directory, (), self._ignore_files())
        root = self.workspace.open_dir(place.root.path)  # ignore files between it and the directory count, too
        stack.callback(os.close, root)
        return Haystack(directory, (root,), self._ignore_files())

    def _file_or_directory(self, path: str, stack: contextlib.ExitStack) -> Haystack:
        try:
            mode = self.workspace.stat(path).st_mode
        except OSError:
            return self._directory(path, stack)  # has the words for it
        if stat.S_ISDIR(mode):
            return self._directory(path, stack)
        descriptor = self.workspace.open_read(path)
        stack.callback(os.close, descriptor)
        return Haystack(self._directory(".", stack).directory, stdin=descriptor)

    def _ignore_files(self) -> tuple[str, ...]:
        """Ignore files above the workspace, which count where it lies in a larger repository."""
        if self._above is None:
            found: list[str] = []
            folder = self.workspace.root
            while not (folder / ".git").exists() and folder != folder.parent:
                folder = folder.parent
                found += [str(folder / name) for name in (".gitignore", ".ignore", ".rgignore")]
            self._above = tuple(found) if (folder / ".git").exists() else ()
        return self._above

    # Searching

    def _search(self, query: Query, haystack: Haystack, ctx: ToolContext) -> contextlib.AbstractContextManager[Answer]:
        return search(query, haystack, ripgrep=self.ripgrep, seconds=self.seconds, cancelled=lambda: ctx.cancelled)

    def _newest(
        self, query: Query, haystack: Haystack, limit: int, ctx: ToolContext
    ) -> tuple[list[str], int, Stop | None]:
        """The newest files' paths, how many there are, and why the search ended early, if it did."""
        meant, total = is_meant(query), 0
        found: list[tuple[int, bytes]] = []
        with self._search(query, haystack, ctx) as answer:
            for names in answer.names():
                if meant is not None:
                    names = [name for name in names if meant(os.fsdecode(name))]
                ages = _ages(names, haystack.directory)
                total += len(ages)
                found += ages
                if len(found) > limit + MOST_HELD:
                    found = heapq.nsmallest(limit, found)
        newest = heapq.nsmallest(limit, found) if limit * 8 < len(found) else sorted(found)[:limit]
        return [os.fsdecode(name) for _, name in newest], total, answer.stopped

    def _collect(self, query: Query, haystack: Haystack, path: str, most: int, skip: int, ctx: ToolContext) -> _Found:
        """What is found, up to `most` matches. Files that hold secrets are as if they were not there.

        In a search that comes in order, the first `skip` matches are counted but not held.
        """
        found, size = _Found(), 0
        real, meant = self.workspace.real(path), is_meant(query)
        own_name = self.workspace.relative(path)
        if haystack.stdin is not None:
            os.lseek(haystack.stdin, 0, os.SEEK_SET)  # the second time around
        with self._search(query, haystack, ctx) as answer:
            for name, line, count in _entries(query, answer):
                if query.stdin:
                    name = own_name
                elif (meant is not None and not meant(name)) or sensitive_by(f"{real}/{name}") is not None:
                    continue
                if line is None or line.column:
                    found.matches += 1
                    if found.matches > most:
                        answer.stop()
                        break
                    if found.matches <= skip:
                        found.skipped += 1
                        continue
                elif found.matches < skip:
                    continue
                if line is None:
                    found.counts[name] = count
                    continue
                found.lines.setdefault(name, []).append(line)
                size += len(line.text) + 100
                if size > MOST_BYTES:
                    answer.stop()
                    break
        found.stopped, found.binary = answer.stopped, answer.binary
        return found

    def _why_stopped(self, stopped: Stop | None) -> list[str]:
        if stopped == "time":
            return [f"stopped after {self.seconds:g} s with what was found until then; narrow path, glob or pattern"]
        return ["cancelled"] if stopped == "cancelled" else []


def _ages(names: list[bytes], directory: int) -> list[tuple[int, bytes]]:
    """(negative modification time, name) of files in a directory; what is gone meanwhile is left out."""
    look = os.stat
    try:
        return [(-look(name, dir_fd=directory, follow_symlinks=False).st_mtime_ns, name) for name in names]
    except OSError:
        found: list[tuple[int, bytes]] = []
        for name in names:
            with contextlib.suppress(OSError):
                found.append((-look(name, dir_fd=directory, follow_symlinks=False).st_mtime_ns, name))
        return found


def _entries(query: Query, answer: Answer) -> Iterator[tuple[str, _Line | None, int]]:
    """(path, line, count) of what a search says: a line, or how many lines match."""
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
            if column > LONGEST_LINE:
                text = f"{_CUT_SHORT.sub('', text)} [... a long line; the match is at byte {column}]"
            yield _name(name), _Line(int(head[1]), column, text), 0


def _name(name: bytes) -> str:
    return os.fsdecode(name.removeprefix(b"./"))


def _by_parts(path: str) -> list[str]:
    return path.split("/")  # the order in which ripgrep's --sort=path goes


def _pick_files(found: _Found, base: str, offset: int, limit: int, counts: bool) -> tuple[list[str], int]:
    """The page's lines, one a file, and how many files they show."""
    names = sorted(found.counts, key=_by_parts)[offset : offset + limit]
    page = _fit(_shown(base, name) + (f":{found.counts[name]}" if counts else "") for name in names)
    return page, len(page)


def _fit(lines: Iterable[str]) -> list[str]:
    """As many lines as a page holds, at least one."""
    page: list[str] = []
    size = 0
    for line in lines:
        size += len(line) + 1
        if size > MOST_CHARACTERS and page:
            break
        page.append(line)
    return page


def _pick_lines(found: _Found, base: str, offset: int, limit: int, context: int) -> tuple[list[str], int]:
    """The page's lines with their context, and how many matches they show."""
    page: list[str] = []
    index = shown = size = 0
    for name in sorted(found.lines, key=_by_parts):
        lines, path = found.lines[name], _shown(base, name)
        wanted: list[int] = []  # line numbers of the page's matches in this file
        for line in lines:
            if line.column:
                if offset <= index < offset + limit and size <= MOST_CHARACTERS:
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


def _what_is_left(query: Query, found: _Found, offset: int, shown: int) -> list[str]:
    """What of the matches the page does not show, and how to get it."""
    unit, end = _UNITS[query.mode], offset + shown
    if not shown or (found.stopped != "enough" and found.matches == shown):
        if query.mode == "count" and len(found.counts) > 1:
            return [f"{sum(found.counts.values()):,} matching lines in {len(found.counts):,} files"]
        return []
    if found.stopped == "enough":
        return [f"{unit} {offset + 1:,} to {end:,}; there are more: offset={end}"]
    more = f": offset={end}" if end < found.matches else ""
    return [f"{unit} {offset + 1:,} to {end:,} of {found.matches:,}{more}"]


def _shown(base: str, name: str) -> str:
    """A path relative to the workspace, on one line whatever it is called."""
    path = name if base == "." else f"{base}/{name}"
    if path.isprintable():
        return path
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in path)


def _page(lines: list[str], notes: list[str]) -> str:
    return "\n".join([*lines, *(f"[{note}]" for note in notes)])


def _no_names(pattern: str, path: str, hidden: bool, no_ignore: bool) -> str:
    text = f"No files match {pattern} in {path}."
    if "/" not in pattern and pattern != "**":
        text += f" (Only files directly in {path} were looked at; **/{pattern} looks below it, too.)"
    elif not (hidden and no_ignore):
        text += " (Hidden files and those in .gitignore were left out; hidden=true and no_ignore=true find them.)"
    return text


def _no_matches(query: Query, path: str, offset: int, matches: int) -> str:
    if matches:
        return f"Nothing at offset {offset}: there are only {matches:,} {_UNITS[query.mode]}."
    text = f"No matches for {query.pattern} in {path}."
    if not query.stdin:
        left_out = ["binary files", "files that hold secrets"]
        left_out += [] if query.hidden else ["hidden files"]
        left_out += [] if query.no_ignore else ["those in .gitignore"]
        text += f" (Not searched: {', '.join(left_out)}.)"
    return text


def _name_filter(glob: str | None) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Patterns to include and to exclude. As in ripgrep, one without a slash fits at any depth."""
    if not glob:
        return (), ()
    excluded = glob.startswith("!")
    pattern = normalize(glob.removeprefix("!").removeprefix("/"))
    if "/" not in glob.removeprefix("!"):
        pattern = f"**/{pattern}"
    patterns = tuple(expand_braces(pattern))
    return ((), patterns) if excluded else (patterns, ())


@contextlib.contextmanager
def _pattern_errors() -> Generator[None]:
    try:
        yield
    except BadPattern as error:
        raise ToolError(str(error)) from None
