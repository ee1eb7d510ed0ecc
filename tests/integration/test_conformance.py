"""The official MCP conformance suite against `conformance_fixture.py`, and our own look at what the tools answer.

Some scenarios hold on a server that lacks the tool they call; so every tool is also called with the SDK's client,
and what it answers is compared.
"""

from __future__ import annotations

import base64
import json
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest
from mcp import Client
from mcp_types import CreateMessageResult, ElicitResult, ListRootsResult, Root, TextContent

sys.path.insert(0, str(Path(__file__).parent))
from conformance_suite import REQUIRED, Checks, complaints, ran, required_by_the_suite
from node_tools import environment

pytestmark = [pytest.mark.integration, pytest.mark.slow]

HERE = Path(__file__).parent

# Every required (frozen, scored) server scenario of both revisions is in exactly one of the two lists.
OURS = {
    "2025-11-25": [
        "server-initialize",
        "ping",
        "tools-list",
        "tools-call-simple-text",
        "tools-call-image",
        "tools-call-audio",
        "tools-call-embedded-resource",
        "tools-call-mixed-content",
        "tools-call-error",
        "tools-call-with-progress",
        "tools-call-sampling",
        "tools-call-elicitation",
        "elicitation-sep1034-defaults",
        "elicitation-sep1330-enums",
        "server-sse-multiple-streams",
        "dns-rebinding-protection",
    ],
    "2026-07-28": [
        "server-stateless",
        "tools-list",
        "tools-call-simple-text",
        "tools-call-image",
        "tools-call-audio",
        "tools-call-embedded-resource",
        "tools-call-mixed-content",
        "tools-call-error",
        "tools-call-with-progress",
        "server-sse-multiple-streams",
        "dns-rebinding-protection",
        "input-required-result-basic-elicitation",
        "input-required-result-basic-sampling",
        "input-required-result-basic-list-roots",
        "input-required-result-request-state",
        "input-required-result-multiple-input-requests",
        "input-required-result-multi-round",
        "input-required-result-missing-input-response",
        "input-required-result-result-type",
        "input-required-result-unsupported-methods",
        "input-required-result-tampered-state",
        "input-required-result-capability-check",
        "input-required-result-ignore-extra-params",
        "input-required-result-validate-input",
    ],
}
_GATEWAY = "a toolbox has tools; the rest is for the gateway, whose whole set is held in test_gateway.py"
LEFT_OUT = {
    revision: dict.fromkeys((name for name in REQUIRED[revision] if name not in names), _GATEWAY)
    for revision, names in OURS.items()
}
# Not scored, but about what this server does: run and held all the same.
EXTRA = {
    "2025-11-25": ["server-session-lifecycle", "json-schema-2020-12"],
    "2026-07-28": ["json-schema-2020-12", "http-header-validation", "http-custom-header-server-validation"],
}


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The fixture server in a process of its own."""
    folder = tmp_path_factory.mktemp("conformance")
    server = subprocess.Popen(
        [sys.executable, str(HERE / "conformance_fixture.py")],
        stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
        env=environment(XDG_STATE_HOME=str(folder / "state"), XDG_CONFIG_HOME=str(folder / "config")),
    )  # fmt: skip
    try:
        assert server.stderr is not None
        line = server.stderr.readline()
        assert "http://" in line, line + server.stderr.read()
        yield line[line.index("http://") :].strip()
    finally:
        server.terminate()
        server.communicate(timeout=60)


@pytest.fixture(scope="module")
def outcomes(url: str, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Checks]:
    """The checks of every scenario that the suite ran, by revision and name."""
    return {revision: ran(url, revision, tmp_path_factory.mktemp(revision)) for revision in OURS}


@pytest.mark.parametrize(
    ("revision", "scenario"),
    [(revision, name) for lists in (OURS, EXTRA) for revision, names in lists.items() for name in names],
)
def test_scenario(outcomes: dict[str, Checks], revision: str, scenario: str) -> None:
    checks = outcomes[revision][scenario]
    assert not (bad := complaints(checks)), json.dumps(bad, indent=1)[:5000]
    assert any(check["status"] == "SUCCESS" for check in checks)


@pytest.mark.parametrize("revision", list(OURS))
def test_the_suite_requires_what_we_list_and_nothing_else(outcomes: dict[str, Checks], revision: str) -> None:
    required = required_by_the_suite(revision)
    assert len(required) == {"2025-11-25": 30, "2026-07-28": 37}[revision]
    assert required == set(REQUIRED[revision]) == {*OURS[revision], *LEFT_OUT[revision]}
    assert required <= set(outcomes[revision])


# --- our own look


async def answer(_: Any, params: Any) -> ElicitResult:
    content: dict[str, Any] = {}
    for name, field in params.requested_schema["properties"].items():
        kind = field.get("type")
        if "default" in field:
            content[name] = field["default"]
        elif kind == "boolean":
            content[name] = True
        elif kind == "array":
            options = field["items"].get("enum") or [each["const"] for each in field["items"]["anyOf"]]
            content[name] = options[:2]
        else:
            options = field.get("enum") or [each["const"] for each in field.get("oneOf", ())]
            content[name] = options[0] if options else f"some {name}"
    return ElicitResult(action="accept", content=content)


async def sample(_: Any, params: Any) -> CreateMessageResult:
    said = params.messages[0].content.text
    return CreateMessageResult(role="assistant", model="m", content=TextContent(type="text", text=f"I heard: {said}"))


async def roots(_: Any) -> ListRootsResult:
    return ListRootsResult(roots=[Root(uri="file:///somewhere")])  # type: ignore[arg-type]


@pytest.fixture(params=["legacy", "2026-07-28"])
def era(request: pytest.FixtureRequest) -> str:
    return request.param


@asynccontextmanager
async def client_of(url: str, era: str) -> AsyncIterator[Client]:
    async with Client(
        url, mode=era, elicitation_callback=answer, sampling_callback=sample, list_roots_callback=roots
    ) as client:
        yield client


PNG = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8DwHwAFBQIAX8jx0gAAAABJRU5ErkJggg=="
ENUMS = {
    "legacyEnum": "opt1",
    "titledMulti": ["value1", "value2"],
    "titledSingle": "value1",
    "untitledMulti": ["option1", "option2"],
    "untitledSingle": "option1",
}
DEFAULTS = {"age": 30, "name": "John Doe", "score": 95.5, "status": "active", "verified": True}


def _told(lead: str, content: dict[str, Any]) -> str:
    return f"{lead}: action=accept, content={json.dumps(content, sort_keys=True)}"


TEXTS: dict[str, tuple[dict[str, Any], str]] = {
    "test_simple_text": ({}, "This is a simple text response for testing."),
    "test_tool_with_progress": ({}, "progress reported"),
    "test_logging_tool": ({}, "nothing was logged"),
    "test_elicitation": (
        {"message": "Who?"},
        _told("User response", {"email": "some email", "username": "some username"}),
    ),
    "test_elicitation_sep1034_defaults": ({}, _told("Elicitation completed", DEFAULTS)),
    "test_elicitation_sep1330_enums": ({}, _told("Elicitation completed", ENUMS)),
    "test_sampling": ({"prompt": "Hi"}, "LLM response: I heard: Hi"),
    "test_missing_capability": ({}, "the client can sample"),
    "test_streaming_elicitation": ({}, "answered: yes"),
    "test_input_required_result_elicitation": ({}, "Hello, some name!"),
    "test_input_required_result_sampling": ({}, "I heard: What is the capital of France?"),
    "test_input_required_result_list_roots": ({}, "roots: file:///somewhere"),
    "test_input_required_result_request_state": ({}, "state-ok True"),
    "test_input_required_result_tampered_state": ({}, _told("confirmed", {"ok": True})),
    "test_input_required_result_multiple_inputs": ({}, "answered: client_roots, greeting, user_name"),
    "test_input_required_result_multi_round": ({}, "some name likes some color"),
    "test_input_required_result_capabilities": ({}, "answered: greeting, user_name"),
    "json_schema_2020_12_tool": ({"phone": "1", "contactMethod": "phone"}, "fits"),
    "test_custom_headers": ({"region": "Übersee"}, "region Übersee"),
}


async def test_every_tool_answers_what_it_should(url: str, era: str) -> None:
    async with client_of(url, era) as client:
        listed = {tool.name for tool in (await client.list_tools()).tools}
        assert listed - {"test_extra"} == {
            *TEXTS, "test_image_content", "test_audio_content", "test_embedded_resource",
            "test_multiple_content_types", "test_error_handling", "test_cancellable", "test_trigger_tool_change",
        }  # fmt: skip
        for name, (arguments, expected) in TEXTS.items():
            result: Any = await client.call_tool(name, arguments)
            assert not result.is_error, name
            assert [block.text for block in result.content] == [expected], name


async def test_content_blocks_arrive_whole(url: str, era: str) -> None:
    async with client_of(url, era) as client:
        image: Any = (await client.call_tool("test_image_content")).content
        assert [(block.type, block.mime_type, block.data) for block in image] == [("image", "image/png", PNG)]
        audio: Any = (await client.call_tool("test_audio_content")).content
        assert [(block.type, block.mime_type) for block in audio] == [("audio", "audio/wav")]
        assert base64.b64decode(audio[0].data)[:4] == b"RIFF"
        (embedded,) = (await client.call_tool("test_embedded_resource")).content
        resource: Any = embedded.resource  # type: ignore[union-attr]
        assert (resource.uri, resource.mime_type) == ("test://embedded-resource", "text/plain")
        assert resource.text == "This is an embedded resource content."
        mixed: Any = (await client.call_tool("test_multiple_content_types")).content
        assert [block.type for block in mixed] == ["text", "image", "resource"]
        assert mixed[0].text == "Multiple content types test:"
        assert json.loads(mixed[2].resource.text) == {"test": "data", "value": 123}


async def test_errors_say_what_was_wrong(url: str, era: str) -> None:
    async with client_of(url, era) as client:
        result: Any = await client.call_tool("test_error_handling")
    assert result.is_error
    assert "This tool intentionally returns an error for testing" in result.content[0].text


async def test_progress_is_reported(url: str, era: str) -> None:
    got: list[tuple[float, float | None]] = []

    async def progressed(done: float, total: float | None, message: str | None) -> None:
        got.append((done, total))

    async with client_of(url, era) as client:
        await client.call_tool("test_tool_with_progress", progress_callback=progressed)
    assert got == [(0, 100), (50, 100), (100, 100)]


async def test_cancellation_is_heard(url: str, era: str) -> None:
    async with client_of(url, era) as client:
        with anyio.move_on_after(0.5) as scope:
            await client.call_tool("test_cancellable")
        assert scope.cancelled_caught
        result: Any = await client.call_tool("test_simple_text")
    assert not result.is_error


async def test_the_tool_list_carries_caching_hints(url: str) -> None:
    async with client_of(url, "2026-07-28") as client:
        listed = await client.list_tools()
    assert listed.ttl_ms == 5000
    assert listed.cache_scope == "private"
