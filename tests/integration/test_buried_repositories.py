"""M3: a repository in the workspace whose settings name programs. No tool makes one unasked, and what a command runs
there it runs inside the sandbox, or after a question."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from toolcrib import Toolbox
from toolcrib.policy.requests import ApprovalRequest, Decision

PROGRAMS = [
    "[core]\n\tfsmonitor = {}\n",
    "[core] fsmonitor={}\n",
    "[core]\n\tbare = false\n\tpager = {}\n[pager]\n\tstatus = true\n",
    '[filter "x"]\n\tclean = {}\n',
    '[diff "x"]\n\ttextconv = {}\n[diff]\n\texternal = {}\n',
    "[alias]\n\tst = !{}\n",
    "[include]\n\tpath = ../more\n",
    "[core]\n\thooksPath = .\n",
    "[gpg]\n\tprogram = {}\n",
]


class Ground:
    def __init__(self, folder: Path) -> None:
        self.ws, self.marker, self.config = folder / "ws", folder / "marker", folder / "own.toml"
        self.ws.mkdir()
        self.program = self.ws / "evil.sh"
        self.program.write_text(f"#!/bin/sh\necho x >> '{self.marker}'\n")
        self.program.chmod(0o755)
        self.asked: list[str] = []

    async def approve(self, request: ApprovalRequest) -> Decision:
        self.asked.append(request.reason)
        return Decision(False)

    def open(self, backend: str, mode: str = "assistant", effects: str = "direct"):
        self.config.write_text(f'[sandbox]\nbackend = "{backend}"\neffects = "{effects}"\n')
        return Toolbox.open(workspace=self.ws, config=self.config, mode=mode, approve=self.approve)


@pytest.fixture
def ground(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Ground:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    return Ground(tmp_path)


def bury(ground: Ground, settings: str, *, bare: bool = False) -> Path:
    folder = ground.ws / "buried"
    subprocess.run(["git", "init", "-q", *(["--bare"] if bare else []), str(folder)], check=True)
    config = folder / "config" if bare else folder / ".git" / "config"
    config.write_text(config.read_text() + settings.replace("{}", str(ground.program)))
    if not bare:
        (folder / "a.txt").write_text("x\n")
    return folder


@pytest.mark.parametrize("settings", PROGRAMS)
async def test_without_a_sandbox_it_is_asked(ground: Ground, settings: str) -> None:
    bury(ground, settings)
    commands = ["git -C buried status", "cd buried && git status", "cd buried; git log"]
    commands.append("git --git-dir=buried/.git diff")
    async with ground.open("none") as box:
        for command in commands:
            assert (await box.call("exec", {"command": command})).is_error
    assert len(ground.asked) == len(commands)
    assert all("the repository's own settings name" in reason for reason in ground.asked)
    assert not ground.marker.exists()


@pytest.mark.parametrize("form", [["--index-version", "2"], ["--index-version", "4"], ["--split-index"]])
async def test_git_enters_a_repository_that_the_index_names(ground: Ground, form: list[str]) -> None:
    """Also without a `.gitmodules`."""
    git = ["git", "-c", "user.name=x", "-c", "user.email=x@y", "-C"]
    folder, ws = bury(ground, ""), ground.ws
    for top, *words in (
        (folder, "add", "a.txt"), (folder, "commit", "-qm", "x"), (ws, "init", "-q"), (ws, "add", "buried"),
        (ws, "update-index", *form),
    ):  # fmt: skip
        subprocess.run([*git, str(top), *words], check=True, capture_output=True)
    async with ground.open("none") as box:
        assert not (await box.call("exec", {"command": "git status"})).is_error
        settings = folder / ".git" / "config"
        settings.write_text(settings.read_text() + PROGRAMS[0].replace("{}", str(ground.program)))
        for command in ("git status", "git diff --stat"):
            assert (await box.call("exec", {"command": command})).is_error
    assert len(ground.asked) == 2
    assert not ground.marker.exists()


@pytest.mark.parametrize("effects", ["direct", "journal"])
@pytest.mark.parametrize("folder", ["node_modules/p", "__pycache__/p", "a/b/c/d/e/p"])
async def test_a_command_leaves_no_repository_that_a_git_status_of_the_person_enters(
    ground: Ground, folder: str, effects: str
) -> None:
    """Folders that tools make are not searched for protected names, but git enters what its index names."""
    git = "git -c user.name=x -c user.email=x@y"
    subprocess.run(["git", "init", "-q", str(ground.ws)], check=True)
    (ground.ws / "make.sh").write_text(
        f"mkdir -p {folder}; echo '{{}}' > node_modules/.package-lock.json; git init -q {folder}; cd {folder}\n"
        f"echo x > a; {git} add a; {git} commit -qm x\n"
        f"printf '[core]\\nfsmonitor = {ground.program}\\n' >> .git/config\n"
    )
    async with ground.open("bubblewrap", effects=effects) as box:
        done = [await box.call("exec", {"command": each}) for each in ("bash make.sh", f"git add -f {folder}")]
    subprocess.run(["git", "status"], cwd=ground.ws, check=False, capture_output=True)
    assert not ground.marker.exists(), done


@pytest.mark.parametrize("backend", ["bubblewrap", "landlock"])
async def test_inside_a_sandbox_it_harms_nothing(ground: Ground, backend: str) -> None:
    bury(ground, PROGRAMS[0])
    async with ground.open(backend) as box:
        await box.call("exec", {"command": "cd buried && git status"})
    assert not ground.marker.exists()  # it lies outside the workspace


async def test_an_ordinary_repository_is_not_asked_about(ground: Ground) -> None:
    ordinary = '[remote "origin"]\n\turl = https://example.com/x\n[branch "clean"]\n\tremote = origin\n'
    lfs = '[filter "lfs"]\n\tclean = git-lfs clean -- %f\n\tprocess = git-lfs filter-process\n'
    bury(ground, ordinary + lfs)
    async with ground.open("none") as box:
        assert not (await box.call("exec", {"command": "git -C buried status"})).is_error
    assert ground.asked == []


@pytest.mark.parametrize("mode", ["assistant"])
async def test_no_file_tool_makes_a_repository_unasked(ground: Ground, mode: str) -> None:
    orders = [
        ["config", "objects/keep", "refs/keep", "HEAD"],
        ["HEAD", "config", "refs/keep", "objects/keep"],
        ["hooks/post-index-change", "objects/keep", "HEAD"],
        ["objects/keep", "HEAD", "config"],
        ["config", "HEAD", "commondir"],
    ]
    async with ground.open("none", mode) as box:
        for number, names in enumerate(orders):
            before = len(ground.asked)
            for name in names:
                await box.call("write_file", {"path": f"r{number}/{name}", "content": "ref: refs/heads/main\n"})
            assert len(ground.asked) > before, names
        before = len(ground.asked)
        for name in ("sub/.git/config", "sub/.git/hooks/x", "sub/.git"):
            await box.call("write_file", {"path": name, "content": "x"})
        assert len(ground.asked) == before + 3


async def test_a_folder_with_such_names_is_not_a_repository(ground: Ground) -> None:
    async with ground.open("none") as box:
        for name in ("app/config/x.py", "app/objects/y.py", "app/hooks/z.py", "HEAD", "config"):
            assert not (await box.call("write_file", {"path": name, "content": "x"})).is_error
    assert ground.asked == []
