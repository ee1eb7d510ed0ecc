"""What a docstring says of a function and its parameters (Google, NumPy and Sphinx styles, through griffe)."""

from __future__ import annotations

import inspect
import re
from dataclasses import dataclass, field
from typing import Any

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
    import griffe  # 0.1 s: only where a docstring has a parameter section

    sections: list[Any] = griffe.Docstring(clean, lineno=1).parse(
        griffe.Parser(style), **({"warnings": False} if style != "auto" else {})
    )
    texts = [s.value for s in sections if s.kind.value == "text"]
    found: dict[str, str] = {}
    for section in sections:
        if section.kind.value in ("parameters", "other parameters"):
            for item in section.value:
                found[item.name.lstrip("*")] = " ".join(item.description.split())
    return Docstring("\n\n".join(texts).strip(), found)


def first_sentence(text: str) -> str:
    """The first sentence or, if there is none, the first line."""
    flat = " ".join(text.strip().split("\n\n", 1)[0].split())
    match = re.match(r"(.+?[.!?])(?=\s|$)", flat)
    return match.group(1) if match else flat
