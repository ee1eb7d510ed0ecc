"""The table of conversions: only where a value does not fit, only with one reading, never losing anything."""

from __future__ import annotations

import copy
import json
import math
import time
from typing import Any, Literal

import jsonschema_rs
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from toolcrib.core.coerce import Coercion, parse_object, rename, unwrap
from toolcrib.core.errors import InvalidArguments
from toolcrib.core.tool import tool


def one(value: Any, **node: Any) -> Any:
    """What becomes of one property's value."""
    return Coercion({"type": "object", "properties": {"p": node}, "required": ["p"]})({"p": value})["p"]


def same(a: Any, b: Any) -> bool:
    return json.dumps(a, sort_keys=True) == json.dumps(b, sort_keys=True)  # 1, 1.0 and True differ


@pytest.mark.parametrize(
    ("kind", "value", "becomes"),
    [
        ("integer", "42", 42),
        ("integer", "-7", -7),
        ("integer", " 42 ", 42),
        ("integer", 3.0, 3),
        ("integer", "3.0", 3),
        ("integer", "1e3", 1000),
        ("integer", "123456789012345678901234567890", 123456789012345678901234567890),
        ("number", "4.5", 4.5),
        ("number", "4", 4),
        ("number", "-1e-3", -0.001),
        ("boolean", "true", True),
        ("boolean", "False", False),
        ("array", "[1, 2]", [1, 2]),
        ("object", '{"a": 1}', {"a": 1}),
        (["integer", "null"], "5", 5),
        ("string", 42, "42"),
        ("string", -4.5, "-4.5"),
        ("string", True, "true"),
        (["string", "null"], 42, "42"),
        (["string", "boolean"], 42, 42),
    ],
)
def test_the_table(kind: Any, value: Any, becomes: Any) -> None:
    result = one(value, type=kind)
    assert same(result, becomes)


def test_an_option_in_another_case_is_that_option() -> None:
    methods = {"type": "string", "enum": ["GET", "Post", "on", "ON"]}
    given = {"get": "GET", " post ": "Post", "on": "on", "On": "On", "gets": "gets", "GET": "GET"}
    assert {value: one(value, **methods) for value in given} == given
    assert one("get", anyOf=[{"const": "GET"}, {"type": "null"}]) == "GET"
    assert one(["get", 1], type="array", items={"enum": ["GET", 1]}) == ["GET", 1]

    @tool(category="memory")
    def send(method: Literal["GET", "POST"]) -> str:
        """Send."""
        return method

    assert send.bind({"method": "post"})[0] == {"method": "POST"}


def test_a_long_text_is_compared_with_many_options_in_a_moment() -> None:
    begun = time.process_time()
    text = "Europe/" + "x" * 2_000_000
    assert one(text, enum=[f"Europe/City{number}" for number in range(1_000)]) == text
    assert time.process_time() - begun < 0.5


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        ("integer", True),
        ("integer", "true"),
        ("integer", 3.5),
        ("integer", "3.5"),
        ("integer", "0x10"),
        ("integer", "1_000"),
        ("integer", "1,000"),
        ("integer", "٣"),
        ("integer", "007"),
        ("integer", "+5"),
        ("integer", ""),
        ("integer", 1e300),
        ("integer", "9" * 41),
        ("number", "NaN"),
        ("number", "inf"),
        ("number", "1e999"),
        ("number", False),
        ("number", None),
        ("boolean", 1),
        ("boolean", 0),
        ("boolean", "yes"),
        ("boolean", "1"),
        ("boolean", ""),
        ("string", math.inf),
        ("string", 10**400),
        ("string", {"a": 1}),
        ("string", ["a"]),
        ("array", "a,b"),
        ("array", '{"a": 1}'),
        ("array", "[1"),
        ("object", "[1]"),
        ("object", "x"),
        ("null", "null"),
        (["integer", "string"], "42"),
        (["boolean", "string"], "true"),
    ],
)
def test_what_stays(kind: Any, value: Any) -> None:
    assert same(one(value, type=kind), value)


@pytest.mark.parametrize("text", ["<{}>", "`{}`", '"{}"', "'{}'", "  {}\n", "< {} >"])
def test_what_is_around_a_uri_is_taken_off(text: str) -> None:
    url = "https://example.com/a?b=(c)"
    assert one(text.format(url), type="string", format="uri") == url


@pytest.mark.parametrize(
    "text", ["<ftp://x>", '"https://a" "https://b"', "<https://x", "'/etc/passwd'", "<>", "<javascript:x>"]
)
def test_what_is_no_uri_in_one_wrapper_stays(text: str) -> None:
    assert one(text, type="string", format="uri") == text
    assert one("<https://x>", type="string") == "<https://x>"


def test_null_is_absent_only_where_it_does_not_fit_and_is_optional() -> None:
    schema = {
        "type": "object",
        "properties": {
            "a": {"type": "integer"},
            "b": {"type": "integer"},
            "c": {"type": ["integer", "null"]},
            "d": {},
            "e": {"anyOf": [{"type": "integer"}, {"type": "null"}]},
            "f": {"allOf": [{"type": ["integer", "null"]}]},
            "g": {"enum": [None, 1]},
            "h": {"$ref": "#/$defs/n"},
            "o": {"type": "object", "properties": {"x": {"type": "string"}}},
        },
        "required": ["a"],
        "$defs": {"n": {"type": "string"}},
    }
    given_ = dict.fromkeys("abcdefgh") | {"o": {"x": None, "y": None}}
    assert Coercion(schema)(given_) == dict.fromkeys("acdefg") | {"o": {"y": None}}


def test_nested_values_are_converted_in_place() -> None:
    schema = {
        "type": "object",
        "properties": {"rows": {"type": "array", "items": {"$ref": "#/$defs/row"}}},
        "$defs": {"row": {"type": "object", "properties": {"n": {"type": "integer"}, "on": {"type": "boolean"}}}},
    }
    assert Coercion(schema)({"rows": '[{"n": "1", "on": "true"}, {"n": 2}]'}) == {
        "rows": [{"n": 1, "on": True}, {"n": 2}]
    }


def test_a_union_is_converted_only_if_one_result_fits() -> None:
    assert one("5", anyOf=[{"type": "integer"}, {"type": "null"}]) == 5
    assert one("5", anyOf=[{"type": "integer"}, {"type": "string"}]) == "5"
    assert one("5", anyOf=[{"type": "integer"}, {"type": "array", "items": {"type": "integer"}}]) == 5
    assert one("5", anyOf=[{"type": "integer", "maximum": 3}, {"type": "integer", "minimum": 4}]) == 5
    assert one("true", oneOf=[{"type": "integer"}, {"type": "boolean"}]) is True
    # two members, two different results: nobody can say which
    first = {"type": "object", "properties": {"a": {"type": "integer"}, "b": {"type": "string"}}}
    second = {"type": "object", "properties": {"a": {"type": "string"}, "b": {"type": "integer"}}}
    closed = {"required": ["a", "b", "c"], "additionalProperties": False}
    two = [{**first, **closed}, {**second, **closed}]
    for member in two:
        member["properties"] = {**member["properties"], "c": {"type": "integer"}}
    assert one({"a": "1", "b": "2", "c": "3"}, oneOf=two) == {"a": "1", "b": "2", "c": "3"}
    assert one({"a": "1", "b": "x", "c": "3"}, oneOf=two) == {"a": 1, "b": "x", "c": 3}
    assert same(one(3.0, anyOf=[{"type": "integer"}, {"type": "string"}]), 3)
    assert same(one(3.0, anyOf=[{"type": "integer"}, {"type": "number"}]), 3.0)


def test_a_union_beside_properties_does_not_hide_them() -> None:
    schema = {
        "type": "object",
        "properties": {"n": {"type": "integer"}, "path": {"type": "string"}},
        "anyOf": [{"required": ["path"]}, {"required": ["url"]}],
    }
    assert Coercion(schema)({"n": "3", "path": "x"}) == {"n": 3, "path": "x"}


def test_references_inside_a_union_are_to_the_whole_schema() -> None:
    schema = {
        "type": "object",
        "properties": {"n": {"type": "integer"}, "next": {"anyOf": [{"$ref": "#"}, {"type": "boolean"}]}},
        "required": ["n"],
    }
    assert Coercion(schema)({"n": "1", "next": {"n": "2"}}) == {"n": 1, "next": {"n": 2}}


def test_work_is_bounded_for_unions_in_unions() -> None:
    """Two members that both hold the same union again: without a bound, 2 to the power of the depth."""
    node = {"anyOf": [{"$ref": "#/$defs/a"}, {"$ref": "#/$defs/b"}]}
    schema = {
        "type": "object",
        "properties": {"n": node},
        "$defs": {
            "a": {"type": "object", "properties": {"n": node, "a": {"type": "integer"}}, "required": ["a"]},
            "b": {"type": "object", "properties": {"n": node, "b": {"type": "integer"}}, "required": ["b"]},
        },
    }
    value: Any = {}
    for _ in range(60):
        value = {"n": value}
    assert Coercion(schema)(value) == value
    many = {"n": [{"n": {}}] * 300_000}
    assert Coercion({"type": "object", "properties": {"n": {"type": "array", "items": node}}})(many) == many


# --- properties

LEAVES = (
    st.none()
    | st.booleans()
    | st.integers(-1000, 1000)
    | st.sampled_from([1.0, 2.5, -3.0, 1e20])
    | st.sampled_from(["", "5", "-2.5", "1e2", "true", "False", "null", "[1]", '{"a": "1"}', "x", "NaN", '"a"'])
)
JSON = st.recursive(
    LEAVES, lambda i: st.lists(i, max_size=3) | st.dictionaries(st.sampled_from("abc"), i, max_size=3), max_leaves=6
)
TYPES = st.sampled_from(["integer", "number", "string", "boolean", "null", "array", "object"])


def schemas() -> st.SearchStrategy[dict[str, Any]]:
    leaf = (
        st.builds(lambda t: {"type": t}, TYPES)
        | st.builds(lambda ts: {"type": ts}, st.lists(TYPES, min_size=1, max_size=3, unique=True))
        | st.builds(lambda vs: {"enum": vs}, st.lists(LEAVES, min_size=1, max_size=3))
        | st.builds(lambda v: {"const": v}, LEAVES)
        | st.just({})
        | st.just({"type": "integer", "minimum": 3})
        | st.just({"$ref": "#/$defs/d"})
    )

    def nested(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
        return (
            st.builds(lambda i: {"type": "array", "items": i}, inner)
            | st.builds(lambda p: {"type": "object", "properties": p}, st.dictionaries(st.sampled_from("abc"), inner, max_size=3))  # noqa: E501
            | st.builds(lambda b: {"anyOf": b}, st.lists(inner, min_size=1, max_size=3))
            | st.builds(lambda b: {"oneOf": b}, st.lists(inner, min_size=1, max_size=3))
            | st.builds(lambda b: {"allOf": b}, st.lists(inner, min_size=1, max_size=2))
            | st.builds(lambda i: {"not": i}, inner)
        )  # fmt: skip

    node = st.recursive(leaf, nested, max_leaves=6)
    return st.builds(
        lambda p, r, d: {"type": "object", "properties": p, "required": r, "$defs": {"d": d}},
        st.dictionaries(st.sampled_from("abc"), node, max_size=3),
        st.lists(st.sampled_from("abc"), max_size=2, unique=True),
        leaf.filter(lambda d: "$ref" not in d),
    )


@given(schemas(), st.dictionaries(st.sampled_from("abcd"), JSON, max_size=4))
def test_what_fits_is_never_changed(schema: dict[str, Any], value: dict[str, Any]) -> None:
    assume(jsonschema_rs.validator_for(schema).is_valid(value))
    result = Coercion(schema)(copy.deepcopy(value))
    # 3.0 fits an integer for JSON Schema, but not for Python: that alone may become 3
    assert same(_whole(result), _whole(value))


def _whole(value: Any) -> Any:
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, dict):
        return {k: _whole(v) for k, v in value.items()}
    return [_whole(v) for v in value] if isinstance(value, list) else value


@given(schemas(), st.dictionaries(st.sampled_from("abcd"), JSON, max_size=4))
def test_never_raises_is_idempotent_and_loses_nothing(schema: dict[str, Any], value: dict[str, Any]) -> None:
    coercion = Coercion(schema)
    result = coercion(copy.deepcopy(value))
    assert same(coercion(copy.deepcopy(result)), result)
    assert traces(value, result)


def traces(before: Any, after: Any) -> bool:
    """Whether one value can be had from the other by the table's lossless steps."""
    if same(before, after):
        return True
    if isinstance(after, str) and not isinstance(before, str):
        return isinstance(before, bool | int | float) and same(json.loads(after), before)
    if isinstance(before, bool) or isinstance(after, bool):
        return isinstance(before, str) and before.strip().lower() == str(after).lower()
    if isinstance(before, float) and isinstance(after, int):
        return before == after
    if isinstance(before, str) and isinstance(after, int | float):
        return float(before) == after
    if isinstance(before, str) and isinstance(after, list | dict):
        return traces(json.loads(before), after)
    if isinstance(before, list) and isinstance(after, list):
        return len(before) == len(after) and all(map(traces, before, after))
    if isinstance(before, dict) and isinstance(after, dict):
        gone = [k for k in before if k not in after]
        return all(before[k] is None for k in gone) and all(k in before and traces(before[k], after[k]) for k in after)
    return False


@given(st.booleans(), TYPES)
def test_a_boolean_becomes_nothing_but_its_word(value: bool, kind: str) -> None:
    assert one(value, type=kind) == (json.dumps(value) if kind == "string" else value)


@given(st.one_of(st.integers(), st.floats(), st.text(max_size=10)))
def test_nothing_but_the_words_becomes_a_boolean(value: Any) -> None:
    assume(not (isinstance(value, str) and value.strip().lower() in ("true", "false")))
    assert not isinstance(one(value, type="boolean"), bool)


# --- what comes before the table


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("", {}),
        ("  \n", {}),
        ('{"a": 1}', {"a": 1}),
        (b'{"a": "\xc3\xa9"}', {"a": "é"}),
        ('"{\\"a\\": 1}"', {"a": 1}),
        (json.dumps(json.dumps(json.dumps({"a": 1}))), {"a": 1}),
        ("{'a': 1}", {"a": 1}),
    ],
)
def test_parse_object(text: str | bytes, value: Any) -> None:
    assert parse_object(text) == value


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("[1]", "an array"),
        ("3", "an integer"),
        ("null", "null"),
        ('"x"', "a string"),
        ("{", "not valid JSON"),
        ('{"path": "x', "Unterminated string starting at line 1 column 10"),
        (b'{"a": "\xff"}', "UTF-8"),
        ('{"a": NaN}', "NaN"),
        ("9" * 5000, "too many digits"),
        ("[" * 100_000, "nested too deeply"),
    ],
)
def test_what_is_no_object_says_so(text: str | bytes, word: str) -> None:
    with pytest.raises(InvalidArguments, match=word):
        parse_object(text)


def test_a_wrapper_is_removed_only_if_it_is_no_parameter() -> None:
    schema = {"properties": {"a": {}, "input": {}}}
    assert unwrap({"arguments": {"a": 1}}, schema) == {"a": 1}
    assert unwrap({"arguments": '{"a": 1}'}, schema) == {"a": 1}
    assert unwrap({"parameters": {"a": 1}}, schema) == {"a": 1}
    assert unwrap({"input": {"a": 1}}, schema) == {"input": {"a": 1}}
    assert unwrap({"arguments": {"a": 1}, "a": 2}, schema) == {"arguments": {"a": 1}, "a": 2}
    assert unwrap({"arguments": [1]}, schema) == {"arguments": [1]}


def test_two_spellings_of_one_parameter_are_an_error() -> None:
    aliases = {"old_string": "old_text", "oldText": "old_text"}
    assert rename({"oldText": 1, "b": 2}, aliases) == {"old_text": 1, "b": 2}
    for twice in ({"old_text": 1, "oldText": 1}, {"old_string": 1, "oldText": 1}):
        with pytest.raises(InvalidArguments, match="old_text once"):
            rename(twice, aliases)


def test_through_a_tool() -> None:
    @tool(aliases={"max": "limit"})
    def find(query: str, limit: int = 10, deep: bool = False, tags: list[str] | None = None,
             mode: Literal["a", "b"] = "a") -> None: ...  # fmt: skip

    def bound(arguments: Any) -> Any:
        return find.bind(arguments)[0]

    rest = {"limit": 10, "deep": False, "tags": None, "mode": "a"}
    assert bound('{"query": "q", "limit": "5"}') == {**rest, "query": "q", "limit": 5}
    assert bound({"query": "q", "max": "5", "deep": "true"}) == {**rest, "query": "q", "limit": 5, "deep": True}
    assert bound({"query": "q", "tags": '["x"]'}) == {**rest, "query": "q", "tags": ["x"]}
    assert bound({"query": "q", "limit": None, "mode": None}) == {**rest, "query": "q"}
    assert bound({"arguments": {"query": "q", "max": 5.0}}) == {**rest, "query": "q", "limit": 5}
    assert find.validate_params({"query": "q", "max": 1, "limit": 2}) == [
        "max and limit are the same parameter; give limit once"
    ]
    assert find.validate_params({"query": {}, "limit": "x"}) == [
        "query should be a string, got {}",
        'limit should be an integer, got "x"',
    ]
    assert "max" not in json.dumps(find.schema)


def test_an_open_schema_takes_aliases_too() -> None:
    @tool(aliases={"q": "query"})
    def find(query: str, **more: Any) -> None: ...

    assert find.bind({"q": "x", "n": 1})[0] == {"query": "x", "n": 1}
    assert find.validate_params({"q": "x", "query": "y"}) == ["q and query are the same parameter; give query once"]
