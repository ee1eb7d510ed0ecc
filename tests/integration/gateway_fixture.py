"""A server on the official SDK with everything that the MCP conformance suite asks for; Toolcrib is not in it.

    python tests/integration/gateway_fixture.py [--http PORT] [--era both|handshake|modern]

The gateway is put in front of it. Directly, it passes every required scenario of both revisions.
"""

from __future__ import annotations

import base64
import json
import sys
from pathlib import Path
from typing import Any

import anyio
import mcp_types as types
from mcp.server import Server
from mcp.server.caching import CacheHint
from mcp.server.mcpserver import Context, MCPServer
from mcp.server.mcpserver.prompts import Prompt
from mcp.shared.exceptions import MCPError

sys.path.insert(0, str(Path(__file__).parent))
from gateway_serving import Audience, answers, can, is_modern, main

# one red pixel, and one sample of silence
PNG = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8DwHwAFBQIAX8jx0gAAAABJRU5ErkJggg=="
WAV = base64.b64encode(b"RIFF\x26\0\0\0WAVEfmt \x10\0\0\0\1\0\1\0\x40\x1f\0\0\x80\x3e\0\0\2\0\x10\0data\2\0\0\0\0\0")
CITIES = ("paris", "park", "party", "oslo", "osaka")
NAME = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}
OK = {"type": "object", "properties": {"ok": {"type": "boolean"}}, "required": ["ok"]}

audience = Audience()
server = MCPServer(
    "everything-there-is",
    title="Everything there is",
    version="1.2.3",
    instructions="Call anything.",
    subscriptions=audience.bus,
    log_level="CRITICAL",
    cache_hints={
        "tools/list": CacheHint(ttl_ms=0), "resources/read": CacheHint(ttl_ms=0), "prompts/list": CacheHint(ttl_ms=0)
    },
)  # fmt: skip

Answer = types.CallToolResult | types.InputRequiredResult
Ctx = Context[Any, Any]


def text(said: str) -> types.TextContent:
    return types.TextContent(type="text", text=said)


def done(said: str) -> types.CallToolResult:
    return types.CallToolResult(content=[text(said)])


def form(message: str, schema: dict[str, Any]) -> types.ElicitRequest:
    return types.ElicitRequest(params=types.ElicitRequestFormParams(message=message, requested_schema=schema))


def sampling(message: str, max_tokens: int) -> types.CreateMessageRequest:
    said = types.SamplingMessage(role="user", content=text(message))
    return types.CreateMessageRequest(params=types.CreateMessageRequestParams(messages=[said], max_tokens=max_tokens))


async def ask(
    ctx: Ctx, requests: dict[str, types.InputRequest], state: str | None = None
) -> dict[str, Any] | types.InputRequiredResult:
    return await answers(ctx.request_context, ctx.input_responses, requests, state)


async def ask_one(ctx: Ctx, key: str, request: types.InputRequest, state: str | None = None) -> Any:
    given = await ask(ctx, {key: request}, state)
    return given if isinstance(given, types.InputRequiredResult) else given[key]


def told(lead: str, answer: types.ElicitResult) -> types.CallToolResult:
    return done(f"{lead}: action={answer.action}, content={json.dumps(answer.content or {}, sort_keys=True)}")


# --- content


@server.tool(structured_output=False)
def test_simple_text() -> str:
    """Answers with text."""
    return "This is a simple text response for testing."


@server.tool(structured_output=False)
def test_image_content() -> types.ImageContent:
    """Answers with an image."""
    return types.ImageContent(type="image", data=PNG, mime_type="image/png")


@server.tool(structured_output=False)
def test_audio_content() -> types.AudioContent:
    """Answers with a sound."""
    return types.AudioContent(type="audio", data=WAV.decode(), mime_type="audio/wav")


def embedded(uri: str, mime_type: str, said: str) -> types.EmbeddedResource:
    contents = types.TextResourceContents(uri=uri, mime_type=mime_type, text=said)
    return types.EmbeddedResource(type="resource", resource=contents)


@server.tool(structured_output=False)
def test_embedded_resource() -> types.EmbeddedResource:
    """Answers with a resource."""
    return embedded("test://embedded-resource", "text/plain", "This is an embedded resource content.")


@server.tool(structured_output=False)
def test_multiple_content_types() -> list[Any]:
    """Answers with text, an image and a resource."""
    image = types.ImageContent(type="image", data=PNG, mime_type="image/png")
    data = embedded("test://mixed-content-resource", "application/json", '{"test":"data","value":123}')
    return [text("Multiple content types test:"), image, data]


@server.tool(structured_output=False)
def test_error_handling() -> types.CallToolResult:
    """Fails."""
    said = text("This tool intentionally returns an error for testing")
    return types.CallToolResult(content=[said], is_error=True)


@server.tool()
def add(a: int, b: int) -> dict[str, int]:
    """Adds two numbers, as structured data."""
    return {"sum": a + b}


# --- progress, logging, cancellation


@server.tool(structured_output=False)
async def test_tool_with_progress(ctx: Ctx) -> str:
    """Reports progress three times."""
    for step in (0, 50, 100):
        await ctx.report_progress(step, 100, f"Completed step {step} of 100")
        await anyio.sleep(0.05)
    return "progress reported"


@server.tool(structured_output=False)
async def test_tool_with_logging(ctx: Ctx) -> str:
    """Logs three times."""
    for said in ("Tool execution started", "Tool processing data", "Tool execution completed"):
        await audience.log(ctx.request_context, "info", said)
        await anyio.sleep(0.05)
    return "Tool with logging executed successfully"


@server.tool(structured_output=False)
async def test_logging_tool(ctx: Ctx) -> str:
    """Logs a warning, for those who want to hear it."""
    await audience.log(ctx.request_context, "warning", {"what": "a warning"}, "fixture")
    return "logged"


@server.tool(structured_output=False)
async def test_cancellable(ctx: Ctx) -> str:
    """Waits for a minute, unless it is cancelled."""
    try:
        await ctx.report_progress(1, 2, "waiting")
        await anyio.sleep(60)
    except anyio.get_cancelled_exc_class():
        cancelled.append("test_cancellable")
        raise
    return "not cancelled"


cancelled: list[str] = []


@server.tool(structured_output=False)
def how_many_cancelled() -> str:
    """How many calls were cancelled so far."""
    return str(len(cancelled))


# --- questions


@server.tool(structured_output=False)
async def test_sampling(prompt: str, ctx: Ctx) -> Answer:
    """Lets the client's model answer."""
    answer = await ask_one(ctx, "answer", sampling(prompt, 100))
    return done(f"LLM response: {answer.content.text}") if isinstance(answer, types.CreateMessageResult) else answer


@server.tool(structured_output=False)
async def test_elicitation(message: str, ctx: Ctx) -> Answer:
    """Asks the person for a name and an address."""
    properties = {
        "username": {"type": "string", "description": "User's response"},
        "email": {"type": "string", "description": "User's email address"},
    }
    schema = {"type": "object", "properties": properties, "required": ["username", "email"]}
    answer = await ask_one(ctx, "who", form(message, schema))
    return told("User response", answer) if isinstance(answer, types.ElicitResult) else answer


@server.tool(structured_output=False)
async def test_elicitation_sep1034_defaults(ctx: Ctx) -> Answer:
    """Asks with a default for every primitive type."""
    properties = {
        "name": {"type": "string", "default": "John Doe"},
        "age": {"type": "integer", "default": 30},
        "score": {"type": "number", "default": 95.5},
        "status": {"type": "string", "enum": ["active", "inactive", "pending"], "default": "active"},
        "verified": {"type": "boolean", "default": True},
    }
    answer = await ask_one(ctx, "form", form("Who are you?", {"type": "object", "properties": properties}))
    return told("Elicitation completed", answer) if isinstance(answer, types.ElicitResult) else answer


@server.tool(structured_output=False)
async def test_elicitation_sep1330_enums(ctx: Ctx) -> Answer:
    """Asks with every form of choice."""
    titled = [{"const": f"value{n}", "title": f"{word} Option"} for n, word in enumerate(("First", "Second"), 1)]
    plain = ["option1", "option2", "option3"]
    names = ["Option One", "Option Two", "Option Three"]
    properties = {
        "untitledSingle": {"type": "string", "enum": plain},
        "titledSingle": {"type": "string", "oneOf": titled},
        "legacyEnum": {"type": "string", "enum": ["opt1", "opt2", "opt3"], "enumNames": names},
        "untitledMulti": {"type": "array", "items": {"type": "string", "enum": plain}},
        "titledMulti": {"type": "array", "items": {"anyOf": titled}},
    }
    answer = await ask_one(ctx, "choices", form("Choose", {"type": "object", "properties": properties}))
    return told("Elicitation completed", answer) if isinstance(answer, types.ElicitResult) else answer


@server.tool(structured_output=False)
async def test_missing_capability(ctx: Ctx) -> Answer:
    """Needs sampling."""
    if is_modern(ctx.request_context) and not can(ctx.request_context, "sampling"):
        needed = {"requiredCapabilities": {"sampling": {}}}
        raise MCPError(types.MISSING_REQUIRED_CLIENT_CAPABILITY, "this tool needs sampling", needed)
    answer = await ask_one(ctx, "word", sampling("Say a word", 5))
    return done(f"sampled {answer.content.text}") if isinstance(answer, types.CreateMessageResult) else answer


@server.tool(structured_output=False)
async def test_streaming_elicitation(ctx: Ctx) -> Answer:
    """Reports progress, then asks."""
    await ctx.report_progress(1, 2, "about to ask")
    answer = await ask_one(ctx, "go_on", form("Go on?", OK))
    return told("answered", answer) if isinstance(answer, types.ElicitResult) else answer


@server.tool(structured_output=False)
async def test_input_required_result_elicitation(ctx: Ctx) -> Answer:
    """Asks for a name."""
    answer = await ask_one(ctx, "user_name", form("What is your name?", NAME))
    if not isinstance(answer, types.ElicitResult):
        return answer
    return done(f"Hello, {(answer.content or {}).get('name', 'stranger')}!")


@server.tool(structured_output=False)
async def test_input_required_result_sampling(ctx: Ctx) -> Answer:
    """Asks the client's model."""
    answer = await ask_one(ctx, "capital_question", sampling("What is the capital of France?", 100))
    return done(answer.content.text) if isinstance(answer, types.CreateMessageResult) else answer


@server.tool(structured_output=False)
async def test_input_required_result_list_roots(ctx: Ctx) -> Answer:
    """Asks for the client's roots."""
    answer = await ask_one(ctx, "client_roots", types.ListRootsRequest())
    if not isinstance(answer, types.ListRootsResult):
        return answer
    return done("roots: " + ", ".join(f"{root.uri} ({root.name})" for root in answer.roots))


@server.tool(structured_output=False)
async def test_input_required_result_request_state(ctx: Ctx) -> Answer:
    """Asks once and says that the state came back whole."""
    answer = await ask_one(ctx, "confirm", form("Please confirm", OK), "what I must not forget")
    if not isinstance(answer, types.ElicitResult):
        return answer
    whole = ctx.request_state == "what I must not forget" or not is_modern(ctx.request_context)
    return done(f"{'state-ok' if whole else 'state lost'} {(answer.content or {}).get('ok')}")


@server.tool(structured_output=False)
async def test_input_required_result_tampered_state(ctx: Ctx) -> Answer:
    """The same, for a client that tampers with the state."""
    answer = await ask_one(ctx, "confirm", form("Please confirm", OK), "sealed")
    return told("confirmed", answer) if isinstance(answer, types.ElicitResult) else answer


@server.tool(structured_output=False)
async def test_input_required_result_multiple_inputs(ctx: Ctx) -> Answer:
    """Asks for a name, a greeting and the roots at once."""
    requests: dict[str, types.InputRequest] = {
        "user_name": form("What is your name?", NAME),
        "greeting": sampling("Generate a greeting", 50),
        "client_roots": types.ListRootsRequest(),
    }
    given = await ask(ctx, requests, "three at once")
    return given if isinstance(given, types.InputRequiredResult) else done(f"answered: {', '.join(sorted(given))}")


@server.tool(structured_output=False)
async def test_input_required_result_multi_round(ctx: Ctx) -> Answer:
    """Asks twice; the second question comes after the first answer."""
    color_form = {"type": "object", "properties": {"color": {"type": "string"}}, "required": ["color"]}
    name = ctx.request_state.removeprefix("name:") if (ctx.request_state or "").startswith("name:") else None
    if name is None:
        first = await ask_one(ctx, "step1", form("Step 1: What is your name?", NAME), "nothing yet")
        if not isinstance(first, types.ElicitResult):
            return first
        name = str((first.content or {}).get("name"))
    second = await ask_one(ctx, "step2", form("Step 2: What is your favorite color?", color_form), f"name:{name}")
    if not isinstance(second, types.ElicitResult):
        return second
    return done(f"{name} likes {(second.content or {}).get('color')}")


@server.tool(structured_output=False)
async def test_input_required_result_capabilities(ctx: Ctx) -> Answer:
    """Asks only what the client can answer."""
    requests: dict[str, types.InputRequest] = {}
    if can(ctx.request_context, "elicitation"):
        requests["user_name"] = form("What is your name?", NAME)
    if can(ctx.request_context, "sampling"):
        requests["greeting"] = sampling("Generate a greeting", 50)
    given = await ask(ctx, requests, "what you can") if requests else {}
    return given if isinstance(given, types.InputRequiredResult) else done(f"answered: {', '.join(sorted(given))}")


# --- schemas

SCHEMA_2020_12 = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "type": "object",
    "$defs": {
        "address": {
            "$anchor": "addressDef",
            "type": "object",
            "properties": {"street": {"type": "string"}, "city": {"type": "string"}},
        }
    },
    "properties": {
        "name": {"type": "string"},
        "address": {"$ref": "#/$defs/address"},
        "contactMethod": {"type": "string", "enum": ["phone", "email"]},
        "phone": {"type": "string"},
        "email": {"type": "string"},
    },
    "allOf": [{"anyOf": [{"required": ["phone"]}, {"required": ["email"]}]}],
    "if": {"properties": {"contactMethod": {"const": "phone"}}, "required": ["contactMethod"]},
    "then": {"required": ["phone"]},
    "else": {"required": ["email"]},
    "additionalProperties": False,
}
HEADER_SCHEMA = {
    "type": "object",
    "properties": {"region": {"type": "string", "x-mcp-header": "Region"}},
    "required": ["region"],
}


@server.tool(structured_output=False)
def json_schema_2020_12_tool(phone: str = "", email: str = "") -> str:
    """A schema with every keyword that a server might lose."""
    return f"reached by {phone or email}"


@server.tool(structured_output=False)
def test_custom_headers(region: str) -> str:
    """An argument that travels in a header, too."""
    return f"region {region}"


# what a server author writes who brings a schema of their own; the SDK makes them from signatures alone
for name, schema in (("json_schema_2020_12_tool", SCHEMA_2020_12), ("test_custom_headers", HEADER_SCHEMA)):
    tool = server._tool_manager.get_tool(name)  # pyright: ignore[reportPrivateUsage]
    assert tool is not None
    tool.parameters = schema


# --- resources

watched = ["Watched resource content"]


@server.resource("test://static-text", mime_type="text/plain")
def static_text() -> str:
    """A text that never changes."""
    return "This is the content of the static text resource."


@server.resource("test://static-binary", mime_type="image/png")
def static_binary() -> bytes:
    """A picture that never changes."""
    return base64.b64decode(PNG)


@server.resource("test://watched-resource", mime_type="text/plain")
def watched_resource() -> str:
    """A text that changes."""
    return watched[-1]


@server.resource("test://template/{id}/data", mime_type="application/json")
def template_data(id: str) -> str:  # noqa: A002
    """Data for any id."""
    return json.dumps({"id": id, "templateTest": True, "data": f"Data for ID: {id}"})


@server.tool(structured_output=False)
async def change_watched_resource(to: str) -> str:
    """Changes the watched resource and tells those who watch it."""
    watched.append(to)
    await audience.updated("test://watched-resource")
    return "changed"


# --- prompts


def user(content: Any) -> types.PromptMessage:
    return types.PromptMessage(role="user", content=content)


@server.prompt()
def test_simple_prompt() -> str:
    """A prompt without arguments."""
    return "This is a simple prompt for testing."


@server.prompt()
def test_prompt_with_arguments(arg1: str, arg2: str) -> str:
    """A prompt with two arguments."""
    return f"Prompt with arguments: arg1='{arg1}', arg2='{arg2}'"


@server.prompt()
def test_prompt_with_embedded_resource(resourceUri: str) -> list[Any]:  # noqa: N803
    """A prompt with a resource in it."""
    first = embedded(resourceUri, "text/plain", "Embedded resource content for testing.")
    return [
        {"role": "user", "content": first},
        {"role": "user", "content": "Please process the embedded resource above."},
    ]


@server.prompt()
def test_prompt_with_image() -> list[Any]:
    """A prompt with a picture in it."""
    first = types.ImageContent(type="image", data=PNG, mime_type="image/png")
    return [{"role": "user", "content": first}, {"role": "user", "content": "Please analyze the image above."}]


@server.prompt()
async def test_input_required_result_prompt(ctx: Ctx) -> Any:
    """A prompt that asks first."""
    schema = {"type": "object", "properties": {"context": {"type": "string"}}, "required": ["context"]}
    answer = await ask_one(ctx, "user_context", form("What context should the prompt use?", schema))
    if not isinstance(answer, types.ElicitResult):
        return answer
    return f"Work in the context of {(answer.content or {}).get('context')}."


@server.completion()
async def complete(ref: Any, argument: types.CompletionArgument, context: types.CompletionContext | None) -> Any:
    if isinstance(ref, types.PromptReference) and argument.name == "arg1":
        found = [city for city in CITIES if city.startswith(argument.value)]
        return types.Completion(values=found[:2], total=len(found), has_more=len(found) > 2)
    if isinstance(ref, types.ResourceTemplateReference):
        return types.Completion(values=[f"{argument.value}{n}" for n in range(3)])
    return None


# --- changes of what there is


@server.tool(structured_output=False)
async def test_trigger_tool_change() -> str:
    """Adds a tool, or removes it again."""
    if any(tool.name == "test_extra" for tool in await server.list_tools()):
        server.remove_tool("test_extra")
    else:
        server.add_tool(test_simple_text, "test_extra", structured_output=False)
    await audience.tools_changed()
    return "changed the tools"


@server.tool(structured_output=False)
async def test_trigger_prompt_change() -> str:
    """Adds a prompt, or removes it again."""
    prompts = server._prompt_manager._prompts  # pyright: ignore[reportPrivateUsage]  # it can add, but not remove
    if prompts.pop("extra_prompt", None) is None:
        server.add_prompt(Prompt.from_function(test_simple_prompt, "extra_prompt"))
    await audience.prompts_changed()
    return "changed the prompts"


@server.tool(structured_output=False)
async def trigger_resource_change() -> str:
    """Adds a resource, or removes it again."""
    resources = server._resource_manager._resources  # pyright: ignore[reportPrivateUsage]
    if resources.pop("test://extra", None) is None:
        server.resource("test://extra", mime_type="text/plain")(static_text)
    await audience.resources_changed()
    return "changed the resources"


def made() -> Server[Any]:
    lowlevel = server._lowlevel_server  # pyright: ignore[reportPrivateUsage]
    audience.serve(lowlevel)
    return lowlevel


if __name__ == "__main__":
    main(made)
