"""No JSON Schema makes a validation, a coercion or the naming of violations take long, whatever the value."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from typing import Any

import jsonschema_rs
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from toolcrib.core.branching import MAX_LOOKS, work_bound
from toolcrib.core.errors import InvalidArguments, ToolDefinitionError
from toolcrib.core.json_schema import compile_schema, without_slow_patterns
from toolcrib.core.tool import Tool

SECONDS = 10.0
"""CPU time that no bounded case comes near (0.3 s) and every missed bound passes by far."""

Json = dict[str, Any]


def raw(schema: Json) -> Tool:
    made = Tool.from_schema("t", "It takes what its schema says.", schema, lambda args: "ran", category="memory")
    made.prepare()
    return made


def doubled(keyword: str, times: int, leaf: Json) -> Json:
    """A chain of definitions, each of which names the one before it twice."""
    defs: Json = {"d0": leaf}
    for number in range(times):
        one = {"$ref": f"#/$defs/d{number}"}
        defs[f"d{number + 1}"] = {keyword: [one, one]}
    return {"type": "object", "properties": {"n": {"$ref": f"#/$defs/d{times}"}}, "$defs": defs}


def recursive(members: int, keyword: str = "anyOf") -> Json:
    """A value that is one of several kinds of objects, each with another such value in it."""
    kinds = [
        {"type": "object", "properties": {"n": {"$ref": "#/$defs/a"}, "k": {"const": kind}}, "required": ["k"]}
        for kind in range(members)
    ]
    return {"type": "object", "properties": {"n": {"$ref": "#/$defs/a"}}, "$defs": {"a": {keyword: kinds}}}


def chain(depth: int, **leaf: Any) -> Json:
    value: Json = leaf
    for _ in range(depth):
        value = {"n": value}
    return value


def in_time(work: Callable[[], Any]) -> Any:
    begun = time.process_time()
    found = work()
    assert time.process_time() - begun < SECONDS
    return found


@pytest.mark.parametrize("keyword", ["anyOf", "oneOf", "allOf"])
@pytest.mark.parametrize("times", [18, 40, 400])
def test_too_many_ways_to_one_value_are_refused_at_registration(keyword: str, times: int) -> None:
    with pytest.raises(ToolDefinitionError, match="in a bounded time: its alternatives"):
        in_time(lambda: raw(doubled(keyword, times, {"type": "integer"})))


@pytest.mark.parametrize("keyword", ["anyOf", "oneOf", "allOf"])
@pytest.mark.parametrize("times", [1, 8, 12, 14])
def test_ways_that_can_be_checked_are(keyword: str, times: int) -> None:
    made = raw(doubled(keyword, times, {"type": "integer"}))
    assert in_time(lambda: made.validate_params({"n": "x"}))
    assert bool(made.validate_params({"n": 1})) is (keyword == "oneOf")


@pytest.mark.parametrize("keyword", ["anyOf", "oneOf"])
@pytest.mark.parametrize("members", [2, 3, 10])
@pytest.mark.parametrize("depth", [3, 8, 12, 16, 40, 120])
def test_alternatives_within_alternatives(keyword: str, members: int, depth: int) -> None:
    made = raw(recursive(members, keyword))
    problems = in_time(lambda: made.validate_params(chain(depth, k="wrong")))
    assert problems and len("".join(problems)) < 20_000


def test_a_reason_is_given_for_each_kind_of_limit() -> None:
    made = raw(recursive(2))
    assert "fits none of its alternatives" in made.validate_params(chain(3))[0]
    assert made.validate_params(chain(14))[0] == "n does not fit its schema (it has too many alternatives to say why)"
    assert "nested too deeply" in made.validate_params(chain(60))[0]


def test_a_wide_value_counts_like_a_deep_one() -> None:
    kinds = [{"type": "object", "properties": {"n": {"type": "array", "items": {"$ref": "#/$defs/a"}}}}] * 4
    made = raw({"type": "object", "properties": {"n": {"$ref": "#/$defs/a"}}, "$defs": {"a": {"oneOf": kinds}}})
    value: Any = {}
    for _ in range(6):
        value = {"n": [value] * 6}
    assert in_time(lambda: made.validate_params({"n": value}))


def test_recursion_without_alternatives_may_be_deep_and_large() -> None:
    schema: Json = {
        "type": "object",
        "properties": {"children": {"type": "array", "items": {"$ref": "#"}}, "name": {"type": "string"}},
        "additionalProperties": {"$ref": "#"},
    }
    assert work_bound(schema, "t").graph is None
    value: Any = {}
    for _ in range(80):
        value = {"children": [value]}
    assert raw(schema).validate_params(value) == []
    assert raw(schema).validate_params({"children": [{"name": str(n)} for n in range(20_000)]}) == []


def test_alternatives_with_other_names_do_not_multiply() -> None:
    """As in a filter with `and` and `or`: no value leads below both."""
    many = {"type": "array", "items": {"$ref": "#/$defs/f"}}
    parts = [{"type": "object", "properties": {key: many}, "required": [key]} for key in ("and", "or", "not")]
    schema = {"type": "object", "properties": {"f": {"$ref": "#/$defs/f"}}, "$defs": {"f": {"anyOf": parts}}}
    assert work_bound(schema, "t").graph is None
    value: Any = {"or": []}
    for _ in range(30):
        value = {"and": [value]}
    assert raw(schema).validate_params({"f": value}) == []


def test_a_schema_that_refers_to_itself_in_place_is_refused() -> None:
    for part in ({"$ref": "#/$defs/a"}, {"anyOf": [{"type": "string"}, {"$ref": "#/$defs/a"}]}):
        with pytest.raises(ToolDefinitionError, match="refers to itself"):
            raw({"type": "object", "properties": {"n": {"$ref": "#/$defs/a"}}, "$defs": {"a": part}})


def test_references_are_followed_as_json_schema_says() -> None:
    inner = doubled("allOf", 40, {"type": "integer"})["$defs"]
    for reference, schema in (
        ("#there", {"$anchor": "there", "$ref": "#/$defs/d40"}),
        ("other/there.json", {"$id": "other/there.json", "$defs": inner, "$ref": "#/$defs/d40"}),
    ):
        whole = {
            "$id": "https://example.com/",
            "type": "object",
            "properties": {"n": {"$ref": reference}},
            "$defs": {**inner, "x": schema},
        }
        with pytest.raises(ToolDefinitionError, match="in a bounded time"):
            in_time(lambda whole=whole: raw(whole))


def test_a_schema_for_schemas_is_taken() -> None:
    reference = {"$ref": "https://json-schema.org/draft/2020-12/schema"}
    made = raw({"type": "object", "properties": {"schema": reference}})
    assert made.validate_params({"schema": {"type": "object"}}) == []
    assert made.validate_params({"schema": {"type": "nothing"}})


def test_an_output_schema_is_bounded_too() -> None:
    with pytest.raises(ToolDefinitionError, match="bounded time"):
        made = Tool.from_schema(
            "t", "d", {}, lambda args: "", output_schema=doubled("allOf", 40, {}), category="memory"
        )
        made.prepare()


PLACES = st.sampled_from(["#", "#/$defs/a", "#/$defs/b", "#/properties/n"])
LEAVES = st.sampled_from([{"type": "integer"}, {"type": "string"}, {"type": "object"}, {}, {"const": 1}])


def composed(children: Any) -> Any:
    several = st.lists(children, min_size=1, max_size=3)
    return st.one_of(
        st.builds(lambda kind, of: {kind: of}, st.sampled_from(["anyOf", "allOf", "oneOf", "prefixItems"]), several),
        st.builds(lambda one: {"properties": {"n": one, "m": one}}, children),
        st.builds(lambda one, two: {"properties": {"n": one}, "additionalProperties": two}, children, children),
        st.builds(lambda one: {"items": one, "unevaluatedProperties": one}, children),
        st.builds(lambda one, two: {"if": one, "then": two, "patternProperties": {"n": two}}, children, children),
        st.builds(lambda one: {"not": one}, children),
    )


SCHEMAS = st.recursive(st.one_of(LEAVES, st.builds(lambda to: {"$ref": to}, PLACES)), composed, max_leaves=12)
VALUES = st.recursive(
    st.one_of(st.integers(0, 2), st.text("nm", max_size=2), st.none()),
    lambda inner: st.one_of(st.dictionaries(st.sampled_from("nmk"), inner, max_size=3), st.lists(inner, max_size=3)),
    max_leaves=30,
)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much])
@given(one=SCHEMAS, two=SCHEMAS, three=SCHEMAS, value=VALUES, depth=st.integers(0, 60))
def test_any_schema_and_any_value_end(one: Json, two: Json, three: Json, value: Any, depth: int) -> None:
    schema: Json = {"type": "object", "properties": {"n": one}, "$defs": {"a": two, "b": three}}
    schema["additionalProperties"] = True
    for _ in range(depth):
        value = {"n": value} if depth % 2 else [value, {"m": value}][:1] + [{"n": value}][: depth < 8]
    given_arguments = {"n": value}

    def work() -> None:
        try:
            made = raw(schema)
        except ToolDefinitionError:
            return
        problems = made.validate_params(given_arguments)
        compiled = compile_schema(schema, "t")
        if compiled.is_valid(given_arguments):
            assert problems == []
        elif work_bound(schema, "t").work(given_arguments) < 5_000:  # the judgement is the validator's own
            assert not jsonschema_rs.validator_for(schema).is_valid(given_arguments)

    in_time(work)


def test_patterns_take_linear_time_or_are_refused() -> None:
    text = "a" * 200_000 + "!"
    for pattern in ("^(a+)+$", "^(a|a)*$", "(.*)(.*)(.*)(.*)z", "^(a{1,20}){1,20}$"):
        made = raw({"type": "object", "properties": {"n": {"type": "string", "pattern": pattern}}})
        assert in_time(lambda made=made: made.validate_params({"n": text}))
    for pattern in ("^(?=a)(a+)+$", r"^(a*)*\1b$", "(?<!x)a"):
        with pytest.raises(ToolDefinitionError, match="linear time; write it without"):
            raw({"type": "object", "properties": {"n": {"type": "string", "pattern": pattern}}})
    with pytest.raises(ToolDefinitionError, match="not a valid JSON Schema"):
        raw({"type": "object", "properties": {"n": {"type": "string", "pattern": "("}}})


def test_the_patterns_of_a_schema_share_a_limit() -> None:
    large = {f"p{n}": {"type": "string", "pattern": f"((a{{0,30}}){{0,30}}){n}"} for n in range(4_000)}  # 1 GB
    with pytest.raises(ToolDefinitionError, match="its patterns take more than 64 MiB together"):
        raw({"type": "object", "properties": large})
    with pytest.raises(ToolDefinitionError, match="its patterns take more than 64 MiB together"):
        raw({"type": "object", "patternProperties": {each["pattern"]: True for each in large.values()}})
    usual = {f"p{n}": {"type": "string", "pattern": f"^.{{1,1024}}{n}$"} for n in range(40)}
    assert raw({"type": "object", "properties": usual}).validate_params({"p7": "x7"}) == []


@pytest.mark.parametrize("allowed", [True, {}, {"type": "integer"}])
def test_many_patterns_for_many_names_are_bounded(allowed: Any) -> None:
    names = {f"^x[a-z]*{n}$": allowed for n in range(4_900)}
    made = raw({"type": "object", "patternProperties": names, "additionalProperties": False})
    assert made.validate_params({"xa7": 1}) == []
    assert in_time(lambda: made.validate_params({f"y{n}": 1 for n in range(10_000)}))
    nodes = {f"p{n}": {"type": "string"} for n in range(50_000)}
    assert in_time(lambda: raw({"type": "object", "properties": nodes}))


def test_somebody_elses_pattern_with_look_around_is_described_instead() -> None:
    schema = {
        "type": "object",
        "properties": {
            "mail": {"type": "string", "description": "Address.", "pattern": r"^(?!\.)[^@]+@[^@]+$"},
            "pattern": {"type": "string", "pattern": "^a+$"},
        },
    }
    assert without_slow_patterns({"pattern": "^[a-z0-9-]{1,64}$"}) == ({"pattern": "^[a-z0-9-]{1,64}$"}, [])
    for slow in (".{1,4000}z", "([ab]{1,60}){60}z", "[ab]*a[ab]{300}c"):
        assert without_slow_patterns({"items": {"pattern": slow}})[1] == [slow]
        with pytest.raises(ToolDefinitionError, match="for names cannot be matched quickly"):
            without_slow_patterns({"items": {"patternProperties": {slow: {}}}})
    nested = {f"p{n}": {"type": "string", "pattern": f"((.{{0,99}}){{0,99}}){{0,99}}{n}"} for n in range(3_000)}
    assert len(in_time(lambda: without_slow_patterns({"properties": nested}))[1]) == 3_000
    found, dropped = without_slow_patterns(schema)
    assert dropped == [r"^(?!\.)[^@]+@[^@]+$"] and "pattern" in schema["properties"]["mail"]
    assert found["properties"]["mail"] == {
        "type": "string",
        "description": r"Address. (must match the pattern ^(?!\.)[^@]+@[^@]+$)",
    }
    assert found["properties"]["pattern"] == schema["properties"]["pattern"]
    assert raw(found).validate_params({"mail": "x@y", "pattern": "aa"}) == []


def test_the_work_of_a_value_is_bounded_from_above() -> None:
    bound = work_bound(recursive(2), "t")
    assert bound.work(chain(4)) < bound.work(chain(5)) < MAX_LOOKS < bound.work(chain(60))


def test_the_same_answer_as_the_validator_alone() -> None:
    schema = recursive(3, "oneOf")
    plain = jsonschema_rs.validator_for(schema)
    made = raw(schema)
    for depth in range(1, 6):
        for leaf in ({"k": 1}, {"k": 7}, {}):
            value = json.loads(json.dumps(chain(depth, **leaf)))
            try:
                made.bind(value)
                fits = True
            except InvalidArguments:
                fits = False
            assert fits is plain.is_valid(value)


COMPARED = {
    "enum of objects": ({"enum": [{"k": k} for k in range(4_000)]}, [{"k": 3_999}] * 16_000),
    "enum of floats": ({"enum": [k + 0.5 for k in range(9_000)]}, [8_999.5] * 45_000),
    "enum of integers": ({"enum": list(range(9_000))}, [8_999.0] * 45_000),
    "enum of long integers": ({"enum": [2**63 + k for k in range(9_000)]}, [2**63 + 8_999] * 45_000),
    "enum of all kinds": ({"enum": [*map(str, range(9_000)), {}]}, ["8999"] * 45_000),
    "enum of lists": ({"enum": [[0] * 9 + [k] for k in range(900)]}, [[0] * 9 + [899]] * 4_500),
    "constants": ({"anyOf": [{"const": [0] * 99 + [k]} for k in range(90)]}, [[0] * 99 + [89]] * 900),
    "multiples": ({"allOf": [{"multipleOf": 5e-324}] * 60}, [1.7e308] * 45_000),
    "multiples of long integers": ({"multipleOf": 0.01}, [10**4_000] * 1_000),
    "limits of long integers": ({"minimum": 10**4_000}, [10**4_000] * 1_000),
}


@pytest.mark.parametrize(("items", "value"), COMPARED.values(), ids=COMPARED)
def test_many_comparisons_are_bounded(items: Json, value: list[Any]) -> None:
    made = raw({"type": "object", "properties": {"n": {"type": "array", "items": items}}})
    assert in_time(lambda: made.validate_params({"n": value}))
    too_long = value[0] == 10**4_000
    assert bool(made.validate_params({"n": value[:2]})) is too_long


@pytest.mark.parametrize("form", [lambda n: n, lambda n: [n], lambda n: {"a": n}])
@pytest.mark.parametrize("first", [2**60, 2**63, 10**25])
def test_integers_that_look_equal_are_bounded(first: int, form: Callable[[int], Any]) -> None:
    made = raw({"type": "object", "properties": {"n": {"type": "array", "uniqueItems": True}}})
    assert in_time(lambda: made.validate_params({"n": [form(first + k) for k in range(20_000)]}))
    assert made.validate_params({"n": [form(first + k) for k in range(400)]}) == []
    assert made.validate_params({"n": [form(first)] * 2})
    assert made.validate_params({"n": [form(k) for k in range(20_000)]}) == []


@pytest.mark.parametrize(
    ("leaf", "value"),
    [
        ({"uniqueItems": True}, [[each] for each in range(40_000)]),
        ({"pattern": "^[a-y]*$"}, "a" * 2_000_000),
        ({"enum": ["a", "b", []]}, "a" * 6_000_000),
        ({"propertyNames": {"pattern": "^[a-y]*$"}}, {"a" * 2_000_000: 1}),
    ],
)
def test_many_ways_to_one_long_value_are_bounded(leaf: Json, value: Any) -> None:
    made = raw(doubled("allOf", 13, leaf))
    assert in_time(lambda: made.validate_params({"n": value}))
    assert made.validate_params({"n": []}) == []
    alternatives = {"anyOf": [{"type": "string", "pattern": f"^{n}?[a-y]*$"} for n in range(80)]}
    assert raw({"type": "object", "properties": {"n": alternatives}}).validate_params({"n": "a" * 2_000_000}) == []


def test_usual_constants_are_not_bounded() -> None:
    codes = [None, *(f"c{n}" for n in range(4_000))]
    prices = {"type": "object", "properties": {"c": {"enum": codes}, "p": {"type": "number", "multipleOf": 0.01}}}
    made = raw({"type": "object", "properties": {"n": {"type": "array", "items": prices}}})
    assert made.validate_params({"n": [{"c": "c3999", "p": 1.25}] * 15_000}) == []
    assert in_time(lambda: made.validate_params({"n": [{"c": "C3999"}] * 45_000}))  # text that could be converted
    levels = raw({"type": "object", "properties": {"n": {"items": {"enum": list(range(10))}}}})
    assert levels.validate_params({"n": [9] * 50_000}) == []
