"""Which lines of two texts differ? In bounded time, also for large texts and for texts made to be slow."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import pairwise

Change = tuple[int, int, int, int]
"""a[i1:i2] was replaced by b[j1:j2]; one of them may be empty."""

# A comparison costs the product of both lengths, 64 steps at once: 10,000 lines with as many take 20 ms and 12 MB.
_MAX_PRODUCT = 100_000_000


def changes(a: Sequence[str], b: Sequence[str]) -> list[Change]:
    """Return what differs, in order.

    Lines that occur once in each text hold the two together (Bram Cohen's patience diff). What lies between them is
    compared exactly; a very large piece is first cut into pieces of proportional length.
    """
    numbers: dict[str, int] = {}
    left = [numbers.setdefault(line, len(numbers)) for line in a]
    right = [numbers.setdefault(line, len(numbers)) for line in b]
    pairs = [(-1, -1), *_anchors(left, right), (len(left), len(right))]
    found: list[Change] = []
    for (i, j), (i_end, j_end) in pairwise(pairs):
        for i1, i2, j1, j2 in _between(left, i + 1, i_end, right, j + 1, j_end):
            if found and (found[-1][1], found[-1][3]) == (i1, j1):
                i1, j1 = found[-1][0], found.pop()[2]
            found.append((i1, i2, j1, j2))
    return found


def _anchors(left: list[int], right: list[int]) -> list[tuple[int, int]]:
    """Return the places of lines that occur once in each text: the longest row of them in the same order."""
    from bisect import bisect_left

    counts_left, counts_right = Counter(left), Counter(right)
    where = {line: j for j, line in enumerate(right) if counts_right[line] == 1}
    pairs = [(i, where[line]) for i, line in enumerate(left) if counts_left[line] == 1 and line in where]
    ends: list[int] = []  # the least last `j` of a row of each length
    last: list[int] = []  # the pair with it
    before: list[int] = []  # the pair before each one
    for number, (_, j) in enumerate(pairs):
        length = bisect_left(ends, j)
        before.append(last[length - 1] if length else -1)
        ends[length : length + 1] = [j]
        last[length : length + 1] = [number]
    row: list[tuple[int, int]] = []
    number = last[-1] if last else -1
    while number >= 0:
        row.append(pairs[number])
        number = before[number]
    return row[::-1]


def _between(left: list[int], i1: int, i2: int, right: list[int], j1: int, j2: int) -> Iterator[Change]:
    """Compare left[i1:i2] with right[j1:j2]."""
    while i1 < i2 and j1 < j2 and left[i1] == right[j1]:
        i1, j1 = i1 + 1, j1 + 1
    while i1 < i2 and j1 < j2 and left[i2 - 1] == right[j2 - 1]:
        i2, j2 = i2 - 1, j2 - 1
    if i1 == i2 or j1 == j2:
        if i1 < i2 or j1 < j2:
            yield i1, i2, j1, j2
        return
    from rapidfuzz.distance import LCSseq

    pieces = (i2 - i1) * (j2 - j1) // _MAX_PRODUCT + 1
    for n in range(pieces):
        i, i_end = (i1 + (i2 - i1) * k // pieces for k in (n, n + 1))
        j, j_end = (j1 + (j2 - j1) * k // pieces for k in (n, n + 1))
        gone, come = i, j
        for code in LCSseq.opcodes(left[i:i_end], right[j:j_end]):
            if code.tag == "equal":
                if (gone, come) != (i + code.src_start, j + code.dest_start):
                    yield gone, i + code.src_start, come, j + code.dest_start
                gone, come = i + code.src_end, j + code.dest_end
        if (gone, come) != (i_end, j_end):
            yield gone, i_end, come, j_end
