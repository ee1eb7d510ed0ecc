"""M3: files in the workspace that a repository's settings name. No tool changes them unasked, and the person's git runs
what it ran before; ordinary work with git asks nothing."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from toolcrib import Toolbox
from toolcrib.policy.requests import ApprovalRequest, Decision
from toolcrib.record.undoing import undo

HOOK = "#!/bin/sh\nexit 0\n"


class Ground:
    """A repository whose settings name a hooks folder, further settings, a filter and a monitor."""

    def __init__(self, folder: Path) -> None:
        self.ws, self.marker, self.config = folder / "ws", folder / "marker", folder / "own.toml"
        self.plant = f"#!/bin/sh\necho x >> '{self.marker}'\n"
        self.evil = f"[core]\n\tfsmonitor = \"echo x >> '{self.marker}'; false\"\n"
        for name, text in (
            (".husky/pre-commit", HOOK), (".husky/_/pre-commit", '#!/bin/sh\nsh "$(dirname "$0")/../pre-commit"\n'),
            ("tools/clean.sh", "cat\n"), ("shared.cfg", "[color]\n\tui = false\n"), ("a.txt", "a\n"),
            (".gitattributes", "*.txt filter=x\n"), ("src/app.py", "print(1)\n"),
        ):  # fmt: skip
            path = self.ws / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
            path.chmod(0o755)
        self.git("init -q")
        config = self.ws / ".git" / "config"
        config.write_text(
            f"{config.read_text()}[core]\n\thooksPath = .husky/_\n\tfsmonitor = tools/fsm\n[include]\n"
            '\tpath = ../shared.cfg\n[filter "x"]\n\tclean = sh tools/clean.sh\n'
            "[user]\n\tname = Ann\n\temail = ann@example.com\n"
        )
        self.git("add -A")
        self.git("commit -qm first")
        self.yes = False
        self.asked: list[str] = []

    def git(self, line: str) -> None:
        subprocess.run(f"git {line}", shell=True, cwd=self.ws, check=False, capture_output=True, timeout=60)

    def person_works(self) -> None:
        """What a person does with git, after which the marker shows whether something planted ran."""
        for line in ("status", "add -A", "commit -m x --allow-empty", "diff HEAD~1"):
            self.git(line)

    async def approve(self, request: ApprovalRequest) -> Decision:
        self.asked.append(request.reason)
        return Decision(self.yes)

    def open(self, backend: str, effects: str = "direct", mode: str = "assistant"):
        self.config.write_text(f'[sandbox]\nbackend = "{backend}"\neffects = "{effects}"\n')
        return Toolbox.open(workspace=self.ws, config=self.config, mode=mode, approve=self.approve)

    def pictures(self) -> dict[str, str]:
        names = (".husky/pre-commit", ".husky/_/pre-commit", "tools/clean.sh", "shared.cfg")
        return {name: (self.ws / name).read_text() for name in names if (self.ws / name).exists()}

    def calls(self, way: str) -> list[tuple[str, dict[str, Any]]]:
        """Each way to plant something in each place."""
        places = {
            ".husky/pre-commit": self.plant, ".husky/_/post-checkout": self.plant, ".husky/_/pre-commit": self.plant,
            "tools/clean.sh": self.plant, "tools/fsm": self.plant, "shared.cfg": self.evil,
        }  # fmt: skip
        calls: list[tuple[str, dict[str, Any]]] = []
        for path, text in places.items():
            there = (self.ws / path).exists()
            if way == "write_file":
                calls.append((way, {"path": path, "content": text}))
            elif way == "edit_file" and there:
                old = (self.ws / path).read_text().splitlines()[-1]
                calls.append((way, {"path": path, "old_text": old, "new_text": text}))
            elif way == "apply_patch":
                lines = "".join(f"+{line}\n" for line in text.splitlines())
                gone = f"*** Delete File: {path}\n" if there else ""
                calls.append((way, {"patch": f"*** Begin Patch\n{gone}*** Add File: {path}\n{lines}*** End Patch\n"}))
            elif way in ("exec", "code", "move"):
                (self.ws / "staged").mkdir(exist_ok=True)
                (self.ws / "staged" / "x").write_text(text)
                (self.ws / "staged" / "x").chmod(0o755)
                folder = os.path.dirname(path) or "."
                code = f"import os, shutil; os.makedirs('{folder}', exist_ok=True); shutil.copy('staged/x', '{path}')"
                command = {
                    "exec": f"mkdir -p {folder}; cp staged/x {path}",
                    "code": f'python3 -c "{code}"',
                    "move": f"mv {folder} old; cp -r old {folder}; cp staged/x {path}",
                }[way]
                if not (way == "move" and folder == "."):
                    calls.append(("exec", {"command": command}))
        return calls


@pytest.fixture
def ground(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Ground:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setenv("HOME", str(tmp_path))
    return Ground(tmp_path)


BACKENDS = [("bubblewrap", "direct"), ("bubblewrap", "journal"), ("landlock", "direct"), ("none", "direct")]


@pytest.mark.parametrize("way", ["write_file", "edit_file", "apply_patch"])
@pytest.mark.parametrize("mode", ["assistant", "autonomous"])
async def test_file_tools_ask(ground: Ground, way: str, mode: str) -> None:
    before, calls = ground.pictures(), ground.calls(way)
    async with ground.open("bubblewrap", mode=mode) as box:
        for name, arguments in calls:
            assert (await box.call(name, arguments)).is_error
        assert not (await box.call("write_file", {"path": "src/new.py", "content": "x = 1\n"})).is_error
    assert len(ground.asked) == len(calls) >= 4
    assert all("outside the sandbox, as you" in reason and "(" in reason for reason in ground.asked)
    assert ground.pictures() == before
    ground.person_works()
    assert not ground.marker.exists()


@pytest.mark.parametrize("way", ["exec", "code", "move"])
@pytest.mark.parametrize(("backend", "effects"), BACKENDS)
async def test_commands_do_not_change_it_unasked(ground: Ground, backend: str, effects: str, way: str) -> None:
    before = ground.pictures()
    async with ground.open(backend, effects) as box:
        for name, arguments in ground.calls(way):
            await box.call(name, arguments)
            ground.person_works()
            assert not ground.marker.exists(), arguments
    assert ground.pictures() == before
    assert not (ground.ws / "tools" / "fsm").exists()


@pytest.mark.parametrize(("backend", "effects"), BACKENDS)
async def test_one_yes_changes_it_and_undo_takes_it_back(ground: Ground, backend: str, effects: str) -> None:
    ground.yes, before = True, ground.pictures()
    async with ground.open(backend, effects) as box:
        assert not (await box.call("write_file", {"path": ".husky/pre-commit", "content": ground.plant})).is_error
        assert len(ground.asked) == 1 and "core.hookspath in .git/config" in ground.asked[0]
        ground.person_works()
        assert ground.marker.exists()  # git does run it
        undo(box.journal)
        assert ground.pictures() == before
        done = await box.call("exec", {"command": "printf 'exit 0\\n' > .husky/pre-commit"})
        assert not done.is_error and len(ground.asked) == 2
        assert (ground.ws / ".husky" / "pre-commit").read_text() == "exit 0\n"
        ground.yes = False
        await box.call("exec", {"command": "sh -c 'echo x > .husky/pre-commit'"})
        assert (ground.ws / ".husky" / "pre-commit").read_text() == "exit 0\n"  # the yes was for one call


@pytest.mark.parametrize("effects", ["direct", "journal"])
async def test_ordinary_work_asks_nothing(ground: Ground, effects: str) -> None:
    async with ground.open("bubblewrap", effects) as box:
        for command in ("echo b > a.txt", "git add a.txt", "git commit -qm b", "git status", "sh .husky/pre-commit"):
            done = await box.call("exec", {"command": command})
            assert not done.is_error, done.for_llm
        assert not (await box.call("write_file", {"path": "src/app.py", "content": "print(2)\n"})).is_error
    assert ground.asked == []
    log = subprocess.run(["git", "log", "--format=%s"], cwd=ground.ws, capture_output=True, text=True, check=True)
    assert log.stdout.split() == ["b", "first"]
