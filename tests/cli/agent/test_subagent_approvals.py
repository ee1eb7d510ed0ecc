"""A background subagent that waits for approval, with the real commands: each process ends or goes on by itself."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator

import pytest

from ...agent.task_provider import Replies, Reply, task_provider
from ...agent.test_loop import call
from ...waiting import wait_until
from ..conftest import Cli


def parent(number: int, last: str) -> Reply:
    if number == 0:
        return {"calls": [call("spawn", task="look after it", label="looker")]}
    return {"text": "All done." if "I removed it." in last else "I wait."}


REPLIES: dict[str, Replies] = {
    "go": parent,
    "look": [{"calls": [call("delete_file", path="a.txt")]}, {"text": "I removed it."}],
}


@pytest.fixture
def env(cli: Cli) -> Iterator[dict[str, str]]:
    cli.write("a.txt", "alpha\n")
    with task_provider(REPLIES) as env:
        yield env


def pending(cli: Cli) -> list[str]:
    return [row["id"] for row in cli.json("approvals", "--json") if row["state"] == "pending"]


def test_a_run_names_it_and_the_next_run_goes_on(cli: Cli, env: dict[str, str]) -> None:
    first = cli("run", "--model", "chat:tasks", "go", env=env, code=3)
    assert first.stdout.endswith("I wait.\n")
    how = next(line for line in first.stderr.splitlines() if "waits for approval" in line)
    (row,) = cli.json("sessions", "--limit", "1", "--json")
    top = row["id"]
    assert (row["parent"], row["subagents"]) == (None, 1)
    assert "go  (subagents: 1)" in cli("sessions").stdout
    printed = cli("sessions", "show", top)
    (child,) = [line for line in printed.stdout.splitlines() if line.startswith("subagent  ")]
    assert child.endswith("  looker")
    assert cli.json("sessions", "export", child.split()[1])["parent"] == top
    shown = printed.stderr
    assert f"delete_file waits for approval: toolcrib approvals approve {pending(cli)[0]}" in shown
    answered = cli(*how.split("approval: toolcrib ")[1].split()).stderr
    assert f"it goes on with: toolcrib run --session {top}\n" in answered
    assert cli("run", "--session", top, env=env).stdout.endswith("All done.\n")
    assert not (cli.work / "a.txt").exists()


def test_a_chat_goes_on_by_itself_when_another_process_answers(cli: Cli, env: dict[str, str]) -> None:
    chat = subprocess.Popen(
        [*cli.command, "chat", "--model", "chat:tasks"], cwd=cli.work, env={**cli.env, **env},
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
    )  # fmt: skip
    assert chat.stdin is not None
    assert chat.stdout is not None
    chat.stdin.write("go\n")
    chat.stdin.flush()
    try:
        assert chat.stdout.readline() == "I wait.\n"
        wait_until(lambda: pending(cli))
        cli("approvals", "approve", pending(cli)[0])
        while (line := chat.stdout.readline()) == "I wait.\n":
            pass
        assert line == "All done.\n"
        assert not (cli.work / "a.txt").exists()
        chat.stdin.close()
        assert chat.wait(60) == 0
    finally:
        chat.kill()
        chat.wait()
        for pipe in (chat.stdin, chat.stdout):
            pipe.close()
