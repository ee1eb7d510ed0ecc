from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolcrib.core.registry import ToolRegistry
from toolcrib.core.tool import Tool
from toolcrib.core.tool_index import ToolIndex, asked, kin, stem

DATA = Path(__file__).parent / "data"


class Described(Tool):
    def __init__(self, name: str, description: str = "", parameters: Any = (), title: str | None = None) -> None:
        self.name, self.description, self.title = name, description, title
        self.parameters = {"type": "object", "properties": {key: {"type": "string"} for key in parameters}}

    async def execute(self, **_: Any) -> str:
        return self.name


@pytest.fixture(scope="module")
def real() -> list[Tool]:
    """What seven MCP servers and GitHub's OpenAPI description (MIT) offered in November 2026; README beside it."""
    rows = json.loads(gzip.decompress((DATA / "real_tools.json.gz").read_bytes()))
    return [Described(**row) for row in rows]


def questions() -> list[tuple[str, str]]:
    lines = (DATA / "tool_questions.tsv").read_text().splitlines()
    return [(question, tool) for question, tool in (line.split("\t") for line in lines)]


def test_finds_what_people_ask_for(real: list[Tool]) -> None:
    """Of 1,275 real tools, the right one is among the first five for nine questions of ten."""
    index = ToolIndex(real)
    names = {tool.name for tool in real}
    asked_for = questions()
    assert len(asked_for) > 100
    assert {tool for _, tool in asked_for} <= names
    missed = [q for q, wanted in asked_for if wanted not in {tool.name for tool, _ in index.search(q, 5)}]
    assert len(missed) <= 0.1 * len(asked_for), missed


def test_a_name_finds_its_tool_first(real: list[Tool]) -> None:
    index = ToolIndex(real)
    for tool in real[::25]:
        assert index.search(tool.name, 1)[0][0].name == tool.name
        assert index.search(tool.name.upper(), 1)[0][0].name == tool.name


def test_fields_endings_and_kin() -> None:
    tools = [
        Described("createIssue", "Open a ticket."),
        Described("paint", "Colour a fence.", ["fence_id", "brushSize"]),
        Described("wipe", "Erase all entries of a table."),
    ]
    index = ToolIndex(tools)

    def first(query: str) -> str | None:
        found = index.search(query, 3)
        return found[0][0].name if found else None

    assert first("creating issues") == "createIssue"
    assert first("bug") == "createIssue"
    assert first("fences") == "paint"
    assert first("size of the brush") == "paint"
    assert first("delete table entry") == "wipe"
    assert first("the of and") == "wipe"  # words that say nothing count where there are no others
    assert first("???") is None
    assert first("") is None
    assert first("zeppelin") is None


def test_what_is_hidden_is_not_found_and_does_not_cost_a_place() -> None:
    tools = [Described(f"cut_{n}", "Cut wood.") for n in range(10)]
    found = ToolIndex(tools).search("cut wood", 3, lambda tool: tool.name < "cut_7")
    assert [tool.name for tool, _ in found] == ["cut_7", "cut_8", "cut_9"]


@given(st.text(max_size=60))
def test_any_question_is_answered(query: str) -> None:
    index = ToolIndex([Described("a_b", "What é x."), Described("c", "")])
    for tool, score in index.search(query, 2):
        assert tool.name in ("a_b", "c")
        assert score > 0
    assert all(word for word in asked(query))


@given(st.from_regex(r"[a-z]{1,12}", fullmatch=True))
def test_stems(word: str) -> None:
    assert stem(word)
    assert word not in kin(stem(word))


def test_the_registry_searches_what_it_holds_now() -> None:
    registry = ToolRegistry([Described("saw", "Cut wood.")])
    assert [tool.name for tool in registry.search("cut wood")] == ["saw"]
    registry.register(Described("axe", "Cut wood with an axe."))
    assert {tool.name for tool in registry.search("cut wood")} == {"saw", "axe"}
    registry.unregister("saw")
    assert [tool.name for tool in registry.search("cut wood")] == ["axe"]
    registry.register(Described("axe", "Peel an apple."), on_conflict="replace")
    assert registry.search("cut wood") == []
