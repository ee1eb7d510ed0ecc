"""`ask_user` over MCP: offered to a client that can show a question, in both eras; a clear error elsewhere."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from mcp import Client, StdioServerParameters
from mcp.client.stdio import stdio_client
from mcp_types import ElicitRequestParams, ElicitResult


@pytest.fixture
def served(tmp_path: Path, forked_python: str) -> Callable[..., StdioServerParameters]:
    """`toolcrib serve` as a process of its own."""
    (tmp_path / "work").mkdir()
    env = {**os.environ, "HOME": str(tmp_path), "XDG_STATE_HOME": str(tmp_path / "state")}
    env["XDG_CONFIG_HOME"] = str(tmp_path / "config")

    def make(config: str = "") -> StdioServerParameters:
        (tmp_path / "config/toolcrib").mkdir(parents=True, exist_ok=True)
        (tmp_path / "config/toolcrib/config.toml").write_text(config)
        arguments = ["-m", "toolcrib", "serve", "--workspace", str(tmp_path / "work")]
        return StdioServerParameters(command=forked_python, args=arguments, env=env)

    return make


async def names(client: Client) -> set[str]:
    return {listed.name for listed in (await client.list_tools()).tools}


async def test_the_person_at_the_client_answers(served: Callable[..., StdioServerParameters], era: str) -> None:
    asked: list[Any] = []

    async def answer(_: Any, params: ElicitRequestParams) -> ElicitResult:
        asked.append(params)
        if len(asked) == 3:
            return ElicitResult(action="decline")
        return ElicitResult(action="accept", content={"answer": "blue" if len(asked) == 1 else "as you like"})

    async with Client(stdio_client(served()), mode=era, elicitation_callback=answer) as client:
        assert "ask_user" in await names(client)
        first: Any = await client.call_tool("ask_user", {"question": "Which colour?", "options": ["red", "blue"]})
        assert (first.is_error, first.content[0].text) == (False, "blue")
        second: Any = await client.call_tool("ask_user", {"question": "How big?"})
        assert second.content[0].text == "as you like"
        third: Any = await client.call_tool("ask_user", {"question": "And now?"})
        assert third.is_error
        assert "did not answer (decline)" in third.content[0].text
    assert [params.message for params in asked] == ["Which colour?", "How big?", "And now?"]
    assert asked[0].requested_schema["properties"]["answer"]["enum"] == ["red", "blue"]


async def test_a_client_that_cannot_show_questions(served: Callable[..., StdioServerParameters], era: str) -> None:
    async with Client(stdio_client(served()), mode=era) as client:
        found = await names(client)
        assert "read_file" in found
        assert "ask_user" not in found
        done: Any = await client.call_tool("ask_user", {"question": "Which colour?"})
        assert done.is_error
        assert "an MCP client needs elicitation" in done.content[0].text


async def test_it_can_be_disabled(served: Callable[..., StdioServerParameters]) -> None:
    async def never(_: Any, params: ElicitRequestParams) -> ElicitResult:
        raise AssertionError("it is not there")

    config = '[tools]\ndisabled = ["ask_user"]\n'
    async with Client(stdio_client(served(config)), mode="2026-07-28", elicitation_callback=never) as client:
        assert "ask_user" not in await names(client)
