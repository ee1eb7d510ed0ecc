"""Agent Plugins 1.0: told from our own, never run before trust, a bad one takes only itself down."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolcrib.config import TrustStore
from toolcrib.config.files import read_config_file
from toolcrib.core.errors import ToolcribError
from toolcrib.sources.plugins.agent_plugin import read_agent_plugin
from toolcrib.sources.plugins.manifest import ManifestError

from ..conftest import Room

SITE = "https://agent-plugins.org/schemas/1.0.0"
SKILL = "---\nname: report\ndescription: Makes reports.\n---\nDo it.\n"
SERVER = f"""import os, sys
sys.path[:0] = {[p for p in sys.path if p]!r}
from mcp.server import MCPServer
server = MCPServer("x")
@server.tool()
def where() -> str:
    "Where it is."
    open(os.environ["PLUGIN_DATA"] + "/note", "w").write("x")
    return os.getcwd() + " " + os.environ["PLUGIN_ROOT"]
server.run()
"""


def put(room: Room, name: str = "tool.box", servers: Any = None, **more: Any) -> Path:
    manifest = {"$schema": f"{SITE}/plugin.schema.json", "name": name, **more}
    path = room.put(f"plugins/{name}/plugin.json", json.dumps(manifest))
    if servers is not None:
        put_mcp(room, name, {"$schema": f"{SITE}/mcp.schema.json", "mcpServers": servers})
    return path


def put_mcp(room: Room, name: str, value: Any) -> None:
    room.put(f"plugins/{name}/mcp.json", json.dumps(value))


def settings(room: Room) -> dict[str, Any]:
    return {"plugins": {"enabled": True, "plugin_dirs": [str(room.base / "plugins")]}}


def trust(room: Room, name: str = "tool.box") -> None:
    TrustStore().trust(read_config_file(room.base / "plugins" / name / "mcp.json"))


async def test_its_servers_wait_for_trust_of_exactly_this_text(room: Room) -> None:
    put(room, servers={"a": {"type": "stdio", "command": "sh", "args": ["-c", f"touch {room.base}/ran"]}})
    box = await room.open(**settings(room))
    (plugin,) = box.plugins
    assert (plugin.name, plugin.state, plugin.manifest) == ("tool.box", "loaded", None)
    assert any("toolcrib trust" in why for name, why in box.missing if "tool.box" in name)
    assert box.servers is None
    trust(room)
    put(room, servers={"a": {"type": "stdio", "command": "sh", "args": ["-c", f"touch {room.base}/ran; x"]}})
    assert (await room.open(**settings(room))).servers is None
    assert not (room.base / "ran").exists()


@pytest.mark.skipif(sys.platform != "linux", reason="a sandbox is needed")
async def test_a_trusted_server_runs_in_the_sandbox_with_its_variables(room: Room) -> None:
    room.put("plugins/tool.box/server.py", SERVER)
    entry = {"type": "stdio", "command": sys.executable, "args": ["${PLUGIN_ROOT}/server.py"]}
    put(room, servers={"main": entry})
    trust(room)
    box = await room.open(**settings(room), sandbox="auto")
    status = await box.mcp.connect("tool.box-main")
    assert status.error is None, status
    folder = room.base / "plugins/tool.box"
    (name,) = [tool.name for tool in box.registry if tool.origin is not None and tool.origin.tool == "where"]
    assert f"{folder} {folder}" in await room.ok(name)


async def test_a_bad_one_takes_only_itself_down(room: Room) -> None:
    put(room, "good", servers={
        "ok": {"type": "streamable-http", "url": "https://x.example/mcp"}, "no-command": {"type": "stdio"},
        "odd": {"type": "stdio", "command": "x", "shell": True}, "leak": {"type": "sse", "url": "https://x/${HOME}"},
    }, flavour="mild")  # fmt: skip
    put(room, "Bad_Name")
    put(room, "bad-mcp")
    put_mcp(room, "bad-mcp", {"$schema": "https://agent-plugins.org/schemas/9.0.0/mcp.schema.json", "mcpServers": {}})
    put(room, "future", **{"$schema": "https://agent-plugins.org/schemas/2.0.0/plugin.schema.json"})
    box = await room.open(**settings(room))
    found = {each.folder.name: each for each in box.plugins}
    assert {name for name, each in found.items() if each.state == "loaded"} == {"good", "bad-mcp"}
    assert "lower-case" in found["Bad_Name"].reason
    assert "version 1" in found["future"].reason
    good, bad = found["good"].package, found["bad-mcp"].package
    assert good is not None
    assert good.mcp is not None
    assert list(good.mcp.servers) == ["good-ok"]
    notes = "\n".join(good.notes)
    for words in ("flavour is not known", "needs command", "shell", "${HOME}"):
        assert words in notes
    assert bad is not None
    assert bad.mcp is None
    assert "its MCP servers are not used" in bad.notes[0]


async def test_one_that_tools_can_change_is_refused(room: Room) -> None:
    room.put("ws/p/a/plugin.json", json.dumps({"$schema": f"{SITE}/plugin.schema.json", "name": "a"}))
    box = await room.open(plugins={"enabled": True, "plugin_dirs": [str(room.root / "p")]})
    (plugin,) = box.plugins
    assert "tools can write there" in plugin.reason


async def test_its_skills_are_offered_after_trust(room: Room) -> None:
    from toolcrib.agent import plugin_skills, texts_to_trust
    from toolcrib.agent.skills import find_skills

    put(room)
    room.put("plugins/tool.box/skills/report/SKILL.md", SKILL)
    box = await room.open(**settings(room))
    folders = plugin_skills(box.plugins)
    (skill,) = find_skills(room.root, home=room.base / "home", plugins=folders)
    assert "is not trusted" in skill.problem
    (text,) = texts_to_trust(room.root, folders)
    TrustStore().trust(text.file)
    assert not find_skills(room.root, home=room.base / "home", plugins=folders)[0].problem


VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.text(max_size=20)
    | st.sampled_from(["${PLUGIN_ROOT}", "${X}", "${"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)
ENTRIES = st.dictionaries(st.sampled_from(["type", "command", "args", "env", "cwd", "url", "headers"]), VALUES)


@given(st.dictionaries(st.text(max_size=20), VALUES | ENTRIES, max_size=4), VALUES)
def test_any_content_is_read_or_refused(tmp_path_factory: pytest.TempPathFactory, servers: Any, version: Any) -> None:
    folder = tmp_path_factory.getbasetemp() / "any-agent-plugin"
    folder.mkdir(exist_ok=True)
    schema = f"{SITE}/plugin.schema.json"
    (folder / "plugin.json").write_text(json.dumps({"$schema": schema, "name": "a", "version": version}))
    (folder / "mcp.json").write_text(json.dumps({"$schema": f"{SITE}/mcp.schema.json", "mcpServers": servers}))
    try:
        read = read_agent_plugin(folder / "plugin.json")
    except ManifestError as error:
        assert isinstance(error, ToolcribError)
        return
    for server in read.mcp.servers.values() if read.mcp else ():
        assert server.url is not None or server.sandbox == "workspace-write"
    assert all(note.isprintable() for note in read.notes)
