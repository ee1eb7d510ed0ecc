"""The home directory, and `/`, as workspaces: people try things there, and clients start servers there."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from toolcrib.core.homes import state_home

from .conftest import Cli

# What a command tries that no reader of command lines understands: names are put together.
ATTACK = """
import glob, os, shutil
def tried(function, *args):
    try:
        function(*args)
    except OSError:
        return
    print("DONE", function.__name__, *args)
def read(path): open(path, "rb").read(10)
def write(path): open(path, "w").write("x")
local, config = "." + "local", "." + "config"
state, own = f"{local}/state/tool" + "crib", f"{config}/tool" + "crib"
for path in [*glob.glob(f"{state}/**/*", recursive=True), *glob.glob(f"{own}/*")]:
    tried(read, path)
    tried(write, path)
for path in (local, config, f"{local}/state", state, own):
    tried(os.rename, path, f"{path}-moved")
for path in (f"{state}/trust.json", f"{own}/config.toml"):
    tried(write, path)
    tried(os.symlink, "/tmp/mine", path)
tried(shutil.rmtree, local)
print("over")
"""


@pytest.fixture
def home(cli: Cli) -> Cli:
    return replace(cli, work=cli.home)


@pytest.mark.parametrize(
    "where", ["home", pytest.param("home's parent", marks=pytest.mark.slow), pytest.param("/", marks=pytest.mark.slow)]
)
def test_every_command_works(cli: Cli, where: str) -> None:
    at = replace(cli, work={"home": cli.home, "home's parent": cli.home.parent, "/": Path("/")}[where])
    (cli.home / "a.txt").write_text("hello\n")
    name = os.path.relpath(cli.home / "a.txt", at.work)
    for _ in range(2):  # the second time with the folders that the first one made
        assert "read_file" in at("list").stdout
        assert at("check", "read_file", f"path={name}").stdout.startswith("allow")
        assert "hello" in at("call", "read_file", f"path={name}").stdout
        assert "here" in at("call", "exec", "command=echo here").stdout
        assert name in at("log").stdout
        for command in ("list", "log", "doctor", "config"):
            done = at(command, code=None)
            assert done.returncode in (0, 1), done.stderr  # doctor: what this machine lacks
            assert "MISSING  configuration" not in done.stdout


def test_a_users_own_configuration_there_is_used_without_a_hint(home: Cli) -> None:
    home.write(".config/toolcrib/config.toml", 'mode = "observer"\n')
    done = home("list", "exec")
    assert "deny" in done.stdout and done.stderr == ""


def test_a_home_that_is_not_absolute_puts_nothing_into_the_workspace(cli: Cli) -> None:
    code = "from toolcrib.core.homes import config_home, state_home; print(config_home(), state_home())"
    for env in ({"HOME": "rel"}, {"HOME": ""}):
        found = subprocess.run([sys.executable, "-c", code], env=env, cwd=cli.work, capture_output=True, text=True)
        assert all(map(os.path.isabs, found.stdout.split())), found
        assert "rel/" not in found.stdout


def test_a_system_without_accounts_has_a_home_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pwd", None)  # as on Windows
    monkeypatch.setattr(os.path, "expanduser", lambda path: path.replace("~", "/users/ann"))
    assert state_home({}).is_relative_to("/users/ann")


def test_nobody_sees_or_changes_what_is_ours(home: Cli) -> None:
    home.write(".config/toolcrib/config.toml", "# ENVIRONMENT_WORD\n")
    home.write("a.txt", "ENVIRONMENT_WORD\n")
    home("list")
    for path in (".config/toolcrib/config.toml", ".local/state/toolcrib/trust.json"):
        assert "belongs to Toolcrib" in home("--yes", "call", "read_file", f"path={path}", code=3).stderr
        assert "belongs to Toolcrib" in home("--yes", "call", "write_file", f"path={path}", "content=x", code=3).stderr
    for path in (".config", ".local", ".local/state"):
        assert "Toolcrib's own files" in home("--yes", "call", "delete_file", f"path={path}", code=3).stderr
    found = home("call", "grep", "pattern=ENVIRONMENT_WORD", "hidden=true", "no_ignore=true").stdout
    assert found.splitlines()[0] == "a.txt"
    assert "toolcrib" not in home("call", "glob", "pattern=**/*", "hidden=true", "no_ignore=true").stdout
    assert "toolcrib" not in home("call", "list_dir", "path=.", "recursive=true").stdout


@pytest.mark.parametrize("backend", ["bubblewrap", "landlock", "none"])
def test_no_command_reaches_what_is_ours(home: Cli, backend: str) -> None:
    home.write("sub/attack.py", ATTACK)
    env = {"TOOLCRIB_SANDBOX__BACKEND": backend}
    home("list", env=env)
    done = home("--mode", "autonomous", "call", "exec", "command=python3 sub/attack.py", env=env)
    assert done.stdout.splitlines()[0] == "over", done.stdout
    assert not (home.home / ".config/toolcrib/config.toml").is_symlink()
    assert "sub/attack.py" in home("log", env=env).stdout


def test_what_a_login_runs_asks(home: Cli) -> None:
    for path, why in (
        (".bashrc", "a shell runs it"),
        (".ssh/authorized_keys", "who may log in"),
        (".config/autostart/x.desktop", "when you log in"),
        (".local/bin/ls", "finds programs in it"),
    ):
        assert why in home("check", "write_file", f"path={path}", "content=x", code=3).stdout
        assert why in home("check", "exec", f"command=echo x > {path}", code=3).stdout
    (home.home / "bin").mkdir()
    env = {"PATH": f"{home.home}/bin:{os.environ['PATH']}"}
    assert "shell finds programs" in home("check", "write_file", "path=bin/ls", "content=x", code=3, env=env).stdout


def test_an_agent_runs_there(home: Cli) -> None:
    home.write("a.txt", "hello\n")
    steps = [{"calls": [{"name": "read_file", "arguments": {"path": "a.txt"}}]}, {"text": "Read.", "after": "hello"}]
    home.write("script.json", json.dumps(steps))
    assert home("run", "--model", "scripted:script.json", "read a.txt").stdout == "Read.\n"


@pytest.mark.parametrize("where", ["home", "/"])
def test_a_server_starts_there(cli: Cli, where: str) -> None:
    at = cli.home if where == "home" else Path("/")
    hello = {
        "jsonrpc": "2.0", "id": 1, "method": "initialize",
        "params": {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "t", "version": "0"}},
    }  # fmt: skip
    done = subprocess.run(
        [*cli.command, "serve"], cwd=at, env=cli.env, input=json.dumps(hello) + "\n", capture_output=True, text=True,
        timeout=60,
    )  # fmt: skip
    assert json.loads(done.stdout.splitlines()[0])["result"]["serverInfo"]["name"]
    assert done.returncode == 0 and done.stderr == ""


def test_a_home_of_many_files_is_not_walked(home: Cli) -> None:
    for number in range(40):
        home.write(f"projects/{number // 8}/{number}/a.txt", "a")
    before = {path: path.stat().st_atime_ns for path in home.home.glob("projects/*/*")}
    for command in (["list"], ["log"], ["call", "read_file", "path=projects/0/0/a.txt"]):
        home(*command)
    assert [path.name for path, read in before.items() if path.stat().st_atime_ns != read] == []
    home("call", "list_dir", "path=projects/4/39")
    if [path.name for path, read in before.items() if path.stat().st_atime_ns != read] != ["39"]:
        pytest.skip("the file system does not say when a folder was read")
