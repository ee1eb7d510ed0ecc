"""How is a text shortened for a message? On one line, or cut with an ellipsis."""

from __future__ import annotations


def clip(text: str, limit: int) -> str:
    """The text, cut to `limit` characters; a cut text ends in "…"."""
    return text if len(text) <= limit else f"{text[: limit - 1]}…"


def one_line(text: str) -> str:
    """The text with each run of white space as one blank: it cannot begin a line of its own."""
    return " ".join(text.split())
