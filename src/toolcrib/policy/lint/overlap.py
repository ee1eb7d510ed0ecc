"""Find tools that a model could confuse with each other."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from ...core.tool_index import ToolIndex
from .finding import LintFinding

if TYPE_CHECKING:
    from ...core.tool import Tool

ALIKE = 93.0
"""Of 100: two summaries with this similarity say the same (rapidfuzz, the words in any order)."""
NEIGHBOURS = 6


def check_overlap(tools: Sequence[Tool], among: Sequence[Tool]) -> Iterator[LintFinding]:
    """Yield pairs of tools whose names differ only in case and punctuation, or whose descriptions say the same."""
    from rapidfuzz import fuzz

    spelled: dict[str, list[str]] = {}
    for tool in among:
        spelled.setdefault("".join(sign for sign in tool.name.casefold() if sign.isalnum()), []).append(tool.name)
    index = ToolIndex(among)
    told: set[frozenset[str]] = set()
    for tool in tools:
        key = "".join(sign for sign in tool.name.casefold() if sign.isalnum())
        for other in spelled[key]:
            if other != tool.name and frozenset((tool.name, other)) not in told:
                told.add(frozenset((tool.name, other)))
                yield LintFinding(
                    tool.name,
                    "warning",
                    "overlap",
                    f"has nearly the name of {other}",
                    "rename one, or offer one of them",
                )
        summary = tool.summary.strip()
        if len(summary) < 15:
            continue
        for other, _ in index.search(summary, NEIGHBOURS):
            pair = frozenset((tool.name, other.name))
            if other is tool or pair in told or not _same_parameters(tool, other):
                continue
            if fuzz.token_sort_ratio(summary, other.summary.strip()) >= ALIKE:
                told.add(pair)
                text = f"says of itself what {other.name} says: {summary[:80]!r}"
                yield LintFinding(
                    tool.name, "warning", "overlap", text, "say in which case each is right, or offer one of them"
                )


def _same_parameters(one: Tool, other: Tool) -> bool:
    return set(one.schema.get("properties", ())) == set(other.schema.get("properties", ()))
