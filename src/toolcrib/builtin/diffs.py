"""Makes unified diffs for people and models, bounded in time and length for files of any size."""

from __future__ import annotations

import difflib
import re
from itertools import accumulate

from ..core.dataclass import dataclass

MAX_LINES = 120
_MAX_COMPARED = 1500  # changed lines per side; difflib takes quadratic time
_MAX_LINE = 300
_HEADER = re.compile(r"@@ -(\d+)(,\d+)? \+(\d+)(,\d+)? @@")

# the closest passage
_MIN_LINE = 60.0  # similarity of the best line, out of 100: below this a hint misleads
_SURE_LINE = 80.0  # above this, one line is enough as an anchor, and a second search is not needed
_MIN_PASSAGE = 45.0
_HINT_LINES = 60
_MAX_FILE_LINES = 400_000
_SHIFTS = 3
# The cost of a comparison is the product of both lengths, and it holds the interpreter's lock. Without these bounds,
# one failed search in a file of 20 MB stopped the whole process for minutes, with its time limits.
_MAX_COMPARED_LINE = 500  # characters of a line that are compared
_MAX_SEARCHED = 8_000_000  # characters of a file that are compared with one line: 0.1 s
_MAX_PASSAGE = 10_000  # characters of a passage that are compared: 2 ms


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
    different = (n for n, (x, y) in enumerate(zip(a, b, strict=False)) if x != y)
    return next(different, min(len(a), len(b)))


def _shift(line: str, by: int) -> str:
    if by and line.startswith("@@"):
        return _HEADER.sub(
            lambda m: f"@@ -{int(m[1]) + by}{m[2] or ''} +{int(m[3]) + by}{m[4] or ''} @@", line, count=1
        )
    return line


# The passage of a file that is most similar to one that was not found, fast enough to show it every time


@dataclass(frozen=True, slots=True)
class Passage:
    """Lines of the file from line number `first` on, with their similarity (0 to 100)."""

    first: int
    lines: list[str]
    score: float


def closest_passage(text: str, wanted: str) -> Passage | None:
    """Return the most similar passage, or None if nothing is similar.

    First it finds the lines most similar to the two longest wanted lines, and then compares the windows around them.
    """
    from rapidfuzz import fuzz, process

    lines = text.splitlines()[:_MAX_FILE_LINES]
    target = wanted.splitlines()
    if not lines or not wanted.strip():
        return None
    by_length = sorted(range(len(target)), key=lambda n: -len(target[n].strip()))
    anchors: list[tuple[int, int]] = []  # (index in target, index in lines)
    for n in by_length[:8]:  # a line that occurs unchanged, exactly once, needs no fuzzy search
        stripped = target[n].strip()
        if len(stripped) >= 8 and text.count(stripped) == 1:
            anchors.append((n, text.count("\n", 0, text.find(stripped))))
            break
    if not anchors:
        searched = _searched(lines)
        for n in by_length[:2]:
            best = process.extractOne(
                target[n][:_MAX_COMPARED_LINE], searched, scorer=fuzz.ratio, score_cutoff=_MIN_LINE
            )
            if best is not None:
                anchors.append((n, best[2]))
                if best[1] >= _SURE_LINE:
                    break
    size = len(target)
    whole = _compared(target)
    found: Passage | None = None
    for n, at in anchors:
        for shift in range(-_SHIFTS, _SHIFTS + 1):
            begin = min(max(0, at - n + shift), max(0, len(lines) - 1))
            window = lines[begin : begin + size]
            score = fuzz.ratio(whole, _compared(window))
            if found is None or score > found.score:
                found = Passage(begin + 1, window, score)
    return found if found is not None and found.score >= _MIN_PASSAGE else None


def _searched(lines: list[str]) -> list[str]:
    """Return the beginnings of the lines, for as many lines as may be compared."""
    short = [line[:_MAX_COMPARED_LINE] for line in lines]
    for number, total in enumerate(accumulate(map(len, short)), 1):
        if total > _MAX_SEARCHED:
            return short[:number]
    return short


def _compared(lines: list[str]) -> str:
    """Return the beginning of a passage, as much of it as may be compared."""
    return "\n".join(line[:_MAX_COMPARED_LINE] for line in lines[:_MAX_PASSAGE])[:_MAX_PASSAGE]


def miss_hint(text: str, wanted: str, path: str) -> str:
    """Return a diff between the wanted passage and the closest passage of the file, or "" if nothing is close."""
    passage = closest_passage(text, wanted)
    if passage is None:
        return ""
    last = passage.first + len(passage.lines) - 1
    diff = difflib.unified_diff(
        wanted.splitlines()[:_HINT_LINES],
        passage.lines[:_HINT_LINES],
        "old_text (not found)",
        f"{path}, lines {passage.first}-{last}",
        n=2,
        lineterm="",
    )
    shown = "\n".join(line[:300] for line in list(diff)[:_HINT_LINES])
    return f"The closest passage is at lines {passage.first}-{last}, {passage.score:.0f} % alike:\n{shown}"
