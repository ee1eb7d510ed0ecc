"""Makes unified diffs for people and models, bounded in time and length for files of any size."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence
from itertools import accumulate, groupby, pairwise

from ..core.dataclass import dataclass
from ..core.text import lazy_regex
from .line_diff import Change, changes

MAX_LINES = 120
_CONTEXT = 3
_WORDS = lazy_regex(r"\w+|\s+|[^\w\s]")
_MOSTLY_NEW = 0.6
_MAX_LINE = 300

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
    body = _hunks(a, b, changes(a, b))
    return names + "\n".join(map(_short, _fitting(body, max_lines)))


def _fitting(body: list[str], most: int) -> list[str]:
    """Return at most about `most` lines: both ends of each long run of lines if there are few, or both ends of all."""
    if len(body) <= most:
        return body
    runs = list(_runs(body))
    long = [run for run in runs if len(run) > most // 2]
    each = (most - len(body) + sum(map(len, long))) // max(1, len(long)) - 1
    if each < most // 4:
        return _middle_out(body, most)
    return [line for run in runs for line in (_middle_out(run, each) if len(run) > most // 2 else run)]


def _hunks(a: list[str], b: list[str], changed: list[Change]) -> list[str]:
    """Return the lines of a unified diff, with up to _CONTEXT lines around each change."""
    groups: list[list[Change]] = []
    for change in changed:
        if groups and change[0] - groups[-1][-1][1] <= 2 * _CONTEXT:
            groups[-1].append(change)
        else:
            groups.append([change])
    body: list[str] = []
    for group in groups:
        (i1, _, j1, _), (_, i2, _, j2) = group[0], group[-1]
        before, after = min(_CONTEXT, i1), min(_CONTEXT, len(a) - i2)
        body.append(f"@@ -{_range(i1 - before, i2 + after)} +{_range(j1 - before, j2 + after)} @@")
        at = i1 - before
        for i1, i2, j1, j2 in group:
            body += [f" {line}" for line in a[at:i1]]
            body += [f"-{line}" for line in a[i1:i2]]
            body += [f"+{line}" for line in b[j1:j2]]
            at = i2
        body += [f" {line}" for line in a[at : at + after]]
    return body


def _range(begin: int, end: int) -> str:
    """Return the place of some lines as diffs write it: the first one and how many."""
    return str(end) if end - begin == 1 else f"{begin + (end > begin)},{end - begin}"


def _runs(body: Sequence[str]) -> Iterable[list[str]]:
    """Return the lines that come, go, or stay, together."""
    return (list(run) for _, run in groupby(body, lambda line: line[:1]))


def changed_words(lines: Sequence[str]) -> list[list[tuple[int, int]]]:
    """Return for each line of a unified diff where the words begin and end that differ from its counterpart.

    The first line that goes belongs to the first one that comes after it, and so on. Lines that have little in common
    have no marks: all of them is new.
    """
    marks: list[list[tuple[int, int]]] = [[] for _ in lines]
    at = 0
    runs = [(line[:1], len(run)) for run in _runs(lines) for line in run[:1]]
    for (sign, count), (next_sign, next_count) in pairwise([*runs, ("", 0)]):
        if (sign, next_sign) == ("-", "+"):
            for n in range(at, at + min(count, next_count)):
                marks[n], marks[n + count] = _changed_words(lines[n], lines[n + count])
        at += count
    return marks


def _changed_words(old: str, new: str) -> tuple[list[tuple[int, int]], list[tuple[int, int]]]:
    if max(len(old), len(new)) > _MAX_LINE * 2 or old.startswith("--- "):  # or it names the files
        return [], []
    a, b = _WORDS.findall(old[1:]), _WORDS.findall(new[1:])
    found = changes(a, b)
    come, go = sum(len("".join(b[j1:j2])) for _, _, j1, j2 in found), sum(len("".join(a[i:k])) for i, k, _, _ in found)
    if not found or come + go > (len(old) + len(new)) * _MOSTLY_NEW:
        return [], []
    a_at, b_at = list(accumulate(map(len, a), initial=1)), list(accumulate(map(len, b), initial=1))
    return ([(a_at[i1], a_at[i2]) for i1, i2, _, _ in found if i1 < i2],
            [(b_at[j1], b_at[j2]) for _, _, j1, j2 in found if j1 < j2])  # fmt: skip


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
