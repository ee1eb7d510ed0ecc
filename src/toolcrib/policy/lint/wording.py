"""Check names and descriptions: a model must be able to choose this tool and fill in its parameters."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, cast

from .finding import LintFinding

if TYPE_CHECKING:
    from ...core.tool import Tool

_LEGAL = re.compile(r"[A-Za-z0-9_-]{1,64}")
"""The names that OpenAI and Anthropic accept for a tool."""
SHORT, LONG = 20, 1024
"""Characters: a shorter description says little; OpenAI's API refuses longer function descriptions."""


def check_wording(tool: Tool) -> Iterator[LintFinding]:
    """Check name, description, category and the descriptions of parameters."""
    yield from _name(tool)
    yield from _description(tool)
    if not tool.categorized:
        yield LintFinding(
            tool.name, "warning", "no-category", "names no category, so every call of it asks",
            "give it one: category= where it is made, or in the settings of its server",
        )  # fmt: skip
    yield from _parameters(tool)


def _name(tool: Tool) -> Iterator[LintFinding]:
    if not _LEGAL.fullmatch(tool.name):
        yield LintFinding(
            tool.name, "warning", "name", "has a name that OpenAI and Anthropic refuse; it is sent under another one",
            "use letters, digits, _ and -, at most 64 of them",
        )  # fmt: skip
    elif not (tool.name[0].isalpha() or tool.name[0] == "_"):
        yield LintFinding(
            tool.name, "warning", "name", "has a name that Gemini refuses", "let it start with a letter or _"
        )  # fmt: skip


def _description(tool: Tool) -> Iterator[LintFinding]:
    text = tool.description.strip()
    if not text:
        remedy = "say what it does, what it gives back and when to use it"
        yield LintFinding(tool.name, "error", "no-description", "has no description", remedy)
    elif len(text) < SHORT:
        remedy = "say what it gives back and when to use it"
        yield LintFinding(tool.name, "info", "short-description", f"says little of itself: {text!r}", remedy)
    elif len(text) > LONG:
        yield LintFinding(
            tool.name, "warning", "long-description",
            f"describes itself in {len(text):,} characters: OpenAI takes {LONG:,}, and every turn pays for it",
            "shorten it; details belong to the parameters",
        )  # fmt: skip


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
