"""What every reader gives: a document of numbered parts, each of lines of Markdown, perhaps with images."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass


class Refused(Exception):
    """The document is not read. The text says why and what to try, for the model."""


@dataclass(frozen=True, slots=True)
class Picture:
    """An image as a model can take it."""

    data: bytes
    mime: str


@dataclass(frozen=True, slots=True)
class Part:
    """A page, slide or sheet: its lines, and images that belong to it. `name` is shown beside its number."""

    lines: Iterable[str]
    pictures: tuple[Picture, ...] = ()
    name: str = ""


@dataclass(frozen=True, slots=True)
class ParsedDocument:
    """`kind` in words, `reader` is the library that reads it, `unit` what its parts are: "" where it has none.

    `part(n)` makes part n, from 1 to `count`. `notes` are what a reader of the text must know.
    """

    kind: str
    reader: str
    unit: str
    count: int
    part: Callable[[int], Part]
    title: str = ""
    notes: tuple[str, ...] = ()
