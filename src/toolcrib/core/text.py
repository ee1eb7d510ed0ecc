"""Shortens a text for a message: to one line, or with an ellipsis."""

from __future__ import annotations


def clip(text: str, limit: int) -> str:
    """Return the text, cut to `limit` characters. A cut text ends in "…"."""
    return text if len(text) <= limit else f"{text[: limit - 1]}…"


def one_line(text: str) -> str:
    """Return the text with each run of white space as one blank, so that it cannot begin a new line."""
    return " ".join(text.split())
