"""A command that runs cannot hide from other commands and file tools what a path is."""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path
from typing import Any

import pytest

from toolcrib.boundary.environment import command_environment
from toolcrib.boundary.path_judgement import judge_path
from toolcrib.boundary.process import run
from toolcrib.boundary.sandbox import SandboxSettings, running_commands, select_sandbox, writable
from toolcrib.boundary.sandbox.writable import Writable
from toolcrib.boundary.workspace import Workspace

HIDDEN = {
    "bare.git/HEAD": "bare.git/hooks",
    "bare.git/objects": "bare.git/config",
    ".git/modules/s/HEAD": ".git/modules/s/hooks",
    ".envrc": "local",
    "other.git/HEAD": "scripts",  # its settings say that git runs what is there
}


@pytest.fixture
def ws(tmp_path: Path) -> Path:
    ws = tmp_path / "ws"
    for repository in ("bare.git", ".git/modules/s", "other.git"):
        (ws / repository / "hooks").mkdir(parents=True)
        (ws / repository / "objects").mkdir()
        for name in ("HEAD", "config"):
            (ws / repository / name).touch()
    (ws / "other.git" / "config").write_text("[core]\n\thooksPath = ../scripts\n")
    (ws / "scripts").mkdir()
    (ws / "local").touch()
    (ws / ".envrc").symlink_to("local")
    return ws


def folders(ws: Path, **settings: Any) -> Writable:
    return Writable(ws, SandboxSettings(**settings), "workspace-write")


def asked(ws: Path, path: str) -> str:
    workspace = Workspace(ws)
    try:
        judgement = judge_path(workspace, path, write=True)
    finally:
        workspace.close()
    return judgement.reason if judgement is not None else ""


@pytest.mark.parametrize(("moved", "path"), HIDDEN.items())
def test_what_a_command_hides_stays_protected_until_it_ends(ws: Path, moved: str, path: str) -> None:
    first = folders(ws)
    cwd = ws / "other.git" if path == "scripts" else ws
    running = first.guards(cwd)
    (ws / moved).rename(ws / "hidden")
    of_git = path.startswith(".git/")
    assert asked(ws, path) and asked(ws, f"{path}/x")
    assert str(ws / path) in folders(ws).guards(ws)[0].read_only
    third = folders(ws, write_roots=(ws.parent,)).guards(ws)  # in a folder around it, too
    assert any(str(ws / path) in each.read_only for each in third)
    del third
    first.appeared(running)
    assert bool(asked(ws, path)) == of_git
    assert str(ws / path) not in folders(ws).guards(ws)[0].read_only


def test_what_a_link_leads_to_in_another_granted_folder_cannot_be_hidden(ws: Path, tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "rc").touch()
    (ws / ".gdbinit").symlink_to(tmp_path / "other" / "rc")
    settings = {"write_roots": (tmp_path / "other",)}
    running = folders(ws, **settings).guards(ws)
    (ws / ".gdbinit").unlink()
    guards = folders(ws, **settings).guards(ws)
    assert any(str(tmp_path / "other" / "rc") in each.read_only for each in guards)
    assert running


def test_what_a_person_lets_a_command_change_is_not_kept_for_it(ws: Path) -> None:
    running = folders(ws).guards(ws / "other.git")
    assert str(ws / "scripts") in running[0].read_only
    lifted = folders(ws, allow_protected=(".git",)).guards(ws)[0]
    assert not any("hooks" in path or "config" in path for path in lifted.read_only)
    lifted = folders(ws, host_files_writable=frozenset({str(ws / "scripts")})).guards(ws)[0]
    assert str(ws / "scripts") not in lifted.read_only and str(ws / "bare.git/hooks") in lifted.read_only
    other = folders(ws, host_files_writable=frozenset({str(ws / "other")})).guards(ws)[0]
    assert str(ws / "scripts") in other.read_only
    above = folders(ws, host_files_writable=frozenset({str(ws)})).guards(ws)[0]
    assert str(ws / "scripts") in above.read_only


def test_what_was_removed_since_may_appear_again(ws: Path) -> None:
    running = folders(ws).guards(ws)
    (ws / "bare.git" / "hooks").rmdir()
    later = folders(ws)
    guards = later.guards(ws)
    (ws / "bare.git" / "hooks").mkdir()
    assert later.appeared(guards) == [] and running


def test_a_command_that_ends_while_another_one_searches_hides_nothing(
    ws: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    search = writable.find_protected_paths

    def meanwhile(*args: Any, **more: Any) -> Any:
        first = folders(ws)
        monkeypatch.setattr(writable, "find_protected_paths", search)
        running = first.guards(ws)
        (ws / "bare.git" / "HEAD").rename(ws / "hidden")
        found = search(*args, **more)
        (ws / "hidden").rename(ws / "bare.git" / "HEAD")
        first.appeared(running)
        return found

    monkeypatch.setattr(writable, "find_protected_paths", meanwhile)
    guards = folders(ws).guards(ws)
    assert str(ws / "bare.git" / "hooks") in guards[0].read_only
    assert running_commands._searches == {}  # pyright: ignore[reportPrivateUsage]


@pytest.mark.parametrize("ended", [False, True])
@pytest.mark.parametrize("times", [1, 2])
def test_what_another_command_made_must_not_be_made_again(ws: Path, ended: bool, times: int) -> None:
    first = folders(ws)
    running = first.guards(ws)
    (ws / ".vscode").mkdir()
    if ended:
        assert first.appeared(running) == [".vscode"]  # it is about to be moved away
    kept = []
    for _ in range(times):
        later = folders(ws)
        kept.append(guards := later.guards(ws))
    (ws / ".vscode").rmdir()
    (ws / ".vscode").mkdir()
    assert later.appeared(guards) == [".vscode"] and running
    guards[0].started += 10**9  # then nothing has changed since: its end is none of its business
    assert later.appeared(guards) == []


def test_what_is_harmless_at_the_end_of_one_command_is_looked_at_again(ws: Path) -> None:
    first = folders(ws)
    running = first.guards(ws)
    new = ws / "new" / ".git"
    (new / "hooks").mkdir(parents=True)
    (new / "config").write_text("[core]\n\tbare = false\n")
    second = folders(ws)
    guards = second.guards(ws)  # it may have opened the file under another name
    assert first.appeared(running) == []
    third = folders(ws)
    last = third.guards(ws)  # it may get the opened file from the second
    del running
    assert second.appeared(guards) == third.appeared(last) == []
    with open(new / "config", "a") as file:
        file.write("\tfsmonitor = ./evil\n")
    assert second.appeared(guards) == third.appeared(last) == ["new/.git/config"]


def test_what_is_in_a_folder_that_a_tool_has_made_meanwhile_stays(ws: Path) -> None:
    first = folders(ws)
    running = first.guards(ws)
    (ws / "node_modules" / "p" / ".vscode").mkdir(parents=True)  # it is installing
    second = folders(ws).guards(ws)
    (ws / "node_modules" / ".package-lock.json").touch()
    assert first.appeared(running) == [] and second


def test_what_only_another_command_takes_for_a_link_that_counts_stays(ws: Path) -> None:
    (ws / "a" / ".claude").mkdir(parents=True)
    (ws / "a" / ".claude" / "all").symlink_to(ws)  # in a folder around it this is not the whole
    other = folders(ws, write_roots=(ws.parent,)).guards(ws)
    own = folders(ws)
    assert own.appeared(own.guards(ws)) == [] and other


def test_what_is_in_another_granted_folder_is_none_of_its_business(ws: Path) -> None:
    (ws.parent / "ws-lib" / ".vscode").mkdir(parents=True)
    both = folders(ws, write_roots=(ws.parent / "ws-lib",))
    guards = both.guards(ws)
    assert both.appeared(guards) == []


def test_a_repository_that_another_command_hides_at_the_end_is_looked_at(ws: Path) -> None:
    first = folders(ws)
    running = first.guards(ws)
    for name in ("hooks", "objects"):
        (ws / "r" / name).mkdir(parents=True)
    for name in ("HEAD", "config", "hooks/post-update"):
        (ws / "r" / name).write_text("evil")
    second = folders(ws).guards(ws)
    (ws / "r" / "HEAD").rename(ws / "r" / "H2")
    third = folders(ws).guards(ws)
    del second
    assert sorted(first.appeared(running)) == ["r/config", "r/hooks"] and third


def test_what_another_program_replaced_could_be_changed_by_the_command(ws: Path) -> None:
    first, notes = folders(ws), list[str]()
    guards = first.guards(ws)
    (ws / "bare.git" / "hooks" / "new.sample").touch()
    assert first.appeared(guards, notes) == notes == []
    (ws / "new").touch()
    (ws / "new").rename(ws / "bare.git" / "config")
    (ws / "other.git" / "config").unlink()
    assert first.appeared(guards, notes) == []
    assert len(notes) == 1 and "[bare.git/config: another program changed or replaced it" in notes[0]


@pytest.mark.skipif(sys.platform != "linux", reason="bubblewrap is for Linux")
async def test_a_command_says_what_was_replaced_while_it_ran(ws: Path) -> None:
    sandbox = select_sandbox(SandboxSettings(backend="bubblewrap"), ws)
    spawn = sandbox.wrap(["/bin/true"], cwd=ws, env=command_environment(), timeout=60)
    await run(spawn, timeout=60)
    (ws / "new").touch()
    (ws / "new").rename(ws / "bare.git" / "config")
    assert spawn.appeared() == [] and "bare.git/config" in spawn.notes[0]


@pytest.mark.skipif(sys.platform != "linux", reason="bubblewrap is for Linux")
async def test_a_command_without_a_time_limit_cannot_change_settings_that_git_has_replaced(ws: Path) -> None:
    sandbox = select_sandbox(SandboxSettings(backend="bubblewrap"), ws)
    text = "echo > begun; until [ -e replaced ]; do :; done; echo x > .git/new; echo x > .git/config; echo > ended"
    spawn = sandbox.wrap(["/bin/sh", "-c", text], cwd=ws, env=command_environment(), timeout=None)
    ended = asyncio.create_task(run(spawn, timeout=60))
    async with asyncio.timeout(60):
        while not (ws / "begun").exists():
            await asyncio.sleep(0.001)
    (ws / ".git" / "config.lock").write_text("the person's")
    (ws / ".git" / "config.lock").rename(ws / ".git" / "config")
    (ws / "replaced").touch()
    await ended
    assert (ws / "ended").exists() and not (ws / ".git" / "new").exists()
    assert (ws / ".git" / "config").read_text() == "the person's"
    assert spawn.appeared() == spawn.notes == []


def test_a_link_into_what_is_read_only_gives_it_no_protected_name(ws: Path) -> None:
    (ws / ".git" / "x").mkdir()
    (ws / ".git" / "x" / "mcp.json").touch()  # an earlier command may have made it
    running = (first := folders(ws)).guards(ws, lasting=True)
    (ws / ".cursor").symlink_to(".git/x")
    assert first.appeared(running) == [".cursor"]


def test_a_granted_name_stays_granted_without_a_time_limit(ws: Path) -> None:
    for name in (".git", ".git/config"):
        [guard] = folders(ws, allow_protected=(name,)).guards(ws, lasting=True)
        assert f"{ws}/.git" not in guard.read_only
    [guard] = folders(ws).guards(ws, lasting=True)
    assert (f"{ws}/.git", True) in guard.mounts() and (f"{ws}/.git/modules/s/hooks", True) not in guard.mounts()


@pytest.mark.skipif(sys.platform != "linux", reason="bubblewrap and Landlock are for Linux")
@pytest.mark.parametrize("backend", ["bubblewrap", "landlock"])
async def test_another_command_cannot_change_what_a_command_hides(ws: Path, backend: Any) -> None:
    sandbox = select_sandbox(SandboxSettings(backend=backend), ws)

    async def command(text: str) -> None:
        spawn = sandbox.wrap(["/bin/sh", "-c", text], cwd=ws, env=command_environment(), timeout=60)
        await run(spawn, timeout=60)
        spawn.appeared()

    running = sandbox.wrap(["/bin/true"], cwd=ws, env=command_environment(), timeout=60)
    os.rename(ws / "bare.git" / "HEAD", ws / "bare.git" / "H2")
    await command("echo x > bare.git/hooks/post-update; echo x > bare.git/config; echo x > bare.git/objects/free")
    assert os.listdir(ws / "bare.git" / "hooks") == [] and (ws / "bare.git" / "config").read_text() == ""
    assert (ws / "bare.git" / "objects" / "free").exists()
    await run(running, timeout=60)
    running.appeared()
