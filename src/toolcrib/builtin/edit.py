"""The tool that replaces a passage of a file with another."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Annotated, Any

from pydantic import Field

from ..boundary.path_judgement import judge_path
from ..boundary.workspace_paths import identity
from ..core.context import ToolContext
from ..core.errors import ToolError
from ..core.tool import Tool, tool
from ..core.verdict import Judgement, PlannedFile
from ..policy.secrets.redact import may_be_masked
from .encoding import UTF8, Encoding, whole_text
from .explain import explained
from .journaled import MAX_EDIT, JournaledTools
from .matching import Match, Matches, apply_matches, find_matches

_NAMED = 10  # the most line numbers in an answer

ALIASES = {
    **dict.fromkeys(("file_path", "filename"), "path"),
    **dict.fromkeys(("old_string", "oldText", "oldStr", "old_str"), "old_text"),
    **dict.fromkeys(("new_string", "newText", "newStr", "new_str"), "new_text"),
    "replaceAll": "replace_all",
    "expectedReplacements": "expected_replacements",
}


class EditTools(JournaledTools):
    """The tool edit_file for one workspace and its journal."""

    def tools(self) -> list[Tool]:
        """Return the tool, ready to register."""
        return [
            tool(
                self.edit_file,
                category="filesystem_write",
                aliases=ALIASES,
                judge=self._judge,
                paths={"path": "edit"},
                preview=self._preview,
                plan=self._plan,
            )
        ]

    def edit_file(
        self,
        path: str,
        old_text: str,
        new_text: str,
        replace_all: bool = False,
        occurrence: Annotated[int | None, Field(ge=1)] = None,
        expected_replacements: Annotated[int | None, Field(ge=1)] = None,
        *,
        ctx: ToolContext,
    ) -> str:
        """Replace a passage of a text file. `old_text` must be in the file exactly once, unless said otherwise.

        Args:
            path: File to edit, relative to the workspace.
            old_text: The passage to replace, with enough lines around it to be the only one. Empty: create the file.
            new_text: What to put there.
            replace_all: Whether to replace every occurrence.
            occurrence: Which occurrence to replace, counted from 1.
            expected_replacements: Replace all occurrences, but only if there are exactly so many.
        """
        shown = self.ws.relative(path)
        with explained(self.ws, path):
            if not old_text:
                return self._create(path, shown, new_text, ctx)
            data, st = self._read_whole(path, "edited")
            text, encoding = whole_text(data, shown)
            del data  # a large file is in memory three times at most
            self._refuse_masks(text, old_text, shown)
            changed = self.seen.changed(ctx.session_id, shown, identity(st))
            matches, chosen = _choose(
                text, shown, old_text, new_text, replace_all, occurrence, expected_replacements, changed
            )
            new = apply_matches(text, chosen)
            if any(may_be_masked(match.new) for match in chosen):  # the rest is the file's own text
                self._refuse_masks(text, new, shown)
            answer = _answer(text, shown, matches, chosen, changed)
            del text
            data = encoding.encode(new)
            del new
            self._write(path, data, "edit_file", ctx, expect=identity(st))
        return answer

    def _create(self, path: str, shown: str, new_text: str, ctx: ToolContext) -> str:
        if not new_text:
            raise ToolError("old_text and new_text are both empty; there is nothing to do")
        try:
            st = self.ws.lstat(path)
        except FileNotFoundError:
            expect = None
        else:
            if st.st_size:
                raise ToolError(f"old_text is empty, but {shown} exists and is not; name the passage to replace")
            expect = identity(st)
        data = UTF8.encode(new_text)
        self._write(path, data, "edit_file", ctx, expect=expect, must_be_new=expect is None)
        return f"Successfully wrote {len(data)} bytes to {shown}"

    def _judge(self, args: Mapping[str, Any], ctx: ToolContext) -> Judgement | None:
        # The call reads, too: if the passage is not found, the answer shows content of the file.
        return judge_path(self.ws, str(args["path"]), read=True, write=True)

    def _preview(self, args: Mapping[str, Any], ctx: ToolContext) -> str:
        shown = self.ws.relative(str(args["path"]))
        try:
            _, old, new, _ = self._edited(args, shown)
        except ToolError as error:
            return f"edit {shown} will fail: {error}"
        from .diffs import bounded_diff

        return bounded_diff(old, new, shown)

    def _plan(self, args: Mapping[str, Any], ctx: ToolContext) -> list[PlannedFile]:
        shown = self.ws.relative(str(args["path"]))
        data, _, new, encoding = self._edited(args, shown)
        return [PlannedFile(shown, data, encoding.encode(new))]

    def _edited(self, args: Mapping[str, Any], shown: str) -> tuple[bytes | None, str | None, str, Encoding]:
        """Return a file's bytes and text before a call, and its text after it. Raises ToolError if the call would
        fail."""
        path, old, new = str(args["path"]), str(args["old_text"]), str(args["new_text"])
        if not old:
            return None, None, new, UTF8
        with explained(self.ws, path):
            data, _ = self._read_whole(path, "edited")
            text, encoding = whole_text(data, shown)
        options = (args.get("replace_all") is True, args.get("occurrence"), args.get("expected_replacements"))
        _, chosen = _choose(text, shown, old, new, *options, False)
        return data, text, apply_matches(text, chosen), encoding


def _choose(
    text: str,
    shown: str,
    old: str,
    new: str,
    replace_all: bool,
    occurrence: int | None,
    expected: int | None,
    changed: bool,
) -> tuple[Matches, list[Match]]:
    if sum((replace_all, occurrence is not None, expected is not None)) > 1:
        raise ToolError("give only one of replace_all, occurrence and expected_replacements")
    if old == new:
        raise ToolError("old_text and new_text are the same; that would change nothing")
    matches = find_matches(text, old, new)
    count = len(matches.found)
    if not count:
        told = f"old_text was not found in {shown}."
        if changed:
            told += " The file has changed since it was last read here; read it again."
        from .diffs import miss_hint

        hint = miss_hint(text, old, shown)
        raise ToolError(f"{told} {hint}" if hint else f"{told} Nothing in it comes close; read the file again.")
    lines = partial(_lines, text, matches.found)
    if expected is not None:
        if count != expected:
            raise ToolError(f"old_text is in {shown} {_times(count)} ({lines()}), not {_times(expected)}")
        chosen = matches.found
    elif occurrence is not None:
        if occurrence > count:
            raise ToolError(f"old_text is in {shown} only {_times(count)} ({lines()})")
        chosen = [matches.found[occurrence - 1]]
    elif not replace_all and count == 1 and (again := _overlapping(text, matches.found[0])) >= 0:
        second = text.count("\n", 0, again) + 1
        raise ToolError(
            f"old_text is in {shown} twice, and the two overlap ({lines()} and line {second}). "
            "Add lines around it until it is the only one"
        )
    elif replace_all or count == 1:
        chosen = matches.found
    else:
        raise ToolError(
            f"old_text is in {shown} {_times(count)}, at {lines()}. Add lines around it until it is the only "
            "one, or pass occurrence=N for one of them or replace_all=true for all"
        )
    if all(text[m.start : m.end] == m.new for m in chosen):
        raise ToolError(f"{shown} has new_text there already; nothing was changed")
    size = len(text) + sum(len(m.new) - (m.end - m.start) for m in chosen)
    if size > MAX_EDIT:
        raise ToolError(f"{shown} would have {size:,} characters; an edit writes at most {MAX_EDIT:,}")
    return matches, chosen


def _overlapping(text: str, match: Match) -> int:
    """Return the index where the same passage begins again before its end, or -1 if it does not."""
    return text.find(text[match.start : match.end], match.start + 1, 2 * match.end - match.start - 1)


def _answer(text: str, shown: str, matches: Matches, chosen: list[Match], changed: bool) -> str:
    count = len(chosen)
    noun = "occurrence" if count == 1 else "occurrences"
    tier = f"; matched with {matches.tier}" if matches.tier else ""
    answer = f"Successfully replaced {count} {noun} in {shown} ({_lines(text, chosen)}{tier})"
    if changed:
        answer += "\nNote: the file had changed since it was last read here; read it again"
    return answer


def _lines(text: str, found: list[Match]) -> str:
    numbers: list[str] = []
    line, position = 1, 0
    for match in found[:_NAMED]:
        line += text.count("\n", position, match.start)
        position = match.start
        numbers.append(str(line))
    named = ", ".join(dict.fromkeys(numbers)) + (" …" if len(found) > _NAMED else "")
    return f"line {named}" if len(found) == 1 else f"lines {named}"


def _times(count: int) -> str:
    return "once" if count == 1 else f"{count} times"
