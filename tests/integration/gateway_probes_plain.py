"""The probes of `gateway_fixture.py`: that the conformance suite's things answer what they should."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import Any

import anyio
import mcp_types as types

sys.path.insert(0, str(Path(__file__).parent))
from gateway_probes import PLAIN, Sight, call, completion, every, probe, prompt, read


def filled(params: Any) -> types.ElicitResult:
    """A person who fills in what is asked, with the defaults where there are some."""
    content: dict[str, Any] = {}
    for name, field in params.requested_schema["properties"].items():
        options = field.get("enum") or [each["const"] for each in field.get("oneOf", ())]
        if "default" in field:
            content[name] = field["default"]
        elif field.get("type") == "boolean":
            content[name] = True
        elif field.get("type") == "array":
            items = field["items"]
            content[name] = (items.get("enum") or [each["const"] for each in items["anyOf"]])[:2]
        else:
            content[name] = options[0] if options else f"some {name}"
    return types.ElicitResult(action="accept", content=content)


CALLS: dict[str, dict[str, Any]] = {
    "test_simple_text": {}, "test_image_content": {}, "test_audio_content": {}, "test_embedded_resource": {},
    "test_multiple_content_types": {}, "test_error_handling": {}, "add": {"a": 2, "b": 3},
    "json_schema_2020_12_tool": {"phone": "1", "contactMethod": "phone"}, "test_custom_headers": {"region": "Übersee"},
}  # fmt: skip
ASKING: dict[str, dict[str, Any]] = {
    "test_sampling": {"prompt": "Hi"}, "test_elicitation": {"message": "Who?"}, "test_elicitation_sep1034_defaults": {},
    "test_elicitation_sep1330_enums": {}, "test_missing_capability": {}, "test_streaming_elicitation": {},
    "test_input_required_result_elicitation": {}, "test_input_required_result_sampling": {},
    "test_input_required_result_list_roots": {}, "test_input_required_result_request_state": {},
    "test_input_required_result_tampered_state": {}, "test_input_required_result_multiple_inputs": {},
    "test_input_required_result_multi_round": {}, "test_input_required_result_capabilities": {},
}  # fmt: skip


@probe(PLAIN)
async def tools(see: Sight) -> Any:
    async with see.client() as client:
        return await every(client.list_tools, "tools")


@probe(PLAIN)
async def resources(see: Sight) -> Any:
    async with see.client() as client:
        return await every(client.list_resources, "resources")


@probe(PLAIN)
async def templates(see: Sight) -> Any:
    async with see.client() as client:
        return await every(client.list_resource_templates, "resource_templates")


@probe(PLAIN)
async def prompts(see: Sight) -> Any:
    async with see.client() as client:
        return await every(client.list_prompts, "prompts")


def _calls(name: str, arguments: dict[str, Any]) -> None:
    async def one(see: Sight) -> Any:
        async with see.client() as client:
            await client.list_tools()
            return await call(client, name, arguments)

    async def asking(see: Sight) -> Any:
        see.say = filled
        async with see.client() as client:
            answer = await call(client, name, arguments, progress_callback=see.progress)
        # asked at once, they may arrive in any order; a call that is repeated with answers may report progress again
        heard = [each for n, each in enumerate(see.heard) if each[0] != "progress" or each not in see.heard[:n]]
        return {"answer": answer, "heard": sorted(heard, key=repr)}

    PLAIN[f"call {name}"] = asking if name in ASKING else one


for each, given in {**CALLS, **ASKING}.items():
    _calls(each, given)


@probe(PLAIN)
async def declined(see: Sight) -> Any:
    found: list[Any] = []
    for action in ("decline", "cancel"):
        see.say = lambda _, action=action: types.ElicitResult(action=action)
        async with see.client() as client:
            found.append(await call(client, "test_elicitation", {"message": f"Will you {action}?"}))
    return found


@probe(PLAIN)
async def progress(see: Sight) -> Any:
    async with see.client() as client:
        answer = await call(client, "test_tool_with_progress", progress_callback=see.progress)
        await asyncio.sleep(0.1)
    return [answer, see.told("progress")]


@probe(PLAIN)
async def logging(see: Sight) -> Any:
    async with see.client(log_level="info" if see.modern else None) as client:
        if not see.modern:
            await client.set_logging_level("info")
        answer = await call(client, "test_tool_with_logging")
        await asyncio.sleep(0.1)
    return [answer, see.heard]


@probe(PLAIN)
async def logging_that_nobody_asked_for(see: Sight) -> Any:
    async with see.client() as client:
        answer = await call(client, "test_logging_tool")
        await asyncio.sleep(0.1)
    return [answer, see.heard]


@probe(PLAIN)
async def cancelling(see: Sight) -> Any:
    async with see.client() as client:
        before = await call(client, "how_many_cancelled")
        with anyio.move_on_after(1.0):
            await client.call_tool("test_cancellable")
        for _ in range(600):
            await asyncio.sleep(0.1)
            after = await call(client, "how_many_cancelled")
            if after != before:
                break
        return {"the server's call was cancelled": after != before}


@probe(PLAIN)
async def reading(see: Sight) -> Any:
    uris = ("static-text", "static-binary", "watched-resource", "template/123/data", "template/a%20b/data", "nowhere")
    async with see.client() as client:
        return {uri: await read(client, f"test://{uri}") for uri in uris}


@probe(PLAIN)
async def prompting(see: Sight) -> Any:
    see.say = filled
    async with see.client() as client:
        return [
            await prompt(client, "test_simple_prompt"),
            await prompt(client, "test_prompt_with_arguments", {"arg1": "hello", "arg2": "wörld"}),
            await prompt(client, "test_prompt_with_embedded_resource", {"resourceUri": "test://example-resource"}),
            await prompt(client, "test_prompt_with_image"),
            await prompt(client, "test_input_required_result_prompt"),
            see.told("elicitation"),
        ]


@probe(PLAIN)
async def completing(see: Sight) -> Any:
    with_arguments = types.PromptReference(type="ref/prompt", name="test_prompt_with_arguments")
    template = types.ResourceTemplateReference(type="ref/resource", uri="test://template/{id}/data")
    async with see.client() as client:
        return [
            await completion(client, with_arguments, "arg1", "par"),
            await completion(client, with_arguments, "arg1", "o"),
            await completion(client, with_arguments, "arg2", ""),
            await completion(client, template, "id", "7"),
        ]


@probe(PLAIN)
async def watching(see: Sight) -> Any:
    uri = "test://watched-resource"
    async with see.client() as client:
        async with see.listening(client, uri):
            await call(client, "change_watched_resource", {"to": "second"})
            heard = [list(await see.news("updated")), await read(client, uri)]
        see.heard.clear()
        await call(client, "change_watched_resource", {"to": "Watched resource content"})
        await asyncio.sleep(1.0)
        return [*heard, see.told("updated")]


def _changes(kind: str, trigger: str, method: str, key: str, extra: str) -> None:
    async def changing(see: Sight) -> Any:
        async with see.client() as client:
            lister = getattr(client, method)
            async with see.listening(client, **{f"{kind}_list_changed": True}):
                heard: list[Any] = []
                for _ in range(2):  # there it is, and gone again
                    see.heard.clear()
                    await call(client, trigger)
                    await see.news(f"{kind}/list_changed")
                    heard.append(bool(see.told(f"{kind}/list_changed")))
                    names = [each["name"] for each in await every(lister, key)]
                    heard.append([name for name in names if extra in name])
        return heard

    PLAIN[f"changing {kind}"] = changing


_changes("tools", "test_trigger_tool_change", "list_tools", "tools", "test_extra")
_changes("prompts", "test_trigger_prompt_change", "list_prompts", "prompts", "extra_prompt")
_changes("resources", "trigger_resource_change", "list_resources", "resources", "static_text")


@probe(PLAIN)
async def two_clients_at_once(see: Sight) -> Any:
    """Each is asked its own question, and its answers and logs are its own."""

    async def one(name: str) -> Any:
        own = Sight(see.url, see.era, f"{see.name}-{name}")
        own.say = lambda params: types.ElicitResult(
            action="accept", content={"username": name, "email": params.message}
        )
        async with own.client(log_level="info" if see.modern else None) as client:
            answers = [await call(client, "test_elicitation", {"message": f"{name} {n}?"}) for n in range(4)]
            answers.append(await call(client, "test_tool_with_logging"))
            answers.append(await call(client, "test_sampling", {"prompt": name}))
        return [answers, own.heard]

    return await asyncio.gather(*(one(name) for name in ("ann", "bob", "cid")))


@probe(PLAIN)
async def a_client_without_abilities(see: Sight) -> Any:
    """What cannot be asked is refused, not guessed."""
    none: dict[str, Any] = dict.fromkeys(("elicitation_callback", "sampling_callback", "list_roots_callback"))
    found: list[Any] = []
    for name in ("test_input_required_result_capabilities", "test_missing_capability", "test_elicitation"):
        async with see.client(**none) as client:
            answer = await call(client, name, {"message": "?"} if name == "test_elicitation" else {})
            found.append({"failed": answer.get("isError", "code" in answer), "code": answer.get("code")})
    return found
