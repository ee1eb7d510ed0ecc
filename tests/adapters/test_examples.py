"""The examples of the adapters run, with models of the tests."""

from __future__ import annotations

import asyncio
import runpy
from inspect import iscoroutinefunction
from pathlib import Path
from typing import Any

import pytest

from .scenario import CALLS, DONE

EXAMPLES = Path(__file__).parent.parent.parent / "examples"


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Any:
    """Runs an example with a model, in a folder with two files; returns what it printed and what it asked."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a.txt").write_text("one\n")
    (tmp_path / "b.txt").write_text("two\n")

    async def start(name: str, model: Any) -> str:
        asked: list[str] = []
        monkeypatch.setattr("builtins.input", lambda text: asked.append(text) or "y")
        main = runpy.run_path(str(EXAMPLES / name))["main"]
        if iscoroutinefunction(main):
            await main("Tidy up.", model)
        else:
            await asyncio.to_thread(main, "Tidy up.", model)
        (question,) = asked
        assert "b.txt" in question and "destructive tools ask" in question
        assert (tmp_path / "a.txt").read_text() == "uno\n"
        assert not (tmp_path / "b.txt").exists()
        return capsys.readouterr().out

    return start


async def test_pydantic_ai(run: Any) -> None:
    from .test_pydantic_ai import model_of

    assert DONE in await run("pydantic_ai_agent.py", model_of())


async def test_openai_agents(run: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    from .test_openai_agents import ScriptedAgentsModel

    monkeypatch.setenv("OPENAI_AGENTS_DISABLE_TRACING", "1")
    assert DONE in await run("openai_agents_agent.py", ScriptedAgentsModel())


async def test_langchain(run: Any) -> None:
    from langchain_core.language_models import GenericFakeChatModel
    from langchain_core.messages import AIMessage

    class ScriptedChat(GenericFakeChatModel):
        def bind_tools(self, tools: Any, **more: Any) -> Any:
            return self

    calls = [[{"id": ident, "name": name, "args": arguments}] for ident, name, arguments in CALLS]
    messages = [*(AIMessage("", tool_calls=call) for call in calls), AIMessage(DONE)]
    assert DONE in await run("langchain_agent.py", ScriptedChat(messages=iter(messages)))


async def test_smolagents(run: Any) -> None:
    from .test_smolagents import ScriptedSmolModel, end

    assert DONE in await run("smolagents_agent.py", ScriptedSmolModel([*CALLS, end(DONE)]))


async def test_agent_framework(run: Any) -> None:
    from .test_agent_framework import ScriptedChatClient

    assert DONE in await run("agent_framework_agent.py", ScriptedChatClient())
