"""What is found where no model is named, against real servers that speak as Ollama and as a server of /v1/models do."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import pytest

from toolcrib.agent.choose import ModelPlace, bearer, model_of
from toolcrib.agent.find_model import find_model, model_findings
from toolcrib.agent.history import user
from toolcrib.agent.model import ModelError, ModelRequest
from toolcrib.boundary.network.settings import GuardSettings
from toolcrib.core.errors import ConfigError

NOWHERE = "http://127.0.0.1:9"


class Local:
    """A server on this machine. `answers` are by method, path and, of a POST, the model asked for."""

    def __init__(self, answers: Mapping[str, Any]) -> None:
        self.answers, self.heads, self.port = answers, list[str](), 0

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            head = (await reader.readuntil(b"\r\n\r\n")).decode().lower()
            self.heads.append(head)
            length = next((int(x.split(":")[1]) for x in head.splitlines() if x.startswith("content-length")), 0)
            body = json.loads(await reader.readexactly(length) or b"{}")
            key = " ".join([*head.split()[:2], *([body["model"]] if "model" in body else [])])
            answer = self.answers.get(key)
            status = "404 Not Found" if answer is None else "200 OK"
            given = answer if isinstance(answer, bytes) else json.dumps(answer).encode()
            writer.write(f"HTTP/1.1 {status}\r\ncontent-length: {len(given)}\r\nconnection: close\r\n\r\n".encode())
            writer.write(given)
            await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()


@asynccontextmanager
async def local(answers: Mapping[str, Any]) -> AsyncGenerator[Local]:
    made = Local(answers)
    server = await asyncio.start_server(made.serve, "127.0.0.1", 0)
    made.port = server.sockets[0].getsockname()[1]
    async with server:
        yield made


def place(base: str | None = None, **env: str) -> ModelPlace:
    return ModelPlace(GuardSettings(), base, environment={"OLLAMA_HOST": NOWHERE, **env})


OLLAMA = {
    "get /api/tags": {"models": [{"name": "old"}, {"name": "qwen3:4b"}]},
    "post /api/show old": {"capabilities": ["completion"]},
    "post /api/show qwen3:4b": {"capabilities": ["completion", "tools"]},
}
SERVED = {"get /v1/models": {"data": [{"id": "served"}, {"id": "more"}]}}


async def test_ollamas_first_model_that_can_call_tools() -> None:
    said: list[str] = []
    async with local(OLLAMA) as ollama:
        found = await find_model(place(OLLAMA_HOST=f"127.0.0.1:{ollama.port}"), said.append, ports=())
        assert found.name == "ollama:qwen3:4b"
        assert f"Ollama at http://127.0.0.1:{ollama.port}" in said[0]
        await found.aclose()


async def test_ollama_without_such_a_model_is_said_with_what_to_type() -> None:
    async with local({**OLLAMA, "post /api/show qwen3:4b": {"capabilities": None}}) as ollama:
        with pytest.raises(ConfigError) as caught:
            await find_model(place(OLLAMA_HOST=f"127.0.0.1:{ollama.port}"), print, ports=())
        text = str(caught.value)
        assert "has 'old', 'qwen3:4b', but none that can call tools: `ollama pull qwen3`" in text
        assert "ANTHROPIC_API_KEY is not set" in text
        assert "--model scripted:FILE" in text


async def test_servers_on_this_machine_in_order_and_without_a_key() -> None:
    async with AsyncExitStack() as stack:
        empty = await stack.enter_async_context(local({"get /v1/models": {"data": []}}))
        server = await stack.enter_async_context(local(SERVED))
        given = place(NOWHERE, OPENAI_API_KEY="sk-very-secret")
        found = await find_model(given, print, ports=(9, empty.port, server.port))
        assert found.name == "chat:served"
        assert "authorization" not in server.heads[0]
        with pytest.raises(ModelError):  # this server has no chat completions; the request is what counts
            async for _ in found.stream(ModelRequest("", (user("x"),), ())):
                pass
        assert "very-secret" not in "".join(server.heads)
        await found.aclose()


async def test_the_persons_own_server_comes_first_and_gets_its_key() -> None:
    async with local(SERVED) as server, local(OLLAMA) as ollama:
        base = f"http://127.0.0.1:{server.port}/v1"
        env = {"OPENAI_API_KEY": "sk-1", "OPENAI_BASE_URL": base, "OLLAMA_HOST": f"127.0.0.1:{ollama.port}"}
        found = [each async for each in model_findings(place(**env), ports=())]
        assert [each.name for each in found if each.name] == ["chat:served", "ollama:qwen3:4b"]
        assert "authorization: bearer sk-1" in server.heads[0]
        assert "authorization" not in ollama.heads[0]
        assert not any("sk-1" in each.text for each in found)


async def test_keys_come_first_and_are_only_named() -> None:
    given = place(ANTHROPIC_API_KEY="sk-a", OPENAI_API_KEY="sk-b", GROQ_API_KEY="sk-c")
    found = [each async for each in model_findings(given, ports=())]
    assert [each.name.partition(":")[0] for each in found if each.name] == ["anthropic", "openai"]
    assert any("GROQ_API_KEY is set" in each.text and "api.groq.com" in each.text for each in found)
    assert not any("sk-" in each.text for each in found)
    theirs = place(OPENAI_API_KEY="sk-b", OPENAI_BASE_URL="https://api.openai.com/v1")
    names = [each.name async for each in model_findings(theirs, ports=())]
    assert [name for name in names if name and not name.startswith("ollama:")] == ["openai:gpt-5.6"]


@pytest.mark.parametrize(
    "odd", [b"", b"[]", b"[" * 9_000, b'{"data": 3, "models": {}}', b'{"data": [1, {"id": 2}], "models": [null]}']
)
async def test_odd_answers_are_no_models(odd: bytes) -> None:
    async with local({"get /v1/models": odd, "get /api/tags": odd}) as server:
        at = f"http://127.0.0.1:{server.port}"
        found = [each async for each in model_findings(place(f"{at}/v1", OLLAMA_HOST=at), ports=())]
        assert not any(each.name for each in found)


async def test_no_secret_of_an_address_is_shown() -> None:
    login = "http://me:pass-word-1@127.0.0.1:1"
    for base in (f"{login}/v1", "http://127.0.0.1:1/v1?api_key=pass-word-1"):
        texts = [each.text async for each in model_findings(place(base, OLLAMA_HOST=login), ports=())]
        assert sum("answers at http://" in text for text in texts) == 2
        assert not any("pass-word-1" in text for text in texts)
    with pytest.raises(ConfigError, match=r"ftp://\*\*\*@host"):
        model_of("chat:x", place("ftp://me:pass-word-1@host/v1"))


def test_a_key_goes_to_its_own_host_alone() -> None:
    given = place(GROQ_API_KEY="sk-groq")
    assert bearer("chat:x", "https://api.groq.com/openai/v1", given) == {"authorization": "Bearer sk-groq"}
    assert bearer("chat:x", "https://evil-api.groq.com/v1", given) == {}
    assert bearer("chat:x", "https://evilapi.groq.com/v1", given) == {}
