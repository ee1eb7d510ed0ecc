"""Several servers behind one gateway: what collides is told apart, nothing is lost, and nothing is mixed up."""

from __future__ import annotations

import asyncio
import sys
import warnings
from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from mcp import Client
from mcp.shared.exceptions import MCPDeprecationWarning, MCPError
from mcp_types import ElicitResult, PromptReference, ResourceTemplateReference

sys.path.insert(0, str(Path(__file__).parent))
from gateway_probes import Sight, call, completion, every, prompt, read
from gateway_processes import fixture, gateway, over_stdio

pytestmark = [pytest.mark.integration, pytest.mark.slow]

NOTE = "odd+notes://note/1"


@pytest.fixture(params=["legacy", "2026-07-28"])
def era(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.fixture(scope="module")
def twins(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Two of the same server, of different eras, without prefixes: every name and address is there twice."""
    servers = {"left": over_stdio("odd"), "right": over_stdio("odd", "handshake")}
    with gateway(tmp_path_factory.mktemp("twins"), servers) as url:
        yield url


@pytest.fixture(scope="module")
def alone() -> Iterator[str]:
    """One of them by itself."""
    with fixture("odd") as url:
        yield url


@asynccontextmanager
async def looking(url: str, era: str) -> AsyncIterator[tuple[Sight, Client]]:
    see = Sight(url, era, "several")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", MCPDeprecationWarning)
        async with see.client() as client:
            yield see, client


async def twice(client: Client, description: str) -> list[str]:
    """The names of the two tools with this description."""
    found = [tool["name"] for tool in await every(client.list_tools, "tools") if tool.get("description") == description]
    assert len(set(found)) == 2, found
    return found


async def notes_of(client: Client) -> list[str]:
    """The addresses of the first note of each server."""
    listed = await every(client.list_resources, "resources")
    return [each["uri"] for each in listed if each["name"].startswith("note-1") or each.get("title") == "Note 1"]


async def text_of(client: Client, uri: str) -> str:
    return (await read(client, uri))["contents"][0]["text"]


async def pairs(client: Client) -> dict[str, str]:
    """Each server's `write_note` with the address of its first note, found by what a change changes."""
    writers = await twice(client, "Changes a note and tells those who watch it.")
    uris = await notes_of(client)
    assert len(set(uris)) == 2, uris
    for writer in writers:
        assert not (await call(client, writer, {"number": 1, "text": f"by {writer}"}))["isError"]
    found = {(await text_of(client, uri)).removeprefix("by "): uri for uri in uris}
    assert set(found) == set(writers)
    return found


def about(entry: dict[str, Any]) -> Any:
    """What an entry says beside its name; a tool without a title goes by that of its annotations."""
    title = entry.get("title", entry.get("annotations", {}).get("title"))
    return entry.get("description"), title, entry.get("mimeType"), entry.get("_meta")


@pytest.mark.parametrize(
    ("lister", "key", "identity"),
    [
        ("list_tools", "tools", "name"), ("list_resources", "resources", "uri"), ("list_prompts", "prompts", "name"),
        ("list_resource_templates", "resource_templates", "uriTemplate"),
    ],
)  # fmt: skip
async def test_everything_is_listed_twice_under_names_of_its_own(
    twins: str, alone: str, era: str, lister: str, key: str, identity: str
) -> None:
    async with looking(alone, era) as (_, client):
        expected = await every(getattr(client, lister), key)
    async with looking(twins, era) as (_, client):
        listed = await every(getattr(client, lister), key)
    names = [each[identity] for each in listed]
    assert len(set(names)) == len(names)
    for one in expected:
        same = [each for each in listed if about(each) == about(one)]
        others = [each for each in expected if about(each) == about(one)]
        assert len(same) == 2 * len(others), (one, same)
        assert one[identity] in names, "the first server keeps its own"


async def test_each_address_is_of_one_server(twins: str, era: str) -> None:
    async with looking(twins, era) as (_, client):
        found = await pairs(client)
        for writer, uri in found.items():
            contents = (await read(client, uri))["contents"]
            assert [(part["uri"], part["text"]) for part in contents] == [(uri, f"by {writer}")]


async def test_links_in_results_lead_to_their_own_server(twins: str, era: str) -> None:
    async with looking(twins, era) as (_, client):
        found = await pairs(client)
        seen: list[str] = []
        for name in await twice(client, "Every kind of content block."):
            blocks = (await call(client, name))["content"]
            link = next(each for each in blocks if each["type"] == "resource_link" and each["name"] == "note-1")
            assert link["uri"] in found.values()
            seen.append(link["uri"])
        assert set(seen) == set(found.values())


async def test_templates_of_both_can_be_filled_in(twins: str, era: str) -> None:
    async with looking(twins, era) as (_, client):
        listed = await every(client.list_resource_templates, "resource_templates")
        for template in [each["uriTemplate"] for each in listed if "{author}" in each["uriTemplate"]]:
            uri = template.replace("{author}", "ada").replace("{+path}", "engine/notes.txt")
            (part,) = (await read(client, uri))["contents"]
            assert (part["uri"], part["text"]) == (uri, "by-author: author=ada, path=engine/notes.txt")
            reference = ResourceTemplateReference(type="ref/resource", uri=template)
            completed = await completion(client, reference, "path", "", {"author": "alan"})
            assert completed["completion"]["values"] == ["halting", "machine/tape"]


async def test_prompts_of_both_can_be_filled_in_and_completed(twins: str, era: str) -> None:
    async with looking(twins, era) as (_, client):
        listed = await every(client.list_prompts, "prompts")
        talks = [each["name"] for each in listed if each.get("title") == "A talk"]
        assert len(set(talks)) == 2
        for name in talks:
            assert len((await prompt(client, name, {"topic": "tools"}))["messages"]) == 6
            completed = await completion(
                client, PromptReference(type="ref/prompt", name=name), "tone", "", {"topic": "x"}
            )
            assert completed["completion"]["values"] == ["x tone"]


async def test_only_what_was_watched_is_told_of(twins: str, era: str) -> None:
    async with looking(twins, era) as (see, client):
        (writer, uri), (other, _) = (await pairs(client)).items()
        see.heard.clear()
        async with see.listening(client, uri):
            await call(client, other, {"number": 1, "text": "nobody watches"})
            await asyncio.sleep(1.0)
            assert see.told("updated") == []
            await call(client, writer, {"number": 1, "text": "somebody watches"})
            assert await see.news("updated") == [uri]


async def test_who_is_asked_reads_which_server_asks(twins: str, era: str) -> None:
    async with looking(twins, era) as (see, client):
        see.say = lambda _: ElicitResult(action="decline")
        for name in await twice(client, "Asks again, depending on what was said."):
            assert (await call(client, name))["content"][0]["text"] == "no pet: decline"
    messages = [params["message"] for params in see.told("elicitation")]
    assert [sum(name in message for message in messages) for name in ("left", "right")] == [1, 1], messages


async def test_a_change_at_one_server_is_announced_and_changes_only_its_own(twins: str, era: str) -> None:
    async with looking(twins, era) as (see, client):
        togglers = await twice(client, "Adds something, or removes it again.")
        async with see.listening(client, prompts_list_changed=True):
            for toggler, expected in ((togglers[0], 1), (togglers[1], 2), (togglers[0], 1), (togglers[1], 0)):
                see.heard.clear()
                await call(client, toggler, {"kind": "prompt"})
                assert await see.news("prompts/list_changed")
                for _ in range(50):  # an announcement may still be that of the change before
                    listed = await every(client.list_prompts, "prompts")
                    found = sum("extra_prompt" in each["name"] for each in listed)
                    if found == expected:
                        break
                    await asyncio.sleep(0.1)
                assert found == expected


async def test_unlike_servers_keep_all_their_names(tmp_path: Path, era: str) -> None:
    servers = {"plain": over_stdio("plain", "handshake"), "odd": over_stdio("odd")}
    with ExitStack() as stack:
        urls = [stack.enter_context(fixture(kind)) for kind in ("plain", "odd")]
        both = stack.enter_context(gateway(tmp_path, servers))
        lists = (
            ("list_resources", "resources", "uri"),
            ("list_prompts", "prompts", "name"),
            ("list_tools", "tools", "name"),
        )
        for lister, key, identity in lists:
            expected: set[str] = set()
            for url in urls:
                async with looking(url, era) as (_, client):
                    expected |= {each[identity] for each in await every(getattr(client, lister), key)}
            async with looking(both, era) as (_, client):
                assert expected <= {each[identity] for each in await every(getattr(client, lister), key)}


async def test_a_server_that_goes_away_takes_nothing_with_it(tmp_path: Path, era: str) -> None:
    with ExitStack() as stack:
        gone = ExitStack()
        url = gone.enter_context(fixture("plain"))
        servers = {"plain": {"url": url, "timeout": 5}, "odd": over_stdio("odd")}
        both = stack.enter_context(gateway(tmp_path, servers))
        async with looking(both, era) as (_, client):
            assert await text_of(client, "test://static-text")
            gone.close()
            assert await text_of(client, NOTE) == "the first note"
            failed = await read(client, "test://static-text")
            assert "code" in failed, failed
            assert not (await call(client, "measure"))["isError"]
            assert (await call(client, "test_simple_text")).get("isError", True)
            listed = await every(client.list_resources, "resources")
            assert NOTE in [each["uri"] for each in listed]
            with pytest.raises(MCPError):
                await client.get_prompt("test_simple_prompt")
