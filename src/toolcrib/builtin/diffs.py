"""Makes unified diffs for people and models, bounded in time and length for files of any size."""

from __future__ import annotations

import difflib
import re

MAX_LINES = 120
_MAX_COMPARED = 1500  # changed lines per side; difflib takes quadratic time
_MAX_LINE = 300
_HEADER = re.compile(r"@@ -(\d+)(,\d+)? \+(\d+)(,\d+)? @@")


def bounded_diff(old: str | None, new: str | None, path: str, *, max_lines: int = MAX_LINES) -> str:
    """Return a unified diff, or "" if nothing differs. None stands for a file that does not exist.

    Long lines and long diffs are cut in the middle, and say how long they were.
    """
    if old == new:
        return ""
    names = f"--- {'/dev/null' if old is None else 'a/' + path}\n+++ {'/dev/null' if new is None else 'b/' + path}\n"
    a, b = (old or "").splitlines(), (new or "").splitlines()
    if a == b:
        return f"{names}(only line ends or the end of the file differ)"
    top = _common(a, b)
    bottom = _common(a[top:][::-1], b[top:][::-1])
    begin = max(0, top - 3)
    a_part = a[begin : len(a) - bottom + min(3, bottom)]
    b_part = b[begin : len(b) - bottom + min(3, bottom)]
    if max(len(a_part), len(b_part)) > _MAX_COMPARED:
        removed, added = len(a) - top - bottom, len(b) - top - bottom
        gone, come = [f"-{line}" for line in a_part], [f"+{line}" for line in b_part]
        body = [f"@@ -{top + 1},{removed} +{top + 1},{added} @@"]
        body += _middle_out(gone, max_lines // 2) + _middle_out(come, max_lines // 2)
    else:
        body = [_shift(line, begin) for line in difflib.unified_diff(a_part, b_part, n=3, lineterm="")][2:]
        body = _middle_out(body, max_lines)
    return names + "\n".join(map(_short, body))


def _middle_out(lines: list[str], most: int) -> list[str]:
    """Return `most` lines from both ends (two thirds from the start), with a line about the missing middle."""
    if len(lines) <= most:
        return lines
    head, tail = most * 2 // 3, most - most * 2 // 3
    hidden = lines[head:-tail]
    added, removed = (sum(line.startswith(sign) for line in hidden) for sign in "+-")
    return [*lines[:head], f"… ({len(hidden):,} lines not shown here: {added:,} added, {removed:,} removed) …",
            *lines[-tail:]]  # fmt: skip


def _short(line: str) -> str:
    if len(line) <= _MAX_LINE:
        return line
    head, tail = _MAX_LINE * 2 // 3, _MAX_LINE // 3
    return f"{line[:head]} …({len(line) - head - tail:,} characters)… {line[-tail:]}"


def _common(a: list[str], b: list[str]) -> int:
    count = 0
    for x, y in zip(a, b, strict=False):
        if x != y:
            break
        count += 1
    return count


def _shift(line: str, by: int) -> str:
    if by and line.startswith("@@"):
        return _HEADER.sub(
            lambda m: f"@@ -{int(m[1]) + by}{m[2] or ''} +{int(m[3]) + by}{m[4] or ''} @@", line, count=1
        )
    return line
