"""Names to tools: conflicts, order, caching, views, aliases for ported code."""

from __future__ import annotations

from typing import Any, ClassVar

import pytest

import toolcrib
from toolcrib.core.errors import ToolConflictError, ToolDefinitionError, ToolNotFoundError
from toolcrib.core.registry import ToolRegistry
from toolcrib.core.tool import Tool, ToolCategory, tool


def named(name: str, **options: Any) -> Tool:
    return tool(lambda: name, name=name, **{"category": "memory", "description": f"The tool {name}.", **options})


def test_register_and_look_up() -> None:
    registry = ToolRegistry([named("b"), named("a")])

    def c() -> None:
        """A plain function."""

    assert registry.register(c).name == "c"
    assert registry.names == registry.tool_names == ["a", "b", "c"]
    assert len(registry) == 3 and "a" in registry and "z" not in registry and 3 not in registry
    assert registry.get("z") is None and not registry.has("z")
    assert registry.require("a").name == "a"
    with pytest.raises(ToolNotFoundError, match="Did you mean") as caught:
        ToolRegistry([named("weather")]).require("wether")
    assert isinstance(caught.value, KeyError) and not str(caught.value).startswith('"')


def test_conflicts() -> None:
    first, second = named("t"), named("t")
    registry = ToolRegistry([first])
    with pytest.raises(ToolConflictError):
        registry.register(second)
    assert registry.register(second, "keep") is first
    assert registry.register(second, "replace") is second and registry.get("t") is second
    assert registry.register(second) is second  # the same again is no conflict
    with pytest.raises(ValueError, match="error, replace, keep"):
        registry.register(first, "kepe")  # pyright: ignore[reportArgumentType]
    assert registry.get("t") is second


@pytest.mark.parametrize("aliases", [{"file": "paht"}, {"path": "mode"}, {"path": ["file"]}])
def test_a_spelling_that_leads_to_no_parameter_is_refused(aliases: Any) -> None:
    def read(path: str, mode: str = "r") -> str:
        """Read."""
        return path + mode

    ToolRegistry([tool(read, aliases={"file": "path"})])
    with pytest.raises(ToolDefinitionError, match="its parameters: mode, path"):
        ToolRegistry([tool(read, aliases=aliases)])


def test_tools_from_elsewhere_never_shadow() -> None:
    registry = ToolRegistry([named("exec", names=("shell",)), named("mcp_a_x", source="mcp:a")])
    for source in ("mcp:b", "plugin", "entrypoint"):
        for name in ("exec", "shell", "mcp_a_x"):
            with pytest.raises(ToolConflictError):
                registry.register(named(name, source=source), "replace")
    newer = named("mcp_a_x", source="mcp:a")
    assert registry.register(newer, "replace") is newer  # a server may renew its own
    assert registry.get("shell") is registry.get("exec")


@pytest.mark.parametrize("name", ["", "   ", "a b", "a\nb", "\u202eevil", "---", "x" * 257, None, 3])
def test_names_that_are_none(name: Any) -> None:
    t = named("t")
    t.name = name
    with pytest.raises(ToolDefinitionError):
        ToolRegistry([t])


def test_a_tool_that_cannot_say_its_schema_is_refused_at_registration() -> None:
    def bad(x: Unknown) -> None: ...  # noqa: F821  # pyright: ignore

    registry = ToolRegistry()
    for broken in (
        tool(bad),
        Tool.from_schema("t", "", {"a": 3}, lambda: None),
        Tool.from_schema("t", "", {}, lambda a, b, c: 0),
    ):
        with pytest.raises(ToolDefinitionError):
            registry.register(broken)
    odd = named("t")
    odd.category = "nonsense"  # pyright: ignore
    with pytest.raises(ToolDefinitionError, match="nonsense"):
        registry.register(odd)
    assert len(registry) == 0


def test_unregister_and_other_names() -> None:
    registry = ToolRegistry([named("exec", names=("shell", "bash"))])
    assert registry.find("shell") is registry.find("exec")
    registry.register(named("exec"), "replace")
    assert registry.find("shell") is None
    registry.unregister("exec")
    registry.unregister("exec")
    assert len(registry) == 0


def test_the_order_is_stable_own_tools_first() -> None:
    names = ["z", "mcp_b", "a", "mcp_a", "m"]
    orders = []
    for shift in range(5):
        order = names[shift:] + names[:shift]
        registry = ToolRegistry([named(n, source="mcp:s" if n.startswith("mcp") else "own") for n in order])
        orders.append([d["function"]["name"] for d in registry.get_definitions()])
    assert orders == [["a", "m", "z", "mcp_a", "mcp_b"]] * 5


def test_definitions_are_cached_until_a_change() -> None:
    registry = ToolRegistry([named("a"), named("b")])
    changes: list[int] = []
    stop = registry.on_change(lambda: changes.append(1))
    first = registry.definitions("anthropic")
    assert registry.definitions("anthropic") is first
    assert registry.definitions("anthropic", compact=True) is not first
    registry.register(named("c"))
    second = registry.definitions("anthropic")
    assert second is not first and len(second) == 3
    registry.unregister("c")
    assert registry.definitions("anthropic") == first
    stop()
    stop()
    registry.register(named("d"))
    assert len(changes) == 2


def test_the_designs_own_names() -> None:
    registry = ToolRegistry([named("a", compact_description="short"), named("b")])
    assert registry.get_definitions() == registry.definitions("openai")
    assert registry.list_schemas()[0].keys() == {"name", "description", "input_schema"}
    assert [d["function"]["name"] for d in registry.definitions_for_tools(["b", "nothing"])] == ["b"]
    assert registry.definitions_with_options(True)[0]["function"]["description"] == "short"
    assert toolcrib.default_registry is toolcrib.tool_registry
    assert isinstance(toolcrib.default_registry, ToolRegistry)
    assert toolcrib.ToolCallRequest is toolcrib.ToolCall
    with pytest.raises(AttributeError):
        toolcrib.core.registry.nothing  # noqa: B018  # pyright: ignore


async def test_the_designs_ways_to_call() -> None:
    registry = ToolRegistry([tool(lambda ctx: ctx["x"], name="t", parameters={"x": {"type": "string"}})])
    output = await registry.execute_with_context("t", {"x": "1"}, toolcrib.ToolContext())
    assert str(output) == "1"
    call = toolcrib.ToolCall("c", "t", {"x": "2"})
    assert call.input == call.arguments
    assert [o.for_llm for o in await registry.execute_parallel([call])] == ["2"]


def test_merge() -> None:
    one, two = ToolRegistry([named("a")]), ToolRegistry([named("b")])
    one.merge(two)
    assert one.names == ["a", "b"]
    with pytest.raises(ToolConflictError):
        one.merge(ToolRegistry([named("a")]))
    one.merge(ToolRegistry([named("a")]), "keep")


class Named(Tool):
    """A class tool whose name is computed."""

    parameters: ClassVar[Any] = {}
    category = ToolCategory.MEMORY

    @property
    def name(self) -> str:  # pyright: ignore[reportIncompatibleVariableOverride]
        return "computed"

    async def execute(self) -> str:  # pyright: ignore[reportIncompatibleMethodOverride]
        return f"ran {self.name}"


async def test_views_select_rename_and_share_the_pipeline() -> None:
    registry = ToolRegistry([named("a"), named("b"), named("c"), Named()])
    seen: list[Any] = []
    registry.events.subscribe(seen.append)
    view = registry.view(select=["a", "b"], rename={"a": "first"}, prefix="my_")
    assert view.names == ["my_b", "my_first"]
    assert (await view.execute("my_first")).for_llm == "a"
    assert [e.tool for e in seen] == ["my_first"] * 2
    assert (await view.execute("a")).error_kind == "not_found"
    assert registry.view(lambda t: t.name > "b").names == ["c", "computed"]
    assert registry.names == ["a", "b", "c", "computed"]
    renamed = registry.view(["computed"], prefix="x_")
    assert renamed.names == ["x_computed"] and (await renamed.execute("x_computed")).for_llm == "ran x_computed"
    assert renamed.require("x_computed").former_names == ("computed",)
    with pytest.raises(TypeError):
        registry.view("abc")
    with pytest.raises(ToolConflictError):
        registry.view(rename={"a": "b"})


async def test_names_as_a_dialect_had_to_spell_them() -> None:
    registry = ToolRegistry([named("grüße"), named("a.b"), named("x" * 100), named("ok")])
    spelled = [d["name"] for d in registry.definitions("anthropic")]
    assert "ok" in spelled
    results = {(await registry.execute(name)).for_llm for name in spelled}
    assert results == {"grüße", "a.b", "x" * 100, "ok"}


@pytest.fixture(scope="module")
def thousands() -> ToolRegistry:
    return ToolRegistry([
        Tool.from_schema(f"tool_{i:05d}_{'long' * 10}", f"Does thing {i}.", {"x": {"type": "string"}}, lambda args: "ok")  # noqa: E501
        for i in range(10_000)
    ])  # fmt: skip


@pytest.mark.parametrize(
    "name", ["tool_0xyz", "", "x", "tool_09999_longlonglonglonglonglonglonglonglonglon", "\ud800", "é" * 10_000]
)
async def test_ten_thousand_tools(thousands: ToolRegistry, name: str) -> None:
    output = await thousands.execute(name, {})
    assert output.error_kind == "not_found" and len(output.for_llm) <= 500


def test_listing_ten_thousand_tools_again_makes_nothing_anew(thousands: ToolRegistry) -> None:
    first = thousands.definitions()
    assert len(first) == 10_000
    assert thousands.definitions() is first


def test_few_tools_are_listed_when_none_is_close() -> None:
    assert "Available: a, b" in ToolRegistry([named("b"), named("a")]).unknown("zzzzzz")
    assert ToolRegistry().unknown("x") == "Tool not found: 'x'."
    assert ToolRegistry().unknown(None) == "Tool not found: the name of a tool is a text, not None"
    assert (
        ToolRegistry([named("list_dir")]).unknown([]) == "Tool not found: the name of a tool is a text, not list"
    )  # no `list_dir` was meant


def test_what_the_policy_hides_is_not_listed_nor_suggested():
    class Hiding:
        def __init__(self):
            self.names = {"hidden_tool"}

        def hides(self, tool):
            return tool.name in self.names

    policy = Hiding()
    tools = [Tool.from_schema(name, "", {}, lambda: "") for name in ("hidden_tool", "shown_tool")]
    registry = ToolRegistry(tools, policy=policy)
    view = registry.view()
    for each in (registry, view):
        assert [body["name"] for body in each.definitions("mcp")] == ["shown_tool"]
        assert each.definitions("mcp", ["hidden_tool"]) == []
        assert "hidden_tool" not in each.unknown("hidden_too")
    policy.names.clear()
    told = []
    registry.on_change(lambda: told.append(1))
    registry.policy_changed()
    assert told
    for each in (registry, view):
        assert len(each.definitions("mcp")) == 2
