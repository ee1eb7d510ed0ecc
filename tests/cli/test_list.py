"""`toolcrib list` without opening a toolbox says what it says with one, and starts and loads nothing it need not."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from toolcrib.config import load_settings
from toolcrib.toolbox.glance import Glance, glance

from .conftest import Cli
from .test_line import loaded_by

SERVER = """
import json, os, sys
open("started", "a").write("x")
schema = {"type": "object", "properties": {"path": {"type": "string"}}}
for line in sys.stdin:
    asked = json.loads(line)
    if "id" not in asked:
        continue
    answer = {"jsonrpc": "2.0", "id": asked["id"]}
    if asked["method"] == "initialize":
        answer["result"] = {"protocolVersion": asked["params"]["protocolVersion"], "capabilities": {"tools": {}},
                            "serverInfo": {"name": "fixture", "version": "1"}}
    elif asked["method"] == "tools/list":
        answer["result"] = {"tools": [{"name": f"do_{n}", "description": "Does it.", "inputSchema": schema}
                                      for n in range(12)]}
    else:
        answer["error"] = {"code": -32601, "message": "no"}
    print(json.dumps(answer), flush=True)
"""
OPENED = """
import contextlib, io, json, sys
from toolcrib.cli.options import Options
Options.look = Options.open
from toolcrib.cli import main
found = []
for args in json.loads(sys.argv[1]):
    with contextlib.redirect_stdout(io.StringIO()) as out, contextlib.redirect_stderr(io.StringIO()) as err:
        try:
            main(args)
        except SystemExit as end:
            found.append([out.getvalue(), err.getvalue(), end.code or 0])
print(json.dumps(found))
"""


def opened(cli: Cli, *lines: list[str]) -> list[list[str | int]]:
    """What the same command lines say where the toolbox is opened: stdout, stderr, exit code."""
    done = subprocess.run(
        [sys.executable, "-c", OPENED, json.dumps(lines)],
        capture_output=True, text=True, timeout=120, cwd=cli.work, env=cli.env,
    )  # fmt: skip
    return json.loads(done.stdout)


CONFIGS = {
    "none": "",
    "rules": '[rules]\ndeny = ["delete_file", "mcp__a__do_1", "Bash"]\nask = ["Read"]\nallow = ["mcp__b"]\n',
    "disabled": '[tools]\ndisabled = ["grep", "create_tool"]\nlist_limit = 0\n[tools.browser]\nenabled = false\n',
    "approval": '[approval]\npolicy = "always_require"\nrequire_for = ["glob"]\n[sandbox]\nbackend = "none"\n',
    "unknown": '[approval]\nrequire_for = ["nothing"]\n',
}
SERVERS = "".join(
    f'[mcp_servers.{name}]\ncommand = "{sys.executable}"\nargs = ["server.py"]\n{more}' for name, more in
    (("a", ""), ("b", 'trust = "hints"\ncategory = "network_read"\n'), ("c", 'disabled_tools = ["do_1*"]\n'))
)  # fmt: skip


@pytest.mark.parametrize(("config", "servers"), [*((name, False) for name in CONFIGS), ("none", True), ("rules", True)])
def test_a_look_says_what_an_open_toolbox_says(cli: Cli, config: str, servers: bool) -> None:
    cli.write("server.py", SERVER)
    own = cli.home / ".config/toolcrib"
    own.mkdir(parents=True)
    (own / "config.toml").write_text(CONFIGS[config] + (SERVERS if servers else ""), encoding="utf-8")
    if servers:
        opened(cli, ["list"])
    started = (cli.work / "started").read_text() if servers else ""
    assert bool(started) == servers
    lines = [
        ["list"], ["list", "--json"], ["--mode", "observer", "list", "-y"], ["list", "--search", "file"],
        ["list", "--dialect", "mcp", "--compact"],
    ]  # fmt: skip
    for args, expected in zip(lines, opened(cli, *lines), strict=True):
        done = cli(*args, code=None)
        assert [done.stdout, done.stderr, done.returncode] == expected
    if servers:
        assert (cli.work / "started").read_text() == started
        assert cli.json("list", "--json")[-1]["name"] == "mcp_c_do_9"


@pytest.mark.parametrize(
    "config",
    [
        '[[custom_tools]]\nname = "x"\ndescription = "d"\ncommand = "ls"\n', "[plugins]\nenabled = true\n",
        '[sandbox]\neffects = "journal"\n', '[sandbox]\nread_roots = ["/nowhere"]\n', "[tools.exec]\ntimeout = 5\n",
        '[secrets.a]\nenv = "A"\n', '[web]\nallowed_domains = ["example.com"]\n',
        f'[mcp_servers.new]\ncommand = "{sys.executable}"\n',
    ],
)  # fmt: skip
def test_where_a_look_is_not_enough_the_toolbox_is_opened(tmp_path: Path, config: str) -> None:
    file = tmp_path / "config.toml"
    file.write_text(config, encoding="utf-8")
    (tmp_path / "work").mkdir()
    assert glance(load_settings(workspace=tmp_path / "work", config=file)) is None


def test_what_stands_for_a_tool_cannot_be_called(tmp_path: Path) -> None:
    (tmp_path / "work").mkdir()
    look = glance(load_settings(workspace=tmp_path / "work"))
    assert isinstance(look, Glance)
    with pytest.raises(RuntimeError, match="listing"):
        look.registry.require("exec").judge({"command": "ls"}, None)  # pyright: ignore
    look.close()


def test_stored_composed_tools_are_listed(cli: Cli) -> None:
    arguments = {"action": "create", "name": "greet", "description": "Greets.", "action_template": "Say hello."}
    cli("call", "create_tool", "-y", "--json", json.dumps(arguments))
    assert "greet" in cli("list").stdout


def test_listing_loads_nothing_heavy(cli: Cli) -> None:
    heavy = {"pydantic", "pydantic_core", "typer", "rich", "mcp", "mcp_types", "httpx2", "trafilatura", "turbohtml",
             "griffe", "sqlite3", "jsonschema_rs", "rapidfuzz", "tree_sitter", "playwright", "uvicorn"}  # fmt: skip
    assert not {name.partition(".")[0] for name in loaded_by(cli, "list")} & heavy
