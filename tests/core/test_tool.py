"""The three ways to make a tool, and what a tool says of itself."""

from __future__ import annotations

import asyncio
import functools
import json
from typing import Any, ClassVar

import pytest
from pydantic import BaseModel

from toolcrib.core.context import ToolContext
from toolcrib.core.errors import ToolDefinitionError
from toolcrib.core.registry import ToolRegistry
from toolcrib.core.tool import BaseTool, Tool, ToolCategory, tool


async def call(t: Tool, arguments: Any = None, ctx: ToolContext | None = None) -> str:
    return (await ToolRegistry([t]).execute(t.name, arguments, ctx)).for_llm


# --- from functions


async def test_a_decorator_with_and_without_options_and_a_call() -> None:
    @tool
    def one(x: int) -> int:
        """Double. And more."""
        return 2 * x

    @tool(name="second", category="memory", timeout=3)
    async def two(x: int) -> int:
        """Triple."""
        return 3 * x

    three = tool(lambda x: x, name="third", description="Said.")
    assert (one.name, one.description, one.summary) == ("one", "Double. And more.", "Double.")
    assert (two.name, two.category, two.timeout, two.categorized) == ("second", ToolCategory.MEMORY, 3, True)
    assert (three.name, three.description) == ("third", "Said.")
    assert [await call(t, {"x": 2}) for t in (one, two, three)] == ["4", "6", "2"]
    assert one(5) == 10 and await two(5) == 15  # still the functions they were


async def test_bound_methods_partials_and_callable_objects() -> None:
    class Counter:
        def __init__(self) -> None:
            self.n = 0

        def add(self, by: int = 1) -> int:
            """Count on."""
            self.n += by
            return self.n

        async def __call__(self, by: int) -> int:
            """Count by calling."""
            return self.add(by)

    counter = Counter()
    assert await call(tool(counter.add), {"by": 2}) == "2"
    by_call = tool(counter)
    assert (by_call.name, by_call.description, by_call.is_async) == ("Counter", "Count by calling.", True)
    assert await call(by_call, {"by": 3}) == "5"
    partial = tool(functools.partial(counter.add, by=10))
    assert partial.name == "add" and await call(partial) == "15"

    @functools.wraps(counter.add)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        return counter.add(*args, **kwargs)

    assert list(tool(wrapped).schema["properties"]) == ["by"] and await call(tool(wrapped), {"by": "1"}) == "16"


@pytest.mark.parametrize(
    "make",
    [
        lambda: tool(lambda: None),
        lambda: tool(3),  # type: ignore[call-overload]
        lambda: tool(tool(lambda: None, name="t")),
        lambda: tool(lambda: None, name="t", category="nonsense"),
        lambda: tool(lambda: None, name="t", timeout=0),
        lambda: tool(lambda: None, name="t", timeout=-1),
        lambda: tool(lambda: None, name="t", max_output=5),
        lambda: type("Bad", (Tool,), {"category": "nonsense"}),
    ],
)
def test_definition_errors(make: Any) -> None:
    with pytest.raises(ToolDefinitionError):
        make()


def test_generators_are_no_tools() -> None:
    def gen() -> Any:
        yield 1

    async def agen() -> Any:
        yield 1

    for fn in (gen, agen):
        with pytest.raises(ToolDefinitionError, match="generator"):
            tool(fn)


async def test_types_of_the_function_around_are_known() -> None:
    class Local(BaseModel):
        n: int

    @tool
    def use(x: Local, xs: list[Local] | None = None, ctx: ToolContext | None = None) -> int:
        return x.n

    assert await call(use, {"x": {"n": "3"}}) == "3"
    assert use.validate_params({"x": {"n": 1, "m": 2}}) == ["unknown parameter x.m; known: n"]


async def test_the_context_is_injected() -> None:
    @tool
    def who(greeting: str, *, ctx: ToolContext) -> str:
        return f"{greeting} {ctx.sender_id}"

    @tool
    def perhaps(where: ToolContext | None = None) -> str:
        return str(where.sender_id if where else None)

    ctx = ToolContext(sender_id="ann")
    assert await call(who, {"greeting": "hi"}, ctx) == "hi ann" and await call(perhaps, {}, ctx) == "ann"
    assert "unknown parameter ctx" in await call(who, {"greeting": "hi", "ctx": {"sender_id": "eve"}}, ctx)


# --- from classes


class ArgsCtx(Tool):
    name = "args_ctx"
    description = "Takes both."
    parameters: ClassVar[Any] = {"type": "object", "properties": {"x": {"type": "integer"}}, "required": ["x"]}
    category = ToolCategory.MEMORY

    async def execute(self, args: dict[str, Any], ctx: ToolContext) -> str:  # pyright: ignore
        return f"{args} {ctx.sender_id}"


class ArgsUntyped(ArgsCtx):
    name = "args_untyped"

    async def execute(self, args, ctx):  # pyright: ignore
        return f"{args} {ctx.sender_id}"


class ArgsOnly(ArgsCtx):
    name = "args_only"

    async def execute(self, params: dict[str, Any]) -> str:  # pyright: ignore
        return f"{params}"


class Keywords(ArgsCtx):
    name = "keywords"

    async def execute(self, x: int) -> str:  # pyright: ignore
        return f"x={x}"


class KeywordsAndContext(ArgsCtx):
    name = "keywords_ctx"

    async def execute(self, ctx: ToolContext, **kwargs: Any) -> str:  # pyright: ignore
        return f"{kwargs} {ctx.sender_id}"


class FromAnnotations(Tool):
    """No `parameters`: they come from the signature."""

    name = "annotated"
    category = "memory"  # pyright: ignore

    async def execute(self, x: int, y: str = "d") -> str:  # pyright: ignore
        """Work.

        Args:
            x: A number.
        """
        return f"{x}{y}"


class Computed(Tool):
    """Everything is a property."""

    @property
    def name(self) -> str:  # pyright: ignore
        return "computed"

    @property
    def description(self) -> str:  # pyright: ignore
        return "A computed tool. Really."

    @property
    def parameters(self) -> Any:  # pyright: ignore
        return {"x": {"type": "string"}, "n": {"type": "integer", "default": 3}}

    async def execute(self, **kwargs: Any) -> str:  # pyright: ignore
        return str(kwargs)


class Running(BaseTool):
    name = "running"
    description = "Runs."
    parameters: ClassVar[Any] = {"sql": {"type": "string"}, "limit": {"type": "integer", "default": 100}}
    category = ToolCategory.NETWORK_READ

    async def run(self, sql: str, limit: int = 100) -> str:  # pyright: ignore
        return f"{sql} {limit}"


@pytest.mark.parametrize(
    ("t", "arguments", "answer"),
    [
        (ArgsCtx(), {"x": "1"}, "{'x': 1} ann"),
        (ArgsUntyped(), {"x": 1}, "{'x': 1} ann"),
        (ArgsOnly(), {"x": 1}, "{'x': 1}"),
        (Keywords(), {"x": 1}, "x=1"),
        (KeywordsAndContext(), {"x": 1}, "{'x': 1} ann"),
        (FromAnnotations(), {"x": "4"}, "4d"),
        (Computed(), {"x": "a"}, "{'x': 'a'}"),
        (Running(), {"sql": "select"}, "select 100"),
    ],
    ids=lambda v: v.name if isinstance(v, Tool) else None,
)
async def test_class_tools(t: Tool, arguments: Any, answer: str) -> None:
    assert await call(t, arguments, ToolContext(sender_id="ann")) == answer


def test_what_class_tools_say() -> None:
    assert Running().schema == {
        "type": "object",
        "properties": {"sql": {"type": "string"}, "limit": {"type": "integer", "default": 100}},
        "required": ["sql"],
    }
    assert Running().validate_params({"limit": "x"}) == [
        'limit should be an integer, got "x"', "missing required sql",
    ]  # fmt: skip
    assert FromAnnotations().schema["properties"]["x"] == {"type": "integer", "description": "A number."}
    assert FromAnnotations().category is ToolCategory.MEMORY and FromAnnotations().categorized
    assert not Computed().categorized and Computed().category is ToolCategory.SHELL
    assert Computed().summary == "A computed tool."
    assert repr(Running()) == "<Tool running (network_read)>"


def test_the_docstring_of_a_class_is_its_description_unless_it_has_one() -> None:
    class Child(Running):
        """A note for those who read the code."""

    class Undescribed(BaseTool):
        name = "undescribed"

    assert FromAnnotations().description == "No `parameters`: they come from the signature."
    assert FromAnnotations().to_schema("flat")["description"] == FromAnnotations.description
    assert [t().description for t in (Running, Child, Computed)] == ["Runs.", "Runs.", "A computed tool. Really."]
    assert Undescribed().description == ""


def test_base_tool_can_be_executed_under_its_other_name() -> None:
    assert asyncio.run(Running().execute(sql="a")) == asyncio.run(Running().execute({"sql": "a"})) == "a 100"


def test_a_class_without_a_body() -> None:
    class Empty(Tool):
        name = "empty"
        parameters: ClassVar[Any] = {}

    class EmptyRun(BaseTool):
        name = "empty_run"
        parameters: ClassVar[Any] = {}

    for empty, word in ((Empty(), "execute"), (EmptyRun(), "run")):
        with pytest.raises(ToolDefinitionError, match=rf"defines no {word}\(\)"):
            ToolRegistry([empty])


def test_a_handler_whose_parameters_nobody_can_fill() -> None:
    with pytest.raises(ToolDefinitionError, match="a, b, c"):
        _ = Tool.from_schema("t", "", {"x": {"type": "string"}}, lambda a, b, c: None).invoke


# --- from raw schemas


@pytest.mark.parametrize(
    "handler",
    [
        lambda args: args["x"],
        lambda args, ctx: args["x"],
        lambda x: x,
        lambda **kwargs: kwargs["x"],
        lambda *args, **kwargs: kwargs["x"],
    ],
)
async def test_raw_tools(handler: Any) -> None:
    t = Tool.from_schema(
        "raw", "Raw.", {"type": "object", "properties": {"x": {"type": "integer"}}}, handler, category="memory"
    )
    assert await call(t, {"x": "7"}) == "7"
    assert t.category is ToolCategory.MEMORY and t.validate_params({"y": 1})


class Mapped(Tool):
    """One whose arguments come as a dict."""

    category = "memory"

    def __init__(self, names: list[str]) -> None:
        self.name = "mapped"
        self.parameters = {name: {"type": "string"} for name in names}

    async def execute(self, args: dict[str, Any], /, ctx: ToolContext) -> dict[str, Any]:
        assert isinstance(ctx, ToolContext)
        return args


@pytest.mark.parametrize("name", ["args", "self", "ctx", "kwargs", "cls", "__class__", "class", "a.b", "a-b", "name"])
async def test_a_positional_only_parameter_takes_all_arguments_whatever_their_names(name: str) -> None:
    handlers: list[Any] = [lambda args, /: args, lambda args, /, ctx: args]
    tools = [Tool.from_schema("t", "T.", {name: {"type": "string"}}, fn, category="memory") for fn in handlers]
    for t in (*tools, Mapped([name])):
        assert json.loads(await call(t, {name: "x"})) == {name: "x"}


class Taken(Tool):
    """One whose property is what its object is called."""

    name = "taken"
    parameters: ClassVar[Any] = {"self": {"type": "string"}}

    async def execute(self, **kwargs: Any) -> str:
        return "x"


def test_a_property_that_cannot_reach_its_handler_is_a_definition_error() -> None:
    def search(ctx: ToolContext, **kwargs: Any) -> str:
        return str(kwargs)

    schema = {"ctx": {"type": "string"}}
    for t in (Tool.from_schema("t", "T.", schema, search), Taken()):
        with pytest.raises(ToolDefinitionError, match=r"the property .(ctx|self). has the name of a parameter"):
            ToolRegistry([t])


async def test_an_unknown_argument_never_takes_the_place_of_the_context() -> None:
    def search(ctx: ToolContext, **kwargs: Any) -> str:
        return type(ctx).__name__

    t = Tool.from_schema("t", "T.", {"type": "object", "additionalProperties": True}, search, category="memory")
    assert await call(t, {"x": 1}) == "ToolContext"
    assert "no such parameter" in (await ToolRegistry([t]).execute("t", {"ctx": {"channel": "x"}})).for_llm


# --- defaults


def test_read_only_follows_from_the_category_unless_said() -> None:
    def made(**options: Any) -> bool:
        return tool(lambda: None, name="t", **options).is_read_only

    assert made(category="network_read") and made(category="filesystem_read")
    assert not any(made(category=c) for c in ToolCategory if not c.endswith("_read")) and not made()
    assert made(category="memory", read_only=True) and not made(category="network_read", read_only=False)


def test_validate_params_coerces_as_a_call_would() -> None:
    t = tool(lambda x: None, name="t", parameters={"x": {"type": "integer"}})
    assert t.validate_params({"x": "1"}) == [] and t.validate_params('{"x": 1}') == []
    assert t.validate_params({"x": "a"}) == ['x should be an integer, got "a"']


async def test_arguments_that_are_not_utf8_say_what_to_do() -> None:
    @tool
    def say(text: str) -> str:
        """Say it.

        Args:
            text: What to say.
        """
        return text

    answer = (await ToolRegistry([say]).execute("say", {"text": "caf\udce9"})).for_llm
    assert "not UTF-8; a command can name such a file, with *" in answer


async def test_methods_of_one_class_are_read_once() -> None:
    class Store:
        def __init__(self, number: int) -> None:
            self.number = number

        def add(self, number: int = 1) -> str:
            return str(self.number + number)

    one, two, other = tool(Store(1).add), tool(Store(5).add), tool(Store(9).add, name="other")
    assert one.arguments is two.arguments
    assert one.arguments is not other.arguments
    assert [await call(each, {"number": 2}) for each in (one, two, other)] == ["3", "7", "11"]


async def test_annotations_that_a_program_changes_count_for_tools_that_are_made_later() -> None:
    class Room:
        def count(self, things: Any) -> int:
            """Count them."""
            return len(things)

    first = tool(Room().count, category="memory")
    assert await call(first, {"things": "abc"}) == "3"
    Room.count.__annotations__["things"] = list[int]
    assert "things" in await call(tool(Room().count, category="memory"), {"things": "abc"})
    assert await call(first, {"things": "abc"}) == "3"
