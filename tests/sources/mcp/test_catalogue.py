"""Whose is what several servers offer: from what they listed last time, so that none is started here."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolcrib.core.registry import ToolRegistry
from toolcrib.sources.mcp import ClientServices, McpServers, server_config
from toolcrib.sources.mcp.catalogue import fits
from toolcrib.sources.mcp.listed import ServerListing
from toolcrib.sources.mcp.server_content import ServerContent, content_from_json
from toolcrib.sources.mcp.upstream import Upstream

Make = Callable[..., McpServers]


def offers(uris: str = "", templates: str = "", prompts: str = "") -> ServerContent:
    """Each a list of words."""
    return ServerContent(
        tuple({"uri": each, "name": each} for each in uris.split()),
        tuple({"uriTemplate": each, "name": each} for each in templates.split()),
        tuple({"name": each} for each in prompts.split()),
    )


@pytest.fixture
def make(host: ClientServices) -> Make:
    """`make(a=offers(…), b=offers(…))`: servers that were asked before; keyword `settings` are of all."""

    def servers(settings: dict[str, Any] | None = None, **known: ServerContent) -> McpServers:
        configs = [server_config(name, {"command": "not-started", **(settings or {})}) for name in known]
        for config, offer in zip(configs, known.values(), strict=True):
            identity = config.identity(str(host.workspace))
            host.cache.write(identity, config.name, ServerListing(has_resources=True, has_prompts=True))
            host.cache.keep(identity, "offers", offer.to_json())
        return McpServers(configs, host, ToolRegistry())

    return servers


async def names(servers: McpServers) -> tuple[list[str], list[str], list[str]]:
    found = servers.catalogue
    return (
        [each["uri"] for each in await found.resources()],
        [each["uriTemplate"] for each in await found.templates()],
        [each["name"] for each in await found.prompts()],
    )


def server_of(servers: McpServers, name: str) -> Upstream:
    return servers._servers[name]


async def place(servers: McpServers, uri: str) -> tuple[str, str] | None:
    found = await servers.catalogue.at(uri)
    return None if found is None else (found.server.name, found.own)


async def test_what_was_offered_last_time_starts_nothing(make: Make) -> None:
    servers = make(a=offers("note://1", "note://{name}", "greet"), b=offers("file:///x"))
    assert await names(servers) == (["note://1", "file:///x"], ["note://{name}"], ["mcp_a_greet"])
    assert {status.state for status in servers.servers.values()} == {"idle"}


async def test_an_address_leads_to_its_server(make: Make) -> None:
    servers = make(
        a=offers("note://1", "note://{name} note://deep/{name}/x"), b=offers("file:///x", "note://special/{n}"),
        c=offers("memo://only"),
    )  # fmt: skip
    assert await place(servers, "note://1") == ("a", "note://1")
    assert await place(servers, "note://7") == ("a", "note://7")
    assert await place(servers, "note://special/7") == ("b", "note://special/7"), "the closest template"
    assert await place(servers, "memo://unlisted") == ("c", "memo://unlisted"), "the only one with such addresses"
    assert await place(servers, "zzz://unknown") is None
    servers.catalogue.note(server_of(servers, "b"), "zzz://unknown")
    assert await place(servers, "zzz://unknown") == ("b", "zzz://unknown"), "a result of it named the address"


async def test_what_two_offer_is_there_twice(make: Make) -> None:
    servers = make(one=offers("note://1", "note://{n}", "greet"), Two=offers("note://1", "note://{n}", "greet"))
    uris, templates, prompts = await names(servers)
    assert uris == ["note://1", "mcp+two:note://1"]
    assert templates == ["note://{n}", "mcp+two:note://{n}"]
    assert prompts == ["mcp_one_greet", "mcp_Two_greet"]
    assert await place(servers, "note://1") == ("one", "note://1")
    assert await place(servers, "mcp+two:note://1") == ("Two", "note://1")
    assert await place(servers, "mcp+one:note://9") == ("one", "note://9")
    assert await place(servers, "mcp+nobody:note://9") is None
    second = await servers.catalogue.template("mcp+two:note://{n}")
    assert second is not None
    assert (second.server.name, second.own) == ("Two", "note://{n}")
    two = server_of(servers, "Two")
    assert servers.catalogue.shown_uri(two, "note://1") == ["mcp+two:note://1"]
    assert servers.catalogue.shown_uri(two, "note://2") == ["note://2", "mcp+two:note://2"]


async def test_prompts_without_a_prefix_keep_their_names(make: Make) -> None:
    servers = make({"prefix": ""}, a=offers(prompts="greet a.b/c"), b=offers(prompts="greet"))
    assert (await names(servers))[2] == ["greet", "a.b/c", "greet_2"]
    found = await servers.catalogue.prompt("greet_2")
    assert found is not None
    assert (found.server.name, found.own) == ("b", "greet")
    assert await servers.catalogue.prompt("mcp_a_greet") is None


async def test_what_is_switched_off_or_denied_is_not_offered(make: Make) -> None:
    off = make({"resources": False, "disabled_tools": ["prompts"]}, a=offers("note://1", "note://{n}", "greet"))
    assert await names(off) == ([], [], [])
    assert await place(off, "note://1") is None
    denied = make(a=offers("note://1", "", "greet"))

    class NoResources:
        def hides(self, tool: Any) -> bool:
            return "resources" in tool.name

    denied._registry.stages.authorizer = NoResources()  # type: ignore[assignment]
    assert await names(denied) == ([], [], ["mcp_a_greet"])
    assert await place(denied, "note://1") is None
    assert await place(denied, "mcp+a:note://1") is None


async def test_a_list_that_is_none_is_asked_for_again(host: ClientServices, make: Make) -> None:
    servers = make(a=offers("note://1"))
    identity = server_of(servers, "a").identity
    host.cache.keep(identity, "offers", {"resources": [{"name": "no uri"}], "templates": [], "prompts": []})
    assert await names(servers) == ([], [], []), "it cannot be started here, and nothing wrong is shown"


def test_offers_survive_the_disk() -> None:
    some = offers("a:1 b:2", "c:{x}", "p")
    assert content_from_json(some.to_json()) == some
    for wrong in ({}, {"resources": 1, "templates": [], "prompts": []}, {**some.to_json(), "prompts": [{"name": 5}]}):
        with pytest.raises((KeyError, TypeError, ValueError)):
            content_from_json(wrong)


TEXT = st.text("ab/", max_size=4)


@given(st.lists(TEXT, min_size=1, max_size=5), st.text("ab/", max_size=14))
def test_fitting_a_template_is_what_a_pattern_would_say(literal: list[str], uri: str) -> None:
    pattern = ".*".join(map(re.escape, literal))
    assert fits(uri, literal) == (re.fullmatch(pattern, uri, re.DOTALL) is not None)


def test_fitting_takes_no_time_even_for_hostile_templates() -> None:
    assert not fits("a" * 100_000, ["a"] * 2_000 + ["b"])
