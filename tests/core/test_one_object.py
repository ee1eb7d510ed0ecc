"""Schemas that MCP allows and providers refuse are sent as one object; validation uses them whole."""

from __future__ import annotations

import json
import re
from typing import Any

import jsonschema_rs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolcrib.core.dialects import MAX_DESCRIPTION, definition
from toolcrib.core.one_object import UNIONS, one_object, sub_schemas
from toolcrib.core.registry import ToolRegistry
from toolcrib.core.tool import Tool

TEXT, NUMBER = {"type": "string"}, {"type": "number"}
PATHS, SCOPES = {"type": "array", "items": TEXT}, {"type": "array", "items": NUMBER}


class Given(Tool):
    name, description, category = "given", "Take what is given.", "memory"

    def __init__(self, schema: dict[str, Any], description: str = "Take what is given.") -> None:
        self.parameters, self.description = schema, description
        super().__init__()

    async def execute(self, args: dict[str, Any]) -> str:
        return json.dumps(args)


def sent(schema: dict[str, Any], dialect: Any = "anthropic") -> dict[str, Any]:
    made = definition(Given(schema), schema, dialect)
    return made.get("input_schema") or made.get("parameters") or made["function"]["parameters"]


@pytest.mark.parametrize(
    ("schema", "properties", "required", "said"),
    [
        (  # as of a server of 2026: one of two
            {
                "type": "object", "properties": {"project": TEXT, "paths": PATHS, "scopes": SCOPES},
                "required": ["project"], "anyOf": [{"required": ["paths"]}, {"required": ["scopes"]}],
            },
            {"project": TEXT, "paths": PATHS, "scopes": SCOPES}, ["project"],
            "give what one of these needs: paths | scopes",
        ),
        (
            {"oneOf": [
                {"type": "object", "properties": {"kind": {"const": "a"}, "x": TEXT}, "required": ["kind", "x"]},
                {"type": "object", "properties": {"kind": {"const": "b"}, "y": TEXT}, "required": ["kind"]},
            ]},
            {"kind": {"anyOf": [{"const": "a"}, {"const": "b"}]}, "x": TEXT, "y": TEXT}, ["kind"],
            "give what one of these needs: kind, x | kind",
        ),
        (
            {"allOf": [{"$ref": "#/$defs/base"}, {"properties": {"b": NUMBER}, "required": ["b"]}],
             "$defs": {"base": {"properties": {"a": TEXT}, "required": ["a"]}}},
            {"a": TEXT, "b": NUMBER}, ["a", "b"], None,
        ),
        (
            {"$ref": "#/$defs/base", "$defs": {"base": {"type": "object", "properties": {"a": TEXT}}}},
            {"a": TEXT}, None, None,
        ),
    ],
)  # fmt: skip
@pytest.mark.parametrize("dialect", ["openai", "openai-responses", "anthropic"])
def test_a_union_at_the_top_becomes_one_object(
    schema: dict[str, Any], properties: Any, required: Any, said: Any, dialect: Any
) -> None:
    found = sent(schema, dialect)
    assert found["type"] == "object" and not set(UNIONS) & set(found)
    assert (found["properties"], found.get("required"), found.get("description")) == (properties, required, said)
    assert jsonschema_rs.validator_for(found) is not None


async def test_validation_uses_the_whole_schema() -> None:
    schema = {"properties": {"a": TEXT, "b": TEXT}, "anyOf": [{"required": ["a"]}, {"required": ["b"]}]}
    registry = ToolRegistry([Given({"type": "object", **schema})])
    assert (await registry.execute("given", {})).error_kind == "invalid"
    assert not (await registry.execute("given", {"b": "x"})).is_error


def test_gemini_gets_the_parameters_of_a_union() -> None:
    schema = {"type": "object", "oneOf": [{"properties": {"a": TEXT}}, {"properties": {"b": NUMBER}}]}
    assert sent(schema, "gemini")["properties"].keys() == {"a", "b"}
    array = {"type": "object", "properties": {"a": {"type": "array"}}}
    assert sent(array, "gemini")["properties"]["a"] == {"type": "array", "items": {"type": "string"}}


def test_arrays_have_items_and_anthropic_gets_no_property_that_it_refuses() -> None:
    schema = {
        "type": "object", "required": ["list", "a b"],
        "properties": {"list": {"type": "array"}, "a b": TEXT, "in": {"type": "object", "properties": {"ü": TEXT}}},
    }  # fmt: skip
    openai, anthropic = sent(schema, "openai"), sent(schema)
    assert openai["properties"]["list"] == {"type": "array", "items": {}} and "a b" in openai["properties"]
    assert list(anthropic["properties"]) == ["list", "in"] and anthropic["required"] == ["list"]
    assert anthropic["description"] == "also takes 'a b'"
    assert anthropic["properties"]["in"] == {"type": "object", "properties": {}, "description": "also takes 'ü'"}
    assert schema["properties"]["list"] == {"type": "array"}, "the tool keeps its own"


def test_openai_gets_a_description_of_the_length_that_it_takes() -> None:
    tool = Given({"type": "object", "properties": {}}, "x" * 2000)
    for dialect in ("openai", "openai-responses"):
        made: Any = definition(tool, tool.parameters, dialect)  # type: ignore[arg-type]
        assert len((made.get("function") or made)["description"]) == MAX_DESCRIPTION
    assert len(definition(tool, tool.parameters, "anthropic")["description"]) == 2000


SCHEMAS = st.recursive(
    st.sampled_from([
        {}, TEXT, {"type": "array"}, {"$ref": "#"}, {"$ref": "#/$defs/a"}, {"$ref": "#/none"}, {"required": ["a"]},
        True,
    ]),
    lambda inner: st.builds(
        lambda keys, properties, parts: {"properties": properties, **dict.fromkeys(keys, parts)},
        st.lists(st.sampled_from(["anyOf", "oneOf", "allOf"]), max_size=3),
        st.dictionaries(st.sampled_from(["a", "b", "c d", "type"]), inner, max_size=3), st.lists(inner, max_size=3),
    ),
    max_leaves=20,
)  # fmt: skip


@given(SCHEMAS, SCHEMAS)
def test_whatever_a_server_says_is_one_object(schema: Any, other: Any) -> None:
    given = {**(schema if isinstance(schema, dict) else {}), "$defs": {"a": other}}
    found = one_object(json.loads(json.dumps(given)), plain_names=True)
    assert not set(UNIONS) & set(found)
    for each in sub_schemas(found):
        assert all(re.fullmatch(r"[a-zA-Z0-9_.-]{1,64}", name) for name in each.get("properties", {}))


def test_references_that_double_do_not_grow() -> None:
    levels = {f"l{n}": {"allOf": [{"$ref": f"#/$defs/l{n + 1}"}] * 2} for n in range(40)}
    schema = {"$ref": "#/$defs/l0", "$defs": {**levels, "l40": {"properties": {"a": TEXT}}}}
    assert sent(schema)["properties"].keys() <= {"a"}
