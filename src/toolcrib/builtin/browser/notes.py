"""What happened on a page beside what was asked for: dialogs, downloads, new tabs, requests that were refused."""

from __future__ import annotations

import json

from ...core.bound import safe
from ...core.text import clip
from .snapshot import unforged

MAX_NOTES = 20  # notes of one answer
MAX_QUOTED = 300  # characters of what a page says in one


class Notes:
    """Collects what happened since the last answer. All of it is the page's word, and goes between the marks."""

    def __init__(self) -> None:
        self._lines: dict[str, int] = {}
        self._more = 0

    def add(self, line: str) -> None:
        """Note something; the same again is counted."""
        if line in self._lines:
            self._lines[line] += 1
        elif len(self._lines) < MAX_NOTES:
            self._lines[line] = 1
        else:
            self._more += 1

    def take(self) -> list[str]:
        """The lines, and begin anew."""
        lines = [f"! {line}" + (f" ({count} times)" if count > 1 else "") for line, count in self._lines.items()]
        if self._more:
            lines.append(f"! … and {self._more:,} more")
        self._lines, self._more = {}, 0
        return lines


def quoted(text: str) -> str:
    """What a page says, on one line and in quotes."""
    return unforged(safe(json.dumps(clip(text, MAX_QUOTED), ensure_ascii=False)))
