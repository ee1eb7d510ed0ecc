"""Reads docstrings: the description of a function and of its parameters (Google, NumPy and Sphinx styles)."""

from __future__ import annotations

import inspect
import re
from dataclasses import dataclass, field
from typing import Any

from .text import one_line

_STYLES = (
    ("google", r"^[ \t]*(Args|Arguments|Parameters|Params|Keyword Args):[ \t]*$"),
    ("numpy", r"^[ \t]*(Other )?Parameters[ \t]*\n[ \t]*-{3,}[ \t]*$"),
    ("sphinx", r"^[ \t]*:(param|parameter|arg|argument|key|keyword)\b[^:\n]*:"),
)
_SECTION = (
    r"^[ \t]*(Args|Arguments|Params|Returns?|Yields?|Raises|Examples?|Note|Notes|Warns):[ \t]*$"
    r"|^[ \t]*(Parameters|Returns|Yields|Raises|Examples|Notes)[ \t]*\n[ \t]*-{3,}[ \t]*$"
    r"|^[ \t]*:(param|returns?|rtype|raises)\b"
)


@dataclass(frozen=True, slots=True)
class Docstring:
    """The prose of a docstring and its parameter descriptions by name."""

    text: str = ""
    parameters: dict[str, str] = field(default_factory=dict[str, str])


def read_docstring(doc: str | None) -> Docstring:
    """Split a docstring into prose and parameter descriptions. Unknown shapes are all prose."""
    if not doc:
        return Docstring()
    clean = inspect.cleandoc(doc)
    style = next((name for name, pattern in _STYLES if re.search(pattern, clean, re.MULTILINE)), None)
    if style is None:
        cut = re.search(_SECTION, clean, re.MULTILINE)
        return Docstring((clean[: cut.start()] if cut else clean).strip())
    if style == "google" and (plain := _plain_google(clean)) is not None:
        return plain
    import griffe  # 0.1 s: only for parameter sections that are not plain

    sections: list[Any] = griffe.Docstring(clean, lineno=1).parse(
        griffe.Parser(style), **({"warnings": False} if style != "auto" else {})
    )
    texts = [s.value for s in sections if s.kind.value == "text"]
    found: dict[str, str] = {}
    for section in sections:
        if section.kind.value in ("parameters", "other parameters"):
            for item in section.value:
                found[item.name.lstrip("*")] = one_line(item.description)
    return Docstring("\n\n".join(texts).strip(), found)


_GOOGLE_BEGIN = re.compile(r"\n*^(?:Args|Arguments|Params):\n", re.MULTILINE)
_GOOGLE_ITEM = re.compile(r" {4}(\w+): (\S.*)")
_GOOGLE_MORE = re.compile(r" {5,}\S.*")
_HEADING = re.compile(r"^[ \t]*\w[\w \t-]*:[ \t]*$|^[ \t]*:\w|^[ \t]*-{3,}[ \t]*$|^[ \t]*(```|>>>)", re.MULTILINE)


def _plain_google(clean: str) -> Docstring | None:
    """Parse prose that is followed by one parameter section with lines `name: text` at the end of the docstring.

    Returns None for any other shape, and if there may be a further section.
    """
    begin = _GOOGLE_BEGIN.search(clean)
    if begin is None or _HEADING.search(clean[: begin.start()]) or _HEADING.search(clean[begin.end() :]):
        return None
    found: dict[str, list[str]] = {}
    current: list[str] = []
    for line in clean[begin.end() :].rstrip().split("\n"):
        item = _GOOGLE_ITEM.fullmatch(line)
        if item is not None:
            if item[1] in found:
                return None
            current = found[item[1]] = [item[2]]
        elif current and _GOOGLE_MORE.fullmatch(line):
            current.append(line)
        else:
            return None
    return Docstring(clean[: begin.start()].strip(), {name: one_line(" ".join(text)) for name, text in found.items()})


def first_sentence(text: str) -> str:
    """Return the first sentence, or the first line if the text has no full sentence."""
    flat = one_line(text.strip().split("\n\n", 1)[0])
    match = re.match(r"(.+?[.!?])(?=\s|$)", flat)
    return match.group(1) if match else flat
