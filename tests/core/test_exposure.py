from __future__ import annotations

from collections.abc import Iterable

from toolcrib.core.exposure import MAX_FOUND, Exposure
from toolcrib.core.registry import ToolRegistry
from toolcrib.core.tool import Tool, tool


class Named(Tool):
    def __init__(self, name: str, source: str = "own", is_meta: bool = False) -> None:
        self.parameters = {"type": "object", "properties": {}}
        self.name, self.description, self.source, self.is_meta = name, f"Do {name}.", source, is_meta

    async def execute(self) -> str:
        return self.name


def doors(_: Exposure) -> Iterable[Tool]:
    return [Named("search_tools", is_meta=True), Named("call_tool", is_meta=True)]


def names(tools: Iterable[Tool]) -> list[str]:
    return [tool.name for tool in tools]


def test_up_to_the_limit_everything_is_listed() -> None:
    registry = ToolRegistry([Named("a"), Named("m", "mcp:x")])
    exposure = Exposure(registry, doors, limit=2)
    assert not exposure.active
    assert names(exposure.listed("s")) == names(registry) == ["a", "m"]


def test_beyond_it_the_doors_stand_for_the_rest() -> None:
    registry = ToolRegistry([Named("a")])
    exposure = Exposure(registry, doors, limit=3)
    for n in range(3):
        registry.register(Named(f"m{n}", "mcp:x"))
    assert exposure.active
    assert names(exposure.listed("s")) == ["a", "call_tool", "search_tools"]
    assert names(exposure.hidden()) == ["m0", "m1", "m2"]
    registry.unregister("m0")
    assert not exposure.active
    assert names(registry) == ["a", "m1", "m2"]


def test_a_session_sees_what_it_found_and_others_do_not() -> None:
    registry = ToolRegistry([Named("a"), *(Named(f"m{n}", "mcp:x") for n in range(9))])
    exposure = Exposure(registry, doors, limit=3)
    told: list[str | None] = []
    stop = exposure.on_reveal(told.append)
    exposure.reveal("s", [registry.require("m3")])
    exposure.reveal("s", [registry.require("m3"), registry.require("a")])  # nothing new
    assert told == ["s"]
    assert names(exposure.listed("s")) == ["a", "call_tool", "search_tools", "m3"]
    assert "m3" not in names(exposure.listed("t"))
    stop()
    exposure.forget("s")
    assert "m3" not in names(exposure.listed("s"))
    exposure.reveal("s", [registry.require("m4")])
    assert told == ["s"]


def test_more_own_tools_than_the_limit_leaves_those_that_are_always_there() -> None:
    registry = ToolRegistry([Named(f"o{n}") for n in range(9)])
    exposure = Exposure(registry, doors, limit=3, always=["o1"])
    assert names(exposure.listed()) == ["call_tool", "o1", "search_tools"]


def test_a_limit_of_nought_lists_all() -> None:
    registry = ToolRegistry([Named(f"o{n}") for n in range(90)])
    exposure = Exposure(registry, doors, limit=0)
    assert len(exposure.listed()) == 90
    assert not exposure.active


def test_what_a_session_found_is_bounded() -> None:
    registry = ToolRegistry([Named(f"m{n:03}", "mcp:x") for n in range(MAX_FOUND + 50)])
    exposure = Exposure(registry, doors, limit=3)
    for found in list(registry):
        if not found.is_meta:
            exposure.reveal("s", [found])
    shown = names(exposure.listed("s"))
    assert len(shown) == MAX_FOUND + 2
    assert "m000" not in shown
    assert f"m{MAX_FOUND + 49:03}" in shown


def test_a_tool_of_a_doors_name_stays() -> None:
    @tool(name="search_tools", category="memory")
    def mine() -> str:
        """My own search."""
        return "mine"

    registry = ToolRegistry([mine, *(Named(f"m{n}", "mcp:x") for n in range(9))])
    Exposure(registry, doors, limit=3)
    assert registry.require("search_tools") is mine
