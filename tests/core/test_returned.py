"""Output schemas: promised by annotation or by hand, and kept."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest
from pydantic import BaseModel, Field, computed_field
from typing_extensions import TypedDict

from toolcrib.core.errors import ToolDefinitionError
from toolcrib.core.finish import HINT_TEXT
from toolcrib.core.output import ImageBlock, ToolOutput
from toolcrib.core.registry import ToolRegistry
from toolcrib.core.tool import BaseTool, Tool, tool


class Weather(BaseModel):
    celsius: float
    from_: str = Field("station", alias="from")
    tags: list[str] = []

    @computed_field
    @property
    def fahrenheit(self) -> float:
        return self.celsius * 9 / 5 + 32


@dataclass
class Point:
    x: int
    y: int = 0


class Row(TypedDict):
    name: str


async def outcome(fn: Any, **options: Any) -> ToolOutput:
    return await ToolRegistry([tool(fn, name="t", category="memory", **options)]).execute("t")


def weather() -> Weather:
    return Weather(celsius=20)


def point() -> Point:
    return Point(1)


def row() -> Row:
    return {"name": "a"}


@pytest.mark.parametrize("fn", [weather, point, row])
async def test_the_schema_follows_from_the_annotation_and_fits_what_is_returned(fn: Any) -> None:
    t = tool(fn, category="memory")
    assert t.output_schema is not None and t.output_schema["type"] == "object"
    assert t.to_schema("mcp")["outputSchema"] == t.output_schema
    output = await outcome(fn)
    assert not output.is_error and isinstance(output.data, dict)


def test_the_schema_is_of_what_is_written_out() -> None:
    schema = tool(weather).output_schema
    assert schema is not None and set(schema["properties"]) == {"celsius", "from", "tags", "fahrenheit"}


def test_other_annotations_promise_nothing() -> None:
    def text() -> str: ...
    def several() -> list[Weather]: ...
    def maybe() -> Weather | None: ...
    def anything() -> Any: ...
    def nothing() -> None: ...
    def output() -> ToolOutput: ...
    def image() -> ImageBlock: ...
    def table() -> dict[str, int]: ...
    def silent(): ...

    for fn in (text, several, maybe, anything, nothing, output, image, table, silent):
        assert tool(fn).output_schema is None, fn.__name__
        assert "outputSchema" not in tool(fn).to_schema("mcp")
    assert tool(weather, output_schema=False).output_schema is None


SCHEMA = {
    "type": "object",
    "properties": {"n": {"type": "integer"}, "rows": {"type": "array", "items": {"type": "string"}}},
    "required": ["n"],
}


@pytest.mark.parametrize(
    ("result", "word"),
    [
        ({"n": "x"}, "n should be an integer"),
        ({}, "missing required n"),
        ({"n": 1, "rows": ["a", 2]}, "rows[1] should be a string"),
        ("just text", "no structured data"),
        (None, "no structured data"),
        ([1], "should be an object"),
        (ToolOutput("x", data={"n": None}), "n should be an integer"),
        (ToolOutput("x", data={1: object()}), ""),
    ],
)
async def test_a_broken_promise_is_an_error_that_says_what_is_wrong(result: Any, word: str) -> None:
    output = await outcome(lambda: result, output_schema=SCHEMA)
    assert output.error_kind == "exception" and "output schema" in output.for_llm and word in output.for_llm
    assert output.data is None


async def test_a_kept_promise_and_errors_go_through() -> None:
    output = await outcome(lambda: {"n": 1}, output_schema=SCHEMA)
    assert output.data == {"n": 1} and not output.is_error
    assert (await outcome(lambda: ToolOutput.error("failed"), output_schema=SCHEMA)).error_kind == "tool"
    output = await outcome(lambda: {"x": "wrong"}, output_schema=False)
    assert output.data == {"x": "wrong"}


async def test_an_annotated_tool_that_returns_something_else() -> None:
    def lies() -> Point:
        return {"x": "nowhere"}  # pyright: ignore

    assert "x should be an integer" in (await outcome(lies)).for_llm


def test_an_invalid_output_schema_is_found() -> None:
    t = tool(lambda: None, name="t", output_schema={"type": "nonsense"})
    with pytest.raises(ToolDefinitionError, match="output_schema"):
        ToolRegistry([t])


def test_a_class_tool_may_promise_too() -> None:
    class Promises(Tool):
        name = "p"
        output_schema = SCHEMA  # pyright: ignore
        parameters = {}  # noqa: RUF012

        async def execute(self) -> Any:  # pyright: ignore
            return {"n": "x"}

    import asyncio

    assert asyncio.run(ToolRegistry([Promises()]).execute("p")).is_error


async def test_a_text_that_begins_with_error_is_a_failure_where_that_is_set() -> None:
    def fails() -> str:
        """Fail."""
        return "Error: no such city"

    class Ported(BaseTool):
        """Fail."""

        name = "ported"
        parameters = {"city": {"type": "string", "default": ""}}  # noqa: RUF012

        async def run(self, **kwargs: Any) -> str:
            return "Error: no such city" if kwargs else "Errors are rare"

    registry = ToolRegistry([tool(fails), tool(fails, name="old_one"), tool(fails, name="own", errors_as_text=True)])
    registry.register(Ported())
    registry.stages.errors_as_text = ("old_*",)
    outputs = {name: await registry.execute(name, {}) for name in ("fails", "old_one", "own")}
    outputs["ported"] = await registry.execute("ported", {"city": "x"})
    assert {name: output.error_kind for name, output in outputs.items()} == {
        "fails": None, "old_one": "tool", "own": "tool", "ported": "tool",
    }  # fmt: skip
    assert outputs["own"].for_llm.count(HINT_TEXT) == 1 and HINT_TEXT not in outputs["fails"].for_llm
    assert not (await registry.execute("ported", {})).is_error
