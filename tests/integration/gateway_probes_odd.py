"""The probes of `gateway_odd_fixture.py`: what is legal, if seldom seen, and has to come through unharmed."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import mcp_types as types

sys.path.insert(0, str(Path(__file__).parent))
from gateway_probes import ODD, Sight, call, completion, every, probe, prompt, read

Say = Callable[[Any], types.ElicitResult]
URIS = (
    "note/1", "note/2", "note/3", "both", "bytes?format=raw&n=256#end", "unlisted", "forbidden", "nowhere/at/all",
    "by/ada/engine/notes.txt", "by/al%2Fan/x%20y", "search?q=a%26b&limit=3", "search", "4,5/sum",
)  # fmt: skip


@probe(ODD)
async def tools(see: Sight) -> Any:
    async with see.client() as client:
        return await every(client.list_tools, "tools")


@probe(ODD)
async def resources(see: Sight) -> Any:
    async with see.client() as client:
        return await every(client.list_resources, "resources")


@probe(ODD)
async def templates(see: Sight) -> Any:
    async with see.client() as client:
        return await every(client.list_resource_templates, "resource_templates")


@probe(ODD)
async def prompts(see: Sight) -> Any:
    async with see.client() as client:
        return await every(client.list_prompts, "prompts")


def _calls(name: str, **arguments: Any) -> None:
    async def one(see: Sight) -> Any:
        async with see.client() as client:
            await client.list_tools()
            return await call(client, name, arguments)

    ODD[f"call {name} {arguments or ''}".strip()] = one


for each in ("blocks", "measure", "nothing", "fail", "notes.read-one", "door_first"):
    _calls(each)
_calls("notes.read-one", number=2)
for code in (-32000, -32603, -32602, -31999, 7):
    _calls("refuse", code=code)


def _reads(uri: str) -> None:
    async def one(see: Sight) -> Any:
        async with see.client() as client:
            return await read(client, f"odd+notes://{uri}")

    ODD[f"read {uri}"] = one


for each in URIS:
    _reads(each)


@probe(ODD)
async def reading_with_a_question(see: Sight) -> Any:
    see.say = lambda _: types.ElicitResult(action="accept", content={"who": "me"})
    async with see.client() as client:
        return [await read(client, "odd+notes://locked"), see.heard]


@probe(ODD)
async def prompting(see: Sight) -> Any:
    async with see.client() as client:
        return [
            await prompt(client, "talk", {"topic": "tools", "tone": "kindly"}),
            await prompt(client, "talk", {"topic": ""}),
            await prompt(client, "bare"),
            await prompt(client, "with.dots-and_more", {"unasked": "for"}),
        ]


@probe(ODD)
async def a_prompt_without_its_argument(see: Sight) -> Any:
    async with see.client() as client:
        return await prompt(client, "talk", {"tone": "kindly"})


@probe(ODD)
async def a_prompt_that_is_not_there(see: Sight) -> Any:
    async with see.client() as client:
        return await prompt(client, "none_of_them")


@probe(ODD)
async def completing(see: Sight) -> Any:
    talk = types.PromptReference(type="ref/prompt", name="talk")
    bare = types.PromptReference(type="ref/prompt", name="bare")
    by = types.ResourceTemplateReference(type="ref/resource", uri="odd+notes://by/{author}/{+path}")
    async with see.client() as client:
        return [
            await completion(client, talk, "topic", "t"),
            await completion(client, talk, "tone", "", {"topic": "tools"}),
            await completion(client, by, "author", "a"),
            await completion(client, by, "path", "", {"author": "alan"}),
            await completion(client, by, "path", "engine/t", {"author": "ada"}),
            await completion(client, by, "path", ""),
            await completion(client, bare, "x", ""),
        ]


@probe(ODD)
async def logging(see: Sight) -> Any:
    found: list[Any] = []
    for level in ("debug", "warning", "emergency", None):
        see.heard.clear()
        async with see.client(log_level=level if see.modern else None) as client:
            if not see.modern and level is not None:
                await client.set_logging_level(level)
            await call(client, "log_everything")
            await asyncio.sleep(0.1)
        found.append([level, list(see.heard)])
    return found


@probe(ODD)
async def another_level_in_the_middle(see: Sight) -> Any:
    """In the handshake era the level is the session's, and may change; later each request has its own."""
    async with see.client() as client:
        found: list[Any] = []
        for level in ("error", "notice"):
            see.heard.clear()
            if see.modern:
                await call(client, "log_everything", meta={"io.modelcontextprotocol/logLevel": level})
            else:
                await client.set_logging_level(level)
                await call(client, "log_everything")
            await asyncio.sleep(0.1)
            found.append([each["level"] for each in see.told("log")])
    return found


@probe(ODD)
async def progress(see: Sight) -> Any:
    async with see.client() as client:
        answer = await call(client, "fractions", progress_callback=see.progress)
        await asyncio.sleep(0.1)
    return [answer, see.told("progress")]


@probe(ODD)
async def an_address_to_visit(see: Sight) -> Any:
    found: list[Any] = []
    for action in ("accept", "decline"):
        see.say = lambda _, action=action: types.ElicitResult(action=action)
        async with see.client() as client:
            found.append(await call(client, "open_door"))
            await asyncio.sleep(0.2)
    return [found, see.heard]


@probe(ODD)
async def sampling(see: Sight) -> Any:
    async with see.client() as client:
        return [await call(client, "describe_picture"), see.heard]


@probe(ODD)
async def interviews(see: Sight) -> Any:
    def accepts(params: Any) -> types.ElicitResult:
        asked = params.requested_schema["properties"]
        return types.ElicitResult(action="accept", content={"pet": "dog"} if "pet" in asked else {"age": 7})

    def changes_its_mind(params: Any) -> types.ElicitResult:
        return (
            accepts(params) if "pet" in params.requested_schema["properties"] else types.ElicitResult(action="cancel")
        )

    answers: tuple[Say, ...] = (accepts, changes_its_mind, lambda _: types.ElicitResult(action="decline"))
    found: list[Any] = []
    for say in answers:
        see.say = say
        async with see.client() as client:
            found.append(await call(client, "interview"))
    return [found, see.heard]


@probe(ODD)
async def what_comes_with_a_request(see: Sight) -> Any:
    async with see.client() as client:
        return await call(client, "echo_meta", meta={"example.com/own": {"deep": [1, None]}})


@probe(ODD)
async def watching(see: Sight) -> Any:
    """Told of what was subscribed to, and of nothing else; not any more once that is over."""
    uri = "odd+notes://note/1"
    async with see.client() as client:
        async with see.listening(client, uri):
            await call(client, "write_note", {"number": 1, "text": "another first note"})
            await call(client, "write_note", {"number": 2, "text": "another second note"})
            heard = [list(await see.news("updated")), await read(client, uri)]
        see.heard.clear()
        await call(client, "write_note", {"number": 1, "text": "the first note"})
        await call(client, "write_note", {"number": 2, "text": "zweite Notiz – ✓\r\n\ttab"})
        await asyncio.sleep(1.0)
        return [*heard, see.told("updated"), await read(client, uri)]


@probe(ODD)
async def two_watch_and_one_stops(see: Sight) -> Any:
    """Subscriptions are each client's own, however many share the server behind."""
    one, two, uri = Sight(see.url, see.era, "one"), Sight(see.url, see.era, "two"), "odd+notes://note/3"
    async with one.client() as first, two.client() as second, two.listening(second, uri):
        async with one.listening(first, uri):
            await call(first, "write_note", {"number": 3, "text": "x"})
            heard = [list(await one.news("updated")), list(await two.news("updated"))]
        one.heard.clear()
        two.heard.clear()
        await call(first, "write_note", {"number": 3, "text": ""})
        return [*heard, list(await two.news("updated")), one.told("updated")]


LISTS = {
    "tool": ("tools", "list_tools", "tools", "extra_tool"),
    "resource": ("resources", "list_resources", "resources", "extra"),
    "template": ("resources", "list_resource_templates", "resource_templates", "extra"),
    "prompt": ("prompts", "list_prompts", "prompts", "extra_prompt"),
}


def _changes(kind: str) -> None:
    changed, method, key, extra = LISTS[kind]

    async def changing(see: Sight) -> Any:
        async with see.client() as client, see.listening(client, **{f"{changed}_list_changed": True}):
            found: list[Any] = []
            for _ in range(2):
                see.heard.clear()
                await call(client, "toggle", {"kind": kind})
                await see.news(f"{changed}/list_changed")
                listed = await every(getattr(client, method), key)
                found.append([each for each in listed if each["name"] == extra])
                found.append(bool(see.told(f"{changed}/list_changed")))
        return found

    ODD[f"changing {kind}"] = changing


for each in LISTS:
    _changes(each)
