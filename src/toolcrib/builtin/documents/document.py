"""The result of every reader: a document with numbered parts. Each part has lines of Markdown and may have images."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass


class Refused(Exception):
    """Says that a document cannot be read. The text gives the model the reason and advice."""


@dataclass(frozen=True, slots=True)
class Picture:
    """An image in a form that a model accepts."""

    data: bytes
    mime: str


@dataclass(frozen=True, slots=True)
class Part:
    """A page, slide or sheet: its lines and its images. `name` is shown next to its number."""

    lines: Iterable[str]
    pictures: tuple[Picture, ...] = ()
    name: str = ""


@dataclass(frozen=True, slots=True)
class ParsedDocument:
    """A parsed document. `kind` is its kind in words, `reader` the library that reads it.

    `unit` is the word for one part, or "" if the document has no parts. `part(n)` makes part n, from 1 to `count`.
    `notes` are important remarks for the reader of the text.
    """

    kind: str
    reader: str
    unit: str
    count: int
    part: Callable[[int], Part]
    title: str = ""
    notes: tuple[str, ...] = ()
