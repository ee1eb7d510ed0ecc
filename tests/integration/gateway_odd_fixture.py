"""A server on the SDK's lowlevel `Server` in a style of its own: everything odd that the protocol allows.

    python tests/integration/gateway_odd_fixture.py [--http PORT] [--era both|handshake|modern]

Two entries a page, texts and bytes in one read, no mime types, a URI scheme of its own, `_meta`, annotations and icons
wherever they may stand, errors with data, questions in the middle of a read, changes of every list.
"""

from __future__ import annotations

import base64
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, TypeVar

import mcp_types as types
from mcp.server import Server
from mcp.server.context import ServerRequestContext
from mcp.server.request_state import RequestStateBoundary, RequestStateSecurity
from mcp.server.subscriptions import ListenHandler
from mcp.shared.exceptions import MCPError, UrlElicitationRequiredError
from mcp.shared.uri_template import UriTemplate

sys.path.insert(0, str(Path(__file__).parent))
from gateway_serving import LEVELS, Audience, answers, is_modern, main

Ctx = ServerRequestContext[Any, Any]
PAGE = 2
PNG = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8DwHwAFBQIAX8jx0gAAAABJRU5ErkJggg=="
BYTES = base64.b64encode(bytes(range(256))).decode()
ICONS = [
    types.Icon(src="data:image/png;base64," + PNG, mime_type="image/png", sizes=["1x1"]),
    types.Icon(src="https://example.com/icon.svg", mime_type="image/svg+xml", sizes=["any"], theme="dark"),
]
FOR_BOTH = types.Annotations(audience=["user", "assistant"], priority=0.75, last_modified="2025-01-12T15:00:58Z")
FOR_MODEL = types.Annotations(audience=["assistant"], priority=0.0)


def meta(where: str) -> dict[str, Any]:
    """Different in every place, so that none can be taken for another."""
    return {"example.com/where": where, "example.com/deep": {"list": [1, 2.5, None, "ø"], "no": False}}


# --- tools


def schema(**properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": list(properties)}


def tool(name: str, description: str, input_schema: dict[str, Any] | None = None, **more: Any) -> types.Tool:
    hints = more.pop("annotations", types.ToolAnnotations(read_only_hint=True, open_world_hint=False))
    return types.Tool(
        name=name, description=description, input_schema=input_schema or {"type": "object", "properties": {}},
        annotations=hints, icons=ICONS, _meta=meta(f"tool {name}"), **more,
    )  # fmt: skip


TEXT = {"type": "string"}
MEASURED = {
    "type": "object",
    "properties": {"mean": {"type": "number"}, "all": {"type": "array", "items": {"type": "integer"}}},
    "required": ["mean", "all"],
    "additionalProperties": False,
}
TOOLS = [
    tool("blocks", "Every kind of content block.", title="All the blocks"),
    tool("measure", "Structured output beside a text that says it otherwise.", output_schema=MEASURED),
    tool("nothing", "Answers with no content at all."),
    tool("log_everything", "Logs at every level."),
    tool("fractions", "Progress in fractions, without a total."),
    tool(
        "write_note", "Changes a note and tells those who watch it.", schema(number={"type": "integer"}, text=TEXT),
        annotations=types.ToolAnnotations(
            title="Write a note", read_only_hint=False, destructive_hint=True, idempotent_hint=True
        ),
    ),
    tool(
        "toggle", "Adds something, or removes it again.",
        schema(kind={"type": "string", "enum": ["tool", "resource", "template", "prompt"]}),
    ),
    tool("open_door", "Asks for a visit to an address."),
    tool("door_first", "Refuses until an address was visited (2025-11-25 only)."),
    tool("describe_picture", "Lets the client's model look at a picture."),
    tool("interview", "Asks again, depending on what was said."),
    tool("refuse", "Fails with an error of the protocol.", schema(code={"type": "integer"})),
    tool("fail", "Fails with a result."),
    tool(
        "notes.read-one", "A name with a dot in it.",
        {"type": "object", "properties": {"number": {"type": "integer", "default": 1}}},
    ),
    tool("echo_meta", "What came along with the request."),
]  # fmt: skip


def text(said: str, **more: Any) -> types.TextContent:
    return types.TextContent(type="text", text=said, **more)


def result(*content: types.ContentBlock, **more: Any) -> types.CallToolResult:
    return types.CallToolResult(content=list(content), **more)


async def blocks(ctx: Ctx, params: types.CallToolRequestParams) -> types.CallToolResult:
    link = types.ResourceLink(
        type="resource_link", uri="odd+notes://note/1", name="note-1", title="The first note", size=12,
        description="Where it is kept.", mime_type="text/x-note", icons=ICONS, annotations=FOR_BOTH, _meta=meta("link"),
    )  # fmt: skip
    note = types.TextResourceContents(uri="odd+notes://inline", text="kept within", _meta=meta("inline"))
    data = types.BlobResourceContents(uri="odd+notes://bytes", blob=BYTES, mime_type="application/x-bytes")
    return result(
        text("for the model", annotations=FOR_MODEL, _meta=meta("text")),
        text(""),
        types.ImageContent(type="image", data=PNG, mime_type="image/png", annotations=FOR_BOTH, _meta=meta("image")),
        types.AudioContent(type="audio", data=BYTES, mime_type="audio/x-noise", annotations=FOR_MODEL),
        link,
        types.ResourceLink(type="resource_link", uri="https://example.com/elsewhere", name="elsewhere"),
        types.EmbeddedResource(type="resource", resource=note, annotations=FOR_BOTH, _meta=meta("embedded")),
        types.EmbeddedResource(type="resource", resource=data),
        _meta=meta("result"),
    )


async def measure(ctx: Ctx, params: types.CallToolRequestParams) -> types.CallToolResult:
    return result(text("about two and a half"), structured_content={"mean": 2.5, "all": [2, 3]}, _meta=meta("measured"))


async def nothing(ctx: Ctx, params: types.CallToolRequestParams) -> types.CallToolResult:
    return result()


async def log_everything(ctx: Ctx, params: types.CallToolRequestParams) -> types.CallToolResult:
    for number, level in enumerate(LEVELS):
        data = ({"number": number, "deep": [level]}, [number, level], f"a line about {level}", number)[number % 4]
        await audience.log(ctx, level, data, "odd.logger" if number % 2 else None)
    return result(text("logged at every level"))


async def fractions(ctx: Ctx, params: types.CallToolRequestParams) -> types.CallToolResult:
    for done in (0.125, 0.25, 0.5, 0.9375):
        await ctx.session.report_progress(done, None, f"at {done}" if done > 0.2 else None)
    await ctx.session.report_progress(1.0, 1.0)
    return result(text("all of it"))


async def write_note(ctx: Ctx, params: types.CallToolRequestParams) -> types.CallToolResult:
    given = params.arguments or {}
    notes[given["number"]] = given["text"]
    await audience.updated(f"odd+notes://note/{given['number']}")
    return result(text("written"))


async def toggle(ctx: Ctx, params: types.CallToolRequestParams) -> types.CallToolResult:
    kind = (params.arguments or {})["kind"]
    listed, extra = EXTRAS[kind]
    if extra in listed:
        listed.remove(extra)
    else:
        listed.append(extra)
    await {"tool": audience.tools_changed, "prompt": audience.prompts_changed}.get(kind, audience.resources_changed)()
    return result(text(f"{'added' if extra in listed else 'removed'} a {kind}"))


async def open_door(ctx: Ctx, params: types.CallToolRequestParams) -> types.CallToolResult | types.InputRequiredResult:
    visit = types.ElicitRequestURLParams(
        message="Log in there, please.", url="https://example.com/door?key=a%20b&x=1#top",
        elicitation_id=None if is_modern(ctx) else "door-1",
    )  # fmt: skip
    given = await answers(ctx, params.input_responses, {"door": types.ElicitRequest(params=visit)})
    if isinstance(given, types.InputRequiredResult):
        return given
    if not is_modern(ctx):
        await ctx.session.send_elicit_complete("door-1", ctx.request_id)
    return result(text(f"door: {given['door'].action}"))


async def door_first(ctx: Ctx, params: types.CallToolRequestParams) -> types.CallToolResult:
    if is_modern(ctx):
        return result(text("no door in this revision"))
    visit = types.ElicitRequestURLParams(
        message="First this.", url="https://example.com/first", elicitation_id="door-2"
    )
    raise UrlElicitationRequiredError([visit], "There is a door before it")


async def describe_picture(
    ctx: Ctx, params: types.CallToolRequestParams
) -> types.CallToolResult | types.InputRequiredResult:
    said = [
        types.SamplingMessage(role="user", content=types.ImageContent(type="image", data=PNG, mime_type="image/png")),
        types.SamplingMessage(role="user", content=text("What is this?")),
        types.SamplingMessage(role="assistant", content=text("A picture. Of what")),
    ]
    request = types.CreateMessageRequest(
        params=types.CreateMessageRequestParams(
            messages=said, max_tokens=321, system_prompt="You know pictures.", temperature=0.25,
            stop_sequences=["STOP", "\n\n"], include_context="none", metadata={"vendor": {"seed": 7}},
            model_preferences=types.ModelPreferences(
                hints=[types.ModelHint(name="small"), types.ModelHint(name="smaller")],
                cost_priority=0.9, speed_priority=0.5, intelligence_priority=0.1,
            ),
        )
    )  # fmt: skip
    given = await answers(ctx, params.input_responses, {"look": request})
    if isinstance(given, types.InputRequiredResult):
        return given
    seen = given["look"]
    return result(seen.content, text(f"by {seen.model}, {seen.role}, {seen.stop_reason}"))


async def interview(ctx: Ctx, params: types.CallToolRequestParams) -> types.CallToolResult | types.InputRequiredResult:
    """Round one asks for a pet; round two, about that pet; whoever declines is left alone."""
    pet = params.request_state
    if pet is None:
        properties = {"pet": {"type": "string", "title": "Your pet", "description": "Dog or cat", "minLength": 2}}
        form = types.ElicitRequestFormParams(message="What pet\nhave you?", requested_schema=schema(**properties))
        first = await answers(ctx, params.input_responses, {"pet": types.ElicitRequest(params=form)})
        if isinstance(first, types.InputRequiredResult):
            return first
        if first["pet"].action != "accept":
            return result(text(f"no pet: {first['pet'].action}"))
        pet = str(first["pet"].content["pet"])
    form = types.ElicitRequestFormParams(
        message=f"How old is your {pet}?", requested_schema=schema(age={"type": "integer", "minimum": 0, "maximum": 99})
    )
    second = await answers(ctx, params.input_responses, {"age": types.ElicitRequest(params=form)}, state=pet)
    if isinstance(second, types.InputRequiredResult):
        return second
    return result(text(f"{pet}: {second['age'].action} {second['age'].content}"))


async def refuse(ctx: Ctx, params: types.CallToolRequestParams) -> types.CallToolResult:
    code = (params.arguments or {})["code"]
    raise MCPError(code, f"refused with {code}", {"why": ["because"], "code": code})


async def fail(ctx: Ctx, params: types.CallToolRequestParams) -> types.CallToolResult:
    picture = types.ImageContent(type="image", data=PNG, mime_type="image/png")
    return result(text("it went wrong"), picture, is_error=True, _meta=meta("failure"))


async def read_one(ctx: Ctx, params: types.CallToolRequestParams) -> types.CallToolResult:
    return result(text(notes[(params.arguments or {}).get("number", 1)]))


async def echo_meta(ctx: Ctx, params: types.CallToolRequestParams) -> types.CallToolResult:
    own = {key: value for key, value in (params.meta or {}).items() if str(key).startswith("example.com/")}
    return result(text("with the request"), _meta={"example.com/came": own})


HANDLERS = {
    "blocks": blocks, "measure": measure, "nothing": nothing, "log_everything": log_everything, "fractions": fractions,
    "write_note": write_note, "toggle": toggle, "open_door": open_door, "door_first": door_first,
    "describe_picture": describe_picture, "interview": interview, "refuse": refuse, "fail": fail,
    "notes.read-one": read_one, "echo_meta": echo_meta, "extra_tool": nothing,
}  # fmt: skip


async def call_tool(ctx: Ctx, params: types.CallToolRequestParams) -> types.CallToolResult | types.InputRequiredResult:
    if params.name not in HANDLERS:
        raise MCPError(types.INVALID_PARAMS, f"Unknown tool: {params.name}")
    return await HANDLERS[params.name](ctx, params)


# --- resources

notes = {1: "the first note", 2: "zweite Notiz – ✓\r\n\ttab", 3: ""}
RESOURCES = [
    types.Resource(
        uri=f"odd+notes://note/{number}", name=f"note-{number}", title=f"Note {number}", description="A note." * number,
        size=10 + number, icons=ICONS, annotations=FOR_BOTH, _meta=meta(f"note {number}"),
    )
    for number in notes
]  # fmt: skip
RESOURCES += [
    types.Resource(uri="odd+notes://both", name="both"),
    types.Resource(
        uri="odd+notes://bytes?format=raw&n=256#end", name="bytes", mime_type="application/x-bytes", size=256
    ),
    types.Resource(uri="odd+notes://forbidden", name="forbidden"),
    types.Resource(uri="odd+notes://locked", name="locked", description="Asks who is there."),
]
TEMPLATES = [
    types.ResourceTemplate(
        uri_template="odd+notes://by/{author}/{+path}", name="by-author", title="By author", mime_type="text/x-note",
        description="Notes of an author.", icons=ICONS, annotations=FOR_MODEL, _meta=meta("by-author"),
    ),
    types.ResourceTemplate(uri_template="odd+notes://search{?q,limit}", name="search"),
    types.ResourceTemplate(uri_template="odd+notes://{a},{b}/sum", name="sum", _meta=meta("sum")),
]  # fmt: skip


async def read_resource(
    ctx: Ctx, params: types.ReadResourceRequestParams
) -> types.ReadResourceResult | types.InputRequiredResult:
    uri = params.uri
    number = uri.removeprefix("odd+notes://note/")
    if number != uri and number.isdecimal() and int(number) in notes:
        return contents(types.TextResourceContents(uri=uri, text=notes[int(number)], _meta=meta(f"contents {number}")))
    if uri == "odd+notes://both":
        first = types.TextResourceContents(
            uri="odd+notes://both/text", text="one", mime_type="text/plain; charset=utf-8"
        )
        second = types.BlobResourceContents(uri="odd+notes://both/bytes", blob=BYTES, _meta=meta("bytes of both"))
        return contents(first, second, first.model_copy(update={"uri": uri, "text": "three"}), _meta=meta("both"))
    if uri == "odd+notes://bytes?format=raw&n=256#end":
        return contents(types.BlobResourceContents(uri=uri, blob=BYTES, mime_type="application/x-bytes"))
    if uri == "odd+notes://unlisted":
        return contents(types.TextResourceContents(uri=uri, text="in no list"))
    if uri == "odd+notes://forbidden":
        raise MCPError(-31999, "you may not read that", {"uri": uri, "who": "nobody"})
    if uri == "odd+notes://locked":
        form = types.ElicitRequestFormParams(message="Who is there?", requested_schema=schema(who=TEXT))
        given = await answers(ctx, params.input_responses, {"who": types.ElicitRequest(params=form)})
        if isinstance(given, types.InputRequiredResult):
            return given
        return contents(types.TextResourceContents(uri=uri, text=f"opened for {given['who'].content}"))
    for template in TEMPLATES:
        found = UriTemplate.parse(template.uri_template).match(uri)
        if found is not None:
            said = ", ".join(f"{key}={value}" for key, value in sorted(found.items()))
            return contents(types.TextResourceContents(uri=uri, text=f"{template.name}: {said}"))
    raise MCPError(types.INVALID_PARAMS, "No such note", {"uri": uri})


def contents(*parts: types.TextResourceContents | types.BlobResourceContents, **more: Any) -> types.ReadResourceResult:
    return types.ReadResourceResult(contents=list(parts), **more)


# --- prompts

PROMPTS = [
    types.Prompt(
        name="talk", title="A talk", description="Several say something.", icons=ICONS, _meta=meta("talk"),
        arguments=[
            types.PromptArgument(name="topic", title="The topic", description="What about", required=True),
            types.PromptArgument(name="tone", required=False),
            types.PromptArgument(name="length"),
        ],
    ),
    types.Prompt(name="bare"),
    types.Prompt(name="with.dots-and_more", description="A name with everything in it."),
]  # fmt: skip


async def get_prompt(
    ctx: Ctx, params: types.GetPromptRequestParams
) -> types.GetPromptResult | types.InputRequiredResult:
    given = params.arguments or {}
    if params.name == "talk" and "topic" not in given:
        raise MCPError(types.INVALID_PARAMS, "talk needs a topic", {"missing": ["topic"]})
    if params.name == "talk":
        note = types.BlobResourceContents(uri="odd+notes://bytes", blob=BYTES, mime_type="application/x-bytes")
        link = types.ResourceLink(
            type="resource_link",
            uri="odd+notes://note/1",
            name="note-1",
            size=12,
            annotations=FOR_BOTH,
            _meta=meta("l"),
        )
        said: list[tuple[types.Role, types.ContentBlock]] = [
            ("user", text(f"About {given['topic']}, {given.get('tone', 'plainly')}", annotations=FOR_BOTH)),
            ("assistant", text("Gladly.", _meta=meta("gladly"))),
            ("user", types.ImageContent(type="image", data=PNG, mime_type="image/png", annotations=FOR_MODEL)),
            ("assistant", types.AudioContent(type="audio", data=BYTES, mime_type="audio/x-noise")),
            ("user", types.EmbeddedResource(type="resource", resource=note, annotations=FOR_BOTH, _meta=meta("e"))),
            ("assistant", link),
        ]
        messages = [types.PromptMessage(role=role, content=content) for role, content in said]
        return types.GetPromptResult(description=f"A talk of {len(said)}", messages=messages, _meta=meta("talked"))
    if any(each.name == params.name for each in PROMPTS):
        said_once = types.PromptMessage(role="assistant", content=text(f"{params.name} {sorted(given.items())}"))
        return types.GetPromptResult(messages=[said_once])
    raise MCPError(types.INVALID_PARAMS, f"Unknown prompt: {params.name}", {"name": params.name})


AUTHORS = {"ada": ["engine/notes.txt", "engine/table.txt"], "alan": ["halting", "machine/tape"]}


async def complete(ctx: Ctx, params: types.CompleteRequestParams) -> types.CompleteResult:
    known = (params.context.arguments or {}) if params.context else {}
    name, start = params.argument.name, params.argument.value
    if isinstance(params.ref, types.PromptReference):
        if params.ref.name != "talk":
            raise MCPError(types.INVALID_PARAMS, f"nothing to complete in {params.ref.name}", {"name": params.ref.name})
        found = [f"{start}{n:03}" for n in range(250)] if name == "topic" else [f"{known.get('topic')} {name}"]
    elif params.ref.uri == "odd+notes://by/{author}/{+path}":
        found = list(AUTHORS) if name == "author" else AUTHORS.get(known.get("author", ""), [])
        found = [each for each in found if each.startswith(start)]
    else:
        found = []
    return types.CompleteResult(
        completion=types.Completion(values=found[:100], total=len(found), has_more=len(found) > 100), _meta=meta("done")
    )


# --- lists, a few at a time

EXTRAS: dict[str, tuple[list[Any], Any]] = {
    "tool": (TOOLS, tool("extra_tool", "Comes and goes.")),
    "resource": (RESOURCES, types.Resource(uri="odd+notes://extra", name="extra")),
    "template": (TEMPLATES, types.ResourceTemplate(uri_template="odd+notes://extra/{n}", name="extra")),
    "prompt": (PROMPTS, types.Prompt(name="extra_prompt")),
}
Item = TypeVar("Item")


def page(items: Sequence[Item], params: types.PaginatedRequestParams | None) -> tuple[list[Item], str | None]:
    """The entries behind a cursor, and the cursor of the next page."""
    cursor = params.cursor if params else None
    if cursor is not None and not (cursor.startswith("page ") and cursor[5:].isdecimal()):
        raise MCPError(types.INVALID_PARAMS, "no such cursor", {"cursor": cursor})
    start = int(cursor[5:]) if cursor else 0
    return list(items[start : start + PAGE]), f"page {start + PAGE}" if start + PAGE < len(items) else None


async def list_tools(ctx: Ctx, params: types.PaginatedRequestParams | None) -> types.ListToolsResult:
    found, following = page(TOOLS, params)
    return types.ListToolsResult(tools=found, next_cursor=following)


async def list_resources(ctx: Ctx, params: types.PaginatedRequestParams | None) -> types.ListResourcesResult:
    found, following = page(RESOURCES, params)
    return types.ListResourcesResult(resources=found, next_cursor=following, _meta=meta("page"))


async def list_templates(ctx: Ctx, params: types.PaginatedRequestParams | None) -> types.ListResourceTemplatesResult:
    found, following = page(TEMPLATES, params)
    return types.ListResourceTemplatesResult(resource_templates=found, next_cursor=following)


async def list_prompts(ctx: Ctx, params: types.PaginatedRequestParams | None) -> types.ListPromptsResult:
    found, following = page(PROMPTS, params)
    return types.ListPromptsResult(prompts=found, next_cursor=following)


audience = Audience()


def made() -> Server[Any]:
    server: Server[Any] = Server(
        "odd", version="0.0.1-odd", title="An odd server", instructions="Expect anything.", icons=ICONS,
        on_list_tools=list_tools, on_call_tool=call_tool,
        on_list_resources=list_resources, on_list_resource_templates=list_templates, on_read_resource=read_resource,
        on_list_prompts=list_prompts, on_get_prompt=get_prompt, on_completion=complete,
        on_subscriptions_listen=ListenHandler(audience.bus),
    )  # fmt: skip
    audience.serve(server)
    server.middleware.append(RequestStateBoundary(RequestStateSecurity.ephemeral(), default_audience="odd"))
    return server


if __name__ == "__main__":
    main(made)
