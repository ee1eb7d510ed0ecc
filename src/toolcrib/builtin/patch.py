"""The tool that applies a patch to several files: to all of them, or to none if one fails."""

from __future__ import annotations

import itertools
import stat
from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from ..boundary.path_judgement import judge_path, made_by
from ..boundary.workspace_paths import Identity, identity
from ..core.context import ToolContext
from ..core.dataclass import dataclass
from ..core.errors import ToolError
from ..core.tool import Access, Tool, tool
from ..core.verdict import Judgement, PlannedFile, all_of
from .encoding import UTF8, whole_text
from .explain import call_id_of, explained, still_wanted
from .journaled import MAX_EDIT, JournaledTools
from .matching import line_end

if TYPE_CHECKING:
    from .patch_format import FilePatch, Hunk

RULE_DELETES = "patch:deletes"
RULE_EXECUTABLE = "patch:executable"
MAX_PATCHED = 2 * MAX_EDIT  # bytes of all files of a patch; a file counts each time that it is named


@dataclass(slots=True)
class _File:
    """One path while a patch is computed: its content on disk and its new content. None: it does not exist."""

    disk: bytes | None
    disk_mode: int | None
    identity: Identity | None
    data: bytes | None
    mode: int | None


def _parsed(args: Mapping[str, Any]) -> list[FilePatch]:
    from .patch_format import parse_patch

    try:
        return parse_patch(str(args.get("patch", "")))
    except ToolError:
        return []  # the call will fail with a clear message, and change nothing


def paths_of(args: Mapping[str, Any]) -> list[tuple[str, Access]]:
    """Return every path that a patch names. A changed path counts as read, too: if a hunk does not fit, the error
    shows content of the file."""
    return [(path, "edit" if patch.reads else "write") for patch in _parsed(args) for path in patch.names]


class PatchTools(JournaledTools):
    """The tool apply_patch for one workspace and its journal."""

    def tools(self) -> list[Tool]:
        """Return the tool, ready to register."""
        return [
            tool(
                self.apply_patch,
                category="filesystem_write",
                destructive=True,  # a patch can delete files, to the trash
                aliases={"input": "patch", "diff": "patch", "patch_text": "patch", "patchText": "patch"},
                judge=self._judge,
                paths=paths_of,
                preview=self._preview,
                plan=self._plan,
            )
        ]

    def apply_patch(self, patch: str, *, ctx: ToolContext) -> str:
        """Change several files at once with a patch; either all of it applies or nothing is changed.

        Two formats are understood. `*** Begin Patch`, then for each file `*** Update File: path` (with `@@ line` to
        say where, and lines that begin with a blank, `-` or `+`), `*** Add File: path` (every line with `+`) or
        `*** Delete File: path`, then `*** End Patch`. Or a unified diff as git writes it.

        Args:
            patch: The patch text.
        """
        files, notes = self._work_out(patch, ctx)
        changes = {path: f for path, f in files.items() if f.data != f.disk or (f.data is not None and _remode(f))}
        if not changes:
            raise ToolError("the patch changes nothing: the files are like that already")
        by_others = [p for p, f in changes.items() if f.identity and self.seen.changed(ctx.session_id, p, f.identity)]
        call = call_id_of(ctx, self.journal)
        self._commit(changes, call, ctx)
        lines = [f"{_letter(f)} {path}" for path, f in changes.items()]
        lines += [*notes, *(f"Note: {path} had changed since it was last read" for path in by_others)]
        return "\n".join([f"Applied the patch to {len(changes)} file{'s' if len(changes) != 1 else ''}:", *lines])

    def _commit(self, changes: dict[str, _File], call: str, ctx: ToolContext) -> None:
        begun = False
        try:
            # Writes come first: a rename must not lose the file if the new name cannot be written.
            for path, file in sorted(changes.items(), key=lambda item: item[1].data is None):
                with explained(self.ws, path):
                    begun = True
                    if file.data is None:
                        if file.identity is None or identity(self.ws.lstat(path)) != file.identity:
                            raise ToolError(f"{path} has changed since you read it; read it again")
                        self._trash(path, "apply_patch", ctx, call)
                        continue
                    mode, new = file.mode if _remode(file) else None, file.identity is None
                    self._write(
                        path, file.data, "apply_patch", ctx, call=call, mode=mode, expect=file.identity, must_be_new=new
                    )
        except BaseException as error:
            if begun and self.journal.changes(call, limit=1):
                from ..record.undoing import undo

                try:
                    undo(self.journal, call, force=True)
                except Exception as kept:  # a full disk
                    left = f"a part of the patch was applied and could not be taken back: {kept}"
                    raise ToolError(f"{error} ({left}; `toolcrib undo {call}` does that)") from error
            if isinstance(error, ToolError):
                raise ToolError(f"{error} (no part of the patch was applied)") from None
            raise

    # Computing the new content of the files, without touching them

    def _work_out(self, patch: str, ctx: ToolContext) -> tuple[dict[str, _File], list[str]]:
        from .patch_format import parse_patch

        files: dict[str, _File] = {}
        notes: list[str] = []
        size = 0
        for each in parse_patch(patch):
            path = self._path_of(each, files)
            file = self._load(path, files)
            if (size := size + len(file.data or b"")) > MAX_PATCHED:
                raise ToolError(f"the files of the patch are too large: at most {MAX_PATCHED:,} bytes in all")
            if each.action == "add":
                self._add(each, path, file)
            elif each.action == "delete":
                self._delete(each, path, file, notes, ctx)
            else:
                self._update(each, path, files, notes, ctx)
        return files, notes

    def _path_of(self, patch: FilePatch, files: dict[str, _File]) -> str:
        """Return the path of the file: without git's `a/` and `b/`, unless only the name with them exists."""
        path = self.ws.relative(patch.path)
        if patch.other is None or patch.other == patch.path or patch.action == "add":
            return path
        if path in files or self.ws.exists(path) or not self.ws.exists(patch.other):
            return path
        patch.new_path = None
        return self.ws.relative(patch.other)

    def _load(self, path: str, files: dict[str, _File]) -> _File:
        if path not in files:
            with explained(self.ws, path):
                files[path] = self._from_disk(path)
        return files[path]

    def _from_disk(self, path: str) -> _File:
        try:
            st = self.ws.lstat(path)
        except FileNotFoundError:
            return _File(None, None, None, None, None)
        if stat.S_ISLNK(st.st_mode):
            raise ToolError(f"{path} is a link; name the file it leads to")
        data, st = self._read_whole(path, "patched")
        mode = stat.S_IMODE(st.st_mode) & 0o777
        return _File(data, mode, identity(st), data, mode)

    def _add(self, patch: FilePatch, path: str, file: _File) -> None:
        if file.data is not None:
            raise ToolError(f"{path} exists already; change it with '*** Update File', or delete it first")
        lines, open_end = patch.added_lines()
        text = "\n".join(lines) + ("" if open_end or not lines else "\n")
        file.data, file.mode = UTF8.encode(text), patch.mode

    def _delete(self, patch: FilePatch, path: str, file: _File, notes: list[str], ctx: ToolContext) -> None:
        if file.data is None:
            raise ToolError(f"{path} cannot be deleted: it does not exist")
        if patch.hunks:
            text, encoding = whole_text(file.data, path)
            if encoding.encode(_apply(text, patch.hunks, path, notes, ctx)) != encoding.bom:
                raise ToolError(f"{path} has more in it than the patch deletes; it was left alone")
        file.data = None

    def _update(self, patch: FilePatch, path: str, files: dict[str, _File], notes: list[str], ctx: ToolContext) -> None:
        file = files[path]
        if file.data is None:
            with explained(self.ws, path):
                raise FileNotFoundError(path)
        data, mode = file.data, patch.mode if patch.mode is not None else file.mode
        if patch.hunks:
            text, encoding = whole_text(data, path)
            for hunk in patch.hunks:  # before the search for the hunks: a masked line of context is not in the file
                self._refuse_masks(text, "\n".join(line[1:] for line in hunk.lines), path)
            new = _apply(text, patch.hunks, path, notes, ctx)
            self._refuse_masks(text, new, path)
            data = encoding.encode(new)
        if patch.new_path is not None and self.ws.relative(patch.new_path) != path:
            target_path = self.ws.relative(patch.new_path)
            target = self._load(target_path, files)
            if target.data is not None:
                raise ToolError(f"{path} cannot be moved to {target_path}: that exists already")
            target.data, target.mode = data, mode
            if not patch.copy:
                file.data = None
            return
        file.data, file.mode = data, mode

    # Before a call

    def _judge(self, args: Mapping[str, Any], ctx: ToolContext) -> Judgement | None:
        found: list[Judgement] = []
        patches = _parsed(args)
        along = made_by(self.ws, (name for patch in patches for name in patch.names))
        for patch in patches:
            for path in patch.names:
                verdict = judge_path(self.ws, path, read=patch.reads, write=True, along=along)
                if verdict is not None and (path != patch.other or verdict.verdict != "deny"):
                    found.append(verdict)
            if patch.action == "delete":
                found.append(Judgement("ask", f"the patch deletes {patch.path}", RULE_DELETES))
            if patch.mode is not None and patch.mode & 0o111:
                found.append(Judgement("ask", f"the patch makes {patch.path} executable", RULE_EXECUTABLE))
        return next((each for each in found if each.verdict == "deny"), None) or all_of(found)

    def _plan(self, args: Mapping[str, Any], ctx: ToolContext) -> list[PlannedFile]:
        files, _ = self._work_out(str(args["patch"]), ctx)
        return [PlannedFile(path, file.disk, file.data) for path, file in files.items() if file.data != file.disk]

    def _preview(self, args: Mapping[str, Any], ctx: ToolContext) -> str:
        from .diffs import bounded_diff

        try:
            files, _ = self._work_out(str(args["patch"]), ctx)
        except ToolError as error:
            return f"the patch will fail: {error}"
        shown: list[str] = []
        for path, file in files.items():
            old, new = _for_show(file.disk), _for_show(file.data)
            if _remode(file) and file.data is not None and file.mode is not None:
                shown.append(f"mode of {path}: {file.mode:o}")
            if file.data is None and file.disk is not None:
                shown.append(f"delete {path} ({len(file.disk):,} bytes)")
            elif (old is None and file.disk is not None) or new is None:
                shown.append(f"write {path} ({len(file.data or b''):,} bytes, not text)")
            else:
                shown.append(bounded_diff(old, new, path))
        return "\n".join([*_outline(files), *(part for part in shown if part)])


def _outline(files: Mapping[str, _File]) -> list[str]:
    """Return one line that names all files of a patch, deleted files first, so that long diffs cannot hide one."""
    if len(files) < 2:
        return []
    order = sorted(files.items(), key=lambda item: "DAM".find(_letter(item[1])))
    return [f"{len(files)} files: " + ", ".join(f"{_letter(file)} {path}" for path, file in order)]


def _remode(file: _File) -> bool:
    return file.mode is not None and file.mode != file.disk_mode


def _letter(file: _File) -> str:
    return "A" if file.disk is None else "D" if file.data is None else "M"


def _for_show(data: bytes | None) -> str | None:
    try:
        return None if data is None else whole_text(data, "")[0]
    except ToolError:
        return None


# Applying hunks to one text

_Form = Callable[[str], str]
# From exact to tolerant; context lines keep the bytes of the file.
_FORMS: tuple[tuple[str, _Form], ...] = (
    ("", lambda line: line),
    ("trailing blanks", str.rstrip),
    ("blanks", lambda line: " ".join(line.split())),
)


def _apply(text: str, hunks: list[Hunk], path: str, notes: list[str], ctx: ToolContext) -> str:
    ends = line_end(text)
    closed = text.endswith("\n") or not text
    lines = text.removesuffix("\n").split("\n") if text else []
    bare = [line.removesuffix("\r") for line in lines]
    if ends == "\r\n" and not closed:
        lines[-1] += "\r"  # because lines may be added after it
    out: list[str] = []
    position = drift = 0
    searched = _Searched(bare)
    for number, hunk in enumerate(hunks, 1):
        still_wanted(ctx)
        at, form = _find(searched, hunk, position, drift, f"hunk {number} for {path}", text, path)
        if form:
            notes.append(f"Hunk {number} for {path} applied without comparing {form}")
        if hunk.line is not None:
            drift = at - (hunk.line - 1)
        out += lines[position:at]
        position = at
        for line in hunk.lines:
            if line[0] == "+":
                out.append(line[1:] + ("\r" if ends == "\r\n" else ""))
                continue
            if line[0] == " ":
                out.append(lines[position])
            position += 1
        if position == len(lines) and (hunk.old_open or hunk.new_open):
            closed = not hunk.new_open
    out += lines[position:]
    if not out:
        return ""
    result = "\n".join(out)
    return result + "\n" if closed else result.removesuffix("\r")


class _Searched:
    """The lines of a file as one text for each form, made once for all hunks: `str.find` takes linear time."""

    def __init__(self, lines: list[str]) -> None:
        self.lines = lines
        self._texts: dict[_Form, tuple[str, list[int]]] = {}

    def _text(self, form: _Form) -> tuple[str, list[int]]:
        """Return the text, in which a line break comes before each line, and where the line breaks are."""
        if form not in self._texts:
            formed = [form(line) for line in self.lines]
            starts = [*itertools.accumulate((len(line) + 1 for line in formed), initial=0)]
            self._texts[form] = "\n".join(["", *formed, ""]), starts
        return self._texts[form]

    def places(self, form: _Form, wanted: list[str], begin: int) -> Iterator[int]:
        """Yield the places of the wanted lines from line `begin` on."""
        text, starts = self._text(form)
        part = _part(form, wanted)
        at = text.find(part, starts[begin])
        while at >= 0:
            yield bisect_left(starts, at)
            at = text.find(part, at + 1)

    def nearest(self, form: _Form, wanted: list[str], begin: int, expected: int) -> int | None:
        """Return the place of the wanted lines that is nearest to a line; of two the first."""
        text, starts = self._text(form)
        part, middle = _part(form, wanted), starts[min(max(expected, begin), len(self.lines))]
        offsets = text.rfind(part, starts[begin], middle + len(part) - 1), text.find(part, middle)
        found = [bisect_left(starts, at) for at in offsets if at >= 0]
        return min(found, key=lambda at: abs(at - expected), default=None)


def _part(form: _Form, wanted: list[str]) -> str:
    return "\n".join(["", *map(form, wanted), ""])


def _find(searched: _Searched, hunk: Hunk, start: int, drift: int, what: str, text: str, path: str) -> tuple[int, str]:
    """Return where the hunk's old lines begin, and which differences the search ignored."""
    begin, count = start, len(searched.lines)
    for anchor in hunk.anchors:
        begin = _after_anchor(searched, anchor, begin, start, what)
    old = hunk.old
    if not old:
        if hunk.line is not None:
            return min(max(hunk.line - 1 + drift, begin), count), ""
        return (begin if hunk.anchors and not hunk.at_end else count), ""
    end = count - len(old)
    for name, form in _FORMS:
        if hunk.at_end and end >= begin and next(searched.places(form, old, end), None) == end:
            return end, name
        first = next(searched.places(form, old, begin), None)
        if first is None and hunk.anchors and begin > start:  # the first line of context may repeat the anchor
            first = next(searched.places(form, old, begin - 1), None)
        if first is None:
            continue
        if hunk.line is not None:
            nearest = searched.nearest(form, old, begin, hunk.line - 1 + drift)
            return first if nearest is None else nearest, name
        if not hunk.anchors and len(found := [*searched.places(form, old, begin)]) > 1:
            named = ", ".join(str(at + 1) for at in found[:10])
            raise ToolError(
                f"{what} fits {len(found)} places (lines {named}); say which with '@@ a line above it' or more context"
            )
        return first, name
    from .diffs import miss_hint

    hint = miss_hint(text, "\n".join(old), path)
    raise ToolError(f"{what} was not found. {hint}" if hint else f"{what} was not found; read the file again")


def _after_anchor(searched: _Searched, anchor: str, begin: int, start: int, what: str) -> int:
    for form in (_FORMS[0][1], str.strip):
        found = next(searched.places(form, [anchor], begin), None)
        if found is not None:
            return found + 1
    raise ToolError(f"{what}: no line {anchor!r} from line {start + 1} on; copy the anchor exactly, or leave it out")
