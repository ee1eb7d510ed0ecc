"""H3: servers, hooks and secrets' commands whose files lie in the workspace. Tools change them only after a question,
and a change by anybody is asked about before they start."""

from __future__ import annotations

import asyncio
import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from toolcrib import Toolbox
from toolcrib.config import load_settings
from toolcrib.core.errors import ToolcribError, ToolError
from toolcrib.policy.requests import ApprovalRequest, Decision
from toolcrib.policy.starts import StartRefused
from toolcrib.toolbox.declared import declared_starts
from toolcrib.toolbox.reloading import prepare_reload

from ..waiting import until

RAW = Path(__file__).parent.parent / "sources" / "mcp" / "servers" / "raw.py"


class World:
    """A workspace with a server, a hook's script and a secret's script, and settings of the person that name them."""

    def __init__(self, folder: Path, backend: str = "bubblewrap") -> None:
        self.ws, self.marker, self.notes = folder / "ws", folder / "marker", folder / "notes"
        (self.ws / "tools").mkdir(parents=True)
        self.server = self.ws / "tools" / "server.py"
        shutil.copy(RAW, self.server)
        for name in ("notify.sh", "vault.sh"):
            script = self.ws / name
            script.write_text(f"#!/bin/sh\ncat > /dev/null\necho {name} >> '{self.notes}'\necho secret-value-1234\n")
            script.chmod(0o755)
        options = json.dumps({"tools": ["echo"], "offers": {"resources": ["memo"]}})
        self.config = folder / "own.toml"
        self.config.write_text(
            f'[sandbox]\nbackend = "{backend}"\n'
            f"[mcp_servers.notes]\ncommand = {sys.executable!r}\nargs = ['tools/server.py', '{options}']\n"
            f"[[hooks]]\naction = 'log'\ntools = ['list_dir']\ncommand = ['{self.ws}/notify.sh']\n"
            f"[secrets.TOKEN]\ntools = ['exec']\ncommand = ['{self.ws}/vault.sh']\n"
        )
        self.asked: list[str] = []
        self.answer = False

    async def approve(self, request: ApprovalRequest) -> Decision:
        self.asked.append(request.reason)
        return Decision(self.answer)

    def open(self, **options: Any) -> Any:
        return Toolbox.open(workspace=self.ws, config=self.config, approve=self.approve, **options)

    def plant(self, path: Path) -> None:
        """Change a script as something outside would: it leaves a mark when it runs."""
        mark = f"open({str(self.marker)!r}, 'a').write('x')" if path.suffix == ".py" else f"echo x >> '{self.marker}'"
        lines = path.read_text().splitlines()
        at = 1 if path.suffix == ".sh" else next(n for n, line in enumerate(lines) if line.startswith("import "))
        path.write_text("\n".join([*lines[:at], mark, *lines[at:]]) + "\n")


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> World:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    return World(tmp_path)


@pytest.mark.parametrize("mode", ["assistant", "autonomous"])
async def test_file_tools_ask(world: World, mode: str) -> None:
    calls = [
        ("write_file", {"path": "tools/server.py", "content": "evil"}),
        ("write_file", {"path": "tools/json.py", "content": "evil"}),
        ("edit_file", {"path": "notify.sh", "old_text": "secret", "new_text": "evil"}),
        ("delete_file", {"path": "vault.sh"}),
        ("delete_file", {"path": "tools", "recursive": True}),
        ("apply_patch", {"patch": "*** Begin Patch\n*** Add File: tools/a/b.py\n+evil\n*** End Patch\n"}),
    ]
    async with world.open(mode=mode, start_servers=False) as box:
        for name, arguments in calls:
            assert (await box.call(name, arguments)).is_error
        assert not (await box.call("write_file", {"path": "src/app.py", "content": "x"})).is_error
    assert len(world.asked) == len(calls)
    assert all("runs or loads it outside the sandbox, as you" in reason for reason in world.asked)


@pytest.mark.parametrize("backend", ["bubblewrap", "landlock", "none"])
async def test_commands_cannot(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, backend: str) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    world = World(tmp_path, backend)
    before = world.server.read_text(), (world.ws / "notify.sh").read_text()
    async with world.open(mode="autonomous", start_servers=False) as box:
        for command in ("echo evil > tools/server.py", "cp notify.sh tools/json.py", "mv tools other", "rm notify.sh"):
            await box.call("exec", {"command": command})
        if backend != "none":
            await box.call("exec", {"command": "sh -c 'echo evil > notify.sh; echo evil > tools/x.py'"})
    assert (world.server.read_text(), (world.ws / "notify.sh").read_text()) == before
    assert sorted(path.name for path in (world.ws / "tools").iterdir()) == ["server.py"]
    if backend == "none":
        assert len(world.asked) == 4


async def test_named_settings_are_changed_after_a_question(world: World) -> None:
    world.config = world.config.rename(world.ws / "own.toml")
    async with world.open(mode="autonomous", start_servers=False) as box:
        assert (await box.call("write_file", {"path": "own.toml", "content": "evil"})).is_error
        await box.call("exec", {"command": "sh -c 'echo evil > own.toml; mv own.toml x'"})
    assert "own.toml: Toolcrib trusts these settings" in world.asked[0]
    assert "[mcp_servers.notes]" in world.config.read_text()


@pytest.mark.parametrize("enabled", ["true", "false"])  # false: a project that is not trusted may say so
async def test_what_a_channel_plugin_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, enabled: str) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    world = World(tmp_path)
    programs = [world.ws / "plugins" / "chat" / "run", world.ws / "mine" / "run"]
    for program in programs:
        program.parent.mkdir(parents=True)
        program.write_text("#!/bin/sh\n")
    (world.ws / "plugins" / "linked").symlink_to(world.ws / "mine")
    lines = f"[plugins]\nenabled = {enabled}\nplugin_dirs = ['{world.ws}/plugins']\n[channels.chat]\nallowed = [1]\n"
    world.config.write_text(lines)
    async with world.open(mode="autonomous") as box:
        for path in ("plugins/chat/run", "plugins/new/plugin.json", "mine/run"):
            assert (await box.call("write_file", {"path": path, "content": "evil"})).is_error
        assert len(world.asked) == 3
        assert all("a channel plugin in it runs outside the sandbox" in reason for reason in world.asked)
        await box.call("exec", {"command": 'for each in plugins/*/run; do sh -c "echo evil > $each"; done'})
    assert all(program.read_text() == "#!/bin/sh\n" for program in programs)


async def test_a_changed_server_starts_only_after_a_yes(world: World) -> None:
    async with world.open() as box:
        assert box.mcp.servers["notes"].state == "connected"
    world.plant(world.server)
    async with world.open(mode="autonomous") as box:  # its tools are known; it is not started
        output = await box.call("mcp_notes_resources", {})
        assert output.is_error
        assert "tools/server.py (changed)" in world.asked[-1] and "outside the sandbox" in world.asked[-1]
        for start in (lambda: box.mcp.connect("notes"), lambda: box.mcp.reload("notes")):
            try:
                await start()
            except ToolcribError as error:
                assert "toolcrib mcp accept notes" in str(error)
        assert not world.marker.exists()
        world.answer = True
        output = await box.call("mcp_notes_echo", {"text": "hello"})
        assert not output.is_error, output.for_llm
        assert world.marker.exists()
        count = len(world.asked)
        assert not (await box.call("mcp_notes_echo", {"text": "hello"})).is_error
        assert len(world.asked) == count


async def test_a_yes_is_for_the_change_that_was_shown(world: World) -> None:
    async with world.open():
        pass
    world.plant(world.server)

    async def approve(request: ApprovalRequest) -> Decision:
        (world.server.parent / "json.py").write_text(f"open({str(world.marker)!r}, 'a').write('y')\n")
        return Decision(True)

    async with Toolbox.open(workspace=world.ws, config=world.config, approve=approve) as box:
        output = await box.call("mcp_notes_echo", {"text": "hello"})
        assert output.is_error and "tools/json.py (new)" in output.for_llm
    assert not world.marker.exists()


async def test_a_file_beside_the_script_counts(world: World) -> None:
    async with world.open():
        pass
    (world.server.parent / "threading.py").write_text(f"open({str(world.marker)!r}, 'a').write('y')\n")
    async with world.open() as box:
        assert (await box.call("mcp_notes_echo", {"text": "hello"})).is_error
        assert "tools/threading.py (new)" in world.asked[-1]
    assert not world.marker.exists()


async def test_changed_hooks_and_secrets_do_not_run(world: World, caplog: pytest.LogCaptureFixture) -> None:
    async def use() -> None:
        async with world.open(start_servers=False, mode="autonomous") as box:
            await box.call("list_dir", {"path": "."})
            await box.call("exec", {"command": "true"})
            for _ in range(500):
                if "notify.sh" in (world.notes.read_text() if world.notes.exists() else "") or caplog.records:
                    break
                await asyncio.sleep(0.01)

    await use()
    assert {"notify.sh", "vault.sh"} <= set(world.notes.read_text().split())
    world.notes.unlink()
    world.plant(world.ws / "notify.sh")
    world.plant(world.ws / "vault.sh")
    await use()
    assert not world.marker.exists() and not world.notes.exists()
    assert "`toolcrib trust` shows the change" in caplog.text


@pytest.mark.parametrize("place", ["ws", "granted"])
async def test_what_new_settings_start_waits_until_it_is_protected(world: World, place: str) -> None:
    (world.ws.parent / "granted").mkdir()
    script = world.ws.parent / place / "new.sh"
    script.write_text("#!/bin/sh\n")
    granted = f"[sandbox]\nwrite_roots = ['{world.ws.parent}/granted']\n"
    world.config.write_text(granted)
    async with world.open(start_servers=False) as box:
        hook = f"[[hooks]]\naction = 'log'\ncommand = ['{script}']\n"
        world.config.write_text(f"{granted}{hook}[mcp_servers.new]\ncommand = '{script}'\n")
        found = prepare_reload(box, load_settings(world.ws, world.config))
    assert found.later == ("hooks", "mcp_servers.new")


async def test_nothing_loads_what_a_command_makes_that_still_runs(world: World) -> None:
    shutil.copy(RAW, world.ws / "server.py")
    (world.ws / "hook.py").write_text("import helper\n")
    (world.ws / "helper.py").touch()
    (world.ws / "pkg" / "dist").mkdir(parents=True)
    (world.ws / "pkg" / "dist" / "index.js").write_text("import 'zod'\n")
    (world.ws / "make.txt").write_text(
        "mkdir pkg/node_modules __pycache__; touch __pycache__/helper.x.pyc json.py; sleep 60"
    )
    text = world.config.read_text().replace("tools/server.py", "server.py")
    text = text.replace(f"'{world.ws}/notify.sh'", f"{sys.executable!r}, '{world.ws}/hook.py'")
    world.config.write_text(f"{text}[mcp_servers.web]\ncommand = 'node'\nargs = ['pkg/dist/index.js']\n")
    async with world.open(mode="autonomous", start_servers=False) as box:
        hook, secret, _, web = declared_starts(box.settings)
        box.starts.check(web)
        await box.mcp.connect("notes")
        assert not (await box.call("mcp_notes_echo", {"text": "x"})).is_error
        await box.call("exec", {"command": "sh make.txt", "background": True})
        await until((world.ws / "json.py").exists)
        for start, made in ((hook, "json.py"), (web, "pkg/node_modules")):  # the first start; what has no fingerprint
            with pytest.raises(StartRefused, match=f"{made}, new since a command began that still runs"):
                box.starts.check(start)
        assert (await box.call("mcp_notes_echo", {"text": "x"})).is_error
        assert world.asked == ["MCP server notes would load json.py, new since a command began that still runs"]
        with pytest.raises(ToolError, match=r"would load json.py.*End that one first"):  # a list, a completion
            await box.mcp.enabled[0].use(lambda client: client.list_prompts())
        box.starts.check(secret)
    assert not (world.ws / "json.py").exists()
    async with world.open(start_servers=False) as box:
        assert box.starts.check(hook)["PYTHONPYCACHEPREFIX"].endswith("/pycache")


@pytest.mark.parametrize("script", ["server.py", "tools/server.py"])
async def test_a_start_asks_while_a_command_could_make_what_it_loads(world: World, script: str) -> None:
    """Between the check and the import of a module it could be made. Nothing is made in a script's own folder."""
    if script == "server.py":
        shutil.copy(RAW, world.ws / script)
    (world.ws / "wait.sh").write_text("sleep 60")
    world.config.write_text(world.config.read_text().replace("tools/server.py", script))
    async with world.open(mode="autonomous", start_servers=False) as box:
        await box.mcp.connect("notes")
    async with world.open(mode="autonomous", start_servers=False) as box:
        await box.call("exec", {"command": "sh wait.sh", "background": True})
        await box.call("mcp_notes_echo", {"text": "x"})
    asked = ["could make now" in reason for reason in world.asked]
    assert asked == ([True] if script == "server.py" else [])


@pytest.mark.parametrize("imports", ["json", "json, helper"])
async def test_a_hook_loads_nothing_that_a_command_makes_while_it_starts(world: World, imports: str) -> None:
    """Python does not look in the top folder for a script that imports nothing there; else the hook does not start."""
    (world.ws / "helper.py").touch()
    mark = f"open({str(world.marker)!r}, 'w').write(json.__file__)"
    (world.ws / "hook.py").write_text(f"import {imports}\n{mark}\n")
    (world.ws / "wait.sh").write_text("sleep 60")
    command = f"{sys.executable!r}, '{world.ws}/hook.py'"
    world.config.write_text(world.config.read_text().replace(f"'{world.ws}/notify.sh'", command))
    async with world.open(mode="autonomous", start_servers=False) as box:
        hook = declared_starts(box.settings)[0]
        words, env = box.starts.checked(hook)
        assert ("PYTHONSAFEPATH" in env) == (imports == "json")
        subprocess.run(words, env=env, check=True)  # it works, as before
        await box.call("exec", {"command": "sh wait.sh", "background": True})
        if imports != "json":
            with pytest.raises(StartRefused, match=r"could make now.*a folder of its own"):
                box.starts.checked(hook)
            return
        words, env = box.starts.checked(hook)
        (world.ws / "json.py").write_text("dumps = None\n")  # as the command could, after the check
        subprocess.run(words, env=env, check=True)
        assert str(world.ws) not in world.marker.read_text()


@pytest.mark.parametrize("name", ["native.so", "native.cpython-311-x86_64-linux-gnu.so", "native"])
async def test_a_hook_keeps_the_extension_modules_beside_it(world: World, name: str) -> None:
    path = world.ws / name
    path.touch() if path.suffix else path.mkdir()
    (world.ws / "hook.py").write_text("import native\n")
    command = f"{sys.executable!r}, '{world.ws}/hook.py'"
    world.config.write_text(world.config.read_text().replace(f"'{world.ws}/notify.sh'", command))
    async with world.open(mode="autonomous", start_servers=False) as box:
        assert "PYTHONSAFEPATH" not in box.starts.checked(declared_starts(box.settings)[0])[1]


async def test_what_a_workspace_brings_to_a_server_of_all_asks_first(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A project that was cloned has a file of the name that a server of the person's own starts."""
    options = json.dumps({"tools": ["echo"]})
    own = world.ws.parent / "config" / "toolcrib" / "config.toml"
    own.parent.mkdir(parents=True)
    own.write_text(
        f"[mcp_servers.evil]\ncommand = {sys.executable!r}\nargs = ['mine.py']\n"
        f"[mcp_servers.meant]\ncommand = {sys.executable!r}\nargs = ['{world.server}', '{options}']\n"
        f"[secrets.A]\ncommand = ['./vault.sh']\n[[hooks]]\naction = 'log'\ncommand = ['{world.ws}/notify.sh']\n"
    )
    own.chmod(0o600)
    (world.ws / "mine.py").write_text(f"open({str(world.marker)!r}, 'a').write('x')\n")
    async with Toolbox.open(workspace=world.ws, approve=world.approve) as box:
        assert box.mcp.servers["meant"].state == "connected"
        assert "with your rights, of this workspace, where it was never started: mine.py (new)" in (
            box.mcp.servers["evil"].error or ""
        )
        assert not world.marker.exists()
        monkeypatch.chdir(world.ws)
        hook, secret, *_ = declared_starts(box.settings)
        box.starts.check(hook)
        with pytest.raises(StartRefused, match=r"never started: vault\.sh \(new\). `toolcrib trust` shows"):
            box.starts.check(secret)
        doubt = box.mcp.changed_files("evil")
        assert doubt is not None and box.mcp.accept_files("evil", doubt)
        with pytest.raises(ToolcribError):
            await box.mcp.connect("evil")
    assert world.marker.exists()
