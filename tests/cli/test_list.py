"""`toolcrib list` shows the tools of an opened toolbox; it starts no server that it knows, and loads little."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from toolcrib import Toolbox
from toolcrib.cli.jobs import offer_schedules
from toolcrib.config import load_settings

from .conftest import Cli
from .test_reader import loaded_by

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


def opened(cli: Cli, mode: str | None = None) -> list[tuple[str, str]]:
    """Name and verdict of each tool of an opened toolbox."""
    settings = load_settings(workspace=cli.work, flags={"mode": mode})
    with Toolbox.open(settings=settings) as box:
        offer_schedules(box)  # as `call` and `serve` do
        return [(tool.name, box.policy.usual(tool).verdict) for tool in box.registry]


CONFIGS = {
    "none": "",
    "rules": '[rules]\ndeny = ["delete_file", "mcp__a__do_1", "Bash"]\nask = ["Read"]\nallow = ["mcp__b"]\n',
    "disabled": '[tools]\ndisabled = ["grep", "create_tool"]\nlist_limit = 0\n[tools.browser]\nenabled = false\n',
    "approval": '[approval]\npolicy = "always_require"\nrequire_for = ["glob"]\n[sandbox]\nbackend = "none"\n',
    "unknown": '[approval]\nrequire_for = ["nothing"]\n',
}
SERVERS = "".join(
    f'[mcp_servers.{name}]\ncommand = "PYTHON"\nargs = ["server.py"]\n{more}' for name, more in
    (("a", ""), ("b", 'trust = "hints"\ncategory = "network_read"\n'), ("c", 'disabled_tools = ["do_1*"]\n'))
)  # fmt: skip


@pytest.mark.parametrize(("config", "servers"), [*((name, False) for name in CONFIGS), ("none", True), ("rules", True)])
def test_a_listing_shows_the_tools_of_an_opened_toolbox(
    cli: Cli, monkeypatch: pytest.MonkeyPatch, config: str, servers: bool
) -> None:
    cli.write("server.py", SERVER)
    own = cli.home / ".config/toolcrib"
    own.mkdir(parents=True)
    more = SERVERS.replace("PYTHON", cli.command[0]).replace("server.py", f"{cli.work}/server.py") if servers else ""
    (own / "config.toml").write_text(CONFIGS[config] + more, encoding="utf-8")
    for name in [name for name in os.environ if name not in cli.env]:
        monkeypatch.delenv(name)
    for name, value in cli.env.items():
        monkeypatch.setenv(name, value)
    monkeypatch.chdir(cli.work)
    if config == "unknown":
        assert "there is no tool 'nothing'" in cli("list", code=2).stderr
        return
    first = cli.json("list", "--json")
    started = (cli.work / "started").read_text() if servers else ""
    assert bool(started) == servers
    assert [(tool["name"], tool["verdict"]) for tool in first] == opened(cli)
    observer = cli.json("list", "--json", "--mode", "observer")
    assert [(tool["name"], tool["verdict"]) for tool in observer] == opened(cli, "observer")
    assert cli.json("list", "--json") == first
    named = {tool["name"] for tool in first}
    assert {tool["name"] for tool in cli.json("list", "--json", "--search", "file")} < named
    assert {tool["name"] for tool in cli.json("list", "--dialect", "mcp", "--compact")} <= named
    lines = cli("list").stdout.splitlines()
    assert [line.split()[0] for line in lines] == [tool["name"] for tool in first]
    if servers:
        assert (cli.work / "started").read_text() == started
        assert first[-1]["name"] == "mcp_c_do_9"
    if config == "disabled":
        assert not named & {"grep", "create_tool"}
        assert "grep, create_tool (disabled by tools.disabled)" in cli("list").stderr


def test_stored_composed_tools_are_listed(cli: Cli) -> None:
    arguments = {"action": "create", "name": "greet", "description": "Greets.", "action_template": "Say hello."}
    cli("call", "create_tool", "-y", "--args", json.dumps(arguments))
    assert "greet" in cli("list").stdout


def test_listing_loads_what_it_needs(cli: Cli) -> None:
    heavy = {"typer", "rich", "mcp", "mcp_types", "httpx2", "trafilatura", "turbohtml",
             "griffe", "jsonschema_rs", "rapidfuzz", "tree_sitter", "playwright", "uvicorn"}  # fmt: skip
    assert not {name.partition(".")[0] for name in loaded_by(cli, "list")} & heavy


def test_what_nobody_sees_in_a_description_is_written_out(cli: Cli, tmp_path: Path) -> None:
    file = tmp_path / "mine.py"
    file.write_text(
        "from toolcrib import tool\n\n@tool\ndef greet(name: str) -> str:\n"
        '    """Says hello.\U000e0041\u200b\n\n    Args:\n        name: Of whom.\u2063\n    """\n    return name\n'
    )
    shown = cli("list", str(file), "greet").stdout + cli("lint", str(file), code=1).stdout
    assert "hello.\\U000e0041\\u200b" in shown
    assert "whom.\\u2063" in shown
    assert not {"\U000e0041", "\u200b", "\u2063"} & set(shown)
