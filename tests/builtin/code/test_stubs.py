"""Tools as typed functions."""

from __future__ import annotations

import ast
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolcrib import Tool
from toolcrib.builtin.code.stubs import described, function_name, functions_of, stubs_text


def made(schema: dict[str, Any], output: dict[str, Any] | None = None, name: str = "t") -> Any:
    def nothing(args: dict[str, Any], /) -> str:
        return ""

    each = Tool.from_schema(name, "Does it.\n\nMore.", {"type": "object", **schema}, nothing, output_schema=output)
    return functions_of([each], function_name(name))[function_name(name)]


def test_a_stub_has_types_defaults_and_a_line_of_the_description() -> None:
    schema = {
        "properties": {
            "limit": {"type": "integer"},
            "path": {"type": "string"},
            "kind": {"enum": ["a", "b", None]},
            "tags": {"type": "array", "items": {"anyOf": [{"type": "string"}, {"type": "null"}]}},
        },
        "required": ["path"],
        "additionalProperties": False,
    }
    stub = made(schema).stub
    assert stub == (
        "async def t(path: str, limit: int = ..., kind: Literal['a', 'b', None] = ..., tags: list[str | None] = ...)"
        ' -> str:\n    "Does it."\n'
    )


def test_objects_become_classes_and_results_data() -> None:
    output = {
        "type": "object", "required": ["n"],
        "properties": {"n": {"type": "integer"}, "more": {"$ref": "#/$defs/m"}},
        "$defs": {"m": {"type": "object", "properties": {"x": {"type": "number"}}}},
    }  # fmt: skip
    stub = made({}, output).stub
    assert "TypedDict('t_result_result_more_0', {'x': NotRequired[float]})" in stub
    assert "{'n': int, 'more': NotRequired[t_result_result_more_0]}" in stub
    assert "-> t_result_result_1:" in stub


def test_no_tool_of_a_server_takes_the_name_of_another_tool() -> None:
    def of(name: str, source: str) -> Tool:
        return Tool.from_schema(name, "x", {"type": "object"}, lambda args: "", source=source)

    ours = [of("read_file", "own"), of("exec", "own")]
    theirs = [of(name, "mcp:s") for name in ("read-file", "exec_", "mcp_s_a-b", "mcp_s_a_b")]
    found = functions_of([*theirs, *ours], "")
    assert {name: each.tool.name for name, each in found.items()} == {
        "read_file": "read_file", "exec_": "exec", "mcp_s_a_b": "mcp_s_a_b",
    }  # fmt: skip


def test_a_schema_that_refers_to_itself_many_times_is_not_written_out() -> None:
    many = {f"p{n}": {"$ref": "#/$defs/A"} for n in range(200)}  # as classes they would be 200 MB
    stub = made(
        {"properties": {"a": {"$ref": "#/$defs/A"}}, "$defs": {"A": {"type": "object", "properties": many}}}
    ).stub
    assert len(stub) < 100_000


@pytest.mark.parametrize(
    ("name", "function"),
    [("exec", "exec_"), ("a-b.c", "a_b_c"), ("1st", "_1st"), ("class", "class_"), ("read_file", "read_file")],
)
def test_names_are_legal(name: str, function: str) -> None:
    assert function_name(name) == function


def test_arguments_are_bound_as_in_python() -> None:
    function = made({"properties": {"b": {}, "a": {}}, "required": ["a"], "additionalProperties": False})
    assert function.arguments(["x"], {"b": 2}) == {"a": "x", "b": 2}
    with pytest.raises(TypeError, match="two values for 'a'"):
        function.arguments([1], {"a": 2})
    with pytest.raises(TypeError, match="takes 2 arguments"):
        function.arguments([1, 2, 3], {})


ANY = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(
        st.sampled_from(["type", "properties", "items", "enum", "const", "anyOf", "$ref", "required", "a b", "class"])
        | st.text(max_size=5), inner, max_size=4,
    ),
    max_leaves=20,
)  # fmt: skip


@given(properties=st.dictionaries(st.text(max_size=10), ANY, max_size=4))
def test_whatever_a_schema_says_the_stubs_are_python(properties: dict[str, Any]) -> None:
    schema = {"type": "object", "properties": properties}
    odd: Any = SimpleNamespace(
        name="odd", source="own", unaccepted=False, description='""" \\ \n\'', schema=schema, output_schema=schema
    )
    ast.parse(stubs_text(functions_of([odd], "odd").values()))
    ast.parse(described(odd))
