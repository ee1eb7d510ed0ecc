"""Whose is what several servers offer: from what they listed last time, so that none is started here."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from toolcrib.core.registry import ToolRegistry
from toolcrib.serve.gateway.catalogue import Catalogue
from toolcrib.serve.gateway.server_content import ServerContent, checked_content
from toolcrib.sources.mcp.cache import ListCache
from toolcrib.sources.mcp.client_services import ClientServices
from toolcrib.sources.mcp.config import server_config
from toolcrib.sources.mcp.listed import ServerListing
from toolcrib.sources.mcp.servers import McpServers

Make = Callable[..., Catalogue]


@pytest.fixture
def services(tmp_path: Path) -> ClientServices:
    """What servers are given here."""
    return ClientServices(tmp_path, ListCache(tmp_path / "mcp" / "lists"), tmp_path / "mcp" / "tokens", {})


def offers(uris: str = "", templates: str = "", prompts: str = "") -> ServerContent:
    """Each a list of words."""
    return {
        "resources": [{"uri": each, "name": each} for each in uris.split()],
        "templates": [{"uriTemplate": each, "name": each} for each in templates.split()],
        "prompts": [{"name": each} for each in prompts.split()],
    }


@pytest.fixture
def make(services: ClientServices) -> Make:
    """`make(a=offers(…), b=offers(…))`: servers that were asked before; keyword `settings` are of all."""

    def catalogue(
        settings: dict[str, Any] | None = None,
        hides: Callable[[Any], bool] = lambda tool: False,
        **known: ServerContent,
    ) -> Catalogue:
        configs = [server_config(name, {"command": "not-started", **(settings or {})}) for name in known]
        for config, offer in zip(configs, known.values(), strict=True):
            identity = config.identity(str(services.workspace))
            services.cache.write(identity, config.name, ServerListing(has_resources=True, has_prompts=True))
            services.cache.keep(identity, "offers", offer)
        return Catalogue(McpServers(configs, services, ToolRegistry()), lambda tool, who: hides(tool))

    return catalogue


async def names(found: Catalogue) -> tuple[list[str], list[str], list[str]]:
    return (
        [each["uri"] for each in await found.entries("resources")],
        [each["uriTemplate"] for each in await found.entries("templates")],
        [each["name"] for each in await found.entries("prompts")],
    )


async def place(catalogue: Catalogue, uri: str) -> tuple[str, str] | None:
    found = await catalogue.at(uri)
    return None if found is None else (found.server.name, found.own)


async def test_what_was_offered_last_time_starts_nothing(make: Make) -> None:
    catalogue = make(a=offers("note://1", "note://{name}", "greet"), b=offers("file:///x"))
    assert await names(catalogue) == (["note://1", "file:///x"], ["note://{name}"], ["mcp_a_greet"])
    assert {server.state for server in catalogue._servers.enabled} == {"idle"}  # pyright: ignore[reportPrivateUsage]


async def test_an_address_leads_to_its_server(make: Make) -> None:
    catalogue = make(
        a=offers("note://1", "note://{name} note://deep/{name}/x"), b=offers("file:///x", "note://special/{n}"),
        c=offers("memo://only"),
    )  # fmt: skip
    assert await place(catalogue, "note://1") == ("a", "note://1")
    assert await place(catalogue, "note://7") == ("a", "note://7")
    assert await place(catalogue, "note://special/7") == ("a", "note://special/7"), "the template of the first server"
    assert await place(catalogue, "memo://unlisted") == ("c", "memo://unlisted"), "the only one with such addresses"
    assert await place(catalogue, "zzz://unknown") is None
    assert catalogue.note("b", "zzz://unknown") == "zzz://unknown"
    assert await place(catalogue, "zzz://unknown") == ("b", "zzz://unknown"), "a result of it named the address"


async def test_a_template_without_a_scheme_takes_no_address_of_another_server(make: Make) -> None:
    for greedy in ("{+any}", "{any}", "{+scheme}://{+rest}", "{+any}7", "n{+any}"):
        catalogue = make(a=offers("note://1"), b=offers("memo://1", greedy))
        assert await place(catalogue, "note://secret/7") == ("a", "note://secret/7"), greedy
        assert await place(catalogue, "zzz://unknown") is None, greedy
        assert await place(catalogue, f"mcp+b:{greedy}") == ("b", greedy)


async def test_what_two_offer_is_there_twice(make: Make) -> None:
    catalogue = make(one=offers("note://1", "note://{n}", "greet"), Two=offers("note://1", "note://{n}", "greet"))
    uris, templates, prompts = await names(catalogue)
    assert uris == ["note://1", "mcp+two:note://1"]
    assert templates == ["note://{n}", "mcp+two:note://{n}"]
    assert prompts == ["mcp_one_greet", "mcp_Two_greet"]
    assert await place(catalogue, "note://1") == ("one", "note://1")
    assert await place(catalogue, "mcp+two:note://1") == ("Two", "note://1")
    assert await place(catalogue, "mcp+one:note://9") == ("one", "note://9")
    assert await place(catalogue, "mcp+nobody:note://9") is None
    second = await catalogue.template("mcp+two:note://{n}")
    assert second is not None
    assert (second.server.name, second.own) == ("Two", "note://{n}")
    assert catalogue.note("Two", "note://1") == "mcp+two:note://1"
    assert catalogue.note("Two", "note://2") == "mcp+two:note://2"
    assert catalogue.note("one", "note://2") == "note://2"


async def test_no_server_takes_what_fits_a_template_of_an_earlier_one(make: Make) -> None:
    catalogue = make(a=offers("", "gh://{x}"), evil=offers("gh://1", "gh://1{+x}"))
    assert catalogue.note("evil", "gh://2") == "mcp+evil:gh://2", "before anybody asked for a list"
    assert (await names(catalogue))[0] == ["mcp+evil:gh://1"]
    for uri in ("gh://1", "gh://2", "gh://12"):
        assert await place(catalogue, uri) == ("a", uri)
    assert await place(catalogue, "mcp+evil:gh://1") == ("evil", "gh://1")


async def test_no_server_takes_later_what_another_one_has(make: Make, services: ClientServices) -> None:
    catalogue = make({"prefix": ""}, evil=offers("z://1"), a=offers("gh://1", "note://{x}", "greet"))
    before = await names(catalogue)
    evil = catalogue._servers.enabled[0]  # pyright: ignore[reportPrivateUsage]
    content = catalogue._sources[evil]  # pyright: ignore[reportPrivateUsage]
    content._known = offers("gh://1 note://7", "note://{x} note://{+x} note://8{x}", "greet")  # pyright: ignore[reportPrivateUsage]
    for _ in range(3):
        catalogue.stale()
        uris, templates, prompts = await names(catalogue)
        assert uris == ["mcp+evil:gh://1", "mcp+evil:note://7", "gh://1"]
        assert templates == ["mcp+evil:note://{x}", "note://{+x}", "note://8{x}", "note://{x}"]
        assert prompts == ["greet_2", "greet"]
        assert await place(catalogue, "gh://1") == ("a", "gh://1")
        assert await place(catalogue, "note://81") == ("a", "note://81")
    assert before == (["z://1", "gh://1"], ["note://{x}"], ["greet"])


async def test_a_page_in_a_result_is_none_for_clients(make: Make) -> None:
    catalogue = make(a=offers("ui://1"))
    assert [catalogue.note("a", uri) for uri in ("ui://1", "UI://2")] == ["mcp+a:ui://1", "mcp+a:UI://2"]
    assert await place(catalogue, "mcp+a:ui://1") == ("a", "ui://1")
    assert make({"trust": "hints"}, b=offers("ui://1")).note("b", "ui://1") == "ui://1"


async def test_prompts_without_a_prefix_keep_their_names(make: Make) -> None:
    catalogue = make({"prefix": ""}, a=offers(prompts="greet a.b/c"), b=offers(prompts="greet"))
    assert (await names(catalogue))[2] == ["greet", "a.b/c", "greet_2"]
    found = await catalogue.prompt("greet_2")
    assert found is not None
    assert (found.server.name, found.own) == ("b", "greet")
    assert await catalogue.prompt("mcp_a_greet") is None


async def test_what_is_switched_off_or_denied_is_not_offered(make: Make) -> None:
    off = make({"resources": False, "disabled_tools": ["prompts"]}, a=offers("note://1", "note://{n}", "greet"))
    assert await names(off) == ([], [], [])
    assert await place(off, "note://1") is None
    denied = make(None, lambda tool: "resources" in tool.name, a=offers("note://1", "", "greet"))
    assert await names(denied) == ([], [], ["mcp_a_greet"])
    assert await place(denied, "note://1") is None
    assert await place(denied, "mcp+a:note://1") is None


async def test_a_list_that_is_none_is_asked_for_again(services: ClientServices, make: Make) -> None:
    catalogue = make(a=offers("note://1"))
    identity = catalogue._servers.enabled[0].identity  # pyright: ignore[reportPrivateUsage]
    services.cache.keep(identity, "offers", {"resources": [{"name": "no uri"}], "templates": [], "prompts": []})
    assert await names(catalogue) == ([], [], []), "it cannot be started here, and nothing wrong is shown"


def test_offers_survive_the_disk() -> None:
    some = offers("a:1 b:2", "c:{x}", "p")
    assert checked_content(json.loads(json.dumps(some))) == some
    for wrong in ({}, {"resources": 1, "templates": [], "prompts": []}, {**some, "prompts": [{"name": 5}]}):
        with pytest.raises((KeyError, TypeError, AttributeError)):
            checked_content(wrong)
