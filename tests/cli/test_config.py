"""`toolcrib config path|edit|set|unset`, `init` and `help`: how a person finds and changes their settings."""

from __future__ import annotations

import json
import re
import shlex
import tomllib
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolcrib.cli.init import TEMPLATE
from toolcrib.cli.settings_file import changing, with_setting, without_setting
from toolcrib.core.errors import ConfigError

from .conftest import Cli


def own(cli: Cli) -> str:
    return (cli.home / ".config/toolcrib/config.toml").read_text()


def test_a_first_setting(cli: Cli) -> None:
    assert "Every setting has its default" in cli("config", "--changed").stderr
    path = cli("config", "path").stdout
    assert path == f"{cli.home}/.config/toolcrib/config.toml\n"
    assert path.strip() in cli("config", "set", "mode", "observer").stderr
    assert cli("config", "--changed").stdout.split()[:3] == ["mode", "=", '"observer"']
    cli("config", "set", "sandbox.allowed_domains", "pypi.org,files.example")
    cli("config", "set", "limits.calls", "5")
    cli("config", "set", "rules.deny", '["Read(.env)"]')
    assert tomllib.loads(own(cli)) == {
        "mode": "observer", "sandbox": {"allowed_domains": ["pypi.org", "files.example"]}, "limits": {"calls": 5},
        "rules": {"deny": ["Read(.env)"]},
    }  # fmt: skip
    cli("config", "unset", "mode")
    assert "is not set there" in cli("config", "unset", "mode", code=2).stderr
    assert "VALUE is empty" in cli("config", "set", "mode", "", code=2).stderr
    cli("config", "unset", "limits.calls")
    assert "[limits]" not in own(cli) and "\n\n\n" not in own(cli)
    assert "[rules]" in own(cli)


@pytest.mark.parametrize(
    ("key", "value", "said"),
    [
        ("mod", "observer", "did you mean 'mode'"),
        ("mode", "obsever", 'did you mean "observer"'),
        ("limits.calls", "many", "limits.calls"),
        ("what.ever", "1", "no such setting"),
        ("rules.deny", "Bash(ls *", "opens a parenthesis"),
    ],
)
def test_what_is_no_setting_is_not_written(cli: Cli, key: str, value: str, said: str) -> None:
    done = cli("config", "set", key, value, code=2)
    path = cli.home / ".config/toolcrib/config.toml"
    assert said in done.stderr and "Wrote" not in done.stderr
    assert f"{path}:" not in done.stderr and f"Nothing was written to {path}." in done.stderr  # it has no such line
    assert not path.exists()


def test_a_fault_that_is_in_the_file_is_named_with_its_line(cli: Cli) -> None:
    path = cli.write("wrong.toml", "[limits]\ncallls = 3\n")
    for words in (["set", "mode", "observer"], ["unset", "limits"]):
        said = cli("config", *words, "--config", "wrong.toml", code=None).stderr
        assert (f"{path}:2: limits.callls" in said) == (words[0] == "set")
    assert path.read_text() == ""


@pytest.mark.parametrize("words", [("config", "set", "limits.calls", "10"), ("mcp", "add", "one", "--yes", "--", "sh")])
def test_those_who_write_at_once_lose_nothing(cli: Cli, words: tuple[str, ...]) -> None:
    path = cli.home / ".config/toolcrib/config.toml"
    cli("config", "path")  # the first command of a test run takes seconds
    with ThreadPoolExecutor() as pool:
        with changing(path):  # as another command does
            made = pool.submit(cli, *words)
            with pytest.raises(TimeoutError):
                made.result(timeout=2)
            path.write_text("[tools]\nlist_limit = 50\n")
        made.result()
    assert set(tomllib.loads(own(cli))) > {"tools"}


def test_what_makes_every_command_fail_is_not_written_and_what_is_missing_is_named(cli: Cli) -> None:
    no_tool = json.dumps([{"name": "t", "description": "d", "command": "echo 'x"}])
    for key, value, said in (
        ("openapi.shop.spec", "nope.json", "nope.json: cannot be read: No such file or directory"),
        ("custom_tools", no_tool, "custom tool 't': the command cannot be read as shell: a quote is not closed"),
    ):
        refused = cli("config", "set", key, value, code=2).stderr
        assert said in refused and "Nothing was written" in refused
    assert not (cli.home / ".config/toolcrib/config.toml").exists()
    for key, value in (("secrets.T.file", "/nope"), ("plugins.plugin_dirs", "/nope,~"), ("web.proxy_ca", "/nope")):
        said = cli("config", "set", key, value).stderr
        assert said.splitlines()[1:] == [f"warning: {key}: there is no /nope"]
    for words in ("config set mcp_servers.a.command", "config set mcp_servers.b.command", "mcp add c"):
        said = cli(*words.split(), "toolcrib-nope", "--yes").stderr
        assert "there is no program toolcrib-nope" in said
    assert "there is no" not in cli("mcp", "add", "d", "sh", "--yes").stderr


def test_a_file_that_was_right_stays_and_one_that_was_wrong_can_be_mended(cli: Cli) -> None:
    cli("config", "set", "hooks", '[{"action": "log", "command": ["true"]}]', code=3)  # a program of the host
    cli("config", "set", "hooks", '[{"action": "block", "tool": "exec"}]')
    path, before = cli.home / ".config/toolcrib/config.toml", own(cli)
    cli("config", "set", "rules.deny", "Bash(ls *", code=2)
    assert own(cli) == before
    path.write_text("[rules]\ndeny = ['Bash(ls *']\n")
    cli("config", "set", "rules.deny", "Bash(ls *)")
    assert "Bash(ls *)" in own(cli)


def test_a_folder_that_is_not_there_is_not_granted(cli: Cli) -> None:
    for name in ("read_roots", "write_roots"):
        said = cli("config", "set", f"sandbox.{name}", "/nope", code=2).stderr
        assert f"sandbox.{name}: /nope: No such file or directory" in said
        assert not (cli.home / ".config/toolcrib/config.toml").exists()
    cli("config", "set", "sandbox.read_roots", str(cli.home))
    cli("config", "unset", "sandbox.read_roots")
    said = cli("list", code=2, env={"TOOLCRIB_SANDBOX__READ_ROOTS": "/nope"}).stderr
    assert "`toolcrib config unset sandbox.read_roots` removes it (with --project from toolcrib.toml)" in said


def test_an_option_with_another_name_than_its_setting_is_named_as_it_was_typed(cli: Cli) -> None:
    assert "--db 'foo' should begin with postgresql://" in cli("log", "--db", "foo", code=2).stderr


def test_a_link_to_a_settings_file_stays_and_the_file_that_is_written_is_named(cli: Cli) -> None:
    real, link = cli.home / "dotfiles" / "t.toml", cli.home / ".config/toolcrib/config.toml"
    for folder in (real.parent, link.parent):
        folder.mkdir(parents=True)
    link.symlink_to(real)
    assert f"Wrote {real} (where the link {link} leads)" in cli("config", "set", "mode", "observer").stderr
    assert f"To {real} (" in cli("mcp", "add", "a", "sh", "--yes").stderr
    assert link.is_symlink() and set(tomllib.loads(real.read_text())) == {"mode", "mcp_servers"}
    (cli.work / "toolcrib.toml").symlink_to(real)  # it came with the project
    assert f"leads out of the workspace, to {real}" in cli("config", "set", "--project", "mode", "x", code=2).stderr


def test_a_program_is_asked_about_as_when_a_server_is_added(cli: Cli) -> None:
    asked = cli("config", "set", "mcp_servers.x.command", "sh", code=3).stderr
    assert 'mcp_servers.x.command = "sh"' in asked
    assert "nothing was written" in asked
    assert not (cli.home / ".config/toolcrib/config.toml").exists()
    cli("config", "set", "mcp_servers.x.command", "sh", "--yes")
    cli("config", "set", "mcp_servers.x.disabled", "true")
    assert tomllib.loads(own(cli)) == {"mcp_servers": {"x": {"command": "sh", "disabled": True}}}


def test_a_setting_that_does_not_count(cli: Cli) -> None:
    done = cli("config", "set", "mode", "observer", env={"TOOLCRIB_MODE": "assistant"})
    assert "does not count here: TOOLCRIB_MODE says otherwise" in done.stderr


def test_init_explains_and_changes_nothing(cli: Cli) -> None:
    before = cli("config").stdout
    assert "toolcrib trust" in cli("init").stderr
    assert cli("config").stdout == before
    assert "config edit --project" in cli("init", code=2).stderr
    cli("config", "set", "--project", "mode", "observer")
    text = (cli.work / "toolcrib.toml").read_text()
    assert text.replace('mode = "observer"\n', "", 1).startswith(TEMPLATE[:100])
    assert text.splitlines().index('mode = "observer"') == text.splitlines().index('# mode = "assistant"') + 1
    cli("init", "--user")
    assert own(cli) == TEMPLATE
    assert (cli.home / ".config/toolcrib/config.toml").stat().st_mode & 0o777 == 0o600


def test_each_choice_that_init_explains_can_be_made(cli: Cli) -> None:
    """A choice is a line of a comment that looks like TOML; the words around it do not."""
    made = re.sub(r"^# (?=\[[\w.]+\]$|\w+ = )", "", TEMPLATE, flags=re.MULTILINE)
    cli.write("made.toml", made)
    assert len(tomllib.loads(made)) >= 6
    assert cli("config", "--config", "made.toml", "--changed").stdout.count("made.toml") >= 10


def test_changed_shows_of_an_entry_only_what_it_sets(cli: Cli) -> None:
    cli.write("made.toml", '[mcp_servers.notes]\ncommand = "notes"\n[[hooks]]\naction = "block"\ntool = "exec"\n')
    out = cli("config", "--config", "made.toml", "--changed").stdout
    assert [line.split()[0] for line in out.splitlines()] == [
        "mcp_servers.notes.command", "mcp_servers.notes.transport", "hooks",
    ]  # fmt: skip
    assert '[{"action": "block", "tools": ["exec"]}]' in out
    assert "mcp_servers.notes.timeout" in cli("config", "--config", "made.toml").stdout


def test_the_editor(cli: Cli) -> None:
    env = {"EDITOR": "sed -i -e '$ a mode = \"observer\"'", "VISUAL": ""}
    cli("config", "edit", env=env)
    assert tomllib.loads(own(cli)) == {"mode": "observer"} and own(cli).startswith(TEMPLATE)
    wrong = {"EDITOR": "sed -i -e s/observer/nonsense/", "VISUAL": ""}
    assert '"nonsense"' in cli("config", "edit", env=wrong, code=2).stderr
    assert "nonsense" not in own(cli)
    at = cli.at_terminal("config", "edit", env=wrong)  # what was typed is not lost
    at.expect(r'"nonsense".*Edit it again\? \[y/N\]')
    at.sendline("n")
    assert at.wait() == 2
    done = cli("config", "edit", code=1, env={"EDITOR": "", "VISUAL": ""})
    assert "An editor needs a terminal" in done.stderr


def test_the_editor_loses_no_change_made_meanwhile(cli: Cli) -> None:
    cli("config", "set", "mode", "observer")
    path = cli("config", "path").stdout.strip()
    meanwhile = f"echo 'workers = 2' >> {shlex.quote(path)}; sed -i s/observer/assistant/ \"$1\""
    done = cli("config", "edit", env={"EDITOR": f"sh -c {shlex.quote(meanwhile)} -", "VISUAL": ""}, code=2)
    found = re.search(rf"was changed while you edited it.* Your text is in ({re.escape(path)}\.\w+)\.", done.stderr)
    assert found is not None, done.stderr
    assert own(cli).endswith("workers = 2\n") and 'mode = "observer"' in own(cli)
    assert Path(found[1]).read_text() == 'mode = "assistant"\n'


def test_help(cli: Cli) -> None:
    assert cli("help").stdout == cli("--help").stdout == cli().stdout
    assert cli("help", "mcp", "add").stdout == cli("mcp", "add", "--help").stdout
    assert "did you mean list" in cli("help", "lst", code=2).stderr
    assert "did you mean list" in cli("lst", code=2).stderr


def test_one_value_is_enough_for_a_tool_that_needs_one(cli: Cli) -> None:
    cli.write("a.txt", "hello\n")
    assert "hello" in cli("call", "exec", "cat a.txt").stdout
    assert "hello" in cli("call", "read_file", "a.txt").stdout
    assert cli("call", "grep", "hel+o", "output_mode=content").stdout.startswith("a.txt:1:hello")
    assert cli("check", "exec", "rm -rf a.txt", code=3).stdout.startswith("ask")
    assert "No rule matches" in cli("rules", "test", "exec", "ls").stderr
    assert "hello" in cli("call", "exec", "-", stdin="cat a.txt").stdout
    assert cli("call", "exec", "WORD='@@ hi' printenv WORD", "timeout=5").stdout == "@@ hi\n"
    assert cli("check", "exec", "FOO=1 rm -rf a.txt", code=3).stdout.startswith("ask")
    assert "did you mean command" in cli("call", "exec", "comand=echo no", code=2).stderr
    assert "unknown parameter FOO" in cli("call", "exec", "FOO=1", code=2).stderr
    assert "unknown parameter FOO" in cli("call", "grep", "FOO=1 make", code=2).stderr
    assert "write_file needs path, content" in cli("call", "write_file", "a.txt", code=2).stderr
    assert "one value alone" in cli("call", "exec", "ls", "here", code=2).stderr
    assert "did you mean" in cli("call", "reed_file", "a.txt", code=2).stderr.casefold()


def test_json_is_the_output_and_args_are_the_arguments(cli: Cli) -> None:
    cli.write("a.txt", "hello\n")
    assert cli.json("call", "read_file", "a.txt", "--json")["is_error"] is False
    assert cli.json("--json", "call", "read_file", "--args", '{"path": "a.txt"}')["is_error"] is False
    assert cli.json("check", "read_file", "--args", '{"path": "a.txt"}', "--json")["verdict"] == "allow"


def test_what_is_not_there_is_a_wrong_word(cli: Cli) -> None:
    for words in (
        ("undo", "call_x"), ("log", "show", "call_x"), ("rules", "remove", "Bash(x)"), ("changes", "show", "ch-x"),
        ("approvals", "show", "ap_x"), ("mcp", "remove", "x"), ("sessions", "show", "x"), ("list", "x"),
        ("call", "x"), ("log", "--outcome", "bogus"),
    ):  # fmt: skip
        assert cli(*words, code=2).stderr, words


def test_nothing_is_said_to_be_nothing(cli: Cli) -> None:
    assert "No calls are recorded" in cli("log").stderr
    assert "No call is like that" in cli("log", "--tool", "exec").stderr
    assert "No calls are recorded" in cli("log", "stats").stderr
    assert cli("log", "--json").stderr == ""


KEYS = st.lists(st.sampled_from(["a", "b", "c", "d.e", "ü"]), min_size=1, max_size=3).map(tuple)
VALUES = st.one_of(st.integers(), st.booleans(), st.text(max_size=5), st.lists(st.text(max_size=3), max_size=2))


@given(st.lists(st.tuples(KEYS, VALUES), max_size=8), st.sampled_from([".toml", ".json"]))
def test_settings_come_and_go(changes: list[tuple[tuple[str, ...], object]], suffix: str) -> None:
    text, comment = "", "# what I thought\n" if suffix == ".toml" else ""
    text = comment
    held: dict[tuple[str, ...], object] = {}
    for path, value in changes:
        try:
            text = with_setting(text, suffix, path, value)
        except ConfigError:
            continue
        held = {at: each for at, each in held.items() if at[: len(path)] != path} | {path: value}
        found = tomllib.loads(text) if suffix == ".toml" else json.loads(text)
        for at, each in held.items():
            inner = found
            for key in at:
                inner = inner[key]
            assert inner == each
    for path in held:
        text = without_setting(text, suffix, path)
    assert text.startswith(comment)
    assert not held or not any(str(value) in text for value in held.values() if len(str(value)) > 3)
