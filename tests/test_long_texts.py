"""What others write is read in time that grows with its length alone: each of these would not end otherwise."""

from __future__ import annotations

import io
from collections.abc import Callable
from pathlib import Path

import pytest

from toolcrib.boundary.scripts import loaded_by
from toolcrib.boundary.sensitive_names import sensitive_by
from toolcrib.builtin.documents import spreadsheet
from toolcrib.builtin.echo import echo_tool
from toolcrib.cli.agent.markdown import MarkdownStream
from toolcrib.config.files import plain_json, read_config_file
from toolcrib.config.hide import hidden, hidden_text
from toolcrib.core.errors import ConfigError
from toolcrib.core.repair import repair
from toolcrib.core.variables import expand
from toolcrib.hosts.hook_events import HostEvent
from toolcrib.hosts.mapping import calls_of
from toolcrib.policy.lint.injection import MAX_TEXT, check_injection
from toolcrib.policy.replies import MAX_REPLY, parse_reply
from toolcrib.policy.rules.allowed_scripts import sets_variables
from toolcrib.policy.secrets.patterns import is_key_body
from toolcrib.policy.shell.inline_code import MAX_CODE, effects_of_code
from toolcrib.policy.shell.judge import judge_command
from toolcrib.policy.shell.parts import CommandPlace, Script
from toolcrib.policy.shell.reading import MAX_LENGTH
from toolcrib.policy.shell.table.readers import sed_effects
from toolcrib.sources.mcp.config import secrets_in

LONG = 1_000_000


def _lint(text: str) -> object:
    tool = echo_tool()
    tool.description = text
    return list(check_injection(tool))


def _markdown(line: str) -> object:
    stream = MarkdownStream(lambda: 80)
    return stream.feed(f"| a |\n{line}\n\n") + stream.end()


def _code(language: str, unit: str, before: str = "") -> object:
    return effects_of_code(language, before + unit * ((MAX_CODE - len(before)) // len(unit)))


CASES: dict[str, Callable[[], object]] = {
    "awk: brackets in a pattern": lambda: _code("awk", "[]] ", "/"),
    "awk: a long word": lambda: _code("awk", " a/", "a" * (MAX_CODE // 2)),
    "code: blanks before an operand": lambda: _code("python", " ", "x.execute glob"),
    "code: blanks after open": lambda: _code("perl", " ", "open"),
    "code: dots": lambda: _code("python", "a."),
    "code: lines": lambda: _code("node", "\n"),
    "code: sockets": lambda: _code("ruby", "TCPSocket "),
    "code: a long name": lambda: _code("python", "a", "open"),
    "sed: blocks": lambda: list(sed_effects("{" * LONG + "\x01")),
    "sed: blanks": lambda: list(sed_effects(" " * LONG + "\x01")),
    "sed: s": lambda: list(sed_effects("s-" * 5_000)),
    "settings: dashes": lambda: hidden_text("-" * LONG),
    "settings: keys in a query": lambda: hidden_text("?key" * (LONG // 4)),
    "settings: tokens": lambda: hidden_text("eyJ-" * (LONG // 4)),
    "settings: an option": lambda: hidden(["--auth" * (LONG // 6) + "\x01"]),
    "settings: a server's argument": lambda: list(secrets_in(["-auth" * (LONG // 5) + "\x01"])),
    "settings: a variable": lambda: expand("${A:-" * (LONG // 5), {}, "x"),
    "JSON: a comment": lambda: plain_json("/*a" * (LONG // 3)),
    "JSON: quotes": lambda: plain_json('"\\' * (LONG // 2)),
    "arguments: blanks": lambda: repair("{" + " " * LONG + "}"),
    "Markdown: marks": lambda: _markdown("_a " * 5_000),
    "Markdown: a rule of a table": lambda: _markdown(" " * LONG + "|x"),
    "a description: a tag": lambda: _lint("<" + " " * (MAX_TEXT - 1)),
    "a description: lines": lambda: _lint("\n" * MAX_TEXT),
    "a reply": lambda: parse_reply("yes ap_123456" + "\n" * (MAX_REPLY - 20) + "x"),
    "output: a line of a key": lambda: is_key_body("+" * (LONG // 10) + "\x01"),
    "a sheet": lambda: spreadsheet._count(io.BytesIO(b"<f/>" + b" " * LONG)),  # pyright: ignore[reportPrivateUsage]
    "a name": lambda: sensitive_by("id_a." * (LONG // 5) + "x_"),
    "a script that a rule allows": lambda: sets_variables("((" * (LONG // 2), Script(())),
    "a call of Gemini": lambda: calls_of(
        HostEvent("gemini", "BeforeTool", "before", "run_shell_command", {"command": "\ufeff" * LONG}, cwd="/")
    ),
    "a search of Claude": lambda: calls_of(
        HostEvent("claude", "PreToolUse", "before", "Grep", {"pattern": "a", "glob": "," * (LONG // 10)}, cwd="/")
    ),
}


@pytest.mark.parametrize("read", CASES.values(), ids=CASES.keys())
def test_a_long_text_is_read_in_linear_time(read: Callable[[], object]) -> None:
    read()


@pytest.mark.parametrize(
    "text",
    ["\n" * LONG, "[" * LONG, "clean" + " " * LONG + "x", "[]_file=a" * (LONG // 9)],
    ids=["lines", "brackets", "blanks", "keys"],
)
def test_settings_of_a_repository(text: str, tmp_path: Path) -> None:
    (tmp_path / ".git" / "objects").mkdir(parents=True)
    (tmp_path / ".git" / "refs").mkdir()
    (tmp_path / ".git" / "HEAD").write_text("ref: refs/heads/main\n")
    (tmp_path / ".git" / "config").write_text(text)
    judge_command("git status", CommandPlace(str(tmp_path), str(tmp_path), "/root"))


def test_a_script_of_a_server(tmp_path: Path) -> None:
    (tmp_path / "server.js").write_text("from" + " " * LONG)
    assert str(tmp_path / "server.js") in loaded_by(["node", "server.js"], tmp_path, [tmp_path]).hashed


def test_settings_of_a_project(tmp_path: Path) -> None:
    key = "('" * (LONG // 5)
    (tmp_path / "toolcrib.toml").write_text(f'x = {{"{key}" = 1, "{key}" = 2}}')
    with pytest.raises(ConfigError, match="Duplicate inline table key"):
        read_config_file(tmp_path / "toolcrib.toml")


@pytest.mark.parametrize(
    ("program", "word"), [("echo", "{"), ("echo", "@{"), ("cat", "-auth"), ("git", "-auth"), ("sed", "-C\\ a")]
)
def test_a_long_command(program: str, word: str) -> None:
    text = f"{program} {word * (MAX_LENGTH // len(word) - 9)}"
    assert judge_command(text, CommandPlace("/ws", "/ws", "/root")).verdict == "ask"
