"""The tools that read, write, list and delete files of the workspace."""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Mapping
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import Field

from ..boundary.descriptors import LISTED, closing_fd
from ..boundary.path_judgement import judge_path
from ..boundary.read_tree import all_below
from ..boundary.real_path import real_path
from ..boundary.worker_process import FileBytes
from ..boundary.workspace import Workspace, identity
from ..core.context import ToolContext
from ..core.errors import ToolError
from ..core.output import ToolOutput
from ..core.recent import Recent
from ..core.text import in_lines
from ..core.tool import Tool, tool
from ..core.verdict import Judgement, PlannedFile
from ..policy.secrets.redact import may_be_masked
from ..record.journal import Journal
from .document_reading import DocumentRequest
from .encoding import SAMPLE, UTF8, Encoding, detect, is_utf8, named_encoding, not_quite_utf8
from .explain import call_id_of, explained, still_wanted
from .file_kinds import container, described
from .file_pages import Fill, Window, read_window, recoded
from .journaled import MAX_EDIT, JournaledTools, Seen
from .judged_links import JudgedLinks
from .listing import STYLES, DirectoryListing, Hider, ListStyle, hidden_below

if TYPE_CHECKING:
    from ..policy.secrets.redact import Redactor
    from .documents import DocumentReader

DEFAULT_LINES = 2000
MAX_BYTES = 45_000  # of text per page, with line numbers: less than the pipeline's bound of 50,000 characters
MAX_WEIGHED = 20_000  # names counted for the preview of a deletion


class FileTools(JournaledTools):
    """The tools read_file, write_file, list_dir and delete_file for one workspace and its journal."""

    def __init__(
        self,
        workspace: Workspace,
        journal: Journal,
        seen: Seen | None = None,
        *,
        list_style: ListStyle = "plain",
        redactor: Redactor | None = None,
        hider: Hider | None = None,
        documents: DocumentReader | None = None,
    ) -> None:
        super().__init__(workspace, journal, seen, redactor=redactor)
        self._style = STYLES[list_style]
        self._hider = hider
        self._documents = documents
        self._places = Recent[tuple[int, ...], tuple[int, int]](64)
        self._links = JudgedLinks(workspace, hider)
        # what was in folders when a question about them was asked
        self._asked = Recent[tuple[str | None, str], frozenset[tuple[int, str]]](64)

    def tools(self) -> list[Tool]:
        """Return the tools, ready to register."""
        names = {"file_path": "path", "filename": "path"}
        return [
            tool(
                self.read_file,
                category="filesystem_read",
                aliases={**names, "start_line": "offset", "startLine": "offset", "endLine": "end_line"},
                judge=self._judge_read,
                paths={"path": "read"},
                timeout=60.0 if self._documents is None else max(60.0, 2 * self._documents.settings.timeout),
            ),
            tool(
                self.write_file,
                category="filesystem_write",
                idempotent=True,
                aliases={**names, "text": "content"},
                judge=self._judge_write,
                preview=self._preview_write,
                plan=self._plan_write,
                paths={"path": "write"},
            ),
            tool(
                self.list_dir,
                category="filesystem_read",
                aliases={"directory": "path", "dir": "path", "maxEntries": "max_entries"},
                judge=self._judge_read,
                paths={"path": "search"},
            ),
            tool(
                self.delete_file,
                category="destructive",
                aliases=names,
                judge=self._judge_write,
                preview=self._preview_delete,
                paths={"path": "write"},
            ),
        ]

    # read_file

    def read_file(
        self,
        path: str,
        offset: Annotated[int, Field(ge=1)] = 1,
        limit: Annotated[int | None, Field(ge=1)] = None,
        end_line: Annotated[int | None, Field(ge=1)] = None,
        byte_offset: Annotated[int, Field(ge=0)] = 0,
        encoding: str | None = None,
        line_numbers: bool = True,
        pages: str | None = None,
        *,
        ctx: ToolContext,
    ) -> ToolOutput:
        """Read a text file or a document, or look at an image. The footer says how to go on.

        Any lines of a text of any size. PDF, Word, PowerPoint and spreadsheets come as Markdown.

        Args:
            path: File to read, relative to the workspace.
            offset: First line to read, counted from 1.
            limit: How many lines to read at most (default 2000).
            end_line: Last line to read, inclusive, instead of `limit`.
            byte_offset: Where to begin inside line `offset`, for lines too long for one page. A word is shown whole.
            encoding: Encoding of a text; detected if not given.
            line_numbers: Whether each line begins with its number, as in `12| text`.
            pages: Pages of a PDF, slides or sheets, such as "1-3,7" or "5-"; then `offset` counts lines of the first.
        """
        if end_line is not None:
            if limit is not None:
                raise ToolError("give `limit` or `end_line`, not both")
            if end_line < offset:
                raise ToolError(f"end_line {end_line} is before the first line to read ({offset})")
            limit = end_line - offset + 1
        with explained(self.ws, path), closing_fd(self.ws.open_read(path)) as fd:
            shown, st, sample = self.ws.relative(path), os.fstat(fd), os.pread(fd, SAMPLE, 0)
            self._links.check(fd, shown, "read_file")
            as_text = encoding is not None and is_utf8(sample)  # "%PDF-" may also begin a text
            reader = None if as_text else self._documents
            kind = None if reader is None else container(sample, text=detect(sample) is not None)
            if pages and kind is None:
                raise ToolError(f"{path} is read as text, which has no pages; use offset and limit")
            self.seen.note(ctx.session_id, shown, identity(st))
            if reader is not None and kind is not None:
                wanted = DocumentRequest(pages or None, offset, limit, MAX_BYTES)
                file = FileBytes(fd, st.st_size)
                return reader.read_output(file, kind, shown, wanted, lambda: ctx.cancelled)
            found = _encoding(st, sample, encoding, shown)
            if not sample:
                return ToolOutput(f"({shown} is empty)")
            self._refuse_disguise(fd, found, sample, shown)
            window = self._window(fd, found, offset, limit or DEFAULT_LINES, byte_offset, ctx)
        text, note = _render(window, found, sample, line_numbers)
        return ToolOutput("\n".join(part for part in (text, note, _footer(window)) if part))

    def _window(self, fd: int, found: Encoding, offset: int, limit: int, byte_offset: int, ctx: ToolContext) -> Window:
        def read(buffer: bytearray) -> int:
            still_wanted(ctx)
            return os.readv(fd, [buffer])

        # The end of the previous page: a read that starts there does not count the lines again.
        key, start = identity(os.fstat(fd)), (1, len(found.bom))
        if found.plain and self._places.get(key, start)[0] <= offset:
            start = self._places.get(key, start)
        os.lseek(fd, start[1], os.SEEK_SET)
        fill: Fill = read if found.plain else recoded(read, found.name)
        window = read_window(fill, offset, limit, max_bytes=MAX_BYTES, byte_offset=byte_offset, start=start)
        if found.plain and window.next is not None and window.position is not None:
            self._places[key] = (window.next[0], window.position)
        return window

    # write_file

    def write_file(self, path: str, content: str, *, ctx: ToolContext) -> str:
        """Write a whole text file (UTF-8), creating or replacing it. Directories above it are made.

        Args:
            path: File to write, relative to the workspace.
            content: The whole new content.
        """
        shown = self.ws.relative(path)
        data, changed = UTF8.encode(content), False
        with explained(self.ws, path):
            with contextlib.suppress(FileNotFoundError):
                changed = self.seen.changed(ctx.session_id, shown, identity(self.ws.lstat(path)))
            if self._redactor is not None and may_be_masked(content):
                with contextlib.suppress(OSError):
                    self._refuse_masks(self._current(path)[0] or "", content, shown)
            self._write(path, data, "write_file", ctx)
        note = "\nNote: the file had changed since it was last read here; this change is overwritten" if changed else ""
        return f"Successfully wrote {len(data)} bytes to {shown}{note}"

    def _current(self, path: str) -> tuple[str | None, int]:
        """Return the text of a file and its size; no text if it is binary or too large. Raises OSError or ToolError."""
        fd = self.ws.open_read(path)
        with open(fd, "rb") as file:
            size = os.fstat(fd).st_size
            found = detect(os.pread(fd, SAMPLE, 0)) if size <= MAX_EDIT else None
            return None if found is None else found.decode(file.read()), size

    # list_dir

    def list_dir(
        self,
        path: str = ".",
        recursive: bool = False,
        max_entries: Annotated[int, Field(ge=1, le=10_000)] = 200,
        *,
        ctx: ToolContext,
    ) -> str:
        """List a directory, sorted: `name/` is a directory, `name@` a link.

        Args:
            path: Directory to list, relative to the workspace.
            recursive: Whether to list what is below, too; paths are then relative to the workspace.
            max_entries: How many entries to list at most.
        """
        with explained(self.ws, path), closing_fd(self.ws.open_dir(path)) as fd:
            shown = self.ws.relative(path)
            self._links.check(fd, shown, "list_dir")
            hides = hidden_below(self._hider, "list_dir", self.ws, path, fd)
            listing = DirectoryListing(self._style, max_entries, hides)
            listing.walk(fd, ("" if shown == "." else shown + "/") if recursive else "", recursive, ctx)
        return listing.text(shown)

    # delete_file

    def delete_file(self, path: str, recursive: bool = False, *, ctx: ToolContext) -> str:
        """Delete a file or, with `recursive`, a directory. It goes to a trash outside the workspace and can be undone.

        Args:
            path: File or directory to delete, relative to the workspace. A link itself is deleted, not its target.
            recursive: Whether a directory may be deleted with all that is in it.
        """
        shown = self.ws.relative(path)
        call = call_id_of(ctx, self.journal)
        with explained(self.ws, path):
            st = self._to_delete(path, recursive)
            asked = self._asked.pop((ctx.session_id, shown), None)
            trashed = self._trash(path, "delete_file", ctx, call)
            if asked is not None and _grew(trashed, asked):
                from ..record.undoing import undo

                undo(self.journal, call, force=True)
                raise ToolError(f"{shown} was not deleted: more is in it than the question showed; try again")
        return (
            f"Deleted {shown}{'/' if stat.S_ISDIR(st.st_mode) else ''} (moved to the trash; undo: toolcrib undo {call})"
        )

    def _to_delete(self, path: str, recursive: bool) -> os.stat_result:
        """Return what is to be deleted. Raises OSError or ToolError for what cannot be."""
        st, shown = self.ws.lstat(path), self.ws.relative(path)
        if not self.ws.locate(path).parts:
            raise ToolError(f"{shown} is the root of a granted directory and stays; delete what is in it, by name")
        if stat.S_ISDIR(st.st_mode) and not recursive:
            raise ToolError(f"{shown} is a directory; pass recursive=true to delete it with all that is in it")
        return st

    # Before a call

    def _judge_read(self, args: Mapping[str, Any], ctx: ToolContext) -> Judgement | None:
        path = str(args.get("path", "."))
        return self._links.note(path, judge_path(self.ws, path))

    def _judge_write(self, args: Mapping[str, Any], ctx: ToolContext) -> Judgement | None:
        path = str(args["path"])
        return judge_path(self.ws, path, read=False, write=True) or self._judge_size(path)

    def _preview_write(self, args: Mapping[str, Any], ctx: ToolContext) -> str:
        from .diffs import bounded_diff

        path, content = str(args["path"]), str(args["content"])
        shown = self.ws.relative(path)
        try:
            old, size = self._current(path)
        except FileNotFoundError:
            return bounded_diff(None, content, shown)
        except (OSError, ToolError) as error:
            return f"write to {shown} ({error})\n{bounded_diff(None, content, shown)}"
        if old is None:
            return f"replace {shown} ({size:,} bytes that are not shown) by\n{bounded_diff(None, content, shown)}"
        return bounded_diff(old, content, shown) or f"{shown}: no change"

    def _plan_write(self, args: Mapping[str, Any], ctx: ToolContext) -> list[PlannedFile]:
        path, after = str(args["path"]), UTF8.encode(str(args["content"]))
        try:
            before = self._read_whole(path, "shown")[0]
        except FileNotFoundError:
            before = None
        return [PlannedFile(self.ws.relative(path), before, after)]

    def _preview_delete(self, args: Mapping[str, Any], ctx: ToolContext) -> str:
        path = str(args["path"])
        shown = self.ws.relative(path)
        try:
            with explained(self.ws, path):
                st = self._to_delete(path, args.get("recursive") is True)
        except ToolError as error:
            hides = hidden_below(self._hider, "list_dir", self.ws, ".")
            if hides is None or not (hides(shown) or hides(real_path(self.ws.root / shown))):
                raise
            return f"delete {shown} ({error})"  # what is there is not for the model to know
        if stat.S_ISLNK(st.st_mode):
            return f"delete the link {shown} (what it points to stays)"
        if not stat.S_ISDIR(st.st_mode):
            others = f"; {st.st_nlink - 1} other names of it stay" if st.st_nlink > 1 else ""
            return f"delete {shown} ({st.st_size:,} bytes{others})"
        with closing_fd(self.ws.open_dir(shown)) as fd:
            listing = DirectoryListing(STYLES["plain"], 50)
            listing.walk(fd, shown + "/", True, ctx)
            self._asked[ctx.session_id, shown] = _entries(fd)
            return f"delete {shown}/ and all that is in it: {_weigh(fd)}\n{listing.text(shown)}"


def _entries(fd: int) -> frozenset[tuple[int, str]]:
    """Return everything under an open folder, up to MAX_WEIGHED: a hash of its folder's path, and its name."""
    return frozenset((folder, name) for folder, name, _ in islice(all_below(fd), MAX_WEIGHED))


def _grew(folder: Path, shown: frozenset[tuple[int, str]]) -> bool:
    """Return whether more is in a folder than what a question showed. (If that was too much to list, it said so.)"""
    if len(shown) >= MAX_WEIGHED:
        return False
    with closing_fd(os.open(folder, LISTED)) as fd:
        return not _entries(fd) <= shown


def _weigh(fd: int) -> str:
    """Count the files, folders and bytes under an open folder, up to MAX_WEIGHED names."""
    files = folders = size = 0
    for _, _, st in all_below(fd):
        if stat.S_ISDIR(st.st_mode):
            folders += 1
        else:
            files += 1
            size += st.st_size
        if files + folders > MAX_WEIGHED:
            return f"more than {files:,} files and {folders:,} folders, {size:,} bytes and more"
    return f"{files:,} files, {folders:,} folders, {size:,} bytes"


def _render(window: Window, found: Encoding, sample: bytes, line_numbers: bool) -> tuple[str, str]:
    """Return the lines as text, and a note if some bytes did not fit the encoding."""
    raw, note = b"\n".join(window.lines), ""
    codec = found.name if found.plain else "utf-8"
    try:
        text = raw.decode(codec)
        bad = not found.plain and "\ufffd" in text  # `recoded` has replaced the bad bytes
    except UnicodeDecodeError:
        text, bad = raw.decode(codec, "replace"), True
    if bad:
        note = f"(some bytes are not valid {found.name.upper()}; they are shown as \ufffd)"
        other = not_quite_utf8(raw)
        if found == UTF8 and other != UTF8 and is_utf8(sample):
            text = raw.decode(other.name)
            note = f"(not valid UTF-8; shown as {other.name}, which is a guess)"
    if found.guess:
        note = f"(not valid UTF-8; shown as {found.name}, which is a guess; pass encoding= if it is another)"
    lines = text.replace("\r\n", "\n").removesuffix("\r").split("\n") if window.lines else []
    if line_numbers:
        lines = [f"{number}| {line}" for number, line in enumerate(lines, window.first)]
    return "\n".join(lines), note


def _footer(window: Window) -> str:
    last = window.first + len(window.lines) - 1
    if window.next is None:
        return f"(End of file - {in_lines(window.total or 0)} in all.)"
    line, into = window.next
    if into and line == window.first:
        shown = f"bytes {window.skipped:,}-{into:,} of line {line}, which is longer than one page"
        return f"(Showing {shown}. Use offset={line} byte_offset={into} to continue.)"
    return f"(Showing lines {window.first}-{last}. Use offset={line} to continue.)"


def _encoding(st: os.stat_result, sample: bytes, asked: str | None, shown: str) -> Encoding:
    if asked is not None:
        return named_encoding(asked, sample)
    found = detect(sample)
    if found is None:
        kind = described(sample)
        raise ToolError(
            f"{shown} is a binary file ({st.st_size:,} bytes{f', {kind}' if kind else ''}), not text. "
            "Pass encoding='latin-1' to see its bytes as characters all the same"
        )
    return found
