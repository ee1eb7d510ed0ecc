"""Judges that may have to wait are asked beside the event loop, and not for ever."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from toolcrib.config import make_settings
from toolcrib.core.context import ToolContext
from toolcrib.core.errors import SandboxUnavailable
from toolcrib.core.registry import ToolRegistry
from toolcrib.core.tool import Tool, tool
from toolcrib.core.verdict import Judgement
from toolcrib.policy import policy
from toolcrib.policy.policy import Policy
from toolcrib.toolbox import Toolbox


def made(seen: list[int], wait: Callable[[], object] = bool) -> Tool:
    def judge(args: Mapping[str, Any], ctx: ToolContext) -> Judgement | None:
        seen.append(threading.get_ident())
        wait()
        return None

    @tool(category="filesystem_read", judge=judge)
    def far_away() -> str:
        """Look at a disk that is far away."""
        return "done"

    far_away.judge_blocks = True
    return far_away


async def test_it_runs_in_a_thread() -> None:
    seen: list[int] = []
    assert (await ToolRegistry([made(seen)], Policy()).execute("far_away", {})).for_llm == "done"
    assert seen
    assert threading.get_ident() not in seen


async def test_the_probes_of_the_sandbox_do_not_block_the_loop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from toolcrib.boundary import sandbox

    threads: list[int] = []

    def slow(*_: Any) -> Any:
        threads.append(threading.get_ident())
        raise SandboxUnavailable("none here")

    monkeypatch.setattr(sandbox, "select_sandbox", slow)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    (tmp_path / "work").mkdir()
    with Toolbox.open(tmp_path / "work") as box:  # `with` does not warm it up
        await box.call("exec", {"command": "make"})
    assert threads
    assert threading.get_ident() not in threads


async def test_once_the_sandbox_is_known_commands_are_judged_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    (tmp_path / "work").mkdir()
    settings = make_settings({"workspace": tmp_path / "work", "sandbox": {"backend": "none"}})
    with Toolbox.open(settings=settings) as box:
        tool = box.registry.require("exec")
        assert tool.judge_blocks
        box.sandbox()
        assert not tool.judge_blocks


async def test_one_that_takes_too_long_is_a_refusal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(policy, "JUDGE_SECONDS", 0.1)
    over = threading.Event()
    output = await ToolRegistry([made([], lambda: over.wait(60))], Policy()).execute("far_away", {})
    over.set()
    assert output.error_kind == "denied"
    assert "took longer than" in output.for_llm
