"""Protect masked secrets: a text that a model writes may contain the mask of a secret that it was never shown."""

from __future__ import annotations

from ...core.text import one_line
from .redact import Redactor

_CONTEXT = 24  # characters before a bare `***` that identify it


def may_be_masked(text: str) -> bool:
    """Return whether a text may hold a mask. This quick check comes before a file is read and searched."""
    return "***" in text or "[secret:" in text


def lost_by(redactor: Redactor, current: str, new: str) -> str | None:
    """Return why writing `new` over `current` would destroy a secret: its mask is in `new`. None if it would not.

    A mask that is in `current` itself is ordinary text.
    """
    if not may_be_masked(new):
        return None
    for span in redactor.spans(current):
        shown = span.mask
        if not shown.strip("\\n* "):  # `***` alone could be anything: compare the beginning of its line too, redacted
            line = current[: span.start].rpartition("\n")[2][-_CONTEXT:]
            shown = f"{line}{shown}".strip()
        if shown in new and shown not in current:
            return (
                f"{one_line(shown)!r} is in the text, but the file has a secret in its place: that is how "
                "secrets are shown, and writing it would destroy this one. Leave its line alone; change the other "
                "lines with edit_file"
            )
    return None
