"""--record and --replay of `call`, `run` and `serve`."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from mcp import Client, StdioServerParameters, stdio_client

from .conftest import Cli

WRITE = ("call", "write_file", "path=a.txt", "content=new")


def test_a_call_is_replayed_without_its_effect(cli: Cli) -> None:
    first = cli(*WRITE, "--record", "one.cassette")
    (cli.work / "a.txt").unlink()
    again = cli(*WRITE, "--replay", "one.cassette")
    assert again.stdout == first.stdout
    assert not (cli.work / "a.txt").exists()
    newest = max(map(json.loads, cli("log", "--json").stdout.splitlines()), key=lambda row: row["seq"])
    assert newest["rule"] == "replay"


def test_a_call_that_is_not_in_the_file_fails_or_runs(cli: Cli) -> None:
    cli(*WRITE, "--record", "one.cassette")
    other = ("call", "write_file", "path=b.txt", "content=new", "--replay", "one.cassette")
    assert "one.cassette has no answer to this call" in cli(*other, code=1).stderr
    assert not (cli.work / "b.txt").exists()
    cli(*other, "--replay-else", "run")
    assert (cli.work / "b.txt").exists()


def test_wrong_use(cli: Cli) -> None:
    assert "exclude each other" in cli(*WRITE, "--record", "a", "--replay", "a", code=2).stderr
    assert "is for --replay" in cli(*WRITE, "--replay-else", "run", code=2).stderr
    assert "cannot be read" in cli(*WRITE, "--replay", "none", code=2).stderr
    cli.write("there", "")
    assert "exists already" in cli(*WRITE, "--record", "there", code=2).stderr
    assert not (cli.work / "a.txt").exists()


@pytest.mark.parametrize(
    "words",
    [
        ("call", "echo", "x", "--replay", "fifo"), ("call", "echo", "message=@fifo"),
        ("call", "echo", "--args", "@fifo"), ("code", "fifo"), ("run", "--model", "scripted:fifo", "x"),
        ("--config", "fifo.toml", "config", "set", "mode", "observer"),
    ],
)  # fmt: skip
def test_a_fifo_that_nobody_writes_to_holds_no_command(cli: Cli, words: tuple[str, ...]) -> None:
    for name in ("fifo", "fifo.toml"):
        os.mkfifo(cli.work / name)
    assert "Not a regular file" in cli(*words, code=2).stderr


def test_a_run_of_an_agent_is_replayed(cli: Cli, tmp_path: Path) -> None:
    cli.write("a.txt", "alpha\n")
    script = tmp_path / "script.json"
    read = {"calls": [{"name": "read_file", "arguments": {"path": "a.txt"}}]}
    made = {"calls": [{"name": "write_file", "arguments": {"path": "b.txt", "content": "x"}}]}
    script.write_text(json.dumps([read, {**made, "after": "alpha"}, {"text": "Copied.", "after": "b.txt"}]))
    words = ("run", "--model", f"scripted:{script}", "Copy", "a.txt")
    first = cli(*words, "--record", "run.cassette")
    for name in ("a.txt", "b.txt"):
        (cli.work / name).unlink()
    again = cli(*words, "--replay", "run.cassette")
    assert again.stdout == first.stdout == "Copied.\n"
    assert not (cli.work / "b.txt").exists()


async def test_a_server_records_and_replays(cli: Cli) -> None:
    async def serve(*more: str) -> str:
        server = StdioServerParameters(
            command=cli.command[0], args=[*cli.command[1:], "serve", *more], env=cli.env, cwd=cli.work
        )
        async with Client(stdio_client(server)) as client:
            result = await client.call_tool("read_file", {"path": "a.txt"})
            return "".join(block.text for block in result.content if block.type == "text")

    cli.write("a.txt", "alpha\n")
    recorded = await serve("--record", "mcp.cassette")
    assert "alpha" in recorded
    cli.write("a.txt", "beta\n")
    assert await serve("--replay", "mcp.cassette") == recorded


@pytest.mark.parametrize("command", ["call", "run", "serve"])
def test_the_options_are_on_the_help_page(cli: Cli, command: str) -> None:
    assert "--replay-else" in cli(command, "--help").stdout
