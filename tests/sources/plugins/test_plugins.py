"""Plugins in a toolbox: found, allowed, called, changed, and what a bad one does to the others."""

import asyncio
import contextlib
import hashlib
import json
import secrets
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolcrib.boundary.sandbox import NoSandbox
from toolcrib.core.errors import ConfigError
from toolcrib.sources.plugins import plugins as module
from toolcrib.sources.plugins.binary import request

from ...waiting import end_time_of_commands, until
from ..conftest import Made, Room
from ..test_template import VALUES

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="pinned programs run on Linux")

ARGUMENTS = "import json, sys; print(json.dumps(sys.argv[1:]))"
ECHO = """#!/usr/bin/env python3
import json, sys
call = json.loads(sys.stdin.readline())
print("starting up")
print(json.dumps({"jsonrpc": "2.0", "id": call["id"], "result": {"output": json.dumps(call["params"])}}))
"""


def settings(room: Room, **more: Any) -> dict[str, Any]:
    return {"plugins": {"enabled": True, "plugin_dirs": [str(room.base / "plugins")], **more}}


def command(name: str, template: str, tool: str = "t", **more: Any) -> dict[str, Any]:
    entry = {"name": tool, "description": "A test.", "command": template, "parameters": {"x": "string"}, **more}
    return {"name": name, "version": "1", "description": "d", "tools": [entry]}


def binary(room: Room, program: str, *, pin: bool = True, seconds: float = 30, **tool: Any) -> Path:
    """The folder of a plugin whose tool `t` is this program."""
    path = room.put("plugins/bin/run", program, 0o755)
    entry: dict[str, Any] = {"path": "run", "timeout_secs": seconds}
    if pin:
        entry["sha256"] = hashlib.sha256(program.encode()).hexdigest().upper()
    one = {"name": "t", "description": "A test.", "parameters": {"x": {"type": "string", "default": ""}}, **tool}
    manifest = {
        "name": "bin",
        "version": "1",
        "description": "d",
        "execution": "binary",
        "binary": entry,
        "tools": [one],
    }
    room.put("plugins/bin/plugin.json", json.dumps(manifest))
    return path


async def test_without_being_enabled_there_are_none(room: Room, plugin: Made) -> None:
    plugin("a", command("a", "echo {{x}}"))
    box = await room.open(plugins={"plugin_dirs": [str(room.base / "plugins")]})
    assert "t" not in box.registry


async def test_a_command_plugin_runs_its_own_files(room: Room, plugin: Made) -> None:
    plugin("a", command("a", 'python3 "$TOOLCRIB_PLUGIN_DIR/show.py" {{x}}'))
    room.put("plugins/a/show.py", ARGUMENTS)
    for sandbox in ("none", "auto"):
        await room.open(sandbox=sandbox, **settings(room))
        assert json.loads(await room.ok("t", x="$(id) '{{x}}' \"\n")) == ["$(id) '{{x}}' \"\n"]


async def test_no_value_is_more_than_one_argument_of_a_command_plugin(room: Room, plugin: Made) -> None:
    from hypothesis import HealthCheck
    from hypothesis import settings as choose

    from toolcrib.sources.template import command_template

    plugin("a", command("a", "printf '%s\\0' {{x}} --y={{x}}"))
    await room.open(**settings(room))
    loop = asyncio.get_running_loop()

    @choose(max_examples=25, suppress_health_check=list(HealthCheck))
    @given(VALUES)
    def hold(value: str) -> None:
        output = asyncio.run_coroutine_threadsafe(room("t", x=value), loop).result(60)
        assert not output.is_error, output.for_llm
        template = command_template("printf '%s\\0' {{x}} --y={{x}}")
        assert template.arguments({"x": value}) == [value]
        assert "PWNED\n" not in output.for_llm.replace(value, "").replace("PWNED\n", "", value.count("PWNED\n") * 2)

    await asyncio.to_thread(hold)


@pytest.mark.parametrize("pin", [True, False])
async def test_a_program_cannot_change_itself_through_what_it_inherits(room: Room, pin: bool) -> None:
    text = """#!/usr/bin/env python3
import contextlib, os
for name in os.listdir("/proc/self/fd"):
    with contextlib.suppress(OSError):
        if os.path.isfile(f"/proc/self/fd/{name}"):
            open(f"/proc/self/fd/{name}", "a").write("# changed")
print('{"result": {"output": "tried"}}')
"""
    path = binary(room, text, pin=pin)
    await room.open(sandbox="auto", **settings(room))
    assert (await room("t")).for_llm == "tried" and path.read_text() == text


@pytest.mark.parametrize("pin", [True, False])
@pytest.mark.parametrize("sandbox", ["none", "auto", "landlock"])
async def test_a_binary_plugin_answers(room: Room, pin: bool, sandbox: str) -> None:
    binary(room, ECHO, pin=pin)
    await room.open(sandbox=sandbox, **settings(room))
    output = await room("t", x='a\n{"x"}')
    if sandbox == "landlock" and output.error_kind == "unavailable":
        pytest.skip(output.for_llm)
    assert json.loads(output.for_llm) == {"tool": "t", "args": {"x": 'a\n{"x"}'}}


@given(st.dictionaries(st.text(), st.none() | st.text() | st.integers() | st.lists(st.text()), max_size=4))
def test_a_request_is_one_line_whatever_the_values(args: dict[str, Any]) -> None:
    line = request("t", args)
    assert line.endswith(b"\n")
    assert line.count(b"\n") == 1
    assert json.loads(line)["params"] == {"tool": "t", "args": args}


@pytest.mark.parametrize("pin", [True, False])
async def test_a_container_runs_the_file_and_is_handed_no_copy(
    room: Room, pin: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    binary(room, ECHO.replace("json.dumps(call", "sys.argv[0] + json.dumps(call"), pin=pin)
    await room.open(**settings(room))
    monkeypatch.setattr(NoSandbox, "name", "docker")  # as far as a plugin can tell
    if not pin:
        assert (await room.ok("t", x="1")).startswith(f"{room.base}/plugins/bin/run")
        return
    said = await room.fails("t", x="1")
    for hint in ("a container cannot be handed the copy", 'sandbox.backend = "auto"', "plugins/bin/plugin.json: then"):
        assert hint in said


async def test_a_changed_program_is_refused(room: Room) -> None:
    path = binary(room, ECHO)
    box = await room.open(**settings(room))
    await room.ok("t")
    path.write_text(ECHO.replace("starting", "evil"))
    assert "it has changed, and is not run" in await room.fails("t")
    box.plugins.load()  # what is loaded stays, and goes on refusing
    assert "it has changed, and is not run" in await room.fails("t")
    path.write_text(ECHO)
    await room.ok("t")
    path.write_text(ECHO + "#")
    box = await room.open(**settings(room))
    assert "t" not in box.registry
    assert any("it has changed" in why for _, why in box.missing)
    path.write_text(ECHO)
    assert box.plugins.load()
    await room.ok("t")


PRINTS = "#!/usr/bin/env python3\nimport sys, json, time, os\n"
ANSWERS = {
    'print(json.dumps({"error": {"code": 7, "message": "no such city", "data": [1]}}))': "no such city (code 7)\n[1]",
    "pass": "answered nothing",
    'print("hello " * 100)': "not JSON-RPC: hello ",
    "print(3)": "not JSON-RPC: 3",
    'print(json.dumps({"result": {"text": "x"}}))': "neither a result nor an error",
    'print("{}")': "neither a result nor an error",
    'print(json.dumps({"result": {"output": 3}}))': "neither a result nor an error",
    'print("[" * 100_000)': "not JSON-RPC",
    'print("oops", file=sys.stderr); sys.exit(3)': "failed (exit 3): oops",
    "sys.exit(3)": "failed (exit 3): it said nothing",
    "os.abort()": "failed (exit 134)",
    "sys.stdin.close(); os.close(1); os.close(2)": "answered nothing",
    'sys.stdout.write("x" * 30_000_000)': "a line that is too long",
    "sys.stdout.buffer.write(bytes(range(256)))": "not JSON-RPC",
}


async def test_what_is_no_answer_is_a_clear_error(room: Room) -> None:
    for program, said in ANSWERS.items():
        binary(room, PRINTS + program)
        await room.open(**settings(room))
        text = await room.fails("t")
        assert said in text, (program, text)
        assert len(text) < 6_000


async def test_noise_before_the_answer_is_bounded(room: Room) -> None:
    answer = 'print(json.dumps({"result": {"output": "here"}}))'
    noise = 'for _ in range(300): sys.stdout.write("y" * 99_999 + "\\n"); sys.stderr.write("z" * 100_000)'
    binary(room, f"{PRINTS}{noise}\n{answer}\nprint()\n")
    await room.open(**settings(room))
    assert await room.ok("t") == "here"


async def test_a_long_answer_is_cut_and_kept(room: Room) -> None:
    binary(room, PRINTS + 'print(json.dumps({"result": {"output": "line\\n" * 100_000}}))')
    await room.open(**settings(room))
    text = await room.ok("t")
    assert len(text) < 60_000
    assert "omitted" in text


async def test_a_hanging_program_is_ended_with_all_it_started(room: Room) -> None:
    seconds = f"877.{secrets.randbelow(10**9):09}"  # no other run starts a process with this argument
    child = f"import subprocess, sys; subprocess.Popen(['sleep', '{seconds}']); sys.stderr.write('waiting'); "
    binary(room, PRINTS + child + "sys.stderr.flush(); time.sleep(60)", seconds=50)
    await room.open(**settings(room))
    call = asyncio.create_task(room.fails("t"))
    await end_time_of_commands(lambda process: not process.idle_output)
    text = await call
    assert "timed out after 50 s" in text
    assert "waiting" in text
    await until(lambda: not _runs_with(seconds))  # all are killed at once; each is gone when the kernel gets to it


def _runs_with(argument: str) -> bool:
    """Whether a process has this argument."""
    for each in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):  # it has ended
            if argument.encode() in each.read_bytes().split(b"\0"):
                return True
    return False


async def test_too_many_bytes_for_a_program_are_an_error(room: Room) -> None:
    binary(room, ECHO)
    await room.open(**settings(room))
    assert "a program is given at most" in await room.fails("t", x="x" * 17_000_000)
    assert len(json.loads(await room.ok("t", x="x" * 20_000))["args"]["x"]) == 20_000


async def test_a_bad_one_is_named_and_the_others_load(room: Room, plugin: Made) -> None:
    plugin("a", {"name": "a b"})
    plugin("b", command("b", "echo '{{x}}'", "quoted"))
    plugin("c", command("c", "echo {{x}}", "good"))
    plugin("d", command("d", "echo {{x}}", "exec"))
    plugin("e", command("c", "echo {{x}}", "twice"))
    plugin("f", command("f", "echo {{x}}", "good"))
    plugin("g", command("g", "echo {{x}}", "away", working_dir="../.."))
    plugin("h", command("h", "echo {{x}}", "listed", category=["shell"]))
    plugin("i", command("i", "echo {{x}}", "ask_user"))
    room.put("plugins/two\nlines/plugin.json", "{")
    room.put("plugins/no-plugin/readme", "")
    box = await room.open(**settings(room))
    assert await room.ok("good", x="1") == "1"
    why = dict(box.missing)
    assert "it should have" in why["plugin a"]
    assert "inside quotes" in why["plugin b"]
    assert "registered already (own)" in why["plugin d"]
    assert "'ask_user' is kept for a tool of ours" in why["plugin i"]
    assert "there is a plugin 'c' already" in why["plugin c"]
    assert "registered already (plugin:c)" in why["plugin f"]
    assert "plugins/g: tool 'away': '../..' is outside" in why["plugin g"]
    assert "tools.0.category is list" in why["plugin h"]
    assert "is not JSON" in why["plugin two\\nlines"]
    assert all(text.isprintable() for text in why.values())


async def test_one_that_breaks_us_does_not_break_the_others(
    room: Room, plugin: Made, monkeypatch: pytest.MonkeyPatch
) -> None:
    plugin("a", command("a", "echo {{x}}", "one"))
    plugin("b", command("b", "echo {{x}}", "other"))
    real = module.read_manifest

    def broken(path: Path) -> Any:
        if path.parent.name == "a":
            raise KeyError("a mistake of ours")
        return real(path)

    monkeypatch.setattr(module, "read_manifest", broken)
    box = await room.open(**settings(room))
    assert await room.ok("other", x="1") == "1"
    assert "KeyError: 'a mistake of ours'" in dict(box.missing)["plugin a"]


async def test_allow_and_block_lists(room: Room, plugin: Made) -> None:
    for name in ("a", "b", "c"):
        plugin(name, command(name, "echo {{x}}", f"tool_{name}"))

    async def there(**lists: list[str]) -> set[str]:
        box = await room.open(**settings(room, **lists))
        return {name for name in box.registry.names if name.startswith("tool_")}

    assert await there() == {"tool_a", "tool_b", "tool_c"}
    assert await there(blocked_plugins=["b"]) == {"tool_a", "tool_c"}
    assert await there(allowed_plugins=["a", "b"]) == {"tool_a", "tool_b"}
    assert await there(allowed_plugins=["a", "b"], blocked_plugins=["b"]) == {"tool_a"}
    assert room.box is not None
    assert {each.name: each.state for each in room.box.plugins} == {"a": "loaded", "b": "blocked", "c": "not allowed"}


async def test_changes_are_seen(room: Room, plugin: Made, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("toolcrib.sources.plugins.plugins.LOOK_SECONDS", 0.02)
    plugin("a", command("a", "echo one {{x}}"))
    box = await room.open(**settings(room))
    changed = asyncio.Event()
    box.registry.on_change(changed.set)

    async def seen() -> None:
        await asyncio.wait_for(changed.wait(), 60)
        changed.clear()

    assert await room.ok("t", x="!") == "one !"
    plugin("b", command("b", "echo b {{x}}", "u"))
    await seen()
    assert await room.ok("u", x="!") == "b !"
    plugin("a", command("a", "echo two {{x}}"))
    while await room.ok("t", x="!") != "two !" if "t" in box.registry else True:
        await seen()
    (room.base / "plugins/b/plugin.json").unlink()
    while "u" in box.registry:
        await seen()


async def test_one_that_tools_could_change_counts_as_shell(room: Room) -> None:
    for place in ("plugins", "ws/plugins"):
        entry = command("a", "some-program {{x}}", category="memory")
        room.put(f"{place}/a/plugin.json", json.dumps(entry))
    box = await room.open(mode="assistant", **settings(room))
    assert box.registry.require("t").category == "memory"
    box = await room.open(mode="assistant", plugins={"enabled": True, "plugin_dirs": [str(room.root / "plugins")]})
    assert box.registry.require("t").category == "shell"
    assert (await box.check("t", {"x": "1"})).verdict == "ask"


async def test_variables_of_one_that_tools_could_change_are_judged_with_its_commands(room: Room) -> None:
    for place in ("plugins", "ws/plugins"):
        room.put(f"{place}/a/plugin.json", json.dumps(command("a", "ls {{x}}", env={"PATH": str(room.root)})))
    box = await room.open(mode="assistant", **settings(room))
    assert (await box.check("t", {"x": "1"})).verdict == "allow"
    box = await room.open(mode="assistant", plugins={"enabled": True, "plugin_dirs": [str(room.root / "plugins")]})
    assert (await box.check("t", {"x": "1"})).rule == "shell:hijack-path"


async def test_a_folder_that_commands_cannot_see_is_refused(room: Room) -> None:
    with pytest.raises(ConfigError, match="which no command can see"):
        await room.open(plugins={"enabled": True, "plugin_dirs": [str(room.base / "xdg_config_home/toolcrib/p")]})


@pytest.mark.parametrize("category", ["shell", "memory"])
async def test_what_should_be_reviewed_and_cannot_be_does_not_run_unasked(room: Room, category: str) -> None:
    binary(room, ECHO, category=category)
    await room.open(**settings(room), effects="review")
    assert "cannot be held back" in await room.fails("t")


async def test_a_yes_is_for_the_program_that_was_shown(room: Room) -> None:
    path = binary(room, ECHO, pin=False)
    box = await room.open(**settings(room), mode="assistant")
    box.approvals.resolve((await room("t", x="x")).meta["approval_id"], True, approver="me")
    path.write_text(path.read_text() + "#")
    assert (await room("t", x="x")).error_kind == "pending"


async def test_a_binary_asks_in_assistant_mode_without_walls(room: Room) -> None:
    binary(room, ECHO)
    box = await room.open(mode="assistant", **settings(room))
    assert (await box.check("t", {})).rule == "plugin:program"
    assert (await room("t")).pause_for_input
    box = await room.open(mode="assistant", sandbox="auto", **settings(room))
    assert (await box.check("t", {})).rule == "sandbox"


async def test_a_manifest_that_is_a_link_into_the_workspace_keeps_no_category(room: Room) -> None:
    inside = room.put("ws/plugin.json", json.dumps(command("linked", "echo {{x}}", category="memory")))
    folder = room.base / "plugins" / "linked"
    folder.mkdir(parents=True)
    (folder / "plugin.json").symlink_to(inside)
    box = await room.open(**settings(room))
    assert box.registry.require("t").category == "shell"


async def test_a_file_that_is_linked_from_the_workspace_makes_a_plugin_one_of_tools(room: Room, plugin: Made) -> None:
    folder = plugin("linked", command("linked", "sh run.sh {{x}}", category="memory"))
    (folder / "lib").mkdir()
    (folder / "lib" / "run.sh").symlink_to(room.put("ws/run.sh", "echo"))
    box = await room.open(**settings(room))
    assert box.registry.require("t").category == "shell"
