"""Notes on unexpected events of a page: dialogs, downloads, new tabs, refused requests."""

from __future__ import annotations

import json

from ...core.bound import safe
from ...core.text import clip
from .snapshot import unforged

MAX_NOTES = 20  # the most notes in one answer
MAX_QUOTED = 300  # the most characters of a page's text in one note


class Notes:
    """Collects the events since the last answer. Pages control their text, so the notes go between the marks."""

    def __init__(self) -> None:
        self._lines: dict[str, int] = {}
        self._more = 0

    def add(self, line: str) -> None:
        """Add a note. Equal notes are counted."""
        if line in self._lines:
            self._lines[line] += 1
        elif len(self._lines) < MAX_NOTES:
            self._lines[line] = 1
        else:
            self._more += 1

    def take(self) -> list[str]:
        """Return the notes as lines, and start with an empty list again."""
        lines = [f"! {line}" + (f" ({count} times)" if count > 1 else "") for line, count in self._lines.items()]
        if self._more:
            lines.append(f"! … and {self._more:,} more")
        self._lines, self._more = {}, 0
        return lines


def quoted(text: str) -> str:
    """Return the text of a page on one line and in quotes."""
    return unforged(safe(json.dumps(clip(text, MAX_QUOTED), ensure_ascii=False)))
