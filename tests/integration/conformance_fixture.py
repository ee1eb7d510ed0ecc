"""The toolbox that the MCP conformance suite is run against: Toolcrib tools under the names the suite asks for.

    python tests/integration/conformance_fixture.py [PORT]

Serves without a token on the loopback address, through the same `serve_http` as everything else.
"""

from __future__ import annotations

import asyncio
import base64
import json
import sys
import tempfile
from typing import Any

from mcp_types import (
    CreateMessageRequest,
    CreateMessageRequestParams,
    InputRequest,
    ListRootsRequest,
    SamplingMessage,
    TextContent,
)

from toolcrib.core.context import ToolContext
from toolcrib.core.output import AudioBlock, ImageBlock, ResourceBlock, TextBlock
from toolcrib.core.registry import ToolRegistry
from toolcrib.core.tool import Tool, tool
from toolcrib.serve import serve_http
from toolcrib.serve.peer import FormAnswer, Peer, form_request, peer_of
from toolcrib.toolbox import Toolbox

# one red pixel, and one sample of silence
PNG = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8DwHwAFBQIAX8jx0gAAAABJRU5ErkJggg=="
)
WAV = b"RIFF\x26\0\0\0WAVEfmt \x10\0\0\0\1\0\1\0\x40\x1f\0\0\x80\x3e\0\0\2\0\x10\0data\2\0\0\0\0\0"

NAME_FORM = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}
OK_FORM = {"type": "object", "properties": {"ok": {"type": "boolean"}}, "required": ["ok"]}


def client_of(ctx: ToolContext) -> Peer:
    peer = peer_of(ctx)
    assert peer is not None, "these tools are for the MCP door"
    return peer


def told(answer: FormAnswer, lead: str) -> str:
    return f"{lead}: action={answer.action}, content={json.dumps(dict(answer.content), sort_keys=True)}"


def message(text: str, max_tokens: int) -> CreateMessageRequestParams:
    content = TextContent(type="text", text=text)
    return CreateMessageRequestParams(messages=[SamplingMessage(role="user", content=content)], max_tokens=max_tokens)


# --- content


@tool(category="memory", read_only=True)
def test_simple_text() -> str:
    """Answers with text."""
    return "This is a simple text response for testing."


@tool(category="memory", read_only=True)
def test_image_content() -> ImageBlock:
    """Answers with an image."""
    return ImageBlock(PNG, "image/png")


@tool(category="memory", read_only=True)
def test_audio_content() -> AudioBlock:
    """Answers with a sound."""
    return AudioBlock(WAV, "audio/wav")


@tool(category="memory", read_only=True)
def test_embedded_resource() -> ResourceBlock:
    """Answers with a resource."""
    return ResourceBlock("test://embedded-resource", "text/plain", "This is an embedded resource content.")


@tool(category="memory", read_only=True)
def test_multiple_content_types() -> list[Any]:
    """Answers with text, an image and a resource."""
    resource = ResourceBlock("test://mixed-content-resource", "application/json", '{"test":"data","value":123}')
    return [TextBlock("Multiple content types test:"), ImageBlock(PNG, "image/png"), resource]


@tool(category="memory", read_only=True)
def test_error_handling() -> str:
    """Fails."""
    raise RuntimeError("This tool intentionally returns an error for testing")


# --- progress, cancellation, logging


@tool(category="memory", read_only=True)
async def test_tool_with_progress(ctx: ToolContext) -> str:
    """Reports progress three times."""
    for done in (0, 50, 100):
        await ctx.progress(done, 100, f"Completed step {done} of 100")
        await asyncio.sleep(0.05)
    return "progress reported"


@tool(category="memory", read_only=True)
async def test_cancellable(ctx: ToolContext) -> str:
    """Waits for a minute, unless it is cancelled."""
    await ctx.progress(1, 2, "waiting")
    await asyncio.sleep(60)
    return "not cancelled"


@tool(category="memory", read_only=True)
def test_logging_tool() -> str:
    """Logs nothing, since nobody asked it to."""
    return "nothing was logged"


# --- questions


@tool(category="memory")
async def test_elicitation(message: str, ctx: ToolContext) -> str:
    """Asks the person for a name and an address.

    Args:
        message: What to ask.
    """
    text = {"type": "string"}
    schema = {
        "type": "object",
        "properties": {"username": {**text, "description": "Name"}, "email": {**text, "description": "E-mail"}},
        "required": ["username", "email"],
    }
    return told(await client_of(ctx).elicit(message, schema), "User response")


@tool(category="memory")
async def test_elicitation_sep1034_defaults(ctx: ToolContext) -> str:
    """Asks with a default for every primitive type."""
    properties = {
        "name": {"type": "string", "default": "John Doe"},
        "age": {"type": "integer", "default": 30},
        "score": {"type": "number", "default": 95.5},
        "status": {"type": "string", "enum": ["active", "inactive", "pending"], "default": "active"},
        "verified": {"type": "boolean", "default": True},
    }
    answer = await client_of(ctx).elicit("Who are you?", {"type": "object", "properties": properties})
    return told(answer, "Elicitation completed")


@tool(category="memory")
async def test_elicitation_sep1330_enums(ctx: ToolContext) -> str:
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
    answer = await client_of(ctx).elicit("Choose", {"type": "object", "properties": properties})
    return told(answer, "Elicitation completed")


@tool(category="memory")
async def test_sampling(prompt: str, ctx: ToolContext) -> str:
    """Lets the client's model answer.

    Args:
        prompt: What to ask it.
    """
    answer = await client_of(ctx).sample(message(prompt, 100))
    return f"LLM response: {answer.content.text if answer.content.type == 'text' else answer.content.type}"


@tool(category="memory")
async def test_missing_capability(ctx: ToolContext) -> str:
    """Needs sampling."""
    client_of(ctx).require("sampling")
    return "the client can sample"


@tool(category="memory")
async def test_streaming_elicitation(ctx: ToolContext) -> str:
    """Reports progress, then asks."""
    await ctx.progress(1, 2)
    assert ctx.ask is not None
    return f"answered: {await ctx.ask('Go on?', ['yes', 'no'])}"


@tool(category="memory")
async def test_input_required_result_elicitation(ctx: ToolContext) -> str:
    """Asks for a name."""
    answer = await client_of(ctx).elicit("What is your name?", NAME_FORM, "user_name")
    return f"Hello, {answer.content.get('name', 'stranger')}!"


@tool(category="memory")
async def test_input_required_result_sampling(ctx: ToolContext) -> str:
    """Asks the client's model."""
    answer = await client_of(ctx).sample(message("What is the capital of France?", 100), "capital_question")
    return answer.content.text if answer.content.type == "text" else answer.content.type


@tool(category="memory")
async def test_input_required_result_list_roots(ctx: ToolContext) -> str:
    """Asks for the client's roots."""
    return "roots: " + ", ".join(str(root.uri) for root in (await client_of(ctx).roots("client_roots")).roots)


@tool(category="memory")
async def test_input_required_result_request_state(ctx: ToolContext) -> str:
    """Asks once and says that the state came back whole."""
    answer = await client_of(ctx).elicit("Please confirm", OK_FORM, "confirm")
    return f"state-ok {answer.content.get('ok')}"


@tool(category="memory")
async def test_input_required_result_tampered_state(ctx: ToolContext) -> str:
    """The same, for a client that tampers with the state."""
    return told(await client_of(ctx).elicit("Please confirm", OK_FORM, "confirm"), "confirmed")


@tool(category="memory")
async def test_input_required_result_multiple_inputs(ctx: ToolContext) -> str:
    """Asks for a name, a greeting and the roots at once."""
    requests: dict[str, InputRequest] = {
        "user_name": form_request("What is your name?", NAME_FORM),
        "greeting": CreateMessageRequest(params=message("Generate a greeting", 50)),
        "client_roots": ListRootsRequest(),
    }
    return f"answered: {', '.join(sorted(await client_of(ctx).exchange(requests)))}"


@tool(category="memory")
async def test_input_required_result_multi_round(ctx: ToolContext) -> str:
    """Asks twice."""
    name = await client_of(ctx).elicit("Step 1: What is your name?", NAME_FORM, "step1")
    color_form = {"type": "object", "properties": {"color": {"type": "string"}}, "required": ["color"]}
    color = await client_of(ctx).elicit("Step 2: What is your favorite color?", color_form, "step2")
    return f"{name.content.get('name')} likes {color.content.get('color')}"


@tool(category="memory")
async def test_input_required_result_capabilities(ctx: ToolContext) -> str:
    """Asks only what the client can answer."""
    peer = client_of(ctx)
    requests: dict[str, InputRequest] = {}
    if peer.can("elicitation"):
        requests["user_name"] = form_request("What is your name?", NAME_FORM)
    if peer.can("sampling"):
        requests["greeting"] = CreateMessageRequest(params=message("Generate a greeting", 50))
    return f"answered: {', '.join(sorted(await peer.exchange(requests)))}"


# --- schemas

_SCHEMA_2020_12 = {
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
_HEADER_SCHEMA = {
    "type": "object",
    "properties": {"region": {"type": "string", "x-mcp-header": "Region"}},
    "required": ["region"],
}
RAW_TOOLS = [
    Tool.from_schema(
        "json_schema_2020_12_tool",
        "A schema with every keyword that a server might lose.",
        _SCHEMA_2020_12,
        lambda args: "fits",
        category="memory",
    ),
    Tool.from_schema(
        "test_custom_headers",
        "An argument that travels in a header, too.",
        _HEADER_SCHEMA,
        lambda region: f"region {region}",
        category="memory",
    ),
]


# --- changes


def add_trigger(registry: ToolRegistry) -> None:
    """A tool that changes the list of tools."""
    extra = Tool.from_schema("test_extra", "Comes and goes.", {"type": "object"}, lambda args: "x", category="memory")

    @tool(category="memory")
    async def test_trigger_tool_change() -> str:
        """Adds a tool, or removes it again."""
        if "test_extra" in registry:
            registry.unregister("test_extra")
            return "removed test_extra"
        registry.register(extra)
        return "added test_extra"

    registry.register(test_trigger_tool_change)


def fixture_tools() -> list[Tool]:
    """Every tool but the trigger, which needs the registry."""
    made = [value for name, value in globals().items() if name.startswith("test_") and isinstance(value, Tool)]
    return [*made, *RAW_TOOLS]


async def main(port: int) -> None:
    with (
        tempfile.TemporaryDirectory() as folder,
        Toolbox.open(workspace=folder, tools=fixture_tools(), builtin=False) as box,
    ):
        add_trigger(box.registry)
        await serve_http(box, port=port, token="")


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1]) if len(sys.argv) > 1 else 0))
