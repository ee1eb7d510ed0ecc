"""No name of a parameter changes what a tool runs or what is judged, whichever source the tool comes from."""

import json
import sys

import pytest

from toolcrib.core.registry import ToolRegistry
from toolcrib.sources.composed.composed_tool import composed

from .conftest import Room
from .plugins.test_plugins import ECHO, binary, settings

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="commands run on POSIX systems")

NAMES = ("args", "arguments", "self", "cls", "ctx", "kwargs", "handler", "name", "class", "None", "__class__", "a-b")
ALL = dict.fromkeys(NAMES, "string")
VALUES = {name: f"value of {name}" for name in NAMES}


async def test_a_command_tool(room: Room) -> None:
    command = "printf '%s|' " + " ".join(f"{{{{{name}}}}}" for name in NAMES)
    await room.open(custom_tools=[{"name": "t", "description": "d", "command": command, "parameters": ALL}])
    assert room.box is not None
    output = await room.box.call("t", VALUES)
    assert output.for_llm == "".join(f"{VALUES[name]}|" for name in NAMES)


@pytest.mark.parametrize("name", NAMES)
async def test_a_command_tool_with_only_that_parameter(room: Room, name: str) -> None:
    tool = {"name": "t", "description": "d", "command": f"echo {{{{{name}}}}}", "parameters": {name: "string"}}
    await room.open(custom_tools=[tool])
    assert room.box is not None
    assert (await room.box.call("t", {name: "x"})).for_llm == "x"


async def test_what_is_judged_is_what_runs(room: Room) -> None:
    room.put("ws/a.txt", "harmless")
    room.put("ws/.env", "KEY=planted")
    schema = {
        "type": "object",
        "properties": {"file": {"type": "string", "default": "a.txt"}, "args": {"type": "object"}},
    }
    await room.open(
        custom_tools=[{"name": "t", "description": "d", "command": "cat -- {{file}}", "parameters": schema}]
    )
    assert await room.ok("t", args={"file": ".env"}) == "harmless"


async def test_a_binary_plugin(room: Room) -> None:
    binary(room, ECHO, parameters={name: {"type": "string"} for name in NAMES})
    await room.open(**settings(room))
    assert room.box is not None
    output = await room.box.call("t", VALUES)
    assert json.loads(output.for_llm)["args"] == VALUES


@pytest.mark.parametrize("names", [NAMES, ("args",), ("self", "ctx")])
async def test_a_composed_tool(names: tuple[str, ...]) -> None:
    made = composed("t", "d", " ".join(f"{{{{{name}}}}}" for name in names)).tool()
    output = await ToolRegistry([made]).execute("t", {name: VALUES[name] for name in names})
    assert json.loads(output.for_llm.rpartition("\nValues: ")[2]) == {name: VALUES[name] for name in names}
