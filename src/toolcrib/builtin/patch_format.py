"""Parses patches: the V4A format (`*** Begin Patch` …) and unified diffs, as git and diff write them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import field
from typing import Literal

from ..core.dataclass import dataclass
from ..core.errors import ToolError
from ..core.text import lazy_regex

Action = Literal["add", "delete", "update"]

MAX_FILES = 1_000  # each file is read before the call and held in memory


@dataclass(slots=True)
class Hunk:
    """One change: lines with " ", "-" or "+" before them, and the data that finds its place in the file.

    `anchors` are lines before it, outermost first (V4A); `line` is the number of the first old line (unified diff).
    """

    lines: list[str] = field(default_factory=list[str])
    anchors: list[str] = field(default_factory=list[str])
    line: int | None = None
    at_end: bool = False
    old_open: bool = False  # "\ No newline at end of file" after the last old line
    new_open: bool = False

    @property
    def old(self) -> list[str]:
        """The lines that the hunk expects in the file."""
        return [line[1:] for line in self.lines if line[0] in " -"]


@dataclass(slots=True)
class FilePatch:
    """The part of a patch for one file. `new_path` differs from `path` for a rename; `other` is its unstripped name."""

    action: Action
    path: str
    new_path: str | None = None
    other: str | None = None
    hunks: list[Hunk] = field(default_factory=list[Hunk])
    mode: int | None = None
    copy: bool = False

    @property
    def names(self) -> list[str]:
        """Every path that this part names."""
        return [path for path in (self.path, self.new_path, self.other) if path is not None]

    @property
    def reads(self) -> bool:
        """Whether content of the file may be shown: in the error about a hunk that does not fit."""
        return self.action == "update" or bool(self.hunks)

    def begin_hunk(self) -> Hunk:
        """Add an empty hunk."""
        self.hunks.append(Hunk())
        return self.hunks[-1]

    def added_lines(self) -> tuple[list[str], bool]:
        """Return the lines of a new file, and whether its last line has no line end."""
        lines = [line[1:] for hunk in self.hunks for line in hunk.lines if line[0] == "+"]
        return lines, bool(self.hunks) and self.hunks[-1].new_open


def parse_patch(text: str) -> list[FilePatch]:
    """Parse a patch into its files, in order. Raises ToolError that says which line is wrong and what was expected."""
    lines = text.replace("\r\n", "\n").split("\n")
    while lines and not lines[-1].strip():
        lines.pop()
    if len(lines) >= 2 and lines[0].startswith("```") and lines[-1].startswith("```"):
        lines = lines[1:-1]
    begin = next((n for n, line in enumerate(lines) if line.strip() == "*** Begin Patch"), None)
    if begin is not None:
        found = _parse_v4a(lines, begin + 1)
    elif any(line.startswith(("--- ", "diff --git ")) for line in lines):
        found = _parse_unified(lines)
    elif any(line.startswith(("*** Update File:", "*** Add File:", "*** Delete File:")) for line in lines):
        found = _parse_v4a([*lines, "*** End Patch"], 0)
    else:
        raise ToolError(
            "this is not a valid patch: begin with '*** Begin Patch' and '*** Update File: path', "
            "or give a unified diff with '--- a/path' and '+++ b/path'"
        )
    if not found:
        raise ToolError("the patch names no file")
    if len(found) > MAX_FILES:
        raise ToolError(f"the patch names {len(found):,} files; at most {MAX_FILES:,} are changed at once")
    return found


# V4A


_ACTIONS: Mapping[str, Action] = {"*** Add File": "add", "*** Delete File": "delete", "*** Update File": "update"}


def _parse_v4a(lines: list[str], at: int) -> list[FilePatch]:
    files: list[FilePatch] = []
    current: FilePatch | None = None
    hunk: Hunk | None = None
    for number in range(at, len(lines)):
        line = lines[number]
        marker = line.strip() if line.startswith("***") else ""
        if marker == "*** End Patch":
            return _checked_v4a(files)
        head, _, rest = marker.partition(":")
        if head in _ACTIONS:
            if not rest.strip():
                raise _wrong(number, line, "a path after the colon")
            current = FilePatch(_ACTIONS[head], rest.strip())
            files.append(current)
            hunk = None
        elif head == "*** Move to":
            if current is None or current.action != "update" or current.hunks or not rest.strip():
                raise _wrong(number, line, "'*** Move to: path' directly after '*** Update File: …'")
            current.new_path = rest.strip()
        elif marker == "*** End of File":
            if hunk is None:
                raise _wrong(number, line, "it after the lines of a hunk")
            hunk.at_end = True
            hunk = None
        elif current is None:
            if line.strip():
                raise _wrong(number, line, "'*** Update File: path', '*** Add File: path' or '*** Delete File: path'")
        elif current.action == "delete":
            if line.strip():
                raise _wrong(number, line, "nothing below '*** Delete File: …'")
        elif current.action == "add":
            hunk = hunk or current.begin_hunk()
            if line.startswith("+"):
                hunk.lines.append(line)
            elif line.strip():
                raise _wrong(number, line, "every line of a new file to begin with '+'")
        elif line.startswith("@@"):
            anchor = line[2:].strip().removesuffix("@@").strip()
            ranged = _RANGE.match(line)
            if hunk is None or hunk.lines:
                hunk = current.begin_hunk()
            if ranged:  # a unified header inside V4A: models mix the two
                hunk.line = int(ranged[1])
            elif anchor:
                hunk.anchors.append(anchor)
        else:
            hunk = hunk or current.begin_hunk()
            if line and line[0] not in " +-":
                raise _wrong(number, line, "' ', '+' or '-' at the beginning of the line, or '@@'")
            hunk.lines.append(line or " ")
    raise ToolError("the patch is cut off: '*** End Patch' is missing; send the whole patch")


def _checked_v4a(files: list[FilePatch]) -> list[FilePatch]:
    for each in files:
        for hunk in each.hunks:  # an empty line before the next marker is not context
            while each.action == "update" and hunk.lines and hunk.lines[-1] == " " and not hunk.at_end:
                hunk.lines.pop()
        each.hunks = [h for h in each.hunks if h.lines]
        if each.action == "update" and not each.hunks and each.new_path is None:
            raise ToolError(f"the patch changes nothing in {each.path}")
        if any(all(line[0] == " " for line in h.lines) for h in each.hunks):
            raise ToolError(f"a hunk for {each.path} has neither '+' nor '-' lines; that would change nothing")
    return files


def _wrong(number: int, line: str, expected: str) -> ToolError:
    return ToolError(f"line {number + 1} of the patch: expected {expected}, found {line[:80]!r}")


# Unified diffs

_RANGE = lazy_regex(r"@@ -(\d+)(?:,(\d+))? \+(\d+)(?:,(\d+))? @@")
_FACT = lazy_regex("((?:old|new|new file|deleted file) mode|(?:rename|copy) (?:from|to)) (.*)")
_GIT = lazy_regex(r"diff --git (\"?a/.*|\S+) (\"?b/.*|\S+)\Z")


def _parse_unified(lines: list[str]) -> list[FilePatch]:
    files: list[FilePatch] = []
    at = 0
    while at < len(lines):
        line = lines[at]
        if line.startswith("diff --git "):
            at = _parse_git_header(lines, at, files)
        elif line.startswith("--- ") and at + 1 < len(lines) and lines[at + 1].startswith("+++ "):
            files.append(_named(_name(line[4:]), _name(lines[at + 1][4:])))
            at = _parse_hunks(lines, at + 2, files[-1])
            if not files[-1].hunks:
                raise _wrong(min(at, len(lines) - 1), "".join(lines[at : at + 1]), "'@@ -line,count +line,count @@'")
        elif line.startswith("@@"):
            raise _wrong(at, line, "'--- a/path' and '+++ b/path' before the first hunk")
        else:
            at += 1  # commit messages and "index" lines
    return files


def _parse_git_header(lines: list[str], at: int, files: list[FilePatch]) -> int:
    header = lines[at]
    facts: dict[str, str] = {}
    at += 1
    while at < len(lines) and not lines[at].startswith(("diff --git ", "@@", "--- ")):
        line = lines[at]
        if fact := _FACT.match(line):
            facts[fact[1]] = fact[2]
        if line.startswith(("GIT binary patch", "Binary files ")):
            raise ToolError(f"line {at + 1} of the patch: binary changes cannot be applied; write the file another way")
        at += 1
    mode = facts.get("new mode") or facts.get("new file mode")
    octal = int(mode, 8) & 0o777 if mode and re.fullmatch("[0-7]{6}", mode) else None
    if mode and not mode.startswith("100"):
        raise ToolError(f"{header}: links and submodules (mode {mode}) cannot be made by a patch")
    if at + 1 < len(lines) and lines[at].startswith("--- ") and lines[at + 1].startswith("+++ "):
        one = _named(_name(lines[at][4:]), _name(lines[at + 1][4:]))
        at = _parse_hunks(lines, at + 2, one)
    else:
        names = _git_names(header)
        one = FilePatch("update", names[0], other=f"a/{names[0]}")
        if "new file mode" in facts:
            one.action = "add"
        elif "deleted file mode" in facts:
            one.action = "delete"
        elif octal is None and "rename from" not in facts and "copy from" not in facts:
            raise ToolError(f"the patch says nothing about {names[0]}")
    if "rename from" in facts or "copy from" in facts:
        kind = "rename" if "rename from" in facts else "copy"
        one.path = _unquote(facts[f"{kind} from"])
        one.new_path = _unquote(facts.get(f"{kind} to", ""))
        one.copy = kind == "copy"
        if not one.new_path:
            raise ToolError(f"{header}: '{kind} to' is missing")
    one.mode = octal
    files.append(one)
    return at


def _parse_hunks(lines: list[str], at: int, file: FilePatch) -> int:
    while at < len(lines) and lines[at].startswith("@@"):
        ranged = _RANGE.match(lines[at])
        hunk = file.begin_hunk()
        left = [0, 0]  # lines that are still announced
        if ranged:
            left = [int(ranged[2] or 1), int(ranged[4] or 1)]
            hunk.line = int(ranged[1]) + (1 if left[0] == 0 else 0)
        at += 1
        while at < len(lines):
            line = lines[at]
            if line.startswith("\\"):
                last = hunk.lines[-1][0] if hunk.lines else " "
                hunk.old_open |= last in " -"
                hunk.new_open |= last in " +"
                at += 1
                continue
            # After the announced number of lines (models miscount), a line belongs to the hunk only if it cannot be the
            # next header. "-- " begins the signature of a mailed patch.
            if left == [0, 0] and (line in ("", "-- ") or _begins_something(lines, at)):
                break
            if line != "" and line[0] not in " +-":
                break
            hunk.lines.append(line or " ")
            kind = hunk.lines[-1][0]
            left = [max(0, left[0] - (kind in " -")), max(0, left[1] - (kind in " +"))]
            at += 1
        if not any(line[0] in "+-" for line in hunk.lines):
            raise ToolError(f"line {at} of the patch: the hunk has neither '+' nor '-' lines")
    return at


def _begins_something(lines: list[str], at: int) -> bool:
    line = lines[at]
    if line.startswith(("@@", "diff --git ")):
        return True
    return line.startswith("--- ") and at + 1 < len(lines) and lines[at + 1].startswith("+++ ")


def _named(old: str, new: str) -> FilePatch:
    if old == "/dev/null" and new == "/dev/null":
        raise ToolError("the patch names /dev/null on both sides")
    if old == "/dev/null":
        return FilePatch("add", new.removeprefix("b/"), other=new)
    if new == "/dev/null":
        return FilePatch("delete", old.removeprefix("a/"), other=old)
    if old.startswith("a/") and new.startswith("b/"):
        path, new_path, other = old[2:], new[2:], old if old[2:] == new[2:] else None
    else:
        path, new_path, other = old, new, None
    return FilePatch("update", path, None if new_path == path else new_path, other=other)


def _name(text: str) -> str:
    """Return the file name of a `---` or `+++` line: the text up to a tab, after which diff writes a time."""
    return _unquote(text.split("\t")[0].strip())


def _git_names(header: str) -> tuple[str, str]:
    match = _GIT.match(header)
    rest = header.removeprefix("diff --git ")
    half = (len(rest) - 1) // 2  # without a rename both names are equal, even with spaces
    if rest[:half].startswith("a/") and rest[half + 1 :].startswith("b/") and rest[2:half] == rest[half + 3 :]:
        return rest[2:half], rest[half + 3 :]
    if match is None:
        raise ToolError(f"cannot read the names in {header!r}")
    return _unquote(match[1]).removeprefix("a/"), _unquote(match[2]).removeprefix("b/")


_QUOTED = lazy_regex(rb"\\([0-7]{3}|.)")
_LETTERS = {b"n": b"\n", b"t": b"\t", b"r": b"\r", b"a": b"\a", b"b": b"\b", b"f": b"\f", b"v": b"\v"}


def _unquote(text: str) -> str:
    """Return the name from git's spelling, which has quotes and C escapes if the name has unusual characters."""
    text = text.strip()
    if len(text) < 2 or text[0] != '"' or text[-1] != '"':
        return text

    def plain(match: re.Match[bytes]) -> bytes:
        code = match[1]
        return bytes([int(code, 8) & 0xFF]) if len(code) == 3 else _LETTERS.get(code, code)

    return _QUOTED.sub(plain, text[1:-1].encode("utf-8", "surrogateescape")).decode("utf-8", "surrogateescape")
