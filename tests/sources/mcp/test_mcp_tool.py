"""What is believed of a server's tools, and what is not."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from toolcrib.core.caller import Caller
from toolcrib.core.errors import InvalidArguments
from toolcrib.core.output import Labels
from toolcrib.core.registry import ToolRegistry
from toolcrib.policy.call_limits import CallLimits
from toolcrib.policy.flow import default_labels
from toolcrib.policy.hooks import Hooks
from toolcrib.policy.lint import lint
from toolcrib.policy.policy import Policy
from toolcrib.policy.rules.names import means
from toolcrib.policy.settings import HookRule
from toolcrib.sources.mcp.config import server_config
from toolcrib.sources.mcp.listed import ListedTool, ServerListing
from toolcrib.sources.mcp.mcp_tool import McpTool
from toolcrib.sources.mcp.registered_tools import RegisteredTools, _wanted, extra_tools
from toolcrib.sources.mcp.tool_names import own_name

OBJECT = {"type": "object"}


def tool(hints: dict[str, Any], *, schema: dict[str, Any] = OBJECT, **settings: Any) -> McpTool:
    async def run(*_: Any) -> Any:
        raise AssertionError

    listed = ListedTool("t", "Does it.", schema, hints=hints)
    return McpTool("mcp_s_t", listed, server_config("s", {"command": "x", **settings}), run)


@pytest.mark.parametrize("hints", [{}, {"readOnlyHint": True, "openWorldHint": False, "idempotentHint": True}])
def test_hints_of_a_server_that_is_not_trusted_loosen_nothing(hints: dict[str, Any]) -> None:
    found = tool(hints)
    assert (found.category, found.is_read_only, found.categorized) == ("shell", False, False)
    assert (found.open_world, found.idempotent) == (True, None)
    assert default_labels(found) == Labels("untrusted", "private")
    assert found.timeout is not None
    assert found.timeout > 600


def test_our_tools_for_resources_and_prompts_have_no_faults() -> None:
    async def run(*_: Any) -> Any:
        raise AssertionError

    listing = ServerListing((), has_resources=True, has_prompts=True)
    configs = [server_config(name, {"command": "x"}) for name in ("notes", "math")]
    pairs = [(config, listed) for config in configs for listed in extra_tools(config, listing)]
    found = [McpTool(f"mcp_{config.name}_{listed.name}", listed, config, run) for config, listed in pairs]
    assert len(found) == 4 and [fault.rule for fault in lint(found) if fault.level == "warning"] == []


def test_what_is_set_for_resources_holds_although_the_server_has_a_tool_of_that_name() -> None:
    async def run(*_: Any) -> Any:
        raise AssertionError

    listing = ServerListing((ListedTool("resources", "Reads.", OBJECT),), has_resources=True)
    config = server_config("s", {"command": "x", "per_tool": {"resources": {"category": "shell"}}})
    [listed] = extra_tools(config, listing)
    found = McpTool("mcp_s_server_resources", listed, config, run)
    assert (listed.name, found.category) == ("server_resources", "shell")
    for name in ("mcp__s__resources", "mcp__s__server_resources", "mcp_s_resources"):
        assert means(name, None, found, "deny")
    assert not means("mcp__s__resources", None, found, "allow")  # a yes to the server's tool
    for left_out in ({"disabled_tools": ["resources"]}, {"per_tool": {"resources": {"disabled": True}}}):
        assert _wanted(server_config("s", {"command": "x", **left_out}), listing) == []


def test_what_refuses_holds_for_every_name_that_a_tool_may_have() -> None:
    async def run(*_: Any) -> Any:
        raise AssertionError

    server = server_config("s", {"command": "x"})
    own = own_name("s", "delete_repo")
    for name in ("mcp_s_delete_repo", own):  # which one it has depends on what other tools the server lists
        found = McpTool(name, ListedTool("delete_repo", "Deletes.", OBJECT), server, run)
        for said in ("mcp_s_delete_repo", own, "mcp_s_delete_*"):
            assert means(said, None, found, "deny") and means(said, None, found, "ask")
            assert CallLimits(per_tool={said: 1}).touches(found)
            assert Policy(approval="require_for_tools", ask_for=(said,)).check(found, {}).rule == f"require_for:{said}"
            assert Hooks([HookRule(action="block", tools=(said,))]).touches(found)
        assert not Caller("token", tools=(own if name != own else "mcp_s_delete_repo",)).has(found.every_name)


def test_the_order_of_a_list_gives_no_tool_the_name_of_another() -> None:
    async def run(*_: Any) -> Any:
        raise AssertionError

    config = server_config("s", {"command": "x"})
    listed = [ListedTool(name, "Does.", OBJECT) for name in ("a.b", "a b", "a_b", "c.d", "c d")]
    seen: list[dict[str, str]] = []
    for order in (listed, listed[::-1]):
        tools = RegisteredTools(ToolRegistry(), None)
        tools.set(cast("Any", SimpleNamespace(name="s", identity="", config=config, call=run, start=None)),
                  ServerListing(tuple(order)))  # fmt: skip
        seen.append({tool.listed.name: tool.name for tool in tools.of("s")})
    assert seen[0] == seen[1] and len(set(seen[0].values())) == 5
    nameless = McpTool(
        "x_y", ListedTool("x.y", "Does.", OBJECT), server_config("s", {"command": "x", "prefix": ""}), run
    )
    assert means("x.y", None, nameless, "deny")  # the name that clients see of it, unless another server's tool has it
    assert seen[0]["a_b"] == "mcp_s_a_b" and "mcp_s_c_d" not in seen[0].values()


@pytest.mark.parametrize("schema", [{"type": "object"}, {"type": "object", "properties": {}}])
def test_what_a_schema_allows_is_allowed(schema: dict[str, Any]) -> None:
    found = tool({}, schema=schema)
    assert found.bind({"more": 1, "self": [2]})[0] == {"more": 1, "self": [2]}
    assert "additionalProperties" not in found.schema


def test_what_a_schema_excludes_is_refused() -> None:
    found = tool({}, schema={"type": "object", "properties": {"a": {}}, "additionalProperties": False})
    with pytest.raises(InvalidArguments, match="more"):
        found.bind({"more": 1})


@pytest.mark.parametrize(
    "schema",
    [
        {"required": ["first STRANGE"]},
        {"properties": {"first STRANGE": {"type": "integer"}}, "additionalProperties": False},
        {"properties": {"n": {"const": "first STRANGE"}}, "required": ["n"]},
        {"$defs": {"first STRANGE": {}}, "properties": {"n": {"$ref": "#/$defs/first%20STRANGE"}}, "maxProperties": 0},
    ],
)
def test_a_schema_that_nobody_has_accepted_says_nothing(schema: dict[str, Any]) -> None:
    found = tool({}, schema={**OBJECT, **schema})
    found.unaccepted = True
    assert "STRANGE" not in str(found.to_schema("mcp"))
    for given in ({}, {"n": 1}, {"first STRANG": 1}):
        assert not [text for text in found.validate_params(given) if "STRANGE" in text]
    with pytest.raises(InvalidArguments, match="after a person has accepted"):
        found.bind({"n": 1})
    found.unaccepted = False
    assert "STRANGE" in str(found.to_schema("mcp"))


def test_they_may_make_things_stricter() -> None:
    assert tool({"destructiveHint": True}).destructive
    assert tool({"destructiveHint": False}).destructive is None


@pytest.mark.parametrize(
    ("hints", "category", "read_only"),
    [
        ({"readOnlyHint": True}, "network_read", True),
        ({"readOnlyHint": True, "openWorldHint": False}, "filesystem_read", True),
        ({"destructiveHint": False}, "network_write", False),
        ({"destructiveHint": False, "openWorldHint": False}, "filesystem_write", False),
        ({"readOnlyHint": "yes"}, "destructive", False),
        ({}, "destructive", False),
    ],
)
def test_hints_of_a_trusted_server(hints: dict[str, Any], category: str, read_only: bool) -> None:
    found = tool(hints, trust="hints")
    assert (found.category, found.is_read_only) == (category, read_only)


def test_a_category_of_the_settings_wins() -> None:
    assert tool({"readOnlyHint": True}, trust="hints", category="messaging").category == "messaging"
    assert tool({}, category="memory", per_tool={"t": {"category": "network_read"}}).category == "network_read"


async def test_labels_are_believed_of_trusted_servers_only(client: Any) -> None:
    from mcp_world import raw

    for trust, labels in (("none", None), ("hints", Labels("trusted", "public"))):
        servers = await client(raw(tools=["labelled"], settings={"trust": trust}))
        output = await servers.tools("raw")[0]._run(servers.tools("raw")[0].listed, {}, _context())
        assert output.labels == labels


def _context() -> Any:
    from toolcrib.core.context import ToolContext

    return ToolContext()
