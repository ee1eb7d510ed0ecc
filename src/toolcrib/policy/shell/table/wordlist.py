"""Read lists of names that are written as text, many to a line."""

from __future__ import annotations


def words(text: str) -> frozenset[str]:
    """Return the words of a text as a set."""
    return frozenset(text.split())


def in_order(text: str) -> tuple[str, ...]:
    """Return the words of a text, in order."""
    return tuple(text.split())
