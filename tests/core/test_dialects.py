"""Definitions as providers take them: legal names, strict where it can be, Gemini's subset, valid MCP."""

from __future__ import annotations

import copy
import json
import re
from collections.abc import Iterator
from typing import Annotated, Any, Literal

import jsonschema_rs
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, Field

from toolcrib.core.dialects import DIALECTS, gemini_schema, legal_name, legal_names, strict_schema
from toolcrib.core.registry import ToolRegistry
from toolcrib.core.tool import Tool, tool


class Item(BaseModel):
    name: str
    qty: Annotated[int, Field(ge=1)] = 1


class Tree(BaseModel):
    value: int
    left: Tree | None = None
    right: Tree | None = None
    more: list[Tree] = []


@tool(category="filesystem_read", title="Find things", compact_description="Finds.")
def find(
    query: str,
    mode: Literal["a", "b"] = "a",
    limit: Annotated[int, Field(ge=1, lt=100)] = 10,
    items: list[Item] | None = None,
) -> str:
    """Find things in the store. It looks everywhere.

    Args:
        query: What to look for. Words, not sentences.
        mode: How.
    """
    return ""


PARAMETERS = find.schema


def test_the_frames() -> None:
    text = "Find things in the store. It looks everywhere."
    assert find.to_schema("openai") == {
        "type": "function", "function": {"name": "find", "description": text, "parameters": PARAMETERS},
    }  # fmt: skip
    assert find.to_schema("openai-responses") == {
        "type": "function", "name": "find", "description": text, "parameters": PARAMETERS, "strict": False,
    }  # fmt: skip
    assert find.to_schema("anthropic") == {"name": "find", "description": text, "input_schema": PARAMETERS}
    assert find.to_schema("flat") == find.to_schema("anthropic")
    assert find.to_schema("mcp") == {
        "name": "find", "description": text, "inputSchema": PARAMETERS, "title": "Find things",
        "annotations": {"readOnlyHint": True, "openWorldHint": False},
    }  # fmt: skip
    assert find.to_schema("gemini").keys() == {"name", "description", "parameters"}
    with pytest.raises(ValueError, match="known: openai"):
        find.to_schema("cohere")


def test_compact() -> None:
    body = find.to_schema("anthropic", compact=True)
    assert body["description"] == "Finds."
    assert body["input_schema"]["properties"]["query"]["description"] == "What to look for."
    t = Tool.from_schema(
        "t", "One. Two.",
        {"type": "object", "properties": {"description": {"type": "object", "default": {"description": "Keep. This."}}}},  # noqa: E501
        lambda args: None,
    )  # fmt: skip
    body = t.to_schema("anthropic", compact=True)
    assert body["description"] == "One."
    assert body["input_schema"]["properties"]["description"]["default"] == {"description": "Keep. This."}


def test_a_definition_is_a_copy() -> None:
    before = copy.deepcopy(find.schema)
    for dialect in DIALECTS:
        body = find.to_schema(dialect)
        body.clear()
        for inner in find.to_schema(dialect, compact=True).values():
            if isinstance(inner, dict):
                inner.clear()
    assert find.schema == before


@pytest.mark.parametrize(
    ("options", "hints"),
    [
        ({"category": "filesystem_write"}, {"readOnlyHint": False, "destructiveHint": False, "openWorldHint": False}),
        ({"category": "shell"}, {"readOnlyHint": False, "destructiveHint": True, "openWorldHint": True}),
        ({}, {"readOnlyHint": False, "destructiveHint": True, "openWorldHint": True}),
        ({"category": "network_read"}, {"readOnlyHint": True, "openWorldHint": True}),
        ({"category": "memory"}, {"readOnlyHint": False, "destructiveHint": False, "openWorldHint": False}),
        ({"category": "memory", "read_only": True, "open_world": True}, {"readOnlyHint": True, "openWorldHint": True}),
        (
            {"category": "network_write", "destructive": True, "idempotent": True, "open_world": False},
            {"readOnlyHint": False, "destructiveHint": True, "idempotentHint": True, "openWorldHint": False},
        ),
    ],
)
def test_mcp_hints_follow_from_the_category_unless_said(options: dict[str, Any], hints: dict[str, Any]) -> None:
    assert tool(lambda: None, name="t", **options).to_schema("mcp")["annotations"] == hints


# --- names

LEGAL = re.compile(r"[A-Za-z0-9_-]{1,64}\Z")


@given(st.lists(st.text(max_size=80), unique=True, max_size=20))
def test_names_are_legal_unique_and_stable(names: list[str]) -> None:
    legal = legal_names(names)
    assert set(legal) == set(names) and len(set(legal.values())) == len(names)
    assert all(LEGAL.match(name) for name in legal.values())
    assert all(legal[name] == name for name in names if LEGAL.match(name))
    assert legal_names(names) == legal


def test_a_legal_name_is_never_taken_by_an_illegal_one() -> None:
    squatter = legal_name("a b")
    legal = legal_names(["a b", squatter])
    assert legal[squatter] == squatter and legal["a b"] != squatter


# --- strict


def nodes(schema: Any) -> Iterator[dict[str, Any]]:
    """Every schema in a schema."""
    if isinstance(schema, dict):
        yield schema
        for key, value in schema.items():
            if key in ("properties", "$defs"):
                for inner in value.values():
                    yield from nodes(inner)
            elif key == "items":
                yield from nodes(value)
            elif key == "anyOf":
                for inner in value:
                    yield from nodes(inner)


def test_strict_only_where_the_tool_says_and_the_schema_can() -> None:
    strict = tool(find.fn, strict=True)
    for body in (strict.to_schema("openai")["function"], strict.to_schema("openai-responses")):
        assert body["strict"] is True
        parameters = body["parameters"]
        assert parameters["required"] == ["query", "mode", "limit", "items"]
        assert jsonschema_rs.is_valid(parameters, {"query": "x", "mode": None, "limit": None, "items": None})
        assert not jsonschema_rs.is_valid(parameters, {"query": None, "mode": None, "limit": None, "items": None})

    @tool(strict=True)
    def free(o: dict[str, Any]) -> None: ...

    assert "strict" not in free.to_schema("openai")["function"]
    assert free.to_schema("openai-responses")["strict"] is False
    assert free.to_schema("openai")["function"]["parameters"] == free.schema


def test_what_strict_mode_returns_is_accepted() -> None:
    """A model under strict mode gives null for what it leaves out: that means absent."""
    assert find.validate_params({"query": "x", "mode": None, "limit": None, "items": None}) == []


# --- property tests over many schemas

WORDS = st.sampled_from(["a", "b", "type", "description", "$ref", "items", "default", "x y"])


def schemas() -> st.SearchStrategy[dict[str, Any]]:
    leaf = st.sampled_from([
        {"type": "string"}, {"type": "integer", "minimum": 1}, {"type": "number", "exclusiveMinimum": 0},
        {"type": "boolean", "default": True}, {"type": "null"}, {"enum": ["a", "b"]}, {"enum": [1, 2]}, {"enum": ["a", None]},  # noqa: E501
        {"const": "x"}, {"const": 3}, {"const": None}, {}, {"type": ["string", "null"]}, {"type": ["string", "integer"]},  # noqa: E501
        {"type": "string", "format": "date-time"}, {"type": "string", "format": "uri"}, {"$ref": "#/$defs/D"},
        {"type": "array"}, {"type": "object"}, {"type": "object", "additionalProperties": {"type": "integer"}},
        {"type": "string", "pattern": "^a", "description": "Said. Twice."}, {"not": {"type": "string"}},
    ])  # fmt: skip

    def nested(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
        return (
            st.builds(lambda i: {"type": "array", "items": i}, inner)
            | st.builds(lambda b: {"anyOf": b}, st.lists(inner, min_size=1, max_size=3))
            | st.builds(lambda b: {"oneOf": b, "description": "one"}, st.lists(inner, min_size=1, max_size=3))
            | st.builds(lambda b: {"allOf": b}, st.lists(inner, min_size=1, max_size=2))
            | objects(inner)
        )

    def objects(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
        return st.builds(
            lambda p, r, c: {"type": "object", "properties": p, "required": [k for k in p if r], **({"additionalProperties": False} if c else {})},  # noqa: E501
            st.dictionaries(WORDS, inner, max_size=3), st.booleans(), st.booleans(),
        )  # fmt: skip

    node = st.recursive(leaf, nested, max_leaves=6)
    return st.builds(
        lambda body, d: {**body, "$defs": {"D": d}},
        objects(node),
        st.sampled_from([
            {"type": "string"},
            {"type": "object", "properties": {"again": {"$ref": "#/$defs/D"}, "too": {"$ref": "#/$defs/D"}}},
        ]),
    )  # fmt: skip


@given(schemas(), st.booleans(), st.booleans())
def test_every_dialect_of_any_schema(schema: dict[str, Any], strict: bool, compact: bool) -> None:
    t = Tool.from_schema("some tool", "Does it. Well.", schema, lambda args: None, strict=strict)
    for dialect in DIALECTS:
        body = t.to_schema(dialect, compact)
        json.dumps(body)
        name = (body["function"] if dialect == "openai" else body)["name"]
        assert LEGAL.match(name)
        if dialect == "gemini":
            check_gemini(body.get("parameters"))
        elif dialect == "mcp":
            assert body["inputSchema"]["type"] == "object"
    assert t.validate_params({"zzz": 1}) or not t.arguments.closed  # validation stays with the full schema


@given(schemas())
def test_strict_schemas_keep_openais_rules(schema: dict[str, Any]) -> None:
    strict = strict_schema(schema)
    if strict is None:
        return
    for node in nodes(strict):
        if node.get("type") == "object" or "properties" in node:
            assert node["additionalProperties"] is False and node["required"] == list(node["properties"])
        assert "default" not in node and "oneOf" not in node and "allOf" not in node
        assert "$ref" not in node or set(node) == {"$ref"}
    jsonschema_rs.validator_for(strict)


GEMINI = {
    "type", "description", "enum", "items", "properties", "required", "minimum", "maximum", "minItems", "maxItems",
    "minLength", "maxLength", "pattern", "format", "nullable", "anyOf", "title",
}  # fmt: skip


def check_gemini(schema: Any) -> None:
    if schema is None:
        return
    assert set(schema) <= GEMINI, schema
    if "type" in schema:
        assert schema["type"] in ("string", "integer", "number", "boolean", "array", "object", "null")
    if "enum" in schema:
        assert schema["type"] == "string" and all(isinstance(option, str) for option in schema["enum"])
    if schema.get("type") == "array":
        assert isinstance(schema["items"], dict)
    assert set(schema.get("required", ())) <= set(schema.get("properties", {}))
    for inner in [
        *schema.get("properties", {}).values(),
        *schema.get("anyOf", ()),
        *([schema["items"]] if "items" in schema else []),
    ]:
        check_gemini(inner)


def test_gemini_says_what_it_cannot_express() -> None:
    body = find.to_schema("gemini")["parameters"]
    assert body["properties"]["limit"] == {
        "type": "integer",
        "minimum": 1,
        "description": "(less than 100; default 10)",
    }
    assert body["properties"]["mode"] == {"type": "string", "enum": ["a", "b"], "description": "How. (default a)"}
    assert body["properties"]["items"]["nullable"] is True
    assert body["properties"]["items"]["items"]["properties"]["qty"]["minimum"] == 1
    one = gemini_schema(
        {"type": "object", "properties": {"x": {"const": 3}, "y": {"enum": [1, 2]}, "z": {"const": "q"}}}
    )
    assert one["properties"] == {
        "x": {"type": "integer", "description": "(always 3)"},
        "y": {"type": "integer", "description": "(one of 1, 2)"},
        "z": {"type": "string", "enum": ["q"], "description": "(always q)"},
    }


def test_gemini_takes_no_object_without_properties() -> None:
    assert "parameters" not in tool(lambda: None, name="t").to_schema("gemini")


def test_recursive_types_stay_small() -> None:
    @tool
    def plant(tree: Tree) -> None: ...

    assert len(json.dumps(plant.to_schema("gemini"))) < 5_000
    check_gemini(plant.to_schema("gemini")["parameters"])
    wide = {"type": "object", "properties": {"r": {"$ref": "#/$defs/n0"}}, "$defs": {
        f"n{i}": {"type": "object", "properties": {k: {"$ref": f"#/$defs/n{i + 1}"} for k in "abcdefgh"}} for i in range(30)  # noqa: E501
    } | {"n30": {"type": "string"}}}  # fmt: skip
    assert len(json.dumps(gemini_schema(wide))) < 100_000


def test_dialects_through_a_registry_have_no_two_names_alike() -> None:
    names = ["a.b", "a b", "a/b", "é", "x" * 65, "x" * 66, "a_b"]
    registry = ToolRegistry([tool(lambda: None, name=n.replace(" ", "·"), category="memory") for n in names])
    for dialect in DIALECTS:
        bodies = registry.definitions(dialect)
        spelled = [(b["function"] if dialect == "openai" else b)["name"] for b in bodies]
        assert len(set(spelled)) == len(names) and all(LEGAL.match(n) for n in spelled)


def test_further_fields_of_mcp_take_the_place_of_none_of_ours() -> None:
    made = Tool.from_schema("t", "T.", {"type": "object"}, lambda args: "")
    made.mcp_fields = {
        "name": "other",
        "icons": [{"src": "https://x/"}],
        "annotations": {"title": "A", "readOnlyHint": True},
    }
    body = made.to_schema("mcp")
    assert (body["name"], body["icons"], body["annotations"]["title"]) == ("t", [{"src": "https://x/"}], "A")
    assert body["annotations"]["readOnlyHint"] is False
