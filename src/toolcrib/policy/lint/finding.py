"""The finding of a linter about a tool."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Literal, cast

from ...core.dataclass import dataclass
from ...core.text import one_line
from ...core.tool import Tool

Level = Literal["error", "warning", "info"]
LEVELS: tuple[Level, ...] = ("error", "warning", "info")
"""error: do not offer this tool as it is; warning: models or providers will have problems; info: could be better."""


@dataclass(frozen=True, slots=True)
class LintFinding:
    """One finding about one tool. `rule` is the short name by which it can be ignored; `remedy` says what to do."""

    tool: str
    level: Level
    rule: str
    text: str
    remedy: str = ""


def texts_of(tool: Tool) -> Iterator[tuple[str, str]]:
    """Yield every text of a tool that a model reads, with its place."""
    yield "name", tool.name
    if tool.title:
        yield "title", tool.title
    yield "description", tool.description
    yield from _schema_texts(tool.schema, "parameters")
    if isinstance(tool.output_schema, dict):
        yield from _schema_texts(tool.output_schema, "output schema")


def _schema_texts(node: Any, where: str) -> Iterator[tuple[str, str]]:
    if isinstance(node, str):
        yield where, node
    elif isinstance(node, list):
        for item in cast("list[Any]", node):
            yield from _schema_texts(item, where)
    elif isinstance(node, dict):
        for key, value in cast("dict[Any, Any]", node).items():
            yield where, str(key)
            yield from _schema_texts(value, where if key in ("type", "properties") else f"{where}.{key}"[:80])


def excerpt(text: str, start: int, end: int, around: int = 24) -> str:
    """Return a passage of a text as one line of printable ASCII, so that it cannot deceive the person who reads it."""
    shown = ascii(one_line(text[max(0, start - around) : min(len(text), end + around)]))
    return shown if len(shown) <= 160 else f"{shown[:156]}...'"
