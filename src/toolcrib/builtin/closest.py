"""Finds the passage of a file that is most similar to one that was not found, fast enough to show it every time."""

from __future__ import annotations

import difflib
from dataclasses import dataclass
from itertools import accumulate

_MIN_LINE = 60.0  # similarity of the best line, out of 100: below this a hint misleads
_SURE_LINE = 80.0  # above this, one line is enough as an anchor, and a second search is not needed
_MIN_PASSAGE = 45.0
_MAX_SHOWN = 60
_MAX_LINES = 400_000
_SHIFTS = 3
# The cost of a comparison is the product of both lengths, and it holds the interpreter's lock. Without these bounds,
# one failed search in a file of 20 MB stopped the whole process for minutes, with its time limits.
_MAX_LINE = 500  # characters of a line that are compared
_MAX_SEARCHED = 8_000_000  # characters of a file that are compared with one line: 0.1 s
_MAX_COMPARED = 10_000  # characters of a passage that are compared: 2 ms


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

    lines = text.splitlines()[:_MAX_LINES]
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
            best = process.extractOne(target[n][:_MAX_LINE], searched, scorer=fuzz.ratio, score_cutoff=_MIN_LINE)
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
    short = [line[:_MAX_LINE] for line in lines]
    for number, total in enumerate(accumulate(map(len, short)), 1):
        if total > _MAX_SEARCHED:
            return short[:number]
    return short


def _compared(lines: list[str]) -> str:
    """Return the beginning of a passage, as much of it as may be compared."""
    return "\n".join(line[:_MAX_LINE] for line in lines[:_MAX_COMPARED])[:_MAX_COMPARED]


def miss_hint(text: str, wanted: str, path: str) -> str:
    """Return a diff between the wanted passage and the closest passage of the file, or "" if nothing is close."""
    passage = closest_passage(text, wanted)
    if passage is None:
        return ""
    last = passage.first + len(passage.lines) - 1
    diff = difflib.unified_diff(
        wanted.splitlines()[:_MAX_SHOWN],
        passage.lines[:_MAX_SHOWN],
        "old_text (not found)",
        f"{path}, lines {passage.first}-{last}",
        n=2,
        lineterm="",
    )
    shown = "\n".join(line[:300] for line in list(diff)[:_MAX_SHOWN])
    return f"The closest passage is at lines {passage.first}-{last}, {passage.score:.0f} % alike:\n{shown}"
