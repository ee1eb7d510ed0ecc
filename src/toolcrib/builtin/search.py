"""The tools `glob` and `grep`: they find files by name and by content, with ripgrep."""

from __future__ import annotations

import contextlib
import functools
import heapq
import os
import stat
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import Field

from ..boundary.descriptors import closing_fd
from ..boundary.filename_globs import expand_braces, normalize, split_prefix
from ..boundary.path_judgement import judge_path
from ..boundary.read_only_run import Haystack, Stop
from ..boundary.ripgrep import Mode, Query, Ripgrep, find_ripgrep, is_meant
from ..boundary.sensitive_names import sensitive_by
from ..boundary.workspace import Workspace
from ..core.context import ToolContext
from ..core.errors import OutsideWorkspace, ToolError
from ..core.output import ToolOutput
from ..core.tool import Access, Tool, tool
from ..core.verdict import Judgement
from .explain import explained
from .judged_links import JudgedLinks
from .listing import Hider, hidden_below
from .search_page import (
    FoundLines,
    entries,
    fit,
    join_page,
    no_matches,
    no_names,
    pick_files,
    pick_lines,
    shown_path,
    what_is_left,
)

if TYPE_CHECKING:
    from ..boundary.file_search import SearchResults

OutputMode = Literal["files_with_matches", "content", "count"]

SECONDS = 20.0  # a search that takes longer returns the matches that it found until then
# A search holds at most this many matches and sorts them afterwards. If there are more, it runs again on one thread, in
# the order of paths, and stops at the end of the page. So the pages do not depend on the timing of threads.
MAX_SORTED = 2_000
MAX_HELD = 100_000  # names in addition to the wanted ones, before the oldest are dropped
MAX_BYTES = 16 << 20  # bytes of lines that are held, with their context

_MODES: Mapping[OutputMode, Mode] = {"files_with_matches": "files", "content": "lines", "count": "count"}


class SearchTools:
    """The tools `glob` and `grep` for a workspace. `ripgrep` is a configured path; None searches for one.

    `hider` says which files under a directory are hidden from the tool with a given name.
    """

    def __init__(
        self, workspace: Workspace, *, ripgrep: str | None = None, seconds: float = SECONDS, hider: Hider | None = None
    ) -> None:
        self.workspace = workspace
        self.seconds = seconds
        self._hider = hider
        self._configured = ripgrep
        self._links = JudgedLinks(workspace, hider)

    @functools.cached_property
    def ripgrep(self) -> Ripgrep | None:
        """The ripgrep in use. None: the slower replacement in Python is used."""
        return find_ripgrep(self._configured, writable=self.workspace.writable)

    def tools(self) -> list[Tool]:
        """Return both tools."""
        return [
            tool(
                self.glob,
                category="filesystem_read",
                judge=self._judge_glob,
                timeout=self.seconds + 10,
                paths=_glob_paths,
            ),
            tool(
                self.grep,
                category="filesystem_read",
                aliases={"head_limit": "limit", "query": "pattern", "include": "glob", "-i": "ignore_case"},
                judge=self._judge_grep,
                paths={"path": "search"},
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
            haystack: Haystack | None = self._directory(path, stack, "glob")
            if prefix:
                try:
                    haystack = self._directory(where, stack, "glob")
                except OutsideWorkspace:
                    raise
                except ToolError:
                    haystack = None  # no such directory: nothing matches
            if haystack is not None:
                newest, total, stopped = self._newest(query, haystack, where, limit, ctx)
        if not newest:
            return ToolOutput(
                join_page([no_names(pattern, path, hidden, no_ignore)], self._why_stopped(stopped, False))
            )
        base = self.workspace.relative(where)
        page = fit(shown_path(base, name) for name in newest)
        notes = [f"{len(page):,} of {total:,} files, newest first"] if total > len(page) else []
        return ToolOutput(join_page(page, [*notes, *self._why_stopped(stopped, True)]))

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
        if "\0" in f"{pattern}{glob}":
            raise ToolError("a pattern cannot contain a NUL character")
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
            if single:  # the caller named this file: filters by name do not apply to it
                query = replace(query, include=(), exclude=(), type=None, stdin=True)
            found = self._collect(query, haystack, path, MAX_SORTED, 0, ctx)
            if found.stopped == "enough":  # the lines of one file are already in order
                query = replace(query, in_order=not single)
                found = self._collect(query, haystack, path, offset + limit + 1, offset, ctx)
        if found.binary:
            return ToolOutput(f"{path} is a binary file, and it has a match. exec can look into it.")
        base = "." if single else self.workspace.relative(path)
        if query.mode == "lines":
            page, shown = pick_lines(found, base, offset - found.skipped, limit, context)
        else:
            page, shown = pick_files(found, base, offset - found.skipped, limit, query.mode == "count")
        notes = [*what_is_left(query, found, offset, shown), *self._why_stopped(found.stopped, found.matches > 0)]
        if not page:
            page = [no_matches(query, path, offset, found.matches)]
        return ToolOutput(join_page(page, notes))

    # Before the call runs

    def left_out(self, args: Mapping[str, Any], ctx: ToolContext) -> str | None:
        """Return a file that `grep` would leave out with these arguments, and that other programs would search: its
        name means secrets, or a rule is about it."""
        path = str(args.get("path", "."))
        include, exclude = _name_filter(args.get("glob"))
        no_ignore = bool(args.get("no_ignore"))
        query = Query("names", include=include, exclude=exclude, hidden=True, no_ignore=no_ignore, require_git=True)
        meant, hides = is_meant(query), hidden_below(self._hider, "grep", self.workspace, path)
        with contextlib.ExitStack() as stack:
            if not stat.S_ISDIR(self.workspace.stat(path).st_mode):
                return None
            haystack = self._directory(path, stack)
            real = self.workspace.name_of(haystack.directory) or self.workspace.real(path)
            real = os.path.normpath(os.path.join(self.workspace.root, real))  # some names mean secrets by their folder
            # git, with which Gemini CLI searches, reads no .ignore
            for look in [query] if no_ignore else [query, replace(query, no_ignore_dot=True)]:
                with self._search(look, haystack, ctx) as answer:
                    for name in (os.fsdecode(name) for names in answer.names() for name in names):
                        if meant is not None and not meant(name):
                            continue
                        if sensitive_by(f"{real}/{name}") is not None or (hides is not None and hides(name)):
                            return shown_path(self.workspace.relative(path), name)
        return None

    def _judge_glob(self, args: Mapping[str, Any], ctx: ToolContext) -> Judgement | None:
        found = judge_path(self.workspace, where := _glob_paths(args)[0][0], read=False)
        for each in (str(args.get("path") or "."), where):
            self._links.note(each, found)
        return found

    def _judge_grep(self, args: Mapping[str, Any], ctx: ToolContext) -> Judgement | None:
        path = str(args.get("path", "."))
        return self._links.note(path, judge_path(self.workspace, path))  # naming a secret file needs an approval

    # Where to search

    def _directory(self, path: str, stack: contextlib.ExitStack, tool: str = "grep") -> Haystack:
        with explained(self.workspace, path):
            directory = stack.enter_context(closing_fd(self.workspace.open_dir(path)))
            self._links.check(directory, path, tool)
        place = self.workspace.locate(path)
        if not place.parts:
            return Haystack(directory, (), self._ignore_files)
        # ignore files between the root and the directory count, too
        root = stack.enter_context(closing_fd(self.workspace.open_dir(place.root.path)))
        return Haystack(directory, (root,), self._ignore_files)

    def _file_or_directory(self, path: str, stack: contextlib.ExitStack) -> Haystack:
        with explained(self.workspace, path):
            if stat.S_ISDIR(self.workspace.stat(path).st_mode):
                return self._directory(path, stack)
            descriptor = stack.enter_context(closing_fd(self.workspace.open_read(path)))
        self._links.check(descriptor, path, "grep")
        return Haystack(self._directory(".", stack).directory, stdin=descriptor)

    @functools.cached_property
    def _ignore_files(self) -> tuple[str, ...]:
        """The ignore files above the workspace. They count if the workspace is part of a larger repository."""
        found: list[str] = []
        folder = self.workspace.root
        while not (folder / ".git").exists() and folder != folder.parent:
            folder = folder.parent
            found += [str(folder / name) for name in (".gitignore", ".ignore", ".rgignore")]
        return tuple(found) if (folder / ".git").exists() else ()

    # Searching

    def _search(
        self, query: Query, haystack: Haystack, ctx: ToolContext
    ) -> contextlib.AbstractContextManager[SearchResults]:
        from ..boundary.file_search import search

        return search(query, haystack, ripgrep=self.ripgrep, seconds=self.seconds, cancelled=lambda: ctx.cancelled)

    def _newest(
        self, query: Query, haystack: Haystack, path: str, limit: int, ctx: ToolContext
    ) -> tuple[list[str], int, Stop | None]:
        """Return the paths of the newest files, the number of all files, and the reason if the search ended early."""
        meant, total = is_meant(query), 0
        hides = hidden_below(self._hider, "glob", self.workspace, path, haystack.directory)
        found: list[tuple[int, bytes]] = []
        with self._search(query, haystack, ctx) as answer:
            for names in answer.names():
                if meant is not None:
                    names = [name for name in names if meant(os.fsdecode(name))]
                if hides is not None:
                    names = [name for name in names if not hides(os.fsdecode(name))]
                ages = _ages(names, haystack.directory)
                total += len(ages)
                found += ages
                if len(found) > limit + MAX_HELD:
                    found = heapq.nsmallest(limit, found)
        return [os.fsdecode(name) for _, name in heapq.nsmallest(limit, found)], total, answer.stopped

    def _collect(
        self, query: Query, haystack: Haystack, path: str, most: int, skip: int, ctx: ToolContext
    ) -> FoundLines:
        """Return the matches, at most `most` of them. Files with secrets are left out.

        In a search with ordered results, the first `skip` matches are counted but not held.
        """
        found, size = FoundLines(), 0
        real = self.workspace.name_of(haystack.directory) or self.workspace.real(path)  # of what is open, if known
        meant = is_meant(query)
        own_name = self.workspace.relative(path)
        hides = None if query.stdin else hidden_below(self._hider, "grep", self.workspace, path, haystack.directory)
        if haystack.stdin is not None:
            os.lseek(haystack.stdin, 0, os.SEEK_SET)  # for the second search
        with self._search(query, haystack, ctx) as answer:
            for name, line, count in entries(query, answer):
                if query.stdin:
                    name = own_name
                elif (meant is not None and not meant(name)) or sensitive_by(f"{real}/{name}") is not None:
                    continue
                if hides is not None and hides(name):
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
                if size > MAX_BYTES:
                    answer.stop()
                    break
        found.stopped, found.binary = answer.stopped, answer.binary
        return found

    def _why_stopped(self, stopped: Stop | None, found: bool) -> list[str]:
        if stopped == "time":
            most = f"stopped after {self.seconds:g} s with what was found until then; narrow path, glob or pattern"
            return [most if found else f"{most} (if a .gitignore is a FIFO, that holds a search up: no_ignore=true)"]
        return ["cancelled"] if stopped == "cancelled" else []


def _ages(names: list[bytes], directory: int) -> list[tuple[int, bytes]]:
    """Return (negative modification time, name) of files in a directory. Files that are gone meanwhile are left out."""
    found: list[tuple[int, bytes]] = []
    for name in names:
        try:
            found.append((-os.stat(name, dir_fd=directory, follow_symlinks=False).st_mtime_ns, name))
        except OSError:
            continue
    return found


def _glob_paths(args: Mapping[str, Any]) -> list[tuple[str, Access]]:
    """Return the path where `glob` begins: its `path` and the plain directories at the front of its pattern."""
    pattern, path = str(args.get("pattern", "")), str(args.get("path") or ".")
    prefix = split_prefix(pattern)[0]
    return [(prefix or "/" if pattern.startswith("/") else f"{path}/{prefix}" if prefix else path, "search")]


def _name_filter(glob: str | None) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the patterns to include and to exclude. As in ripgrep, a pattern without a slash fits at any depth."""
    if not glob:
        return (), ()
    excluded = glob.startswith("!")
    pattern = normalize(glob.removeprefix("!").removeprefix("/"))
    if "/" not in glob.removeprefix("!"):
        pattern = f"**/{pattern}"
    patterns = tuple(expand_braces(pattern))
    return ((), patterns) if excluded else (patterns, ())
