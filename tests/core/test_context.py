"""Who calls, and from where."""

from __future__ import annotations

import asyncio
import dataclasses
import pickle
from pathlib import Path
from typing import Any

import pytest

from toolcrib.core.context import EMPTY_CONTEXT, ToolContext, current_context


def test_builders_copy() -> None:
    ctx = ToolContext(session_id="s", metadata={"a": 1})
    other = ctx.with_channel("telegram", "42").with_workspace("/w")
    assert (other.channel, other.chat_id, other.workspace, other.session_id) == ("telegram", "42", Path("/w"), "s")
    assert ctx.channel is None and ctx.workspace is None
    with pytest.raises(dataclasses.FrozenInstanceError):
        ctx.channel = "x"  # pyright: ignore


def test_the_empty_context_is_a_context_like_any_other() -> None:
    assert ToolContext() == EMPTY_CONTEXT and repr(EMPTY_CONTEXT) == repr(ToolContext())
    assert dataclasses.replace(EMPTY_CONTEXT, agent_id="a") == ToolContext(agent_id="a")
    assert hash(EMPTY_CONTEXT) == hash(ToolContext())
    assert pickle.loads(pickle.dumps(EMPTY_CONTEXT)) == EMPTY_CONTEXT
    assert current_context() is EMPTY_CONTEXT


def test_cancelled_asks_whoever_knows() -> None:
    state = [False]
    ctx = ToolContext(is_cancelled=lambda: state[0])
    assert not ctx.cancelled and not ToolContext().cancelled
    state[0] = True
    assert ctx.cancelled


def test_progress_without_a_listener_is_nothing() -> None:
    asyncio.run(ToolContext().progress(1))
    seen: list[Any] = []

    async def listen(*values: Any) -> None:
        seen.append(values)

    asyncio.run(ToolContext(on_progress=listen).progress(1, 2, "x"))
    assert seen == [(1, 2, "x")]
