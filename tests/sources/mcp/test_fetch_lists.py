"""Lists of tools: each is read by itself, and what it says beside goes on to clients of ours."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from mcp_types.methods import serialize_server_result
from mcp_types.version import KNOWN_PROTOCOL_VERSIONS
from mcp_world import raw

from toolcrib.core.schema import RawArguments
from toolcrib.sources.mcp.config import server_config
from toolcrib.sources.mcp.fetch_lists import MAX_EXTRA, MAX_TEXT, _usable
from toolcrib.sources.mcp.fields import MAX_CHARS
from toolcrib.sources.mcp.listed import ServerListing, listing_from_json
from toolcrib.sources.mcp.mcp_tool import McpTool

OBJECT: dict[str, Any] = {"type": "object"}
ICON = {"src": "https://x.example/i.png", "mimeType": "image/png", "sizes": ["48x48"], "theme": "dark"}
APP = {
    "name": "app", "title": "The App", "description": "D.", "inputSchema": OBJECT,
    "annotations": {"title": "An app", "readOnlyHint": True, "destructiveHint": True},
    "icons": [ICON], "_meta": {"x": {"y": "z"}}, "com.example.future": [1],
}  # fmt: skip


def read(*entries: Any, headers: bool = False) -> tuple[ServerListing, list[str]]:
    faults: list[str] = []
    tools, schemas = _usable(list(entries), faults, headers)
    assert len(tools) == len(schemas)
    return ServerListing(tuple(tools)), faults


def as_tool(listing: ServerListing, n: int = 0, **settings: Any) -> McpTool:
    async def run(*_: Any) -> Any:
        raise AssertionError

    return McpTool("mcp_s_t", listing.tools[n], server_config("s", {"command": "x", **settings}), run)


def test_what_a_tool_says_beside_goes_on() -> None:
    listing, faults = read(APP)
    body = as_tool(listing).to_schema("mcp")
    assert not faults
    assert (body["title"], body["annotations"]["title"]) == ("The App", "An app")
    assert (body["icons"], body["_meta"], body["com.example.future"]) == (APP["icons"], APP["_meta"], [1])
    # what is not trusted only makes things stricter
    assert body["annotations"]["readOnlyHint"] is False and body["annotations"]["destructiveHint"] is True
    body["_meta"]["x"]["y"] = "mine"  # a definition is a copy
    assert listing.tools[0].extra["_meta"] == APP["_meta"]
    trusted = as_tool(listing, trust="hints").to_schema("mcp")
    assert trusted["annotations"]["readOnlyHint"] is True
    assert set(as_tool(listing).to_schema("openai")["function"]) == {"name", "description", "parameters"}


def test_a_page_for_a_tool_goes_on_only_from_a_trusted_server() -> None:
    """It would call the tools of all servers: clients know only ours."""
    page = {"ui": {"resourceUri": "ui://x"}, "ui/resourceUri": "ui://x", "openai/outputTemplate": "ui://x"}
    listing, _ = read({"name": "app", "inputSchema": OBJECT, "_meta": {**page, "x": 1}})
    assert as_tool(listing).to_schema("mcp")["_meta"] == {"x": 1}
    assert as_tool(listing, trust="hints").to_schema("mcp")["_meta"] == {**page, "x": 1}
    listing, _ = read({"name": "app", "inputSchema": OBJECT, "_meta": page})
    assert "_meta" not in as_tool(listing).to_schema("mcp")


@pytest.mark.parametrize("name", ["exec", 5])
def test_no_tool_takes_the_name_of_another_for_clients(name: Any) -> None:
    listing, _ = read({**APP, "toolcrib/name": name, "toolcrib/as-said": True})
    body = as_tool(listing).to_schema("mcp")
    assert body["name"] == "mcp_s_t" and body["annotations"]["readOnlyHint"] is False
    assert not [key for key in body if key.startswith("toolcrib/")]


def test_it_is_kept_on_disk_and_is_no_part_of_the_digest() -> None:
    listing, _ = read(APP)
    again = listing_from_json(json.loads(json.dumps(listing.to_json())))
    assert again.to_json() == listing.to_json()
    assert again.tools[0].extra["icons"] == [ICON]
    bare, _ = read({key: value for key, value in APP.items() if key not in ("icons", "_meta", "com.example.future")})
    assert bare.tools[0].digest == listing.tools[0].digest


def test_nothing_in_it_takes_the_place_of_what_is_read() -> None:
    listing, _ = read({**APP, "_meta": {"toolcrib/x": 1, "ifc": {}}, "execution": {"taskSupport": "optional"}})
    assert not {"_meta", "execution", "name", "annotations"} & set(listing.tools[0].extra)


def test_icons_that_no_client_should_load_are_left_away() -> None:
    listing, _ = read({**APP, "icons": [{"src": "javascript:alert(1)"}, {"src": "file:///etc/passwd"}, ICON]})
    assert listing.tools[0].extra["icons"] == [ICON]


def test_it_is_bounded() -> None:
    listing, faults = read({**APP, "_meta": {"x": "x" * MAX_CHARS}})
    assert "_meta" not in listing.tools[0].extra
    assert faults == ["app: its _meta is too long to be passed on"]
    big = {"x": "x" * (MAX_CHARS - 100)}
    listing, faults = read(*({**APP, "name": f"t{n}", "_meta": big} for n in range(70)))
    assert sum(len(json.dumps(tool.extra)) for tool in listing.tools) <= MAX_EXTRA + 100 * 70
    assert len(listing.tools) == 70 and faults


@pytest.mark.parametrize("entry", [{"name": "t"}, {"name": "t", "inputSchema": None}])
def test_one_without_a_schema_takes_an_empty_object(entry: Any) -> None:
    listing, faults = read(entry)
    (tool,) = listing.tools
    assert RawArguments(tool.schema, "t").parse("{}") == {}
    with pytest.raises(ValueError):
        RawArguments(tool.schema, "t").parse('{"x": 1}')
    assert faults == ["t: its inputSchema is missing, so it takes no arguments"]


@pytest.mark.parametrize(
    ("entry", "fault"),
    [
        ({"name": "t", "inputSchema": "object"}, "a tool was left out: t: its inputSchema is not an object"),
        ({"name": 7, "inputSchema": OBJECT}, "a tool was left out: its name is not text, but '7'"),
        ({"inputSchema": OBJECT}, "a tool was left out: its name is not text, but 'None'"),
        ("tool", "a tool was left out: it is not an object, but 'tool'"),
        (
            {"name": "t", "inputSchema": OBJECT, "execution": {"taskSupport": "required"}},
            "a tool was left out: t: it runs only as a task of the protocol, and Toolcrib starts none",
        ),
        (
            {"name": "t", "inputSchema": {**OBJECT, "properties": {"a": {"enum": list(range(20_000))}}}},
            "a tool was left out: t: a schema of it has more than 10,000 values",
        ),
        (
            {"name": "t", "inputSchema": OBJECT, "description": "x" * MAX_TEXT},
            "a tool was left out: t: its description and schemas have more than 262,144 characters",
        ),
        (None, "a tool was left out: it is not an object, but 'None'"),
    ],
)
def test_one_that_nobody_could_call_is_left_out(entry: Any, fault: str) -> None:
    listing, faults = read(entry, APP)
    assert [tool.name for tool in listing.tools] == ["app"]
    assert faults == [fault]


@pytest.mark.parametrize(
    ("wrong", "field"),
    [
        ({"annotations": "none"}, "annotations"),
        ({"annotations": {"readOnlyHint": "perhaps", "destructiveHint": True}}, "annotations.readOnlyHint"),
        ({"title": 5}, "title"),
        ({"description": ["a"]}, "description"),
        ({"outputSchema": "text"}, "outputSchema"),
    ],
)
def test_wrong_ornaments_cost_only_those(wrong: dict[str, Any], field: str) -> None:
    listing, faults = read({"name": "t", "inputSchema": OBJECT, **wrong})
    assert faults == [f"t: its {field} has a form that is not known, and is left away"]
    assert listing.tools[0].hints == ({"destructiveHint": True} if "." in field else {})


def test_null_is_absent() -> None:
    nothing = dict.fromkeys(("title", "description", "annotations", "icons", "_meta", "outputSchema", "execution"))
    listing, faults = read({"name": "t", "inputSchema": {}, **nothing})
    assert not faults
    assert (listing.tools[0].extra, listing.tools[0].schema) == ({}, OBJECT)


def test_headers_that_are_wrong_leave_a_tool_out_where_there_are_headers() -> None:
    schema = {"type": "object", "properties": {"a": {"type": "string", "x-mcp-header": "not a token"}}}
    entry = {"name": "t", "inputSchema": schema}
    assert len(read(entry)[0].tools) == 1
    listing, faults = read(entry, headers=True)
    assert not listing.tools and "x-mcp-header" in faults[0]


async def test_a_page_with_broken_tools_by_stdio(client: Any) -> None:
    tools = ["echo", {"name": "bare"}, {"name": 7, "inputSchema": OBJECT}, {**APP, "_meta": None, "annotations": [1]}]
    servers = await client(raw(tools=tools))
    assert [tool.name for tool in servers.tools("raw")] == ["mcp_raw_echo", "mcp_raw_bare", "mcp_raw_app"]
    assert len(servers.servers["raw"].faults) == 3
    assert not (await servers.registered.registry.execute("mcp_raw_bare", {})).is_error
    assert not (await servers.registered.registry.execute("mcp_raw_echo", {"a": 1})).is_error
    listed = {body["name"]: body for body in servers.registered.registry.definitions("mcp")}
    assert listed["mcp_raw_app"]["icons"] == [ICON]


async def test_many_faults_are_counted(client: Any) -> None:
    servers = await client(raw(tools=["echo", *({"name": n} for n in range(200))]))
    faults = servers.servers["raw"].faults
    assert len(faults) == 51 and faults[-1] == "and 150 more of that kind"


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=9),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)
ENTRY = st.fixed_dictionaries(
    {"name": st.just("t") | JSON, "inputSchema": st.just(OBJECT) | JSON},
    optional={
        "title": JSON, "description": JSON, "annotations": JSON, "icons": JSON | st.lists(
            st.fixed_dictionaries({"src": st.just("https://x/") | JSON}, optional={"sizes": JSON, "theme": JSON})
        ),
        "_meta": JSON, "outputSchema": st.just(OBJECT) | JSON, "execution": JSON, "other": JSON,
    },
)  # fmt: skip


@given(ENTRY | JSON, st.sampled_from(KNOWN_PROTOCOL_VERSIONS))
def test_whatever_a_server_lists_a_client_of_ours_can_read_the_list(entry: Any, version: str) -> None:
    listing, _ = read(entry, {"name": "good", "inputSchema": OBJECT})
    assert listing.tools[-1].name == "good"
    bodies = [as_tool(listing, n).to_schema("mcp") for n in range(len(listing.tools))]
    for body in bodies:
        if body.get("outputSchema", {}).get("type") != "object":  # as serve/mcp.py does for older clients
            body.pop("outputSchema", None)
    result = {"tools": bodies, "resultType": "complete", "ttlMs": 0, "cacheScope": "private"}
    assert len(serialize_server_result("tools/list", version, result)["tools"]) == len(bodies)
