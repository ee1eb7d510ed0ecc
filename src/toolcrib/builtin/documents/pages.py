"""Turns page ranges such as `1-3,7` and `5-` into numbers, and numbers into page ranges."""

from __future__ import annotations

import re
from collections.abc import Iterable

from .document import Refused

MAX_CHARS = 1000
_RANGE = re.compile(r"(\d{1,9})?(?:\s*(-|–|\.\.|:)\s*(\d{1,9})?)?")


def parse_pages(asked: str | None, count: int, unit: str) -> list[int]:
    """Return the requested page numbers, each once, in the requested order; without a request, all pages.

    Numbers after the last page are left out if the request also has valid numbers. Raises Refused for a wrong request.
    """
    if asked is None or not asked.strip():
        return list(range(1, count + 1))
    if len(asked) > MAX_CHARS:
        raise Refused(f"pages is longer than {MAX_CHARS} characters")
    found: dict[int, None] = {}
    for each in asked.split(","):
        first, last = _ends(each.strip(), count)
        if first < 1 or first > last:
            raise Refused(f"pages {each.strip()!r}: from 1, the smaller number first")
        found.update(dict.fromkeys(range(first, min(last, count) + 1)))
    if not found:
        have = f"{count:,} {unit}{'s' if count != 1 else ''}"
        raise Refused(f"it has {have}; pages={asked!r} is past the end" if count else f"it has no {unit}s")
    return list(found)


def _ends(text: str, count: int) -> tuple[int, int]:
    match = _RANGE.fullmatch(text)
    if match is None or not (match[1] or match[3]):
        raise Refused(f'pages {text!r} is not understood; write for example "3", "1-3,7" or "5-"')
    if match[2] is None:
        return int(match[1]), int(match[1])
    return int(match[1] or 1), int(match[3]) if match[3] else max(count, int(match[1] or 1))


def in_words(numbers: Iterable[int]) -> str:
    """Return page numbers as ranges: `1-3,7` for [1, 2, 3, 7]."""
    runs: list[list[int]] = []
    for number in numbers:
        if runs and number == runs[-1][1] + 1:
            runs[-1][1] = number
        else:
            runs.append([number, number])
    return ",".join(str(first) if first == last else f"{first}-{last}" for first, last in runs)
