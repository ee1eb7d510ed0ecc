"""Hostile arguments: never an exception out of execute, bounded time, bounded text."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel

from toolcrib.core.call import Call
from toolcrib.core.output import ToolOutput
from toolcrib.core.registry import ToolRegistry
from toolcrib.core.tool import Tool, tool

SECONDS = 6.0
"""What 1 MB of the worst arguments may take (2 s on a busy machine); a bound that is missed takes 15 s."""
LOOPS = 80
"""The same on a slower machine, in times of `a_loop` there: the worst case takes 33, a missed bound 250."""
CHARACTERS = 9_000


class Model(BaseModel):
    a: int = 0


@dataclass
class Data:
    b: str = ""


@tool(category="memory")
def typed(
    x: int = 0,
    o: dict[str, Any] | None = None,
    xs: list[int] | None = None,
    us: list[int | Model | Data | bool] | None = None,
) -> str:
    """Typed."""
    return "ran"


@tool(category="memory")
def open_(x: int = 0, **more: Any) -> str:
    """Takes anything."""
    return "ran"


RAW = Tool.from_schema(
    "raw",
    "Raw.",
    {
        "type": "object",
        "properties": {
            "x": {"type": "integer"},
            "o": {"type": "object"},
            "xs": {"type": "array", "items": {"type": "integer"}},
            "us": {"type": "array", "items": {"anyOf": [{"type": "integer"}, {"$ref": "#/$defs/m"}]}},
        },
        "$defs": {"m": {"type": "object", "properties": {"a": {"type": "integer"}}, "additionalProperties": False}},
    },
    lambda args: "ran",
    category="memory",
)
REGISTRY = ToolRegistry([typed, open_, RAW])

BIG = 100_000
TEXTS: dict[str, str | bytes] = {
    "NaN": '{"x": NaN}',
    "Infinity": '{"o": {"a": [-Infinity]}}',
    "1e999": '{"o": {"a": 1e999}}',
    "huge integer": '{"x": ' + "9" * 5000 + "}",
    "huge integer as text": '{"x": "' + "9" * 5000 + '"}',
    "lone surrogate": '{"o": {"a": "\\ud800"}}',
    "raw surrogate": '{"o": {"a": "\ud800"}}',
    "surrogate key": '{"\\udfff": 1}',
    "invalid UTF-8": b'{"o": "\xff\xfe"}',
    "NUL": '{"o": {"\\u0000": "\\u0000"}}',
    "open brackets": "[" * 100_000,
    "open objects": '{"o":' * 100_000,
    "closed brackets": '{"o": {"a":' + "[" * 100_000 + "]" * 100_000 + "}}",
    "closed objects": '{"o":' * 100_000 + "1" + "}" * 100_000,
    "deep but legal": '{"o": {"a":' + "[" * 150 + "]" * 150 + "}}",
    "1 MB string": '{"x": "' + "k" * 1_000_000 + '"}',
    "1 MB key": '{"' + "k" * 1_000_000 + '": 1}',
    "1 MB of unsafe characters": '{"' + "\u202e" * 300_000 + '": 1}',
    "wrong items": '{"xs": [' + '"a",' * BIG + "1]}",
    "wrong union items": '{"us": [' + '"a",' * BIG + "1]}",
    "wrong union objects": '{"us": [' + '{"q":1},' * 50_000 + "1]}",
    "items to convert": '{"xs": [' + '"1",' * 100_000 + "1]}",
    "union items to convert": '{"us": [' + '"1",' * 20_000 + "1]}",
    "unknown keys": "{" + ",".join(f'"k{i}":1' for i in range(80_000)) + "}",
    "duplicate keys": "{" + ",".join('"x":1' for _ in range(100_000)) + "}",
    "bare quotes": '{"x":' + 'x"' * 100_000 + "}",
    "backslashes": '{"x": "' + "\\" * 300_001 + '"}',
    "python dict": "{'xs': [" + "'a'," * 60_000 + "]}",
    "encoded often": '"' * 100_000,
    "long number": '{"x": 1' + "0" * 1_000_000 + "}",
    "long fraction": '{"o": {"a": 0.' + "1" * 1_000_000 + "}}",
    "nothing": "",
    "spaces": " " * 1_000_000,
    "only a BOM": "\ufeff{}",
}


def a_loop() -> float:
    """CPU seconds of a million turns of a loop: how fast this machine is just now."""
    begun = time.process_time()
    sum(n * n for n in range(1_000_000))
    return time.process_time() - begun


@pytest.mark.parametrize("name", ["typed", "open_", "raw"])
@pytest.mark.parametrize("case", TEXTS)
async def test_hostile_text(case: str, name: str) -> None:
    begun = time.process_time()
    output = await REGISTRY.execute(name, TEXTS[case])
    took = time.process_time() - begun
    assert took < SECONDS or took < LOOPS * a_loop()
    assert isinstance(output, ToolOutput) and output.for_llm
    assert len(output.for_llm) < CHARACTERS and len(repr(output.meta)) < 4 * CHARACTERS
    assert output.error_kind in (None, "invalid")
    assert output.for_llm.isprintable() or set(output.for_llm) - {"\n"} == {
        c for c in output.for_llm if c.isprintable()
    }


def cyclic() -> dict[str, Any]:
    value: dict[str, Any] = {}
    value["o"] = value
    return value


def deep(n: int) -> dict[str, Any]:
    value: dict[str, Any] = {}
    for _ in range(n):
        value = {"o": value}
    return value


class Liar(dict[str, Any]):
    def items(self) -> Any:
        raise RuntimeError("no items")

    def __iter__(self) -> Any:
        raise RuntimeError("no keys")


@pytest.mark.parametrize(
    "arguments",
    [
        {"x": float("nan")}, {"x": float("inf")}, {"o": {"a": float("-inf")}}, {1: 2}, {None: 1}, {(1, 2): 3},
        {"x": object()}, {"x": "\ud800"}, {"\ud800": 1}, cyclic(), deep(300), deep(100_000), {"x": 10**5000}, Liar(x=1),
        {"x": b"\xff"}, {"x": {1, 2}}, {"x": lambda: 1}, 5, [1], 1.5, True, object(), bytearray(b"{}"), ("x",), {1, 2},
    ],
    ids=lambda v: type(v).__name__ + str(len(v) if hasattr(v, "__len__") else ""),
)  # fmt: skip
@pytest.mark.parametrize("name", ["typed", "open_", "raw"])
async def test_hostile_objects(name: str, arguments: Any) -> None:
    output = await REGISTRY.execute(name, arguments)
    assert output.error_kind in (None, "invalid") and len(output.for_llm) < CHARACTERS


@given(st.text(max_size=200) | st.binary(max_size=200))
def test_any_text_at_all(text: str | bytes) -> None:
    for t in REGISTRY:
        for problem in t.validate_params(text):  # pyright: ignore
            assert len(problem) < CHARACTERS


KEYS = st.sampled_from(["x", "o", "xs", "us", "a", "b", "arguments", "input", ""])
HOSTILE = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=5)
    | st.sampled_from(["1", "true", "[1]", '{"a": 1}']),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=3),
    max_leaves=10,
)


@given(st.dictionaries(KEYS, HOSTILE, max_size=4), st.sampled_from(["typed", "open_", "raw"]))
def test_what_is_judged_is_what_is_run(arguments: dict[str, Any], name: str) -> None:
    t = REGISTRY.require(name)
    if t.validate_params(arguments):
        return
    kwargs, text = t.bind(arguments)
    judged = Call("c", t, text, None).arguments  # pyright: ignore
    assert set(judged) <= set(kwargs)
    for key, value in judged.items():
        if key != "us":  # members of the union become models and dataclasses
            assert kwargs[key] == value and type(kwargs[key]) is type(value)
