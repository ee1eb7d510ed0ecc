"""Hooks from the configuration: what they refuse, ask about, log and tell."""

from __future__ import annotations

import json
import logging
import os
import sys
from pathlib import Path
from typing import Any

import pytest

from toolcrib import Toolbox, ToolContext, tool
from toolcrib.config import load_settings
from toolcrib.core.errors import ConfigError
from toolcrib.core.events import Notice
from toolcrib.policy.hooks import MAX_SEARCHED, HookRule, Hooks
from toolcrib.policy.requests import ApprovalRequest, Decision
from toolcrib.testing import FakeApprover

from ..waiting import wait_until


@tool(category="memory")
async def remember(text: str) -> str:
    """Keep a text."""
    return f"kept {text}"


@tool(category="memory")
async def fail() -> str:
    """Fail."""
    raise RuntimeError("boom")


def opened(tmp_path: Path, hooks: list[dict[str, Any]], **more: Any) -> Any:
    workspace = tmp_path / "ws"
    workspace.mkdir(exist_ok=True)
    config = tmp_path / "toolcrib.json"
    config.write_text(json.dumps({"hooks": hooks, **more.pop("settings", {})}))
    return Toolbox.open(settings=load_settings(workspace, config=config), tools=[remember, fail], **more)


async def test_block_refuses_by_tool_pattern_category_and_channel(tmp_path: Path) -> None:
    hooks = [
        {"action": "block", "tool": "remember", "pattern": "drop\\s+table", "message": "no SQL here"},
        {"action": "block", "category": "memory", "channel": "tele*"},
    ]
    async with opened(tmp_path, hooks) as box:
        check = await box.check("remember", {"text": "DROP   TABLE x"})
        assert (check.verdict, check.rule, check.reason, check.step) == ("deny", "hook:block", "no SQL here", 1)
        out = await box.call("remember", {"text": "DROP TABLE x"})
        assert out.error_kind == "denied"
        assert "no SQL here" in out.for_llm
        assert not (await box.call("remember", {"text": "tables"})).is_error
        assert (await box.call("remember", {"text": "x"}, ToolContext(channel="telegram"))).error_kind == "denied"


async def test_what_json_escapes_is_found_too(tmp_path: Path) -> None:
    async with opened(tmp_path, [{"action": "block", "pattern": 'say "hi"\n'}]) as box:
        assert (await box.call("remember", {"text": 'say "hi"\n'})).error_kind == "denied"


async def test_nothing_turns_a_block(tmp_path: Path) -> None:
    settings = {"mode": "autonomous", "rules": {"allow": ["remember"]}}
    async with opened(tmp_path, [{"action": "block", "tool": "remember"}], settings=settings, yes=True) as box:
        assert (await box.call("remember", {"text": "x"})).error_kind == "denied"


async def test_a_yes_for_the_session_to_one_hook_is_none_to_another(tmp_path: Path) -> None:
    hooks = [{"action": "ask", "pattern": "one"}, {"action": "ask", "pattern": "two", "message": "two is special"}]
    seen: list[str] = []

    async def ask(request: ApprovalRequest) -> Decision:
        seen.append(request.reason)
        return Decision(True, scope="session")

    async with opened(tmp_path, hooks, approve=ask) as box:
        ctx = ToolContext(session_id="s")
        for text in ("one", "one", "two", "one two", "two"):
            assert not (await box.call("remember", {"text": text}, ctx)).is_error
    assert len(seen) == 3
    assert seen[1] == "two is special"
    assert "'one'" in seen[2] and "two is special" in seen[2]


async def test_ask_asks_even_in_autonomous_mode(tmp_path: Path) -> None:
    person = FakeApprover("yes", "no")
    hooks = [{"action": "ask", "tool": "remember", "message": "just checking"}]
    async with opened(tmp_path, hooks, settings={"mode": "autonomous"}, approve=person) as box:
        assert (await box.call("remember", {"text": "a"})).for_llm == "kept a"
        assert (await box.call("remember", {"text": "b"})).error_kind == "denied"
        assert person.requests[0].reason == "just checking"


async def test_the_safety_preset(tmp_path: Path) -> None:
    person = FakeApprover("yes")
    async with opened(tmp_path, [{"preset": "safety"}], approve=person) as box:
        out = await box.call("exec", {"command": "echo sudo"})
        assert out.error_kind == "denied" and r"refuses \bsudo\b" in out.for_llm
        assert person.asked == []
        assert "hello" in (await box.call("exec", {"command": "echo hello"})).for_llm
        assert person.asked == ["exec"]
        assert not (await box.call("remember", {"text": "sudo rm -rf /"})).is_error


async def test_log_tells_the_log(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, logger="toolcrib.hooks"):
        async with opened(tmp_path, [{"action": "log", "tool": "rem*", "message": "kept something"}]) as box:
            await box.call("remember", {"text": "x"})
            await box.call("list_dir", {})
    assert [record.getMessage() for record in caplog.records] == ['kept something: remember {"text":"x"}']


async def test_a_file_that_cannot_be_written_stops_no_call_and_no_other_hook(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    files = [tmp_path / "fifo", Path("/dev/full"), tmp_path, tmp_path / "last"]
    async with opened(tmp_path, [{"action": "log", "file": str(file)} for file in files]) as box:
        assert not (await box.call("remember", {"text": "x"})).is_error
    assert len((tmp_path / "last").read_text().splitlines()) == 1


async def test_log_writes_a_file_of_what_failed(tmp_path: Path) -> None:
    target = tmp_path / "calls.jsonl"
    hooks = [
        {"action": "log", "file": str(target), "when": ["failed", "denied"]},
        {"action": "block", "pattern": "bad"},
    ]
    async with opened(tmp_path, hooks) as box:
        await box.call("remember", {"text": "good"})
        await box.call("remember", {"text": "bad"})
        await box.call("fail")
    rows = [json.loads(line) for line in target.read_text().splitlines()]
    assert [(row["tool"], row["outcome"], row["verdict"]) for row in rows] == [
        ("remember", "denied", "deny"),
        ("fail", "failed", "allow"),
    ]
    assert "boom" in rows[1]["error"] and "try a different approach" not in rows[1]["error"]  # that is for the model
    assert target.stat().st_mode & 0o777 == 0o600


async def test_notify_is_an_event(tmp_path: Path) -> None:
    async with opened(tmp_path, [{"action": "notify", "tool": "remember", "message": "look"}]) as box:
        heard: list[Any] = []
        box.events.subscribe(heard.append)
        await box.call("remember", {"text": "x"})
        (notice,) = [event for event in heard if isinstance(event, Notice)]
        assert (notice.tool, notice.message, notice.channel) == ("remember", "look", "library")


async def test_notify_starts_a_program(tmp_path: Path) -> None:
    target = tmp_path / "told"
    program = f"import sys; open({str(target)!r}, 'w').write(sys.stdin.read())"
    hooks = [{"action": "notify", "command": [sys.executable, "-c", program], "message": "$(touch x); `y`"}]
    async with opened(tmp_path, hooks) as box:
        await box.call("remember", {"text": "x"})
        wait_until(lambda: target.exists() and target.read_text() != "")
    told = json.loads(target.read_text())
    assert (told["tool"], told["message"], told["outcome"]) == ("remember", "$(touch x); `y`", "finished")


async def test_a_program_that_fails_is_logged(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    hooks = [{"action": "log", "command": ["false"]}, {"action": "log", "command": [str(tmp_path / "missing")]}]
    async with opened(tmp_path, hooks) as box:
        assert not (await box.call("remember", {"text": "x"})).is_error
        wait_until(lambda: len(caplog.records) == 2)
    assert "ended with 1" in caplog.text
    assert "could not be run" in caplog.text


def test_arguments_too_long_to_search_count_as_found() -> None:
    hooks = Hooks([HookRule("block", pattern="bad")])
    found = hooks.judge(remember, {"text": "x" * MAX_SEARCHED}, ToolContext())
    assert found is not None
    assert found.verdict == "deny"


def test_one_text_in_code_is_one_name() -> None:
    hooks = Hooks([HookRule("block", tools="remember", categories="memory", channels="tele*")])  # pyright: ignore[reportArgumentType]
    assert hooks.judge(remember, {"text": "x"}, ToolContext(channel="telegram")) is not None


@pytest.mark.parametrize("given", [{"action": "blok"}, {"preset": "safe"}, {"action": "block", "preset": "safety"}])
def test_a_rule_in_code_does_something(given: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="a hook has either action"):
        HookRule(**given)


@pytest.mark.parametrize(
    ("hook", "complaint"),
    [
        ({}, "has either action"),
        ({"action": "block", "preset": "safety"}, "has either action"),
        ({"action": "block", "pattern": "("}, "not a valid regular expression"),
        ({"action": "block", "command": ["x"]}, "log or notify"),
        ({"action": "explode"}, "explode"),
        ({"action": "log", "category": "files"}, "unknown category"),
        ({"action": "log", "patern": "x"}, "pattern"),
    ],
)
def test_nonsense_is_said(tmp_path: Path, hook: dict[str, Any], complaint: str) -> None:
    with pytest.raises(ConfigError, match=complaint):
        opened(tmp_path, [hook])


def test_an_untrusted_file_can_only_refuse_and_ask(tmp_path: Path) -> None:
    hooks = [
        {"action": "block", "tool": "exec"},
        {"preset": "safety"},
        {"action": "log", "file": "/tmp/x"},
        {"action": "notify", "command": ["touch", "x"]},
    ]
    (tmp_path / "toolcrib.json").write_text(json.dumps({"hooks": hooks}))
    settings = load_settings(tmp_path)
    assert [(hook.action, hook.preset) for hook in settings.hooks] == [("block", None), (None, "safety")]
    assert not settings.origin.trusted


async def test_what_has_ended_is_told_of_by_any_name_of_its_tool(tmp_path: Path) -> None:
    hook = {"action": "log", "tool": "shell", "file": str(tmp_path / "told.jsonl")}
    async with opened(tmp_path, [hook], settings={"sandbox": {"backend": "none"}}) as box:
        await box.call("exec", {"command": "true"})
    assert json.loads((tmp_path / "told.jsonl").read_text())["tool"] == "exec"
