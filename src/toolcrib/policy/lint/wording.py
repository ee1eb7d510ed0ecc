"""Check names and descriptions: a model must be able to choose this tool, among others, and fill in its parameters."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, cast

from ...core.text import lazy_regex
from ...core.tool import Tool
from ...core.tool_index import ToolIndex
from .finding import Level, LintFinding

_LEGAL = lazy_regex(r"[A-Za-z0-9_-]{1,64}")
"""The names that OpenAI and Anthropic accept for a tool."""
SHORT, LONG = 20, 1024
"""Characters: a shorter description says little; OpenAI's API refuses longer function descriptions."""

ALIKE = 93.0
"""Of 100: two summaries with this similarity say the same (rapidfuzz, the words in any order)."""
NEIGHBOURS = 6
_GIVES = "what it gives back and when to use it"


def check_wording(tool: Tool) -> Iterator[LintFinding]:
    """Check name, description, category and the descriptions of parameters."""
    for level, rule, text, remedy in (*_name(tool.name), *_description(tool.description.strip())):
        yield LintFinding(tool.name, level, rule, text, remedy)
    if not tool.categorized:
        remedy = "give it one: category= where it is made, or in the settings of its server"
        yield LintFinding(tool.name, "warning", "no-category", "names no category, so every call of it asks", remedy)
    yield from _parameters(tool)


def _name(name: str) -> Iterator[tuple[Level, str, str, str]]:
    if not _LEGAL.fullmatch(name):
        text = "has a name that OpenAI and Anthropic refuse; it is sent under another one"
        yield "warning", "name", text, "use letters, digits, _ and -, at most 64 of them"
    elif not (name[0].isalpha() or name[0] == "_"):
        yield "warning", "name", "has a name that Gemini refuses", "let it start with a letter or _"


def _description(text: str) -> Iterator[tuple[Level, str, str, str]]:
    if not text:
        yield "error", "no-description", "has no description", f"say what it does, {_GIVES}"
    elif len(text) < SHORT:
        yield "info", "short-description", f"says little of itself: {text!r}", f"say {_GIVES}"
    elif len(text) > LONG:
        said = f"describes itself in {len(text):,} characters: OpenAI takes {LONG:,}, and every turn pays for it"
        yield "warning", "long-description", said, "shorten it; details belong to the parameters"


def _parameters(tool: Tool) -> Iterator[LintFinding]:
    properties: Any = tool.schema.get("properties")
    if not isinstance(properties, dict):
        return
    silent = [
        name
        for name, schema in cast("dict[str, Any]", properties).items()
        if isinstance(schema, dict) and not _says_something(cast("dict[str, Any]", schema))
    ]
    if silent:
        named = ", ".join(silent[:8]) + (", …" if len(silent) > 8 else "")
        text = f"does not describe {'a parameter' if len(silent) == 1 else f'{len(silent)} parameters'}: {named}"
        yield LintFinding(tool.name, "info", "no-parameter-description", text, "a sentence each: meaning, unit, form")


def _says_something(schema: dict[str, Any]) -> bool:
    return bool(schema.get("description") or schema.get("enum") or "const" in schema or "$ref" in schema)


def check_overlap(tools: Sequence[Tool], among: Sequence[Tool]) -> Iterator[LintFinding]:
    """Yield pairs of tools whose names differ only in case and punctuation, or whose descriptions say the same."""
    from rapidfuzz import fuzz

    spelled: dict[str, list[str]] = {}
    for tool in among:
        spelled.setdefault(_letters(tool.name), []).append(tool.name)
    index = ToolIndex(among)
    told: set[frozenset[str]] = set()
    for tool in tools:
        for other in spelled[_letters(tool.name)]:
            pair = frozenset((tool.name, other))
            if other != tool.name and pair not in told:
                told.add(pair)
                text = f"has nearly the name of {other}"
                yield LintFinding(tool.name, "warning", "overlap", text, "rename one, or offer one of them")
        summary = tool.summary.strip()
        if len(summary) < 15:
            continue
        for other, _ in index.search(summary, NEIGHBOURS):
            pair = frozenset((tool.name, other.name))
            if other is tool or pair in told or not _same_parameters(tool, other) or _names_its_server(tool, other):
                continue
            if fuzz.token_sort_ratio(summary, other.summary.strip()) >= ALIKE:
                told.add(pair)
                text = f"says of itself what {other.name} says: {summary[:80]!r}"
                remedy = "say in which case each is right, or offer one of them"
                yield LintFinding(tool.name, "warning", "overlap", text, remedy)


def _names_its_server(one: Tool, other: Tool) -> bool:
    """Return whether two tools come from different servers, and one says from which: then it says when it is right."""
    servers = {tool.origin.server for tool in (one, other) if tool.origin}
    return len(servers) == 2 and any(f"MCP server {name}" in one.summary + other.summary for name in servers)


def _letters(name: str) -> str:
    return "".join(sign for sign in name.casefold() if sign.isalnum())


def _same_parameters(one: Tool, other: Tool) -> bool:
    return set(one.schema.get("properties", ())) == set(other.schema.get("properties", ()))
