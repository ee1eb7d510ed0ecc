"""From annotations and raw JSON Schema to what a model is shown and what is accepted."""

from __future__ import annotations

import datetime
import enum
import json
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Annotated, Any, Literal, Optional

import pytest
from pydantic import BaseModel, ConfigDict, Field, StringConstraints
from typing_extensions import TypedDict

from toolcrib.core.context import ToolContext
from toolcrib.core.errors import InvalidArguments, ToolDefinitionError
from toolcrib.core.schema import check_finite, full_schema
from toolcrib.core.tool import Tool, tool


class Colour(enum.Enum):
    RED = "red"
    BLUE = "blue"


class Level(enum.IntEnum):
    LOW = 1
    HIGH = 2


class Address(BaseModel):
    street: str
    number: int = 1


class Person(BaseModel):
    """Somebody."""

    name: str = Field(description="Full name", min_length=2)
    address: Address | None = None


@dataclass
class Point:
    x: float
    y: float = 0.0
    tags: list[str] = field(default_factory=list)


class Options(TypedDict, total=False):
    depth: int
    mode: Literal["a", "b"]


class Tree(BaseModel):
    value: int
    children: list[Tree] = []


class Loose(BaseModel):
    model_config = ConfigDict(extra="allow")
    a: int = 0


def wrong(t: Tool, arguments: Any) -> list[str]:
    return t.validate_params(arguments)


def bound(t: Tool, arguments: Any) -> dict[str, Any]:
    return t.bind(arguments)[0]


# --- annotations: what is shown, what fits, what does not


def literal(x: Literal["fast", 3, None]) -> None: ...
def enum_(x: Colour) -> None: ...
def int_enum(x: Level) -> None: ...
def optional(x: Optional[int]) -> None: ...  # noqa: UP045 (the old spelling is what is tested)
def union(x: int | list[str]) -> None: ...
def model(x: Person) -> None: ...
def data(x: Point) -> None: ...
def typed_dict(x: Options) -> None: ...
def constrained(x: Annotated[int, Field(ge=1, le=10)]) -> None: ...
def pattern(x: Annotated[str, StringConstraints(pattern=r"^[a-z]+$", max_length=3)]) -> None: ...
def date(x: datetime.date) -> None: ...
def moment(x: datetime.datetime) -> None: ...
def recursive(x: Tree) -> None: ...
def pair(x: tuple[int, str]) -> None: ...
def several(x: set[int]) -> None: ...
def table(x: dict[str, float]) -> None: ...
def flag(x: bool) -> None: ...
def number(x: float) -> None: ...
def anything(x: Any) -> None: ...


KINDS: list[tuple[Callable[..., Any], Any, Any, Any]] = [
    (literal, "fast", "fast", "slow"),
    (literal, None, None, 4),
    (enum_, "red", Colour.RED, "green"),
    (int_enum, 2, Level.HIGH, 3),
    (optional, None, None, "x"),
    (union, ["a"], ["a"], {"a": 1}),
    (model, {"name": "Ann", "address": {"street": "s"}}, Person(name="Ann", address=Address(street="s")), {"name": "A"}),  # noqa: E501
    (data, {"x": 1, "tags": ["t"]}, Point(1.0, 0.0, ["t"]), {"y": 1}),
    (typed_dict, {"mode": "a"}, {"mode": "a"}, {"mode": "c"}),
    (constrained, 10, 10, 11),
    (pattern, "abc", "abc", "abcd"),
    (date, "2026-11-21", datetime.date(2026, 11, 21), "21.11."),
    (moment, "2026-11-21T10:00:00", datetime.datetime(2026, 11, 21, 10), "now"),
    (recursive, {"value": 1, "children": [{"value": 2}]}, Tree(value=1, children=[Tree(value=2)]), {"value": 1, "children": [{}]}),  # noqa: E501
    (pair, [1, "a"], (1, "a"), [1]),
    (several, [1, 2], {1, 2}, ["a"]),
    (table, {"a": 1}, {"a": 1.0}, {"a": "b"}),
    (flag, True, True, 1),
    (number, 3, 3.0, True),
    (anything, {"any": [1]}, {"any": [1]}, float("nan")),
]  # fmt: skip


@pytest.mark.parametrize(("fn", "good", "value", "bad"), KINDS)
def test_every_kind_of_annotation(fn: Callable[..., Any], good: Any, value: Any, bad: Any) -> None:
    t = tool(fn)
    assert bound(t, {"x": good}) == {"x": value}
    problems = wrong(t, {"x": bad})
    assert problems and all("x" in p or "finite" in p for p in problems), problems
    assert wrong(t, {}) == ["missing required x"]
    json.dumps(t.schema)
    assert t.schema["type"] == "object" and t.schema["required"] == ["x"]
    assert t.schema["additionalProperties"] is False


def test_the_schema_a_model_sees() -> None:
    @tool
    def search(query: str, limit: Annotated[int, Field(ge=1)] = 10, who: Person | None = None) -> None: ...

    assert search.schema == {
        "type": "object",
        "properties": {
            "query": {"type": "string"},
            "limit": {"type": "integer", "minimum": 1, "default": 10},
            "who": {"anyOf": [{"$ref": "#/$defs/Person"}, {"type": "null"}], "default": None},
        },
        "required": ["query"],
        "additionalProperties": False,
        "$defs": {
            "Address": {
                "type": "object",
                "properties": {"street": {"type": "string"}, "number": {"type": "integer", "default": 1}},
                "required": ["street"],
                "additionalProperties": False,
            },
            "Person": {
                "type": "object",
                "description": "Somebody.",
                "properties": {
                    "name": {"type": "string", "description": "Full name", "minLength": 2},
                    "address": {"anyOf": [{"$ref": "#/$defs/Address"}, {"type": "null"}], "default": None},
                },
                "required": ["name"],
                "additionalProperties": False,
            },
        },
    }


def test_defaults_are_fresh_for_each_call() -> None:
    @tool
    def collect(into: list[int] = [], box: Point = Point(1)) -> None:  # noqa: B006, B008
        ...

    first = bound(collect, {})
    first["into"].append(1)
    first["box"].tags.append("x")
    assert bound(collect, {}) == {"into": [], "box": Point(1)}


def test_var_keywords_take_what_is_left_with_their_type() -> None:
    @tool
    def send(to: str, **fields: int) -> None: ...

    assert bound(send, {"to": "a", "n": 1}) == {"to": "a", "n": 1}
    assert bound(send, {"to": "a", "n": "1"}) == {"to": "a", "n": 1}
    assert wrong(send, {"to": "a", "n": "x"}) == ['n should be an integer, got "x"']
    assert send.schema["additionalProperties"] == {"type": "integer"}


def test_the_context_is_hidden_and_may_be_optional() -> None:
    @tool
    def one(x: int, ctx: ToolContext) -> None: ...
    @tool
    def two(x: int, *, where: ToolContext | None = None) -> None: ...
    @tool
    def three(x: int, c: Annotated[Optional[ToolContext], "who calls"] = None) -> None: ...  # noqa: UP045

    for t in (one, two, three):
        assert list(t.schema["properties"]) == ["x"]
        assert wrong(t, {"x": 1, "ctx": {}, "where": {}, "c": {}})


@pytest.mark.parametrize(
    ("fn", "word"),
    [
        (lambda *args: None, "args"),
        (lambda a, /: None, "positional-only"),
    ],
)
def test_what_no_model_can_call(fn: Callable[..., Any], word: str) -> None:
    with pytest.raises(ToolDefinitionError, match=word):
        _ = tool(fn, name="f").schema


def test_unreadable_annotations_are_definition_errors() -> None:
    def unknown(x: Nowhere) -> None: ...  # noqa: F821  # pyright: ignore
    def twice(a: ToolContext, b: ToolContext) -> None: ...
    def no_schema(x: Callable[[], int]) -> None: ...

    for fn in (unknown, twice, no_schema):
        with pytest.raises(ToolDefinitionError, match=fn.__name__):
            _ = tool(fn).schema


# --- unknown keys, all violations, paths


def test_unknown_keys_get_a_suggestion_at_every_level() -> None:
    @tool
    def make(person: Person, points: list[Point], options: Options, loose: Loose | None = None) -> None: ...

    good = {"person": {"name": "Ann"}, "points": [], "options": {}}
    assert wrong(make, {**good, "persom": 1}) == ["unknown parameter persom; did you mean person?"]
    assert wrong(make, {**good, "person": {"name": "Ann", "adress": None}}) == [
        "unknown parameter person.adress; did you mean address?"
    ]
    assert wrong(make, {**good, "person": {"name": "Ann", "address": {"street": "s", "nummer": 1}}}) == [
        "unknown parameter person.address.nummer; did you mean number?"
    ]
    assert wrong(make, {**good, "points": [{"x": 1}, {"x": 1, "tagz": []}]}) == [
        "unknown parameter points[1].tagz; did you mean tags?"
    ]
    assert wrong(make, {**good, "options": {"zzz": 1}}) == ["unknown parameter options.zzz; known: depth, mode"]
    assert wrong(make, {**good, "loose": {"anything": 1}}) == []  # its author said extra="allow"


def test_all_violations_at_once_with_their_paths() -> None:
    @tool
    def make(person: Person, count: Annotated[int, Field(ge=1)], points: list[Point], mode: Literal["a", "b"] = "a") -> None: ...  # fmt: skip  # noqa: E501

    with pytest.raises(InvalidArguments) as caught:
        make.bind(
            {"person": {"name": None, "address": {}}, "count": 0, "points": [{"x": "q"}, 3], "mode": "c", "more": 1}
        )
    assert {(v.path, v.text) for v in caught.value.violations} == {
        ("person.name", "person.name should be a string, got null"),
        ("person.address.street", "missing required person.address.street"),
        ("count", "count must be >= 1, got 0"),
        ("points[0].x", 'points[0].x should be a number, got "q"'),
        ("points[1]", "points[1] should be an object, got 3"),
        ("mode", "mode must be one of 'a' or 'b', got \"c\""),
        ("more", "unknown parameter more; did you mean mode?"),
    }


def test_limits_of_texts_and_lists_are_named_as_others_are() -> None:
    @tool
    def make(a: Annotated[str, Field(min_length=2, pattern="^x")] = "xx", b: Annotated[list[int], Field(max_length=1)] = []) -> None: ...  # fmt: skip  # noqa: B006, E501

    assert wrong(make, {"a": "x"}) == ['a should have at least 2 characters, got "x"']
    assert wrong(make, {"a": "yy"}) == ["a should match pattern '^x', got \"yy\""]
    assert wrong(make, {"b": [1, 2]}) == ["b should have at most 1 item after validation, not 2, got [1,2]"]


def test_members_of_a_union_are_told_together_and_leave_no_label_in_the_path() -> None:
    @tool
    def make(xs: list[int | Point | bool]) -> None: ...

    assert wrong(make, {"xs": ["q"]}) == ['xs[0] should be an integer or an object or a boolean, got "q"']
    assert wrong(make, {"xs": [{"x": "q"}]}) == ['xs[0].x should be a number, got "q"']


def test_many_violations_are_counted_not_listed() -> None:
    @tool
    def make(xs: list[int], **more: int) -> None: ...

    found = wrong(make, {f"k{i}": "x" for i in range(200)} | {"xs": []})
    assert len(found) == 51 and found[-1] == "… and 150 more"


# --- strictness


@pytest.mark.parametrize("value", [True, False])
def test_a_boolean_is_no_number_and_a_number_no_boolean(value: bool) -> None:
    assert wrong(tool(number), {"x": value})
    assert wrong(tool(constrained), {"x": value})
    assert wrong(tool(flag), {"x": int(value)})


def test_numbers_are_finite_wherever_they_stand() -> None:
    class Holder(BaseModel):
        free: Any = None
        f: float = 0.0

    @tool
    def make(f: float = 0, free: Any = None, m: Holder | None = None, t: tuple[Any, ...] = ()) -> None: ...

    for text in ("NaN", "Infinity", "-Infinity", "1e999", "-1e400", "1" + "0" * 400 + ".0"):
        for place in ("%s", '{"free": %s}', '{"f": %s}'):
            for key in ("f", "free", "m", "t"):
                inner = place % text
                arguments = f'{{"{key}": {f"[{inner}]" if key == "t" else inner}}}'
                assert wrong(make, arguments), arguments
    assert wrong(make, '{"f": 1e308, "free": [1e300, 1.5e-400]}') == []


@pytest.mark.parametrize("number", ["9" * 209 + "e99", "9." + "9" * 300 + "e308", "1E+309", "1e0400"])
def test_the_quick_test_for_infinity_misses_none(number: str) -> None:
    if json.loads(number) == float("inf"):
        with pytest.raises(InvalidArguments):
            check_finite(number)


@pytest.mark.parametrize("text", ["[]", "[1]", " []", "3", '"x"', "null", "true"])
def test_arguments_are_an_object(text: str) -> None:
    @tool
    def none() -> None: ...
    @tool
    def some(x: int = 1) -> None: ...

    for t in (none, some, Tool.from_schema("r", "", {"type": "object", "properties": {}}, lambda **k: None)):
        assert len(wrong(t, text)) == 1, text
        assert "object" in wrong(t, text)[0]


# --- raw schemas


@pytest.mark.parametrize(
    ("given", "required"),
    [
        ({"path": {"type": "string"}, "n": {"type": "integer", "default": 3}}, ["path"]),
        ({"type": {"type": "string"}}, ["type"]),
        ({"$ref": {"type": "string"}, "anyOf": {"type": "integer"}}, ["$ref", "anyOf"]),
        ({"p": "string"}, ["p"]),
        ({"properties": {"type": "object"}}, ["properties"]),
        ({}, []),
    ],
)
def test_a_bare_map_of_properties(given: dict[str, Any], required: list[str]) -> None:
    schema = full_schema(given)
    assert schema["type"] == "object" and list(schema["properties"]) == list(given) and schema["required"] == required


@pytest.mark.parametrize(
    "given",
    [
        {"type": "object"},
        {"type": "object", "properties": {"type": {"type": "string"}}},
        {"$ref": "#/$defs/a", "$defs": {"a": {"type": "object"}}},
        {"anyOf": [{"type": "object"}]},
        {"allOf": [{"type": "object"}], "description": "x"},
    ],
)
def test_a_full_schema_stays_as_it_is(given: dict[str, Any]) -> None:
    assert full_schema(given) == given


def test_a_property_map_that_is_no_schema() -> None:
    with pytest.raises(ToolDefinitionError, match="'p'"):
        full_schema({"p": 3})


def raw(schema: dict[str, Any]) -> Tool:
    return Tool.from_schema("raw", "A raw tool.", schema, lambda args: None)


def test_raw_unknown_keys_follow_additional_properties() -> None:
    closed = {"type": "object", "properties": {"path": {"type": "string"}}}
    assert wrong(raw(closed), {"pth": "x"}) == ["unknown parameter pth; did you mean path?"]
    assert wrong(raw(closed), {"file_path": "x"}) == ["unknown parameter file_path; did you mean path?"]
    assert wrong(raw(closed), {"a": "x"}) == ["unknown parameter a; known: path"]
    assert wrong(raw({**closed, "additionalProperties": True}), {"pth": "x"}) == []
    assert wrong(raw({**closed, "additionalProperties": {"type": "integer"}}), {"n": "x"})
    assert wrong(raw({**closed, "anyOf": [{"required": ["path"]}, {"required": ["url"]}]}), {"url": 1}) == []
    members = [{"type": "object", "properties": {n: {}}, "additionalProperties": False} for n in ("left", "right")]
    [said] = wrong(raw({"type": "object", "properties": {"o": {"anyOf": members}}}), {"o": {"left": 1, "right": 2}})
    assert "o.left is a parameter of another alternative" in said and "did you mean left" not in said
    nested = {"type": "object", "properties": {"o": {"type": "object", "properties": {"a": {}}}}}
    assert wrong(raw(nested), {"o": {"b": 1}}) == []  # JSON Schema's own rule below the top level


def test_raw_violations_have_paths() -> None:
    schema = {
        "type": "object",
        "required": ["meta"],
        "properties": {
            "meta": {"type": "object", "required": ["tag"], "properties": {"flags": {"type": "array", "items": {"type": "string"}}}},  # noqa: E501
            "count": {"type": "integer", "minimum": 1},
            "mode": {"enum": ["a", "b"]},
            "either": {"anyOf": [{"type": "integer"}, {"type": "boolean"}]},
            "names": {"type": "object", "propertyNames": {"enum": ["a", "b"]}},
        },
    }  # fmt: skip
    assert wrong(raw(schema), {"meta": {"tag": 1}, "names": {"c": 1}}) == ['names: "c" is not one of "a" or "b"']
    assert set(wrong(raw(schema), {"meta": {"flags": [{}]}, "count": 0, "mode": "c", "either": "x"})) == {
        "missing required meta.tag",
        "meta.flags[0] should be a string, got {}",
        "count must be >= 1, got 0",
        'mode must be one of "a", "b", got "c"',
        'either should be an integer or a boolean, got "x"',
    }
    assert wrong(raw(schema), {}) == ["missing required meta"]


def test_local_references_work() -> None:
    local = {"type": "object", "properties": {"n": {"$ref": "#/$defs/n"}}, "$defs": {"n": {"type": "integer"}}}
    assert wrong(raw(local), {"n": "x"}) == ['n should be an integer, got "x"']
    assert bound(raw(local), {"n": "3"}) == {"n": 3}


def test_remote_references_are_never_fetched(tmp_path: Path) -> None:
    asked: list[str] = []

    class Serves(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append(self.path)
            self.send_response(200)
            self.end_headers()
            self.wfile.write(b'{"type": "integer"}')

        def log_message(self, *_: Any) -> None: ...

    (tmp_path / "s.json").write_text('{"type": "integer"}')
    with HTTPServer(("127.0.0.1", 0), Serves) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        for uri in (f"http://127.0.0.1:{server.server_port}/s.json", (tmp_path / "s.json").as_uri()):
            for schema in (
                {"type": "object", "properties": {"n": {"$ref": uri}}},
                {"$id": uri, "type": "object", "properties": {"n": {"$ref": "other.json"}}},
                {"$schema": uri, "type": "object"},
            ):
                with pytest.raises(ToolDefinitionError, match="not a valid JSON Schema"):
                    _ = raw(schema).schema
        server.shutdown()
    assert not asked


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "object", "properties": {"a": {"type": "nonsense"}}},
        {"type": "object", "properties": {"a": {"minimum": "x"}}},
        {"type": "object", "properties": 3},
        {"type": "object", "properties": {"a": {"pattern": "("}}},
        {"type": "object", "properties": {"a": {"$ref": "#/$defs/none"}}},
    ],
)
def test_invalid_schemas_are_definition_errors(schema: dict[str, Any]) -> None:
    with pytest.raises(ToolDefinitionError, match="raw"):
        _ = raw(schema).schema


def test_parameters_must_be_a_mapping() -> None:
    with pytest.raises(ToolDefinitionError):
        _ = Tool.from_schema("t", "", ["type"], lambda: None).schema  # pyright: ignore


# --- what was judged is what is run


@pytest.mark.parametrize("text", ['{"x": 1, "x": 2}', '{"m": {"a": 1, "a": 2}}', '{"m": {"a": 1}, "m": {"a": 2}}'])
def test_of_duplicate_keys_the_same_one_is_judged_and_run(text: str) -> None:
    from toolcrib.core.call import Call

    @tool
    def make(x: int = 0, m: Loose | None = None, o: dict[str, Any] | None = None) -> None: ...

    kwargs, plain = make.bind(text)
    judged = Call("c", make, plain, ToolContext()).arguments
    assert kwargs["x"] == judged.get("x", 0)
    if "m" in judged:
        assert kwargs["m"].a == judged["m"]["a"]


class Inner(BaseModel):
    x: int


class OddNames(BaseModel):
    config: Inner
    metadata: Any = None


def test_fields_named_like_keys_of_pydantics_schemas_are_checked_too() -> None:
    @tool
    def keep(value: OddNames) -> str:
        return "kept"

    assert keep.validate_params({"value": {"config": {"x": 1, "y": 2}}}) == [
        "unknown parameter value.config.y; known: x"
    ]
    assert keep.validate_params('{"value": {"config": {"x": 1}, "metadata": 1e999}}') == ["numbers must be finite"]


def test_descriptions_of_the_docstring_reach_parameters_of_every_form() -> None:
    def ship(
        to: Address,
        colour: Annotated[Colour, Field(alias="color")] = Colour.RED,
        size: Annotated[int, Field(description="In metres.", ge=1)] = 1,
        note: Annotated[str | None, Field(validation_alias="remark")] = None,
        **more: int,
    ) -> None:
        """Ship it.

        Args:
            to: Where to.
            colour: Of the box.
            size: Not shown: it has its own.
            note: For the driver.
            more: Not shown, either.
        """

    properties = tool(ship).schema["properties"]
    assert {key: value["description"] for key, value in properties.items()} == {
        "to": "Where to.", "color": "Of the box.", "size": "In metres.", "remark": "For the driver.",
    }  # fmt: skip
    assert all(list(value) == sorted(value) for value in properties.values())
