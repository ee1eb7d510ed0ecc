"""`toolcrib hook` and `toolcrib install --hook`, as another agent starts them: by a shell, with an event on stdin."""

from __future__ import annotations

import json
import os
import shlex
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import jsonschema_rs
import pexpect
import pytest

from .conftest import Cli

AGENTS = {
    "claude": (".claude/settings.local.json", "PreToolUse"),
    "codex": (".codex/hooks.json", "PreToolUse"),
    "gemini": (".gemini/settings.json", "BeforeTool"),
    "cursor": (".cursor/hooks.json", "beforeShellExecution"),
    "copilot": (".github/hooks/toolcrib.json", "preToolUse"),
}


def hooks(path: Path, event: str) -> list[dict[str, Any]]:
    """The entries of an event, without their groups."""
    found = json.loads(path.read_text(encoding="utf-8"))["hooks"][event]
    return [each for group in found for each in group.get("hooks", [group])]


@pytest.mark.parametrize("agent", AGENTS)
def test_the_installed_command_stops_a_denied_call(cli: Cli, agent: str) -> None:
    name, event = AGENTS[agent]
    path = cli.work / name
    path.parent.mkdir(parents=True)
    other = {"type": "command", "command": "other", "bash": "other"}
    group = other if agent in ("cursor", "copilot") else {"matcher": "Bash", "hooks": [other]}
    path.write_text(json.dumps({"theme": "dark", "hooks": {event: [group], "Stop": []}}), encoding="utf-8")
    for more in ([], ["--closed"], ["--closed"]):
        cli("install", agent, "--hook", "--yes", *more)
    assert json.loads(path.read_text(encoding="utf-8"))["theme"] == "dark"
    first, ours = hooks(path, event)
    assert first == other
    (cli.work / ".env").write_text("KEY=1\n", encoding="utf-8")
    arguments = {"command": "cat .env"}
    call = {"hook_event_name": event, "tool_name": "run_shell_command" if agent == "gemini" else "Bash",
            "tool_input": arguments, "command": "cat .env", "cwd": str(cli.work), "session_id": "s"}  # fmt: skip
    if agent == "copilot":
        call = {"toolName": "bash", "toolArgs": json.dumps(arguments), "cwd": str(cli.work), "timestamp": 1}
    line = ours.get("command") or ours["bash"]
    assert line.startswith("toolcrib hook ") == (agent != "claude")  # the file of a team names nothing of this machine
    env = {**cli.env, "PATH": f"{Path(cli.command[0]).parent}:{os.environ['PATH']}"}

    def run(text: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            ["sh", "-c", line], input=text, capture_output=True, text=True, cwd=cli.work, env=env, check=False
        )

    done = run(json.dumps(call))
    assert done.returncode == 0 and '"deny"' in done.stdout and "environment files hold keys" in done.stdout
    for rubbish in ("", "junk", "[]", json.dumps({"hook_event_name": event})):
        done = run(rubbish)
        assert done.returncode == 2 or "allow" not in done.stdout, (rubbish, done)
        assert done.stdout or done.returncode, rubbish


CURSOR = {
    "type": "object", "required": ["version", "hooks"], "additionalProperties": False,
    "properties": {"version": {"const": 1}, "hooks": {
        "type": "object",
        "propertyNames": {"enum": [
            "sessionStart", "sessionEnd", "preToolUse", "postToolUse", "postToolUseFailure", "subagentStart",
            "subagentStop", "beforeShellExecution", "afterShellExecution", "beforeMCPExecution", "afterMCPExecution",
            "beforeReadFile", "afterFileEdit", "beforeTabFileRead", "afterTabFileEdit",
            "beforeSubmitPrompt", "preCompact", "stop", "afterAgentResponse",
            "afterAgentThought",
        ]},
        "additionalProperties": {"type": "array", "items": {
            "type": "object", "required": ["command"], "additionalProperties": False,
            "properties": {
                "command": {"type": "string"}, "type": {"const": "command"}, "timeout": {"type": "number"},
                "matcher": {"type": "string"}, "failClosed": {"type": "boolean"}, "loop_limit": {"type": "number"},
            },
        }},
    }},
}  # fmt: skip
"""What Cursor's documentation ("Hooks") says of its file: Cursor itself is in no registry. The parsers of the others
read theirs in tests/hosts/test_real_hosts.py."""


@pytest.mark.parametrize("more", [[], ["--closed"]])
def test_the_setting_of_cursor_is_as_documented(cli: Cli, more: list[str]) -> None:
    cli("install", "cursor", "--hook", "--yes", *more)
    setting = json.loads((cli.work / ".cursor/hooks.json").read_text())
    jsonschema_rs.validate(CURSOR, setting)
    for entry in hooks(cli.work / ".cursor/hooks.json", "preToolUse"):
        assert entry.get("failClosed", False) == bool(more)


def test_without_closed_the_agent_decides_what_cannot_be_judged(cli: Cli) -> None:
    done = cli("hook", "claude", stdin="junk", code=1)
    assert not done.stdout
    assert "Toolcrib could not judge this call: what claude wrote is not JSON" in done.stderr
    cli("hook", "nobody", code=2)


@pytest.mark.parametrize("event", [{"hook_event_name": "PreFoo"}, {"hook_event_name": "X", "tool_name": "Bash"}])
def test_closed_refuses_an_event_that_is_not_known_and_may_be_a_call(cli: Cli, event: dict[str, Any]) -> None:
    done = cli("hook", "claude", "--closed", stdin=json.dumps(event), code=2)
    assert f"does not know the event '{event['hook_event_name']}'" in done.stderr and '"deny"' in done.stdout
    assert cli("hook", "claude", stdin=json.dumps(event)).stdout == ""
    for other in ("Stop", "SessionStart", "PreCompact", "beforeSubmitPrompt"):
        done = cli("hook", "claude", "--closed", stdin=json.dumps({"hook_event_name": other}))
        assert done.stdout + done.stderr == ""


def test_what_a_model_wrote_never_opens_the_way(cli: Cli) -> None:
    """What cannot be judged because of the call itself is refused, also without --closed."""
    start = f'{{"cwd": "{cli.work}", "hook_event_name": "PreToolUse", "tool_name": '
    for rest in (
        '"Bash", "tool_input": {"command": "cat .env # \\ud800"}}', '"X\\ud800", "tool_input": {"a": "\\ud800"}}',
        '"Bash", "tool_input": "no JSON"}', '"Bash", "tool_input": [1]}', f'"{"A" * 1_000}", "tool_input": {{}}}}',
        f'"Bash", "tool_input": {{"command": {"[" * 5_000}{"]" * 5_000}}}}}',
    ):  # fmt: skip
        done = cli("hook", "claude", stdin=start + rest, code=2)
        assert json.loads(done.stdout)["hookSpecificOutput"]["permissionDecision"] == "deny", rest
        assert "Traceback" not in done.stderr


@pytest.mark.parametrize("settings", ["[[[", "mode = 5", "a = " + "[" * 100_000, "redact.patterns = ['(']", None])
def test_settings_that_are_wrong_do_not_open_the_way(cli: Cli, settings: str | None) -> None:
    """A project's settings are a stranger's: they cannot turn the hook off, nor can a session in a folder of ours."""
    folder = cli.work if settings else cli.home / ".local/state/toolcrib"
    folder.mkdir(parents=True, exist_ok=True)
    if settings:
        (folder / "toolcrib.toml").write_text(settings, encoding="utf-8")
    call = {"hook_event_name": "PreToolUse", "tool_name": "Bash", "tool_input": {"command": "ls"}, "cwd": str(folder)}
    done = cli("hook", "claude", stdin=json.dumps(call), code=2)
    assert json.loads(done.stdout)["hookSpecificOutput"]["permissionDecision"] == "deny"
    assert "Traceback" not in done.stderr
    ran = {**call, "hook_event_name": "PostToolUse", "tool_response": {}}
    assert not cli("hook", "claude", stdin=json.dumps(ran), code=1).stdout


@pytest.mark.parametrize("removed", ["the folder of the event", "the folder of the process"])
def test_a_call_that_removed_its_folder_does_not_open_the_way(cli: Cli, removed: str) -> None:
    gone = cli.work / "gone"
    here = removed == "the folder of the process"
    call = {"hook_event_name": "PreToolUse", "tool_name": "Bash", "tool_input": {"command": "rm -rf /"},
            "cwd": str(cli.work if here else gone), "session_id": "s"}  # fmt: skip
    before = 'mkdir gone; cd gone; rmdir "$PWD"; ' if here else ""
    words = [sys.executable, "-m", "toolcrib", "hook", "claude"]
    done = subprocess.run(
        ["sh", "-c", f"{before}exec {shlex.join(words)}"], input=json.dumps(call),
        capture_output=True, text=True, cwd=cli.work, env=cli.env, check=False,
    )  # fmt: skip
    assert '"deny"' in done.stdout and "Traceback" not in done.stderr
    assert not here or "the current folder no longer exists" in done.stdout


def test_a_hook_that_dies_blocks_where_it_is_closed(cli: Cli) -> None:
    cli("install", "claude", "--hook", "--closed", "--yes")
    (ours,) = hooks(cli.work / ".claude/settings.local.json", "PreToolUse")
    words = ours["command"]
    program = shlex.split(words)[0]
    for end in ("kill -9 $$", "exit 1"):
        dead = words.replace(shlex.quote(program), f"sh -c '{end}'", 1)
        done = subprocess.run(["sh", "-c", dead], check=False, capture_output=True, text=True)
        assert done.returncode == 2 and "could not judge" in done.stderr  # Codex and Gemini CLI need a text, too
    dead = words.replace(shlex.quote(program), "sh -c 'kill -9 $$'", 1)
    assert subprocess.run(["sh", "-c", dead.split("||")[0]], check=False).returncode in (-signal.SIGKILL, 137)


@pytest.mark.parametrize("agent", AGENTS)
def test_hooks_are_taken_out_again(cli: Cli, agent: str) -> None:
    name, event = AGENTS[agent]
    cli("install", agent, "--hook", "--yes")
    cli("install", agent, "--hook", "--remove", "--yes")
    assert not (cli.work / name).exists()
    other = {"command": "other"} if agent in ("cursor", "copilot") else {"hooks": [{"command": "other"}]}
    before = json.dumps({"version": 1, "hooks": {event: [other]}, "theme": "dark"}, indent=1)
    path = cli.write(name, before)
    cli("install", agent, "--hook", "--yes")
    assert len(hooks(path, event)) == 2
    cli("install", agent, "--hook", "--remove", "--yes")
    assert json.loads(path.read_text()) == json.loads(before)
    assert "no such entry" in cli("install", agent, "--hook", "--remove").stderr


def test_only_agents_with_hooks(cli: Cli) -> None:
    for words, expected in (
        (("vscode", "--hook"), "has no hooks"),
        (("cursor", "--hook", "--acp"), "two set-ups"),
        (("cursor", "--closed"), "--closed is for --hook"),
        (("copilot",), "--hook"),
    ):
        assert expected in cli("install", *words, code=2).stderr


SLOW = """
import asyncio
from toolcrib.cli import hook, main

async def judged(event, settings):
    await asyncio.sleep(60)

hook.answer, hook.DEADLINE = judged, 0.8
main(["hook", "claude"])
"""


def test_a_call_that_takes_too_long_or_is_too_large_is_refused(cli: Cli) -> None:
    """A model can make its call long, or slow to judge: that alone must not let it through."""
    start = f'{{"cwd": "{cli.work}", "hook_event_name": "PreToolUse", "tool_name": "Bash", "tool_input": '
    long = f'{start}{{"command": "{"x" * 17_000_000}"}}}}'
    for text in (long, f'{start}{{"command": "rm -rf /", "n": {"1" * 5_000}}}}}'):
        done = cli("hook", "claude", stdin=text, code=2)
        assert json.loads(done.stdout)["hookSpecificOutput"]["permissionDecision"] == "deny"
    call = f'{start}{{"command": "rm -rf /"}}}}'
    slow = subprocess.run(
        [sys.executable, "-c", SLOW], input=call, capture_output=True, text=True, cwd=cli.work, env=cli.env, check=False
    )
    assert slow.returncode == 2 and "longer than 0.8 s" in slow.stderr, slow


def test_a_person_who_types_it_reads_what_it_waits_for_and_can_end_it(cli: Cli) -> None:
    child = cli.at_terminal("hook", "claude", env={"TOOLCRIB_HOOKD": ""})
    child.expect("Waiting for an event of claude on stdin")
    child.send("\x03")  # just before `read` begins it is seen only after it
    if child.expect(["interrupted", pexpect.TIMEOUT], timeout=10):
        child.send("\x03")
        child.expect("interrupted")
    assert child.wait() == 130
