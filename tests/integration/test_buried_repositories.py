"""M3: a repository in the workspace whose settings name programs. No tool makes one unasked, and what a command runs
there it runs inside the sandbox, or after a question."""

from __future__ import annotations

import asyncio
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest

from toolcrib import Toolbox
from toolcrib.boundary.sandbox import protected_search
from toolcrib.effects import saved_files
from toolcrib.policy.requests import ApprovalRequest, Decision
from toolcrib.policy.shell.judge import judge_command
from toolcrib.policy.shell.parts import CommandPlace

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
        return Decision(self.yes)

    def open(
        self,
        backend: str,
        mode: str = "assistant",
        effects: str = "direct",
        allow: Sequence[str] = (),
        yes: bool = False,
    ):
        self.yes = yes
        rules = f"[rules]\nallow = {list(allow)}\n"
        self.config.write_text(f'[sandbox]\nbackend = "{backend}"\neffects = "{effects}"\n{rules}')
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


FORMS = {  # how a repository hides from a reader that reads less exactly than git
    "a pattern": "git init -q r; cp evil r/.git/config # git -C r* status",
    "the pattern of a loop": 'git init -q r; cp evil r/.git/config # for d in r*; do git -C "$d" status; done',
    "a link into it": "git init -q r; mkdir r/d; ln -s r/d l; cp evil r/.git/config # git -C l status",
    "a link into it, cd": "git init -q r; mkdir r/d; ln -s r/d l; cp evil r/.git/config # cd l && git status",
    "above a link": "git init -q r; mkdir r/d; ln -s r/d l; cp evil r/.git/config # git -C l/.. status",
    "blanks": "mkdir r; git init -q r/a; mv r/a/.git 'r/ g'; cp evil 'r/ g/config'; git init -q --bare r/g;"
    " rm -r r/a; echo 'gitdir:  g' > r/.git # git -C r status",
    "bytes": "mkdir r; git init -q r/a; mv r/a/.git $'r/\\xff'; cp evil $'r/\\xff/config'; rm -r r/a;"
    " printf 'gitdir: \\xff\\n' > r/.git # git -C r status",
    "a link in its pointer": "mkdir -p r s/d; git init -q s/a; mv s/a/.git s/g; cp evil s/g/config; ln -s ../s/d r/l;"
    " echo 'gitdir: l/../g' > r/.git # git -C r status",
    "a long comment": "git init -q r; { yes '# x' | head -300000; cat evil; } > r/.git/config # git -C r status",
    "a byte order mark": "git init -q r; printf '\\xef\\xbb\\xbf' > r/.git/config; tr -d '\\n' < evil"
    " >> r/.git/config # git -C r status",
    "an empty one below": "git init -q r; cp evil r/.git/config; mkdir -p r/s/.git/objects;"
    " echo 'ref: refs/heads/x' > r/s/.git/HEAD # git -C r/s status",
    "a command after git-lfs": "git init -q r; printf '[filter \"x\"]\\nclean = git-lfs clean; ./evil.sh\\n'"
    " >> r/.git/config # git -C r status",
    "an address that is a command": "git init -q r; printf '[protocol \"ext\"]\\nallow = always\\n'"
    " >> r/.git/config # git -C r show",
    "objects from the network": "git init -q r; git -C r config remote.x.promisor true # git -C r show HEAD",
    "objects of another repository": "git init -q r; git -C r config remote.x.partialCloneFilter blob:none"
    " # git -C r show HEAD",
    "a name with escapes": """git init -q r; printf '[core]\\nworktree = "../x\\\\t"\\n' >> r/.git/config"""
    " # git -C r diff",
    "a name with a prefix": "git init -q r; git -C r config blame.ignoreRevsFile '%(prefix)/../secret'"
    " # git -C r blame a",
    "a worktree's pointer": "git init -q r; mkdir -p r/.git/worktrees/ab; ln -s ../../../../../outside/secret"
    " r/.git/worktrees/ab/gitdir # git -C r worktree list",
    "a hook of the shared folder": "git init -q r; mv r/.git r/c; mkdir r/.git; cp r/c/HEAD r/.git; echo ../c"
    " > r/.git/commondir; touch r/c/hooks/post-index-change # git -C r status",
    "a work tree outside": "git init -q r; git -C r config core.worktree ../../../outside # git -C r diff",
    "a pointer outside": "mkdir r; echo 'gitdir: ../../outside/.git' > r/.git # git -C r log -p",
    "a link outside": "mkdir r; ln -s ../../outside/.git r/.git # git -C r log -p",
    "objects outside": "git init -q r; rm -rf r/.git/objects; ln -s ../../../outside/.git/objects r/.git"
    " # git -C r log",
    "alternates": "git init -q r; echo ../../../../outside/.git/objects > r/.git/objects/info/alternates"
    " # git -C r fsck",
    "a list of references": "git init -q r; ln -s ../../../outside/secret r/.git/packed-refs # git -C r log",
    "a file that is printed": "git init -q r; git -C r config blame.ignoreRevsFile ../../outside/secret"
    " # git -C r blame a",
    "signatures": "git init -q r; printf '[log]\\nshowSignature\\n' >> r/.git/config # git -C r log",
    "signatures in a format": "git init -q r; git -C r config format.pretty '%h %G?' # git -C r log",
}  # fmt: skip


@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
async def test_a_repository_is_read_as_git_reads_it(ground: Ground, form: str) -> None:
    made, _, command = form.partition(" # ")
    subprocess.run(["git", "init", "-q", str(ground.ws.parent / "outside")], check=True)
    (ground.ws / "evil").write_text(f"[core]\nfsmonitor = {ground.program}\n")
    subprocess.run(["bash", "-c", made], cwd=ground.ws, check=True)
    place = CommandPlace(str(ground.ws), str(ground.ws), str(ground.ws.parent), on_disk=True)
    assert judge_command(command, place).verdict == "ask"


def test_a_repository_above_the_workspace(ground: Ground) -> None:
    place = CommandPlace(str(ground.ws), str(ground.ws), "/home/me", on_disk=True)
    subprocess.run(["git", "init", "-q", str(ground.ws.parent)], check=True)
    assert judge_command("git status", place).verdict == "allow"
    with (ground.ws.parent / ".git" / "config").open("a") as settings:
        settings.write(f"[core]\nfsmonitor = {ground.program}\n")
    assert judge_command("git status", place).verdict == "ask"


async def test_worktrees_and_submodules_of_a_repository_elsewhere_are_its_own(ground: Ground) -> None:
    git = "git -c user.name=x -c user.email=x@y -c protocol.file.allow=always"
    made = (
        f"for r in main other; do {git} init -q $r; cd $r; echo x > a; {git} add a; {git} commit -qm x; cd ..; done;"
        f" cd main; {git} worktree add -q ../tree; {git} submodule --quiet add ../other sub"
    )
    subprocess.run(["bash", "-c", made], cwd=ground.ws.parent, check=True, capture_output=True)
    for folder in ("main", "tree", "main/sub"):
        at = str(ground.ws.parent / folder)
        assert judge_command("git log -p", CommandPlace(at, at, "/home/me", on_disk=True)).verdict == "allow"


def entered(ground: Ground, settings: str) -> CommandPlace:
    """Make the workspace a repository of which a former commit names `buried` as a submodule, and the index another."""
    git = ["git", "-c", "user.name=x", "-c", "user.email=x@y", "-C"]
    folder, ws = bury(ground, ""), ground.ws
    for top, *words in (
        (folder, "add", "a.txt"), (folder, "commit", "-qm", "x"), (ws, "init", "-q"), (ws, "add", "buried"),
        (ws, "commit", "-qm", "x"), (ws, "rm", "-q", "--cached", "buried"), (ws, "commit", "-qm", "y"),
    ):  # fmt: skip
        subprocess.run([*git, str(top), *words], check=True, capture_output=True)
    config = folder / ".git" / "config"
    config.write_text(config.read_text() + settings.replace("{}", str(ground.program)))
    return CommandPlace(str(ws), str(ws), "/home/me", profile="unrestricted", on_disk=True)


def test_git_enters_what_a_former_commit_names_if_it_shows_submodules_as_differences(ground: Ground) -> None:
    place = entered(ground, "[diff]\n\texternal = {}\n")
    assert judge_command("git log -p", place).verdict == "allow"
    for value, asks in (("short", False), ("log", True), ("diff", True)):
        subprocess.run(["git", "config", "diff.submodule", value], cwd=ground.ws, check=True)
        assert ("diff.submodule" in judge_command("git log -p", place).reason) == asks, value
    subprocess.run(["git", "log", "-p"], cwd=ground.ws, check=True, capture_output=True)
    assert ground.marker.exists()  # what the question is about


def test_in_the_worktree_that_an_option_names_the_index_means_other_files(ground: Ground) -> None:
    """There its names may be behind a link, and its submodules others."""
    place = entered(ground, "[core]\n\tfsmonitor = {}\n")
    at = Path(place.workspace)
    subprocess.run(["git", "reset", "-q", "HEAD~1"], cwd=at, check=True, capture_output=True)
    (at / "other").mkdir()
    (at / "buried").rename(at / "other/buried")
    (at / "plain").mkdir()
    for command in ("status", "grep x"):
        assert judge_command(f"git {command}", place).verdict == "allow"
        options = ("--work-tree=other", "--work-tree other", "-C other/buried/.. --work-tree .", "--work-tree=plain")
        for option in options:
            assert judge_command(f"git {option} {command}", place).verdict == "ask", option
    assert not ground.marker.exists()
    subprocess.run(["git", "--work-tree=other", "status"], cwd=at, check=True, capture_output=True)
    assert ground.marker.exists()


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


MARK = "node_modules/.package-lock.json"
TOOLS = ["node_modules/p", "__pycache__/p", "a/venv/p", "a/b/c/d/.pytest_cache/p"]


@pytest.mark.parametrize("closed", [False, True])
@pytest.mark.parametrize("folder", TOOLS)
async def test_a_command_leaves_no_repository_that_a_git_add_of_the_person_enters(
    ground: Ground, folder: str, closed: bool
) -> None:
    """Nothing of ours runs between the command and the person's `git add`."""
    git = "git -c user.name=x -c user.email=x@y"
    subprocess.run(["git", "init", "-q", str(ground.ws)], check=True)
    (ground.ws / "make.sh").write_text(
        f"mkdir -p {folder}; touch a/venv/pyvenv.cfg; echo a > {MARK}; cd {folder}; git init -q\n"
        f"echo x > a; {git} add a; {git} commit -qm x\n"
        f"printf '[core]\\nfsmonitor = {ground.program}\\n' >> .git/config\n" + ("chmod 0 ..\n" if closed else "")
    )
    async with ground.open("bubblewrap") as box:
        done = await box.call("exec", {"command": "bash make.sh"})
    assert f"{folder}/.git/config moved to the trash" in done.for_llm
    for words in (["add", "-A"], ["status"]):
        subprocess.run(["git", *words], cwd=ground.ws, check=False, capture_output=True)
    assert not ground.marker.exists()


async def test_a_repository_of_the_person_in_a_tools_folder_stays(ground: Ground) -> None:
    folder = ground.ws / "__pycache__" / "p"
    subprocess.run(["git", "init", "-q", str(folder)], check=True)
    (folder / ".git" / "hooks" / "pre-commit").touch()
    settings = folder / ".git" / "config"
    settings.write_text(settings.read_text() + "[user]\n\tname = Ann\n")
    await asyncio.sleep(0.1)  # what changed in the tick before a command is taken for its own
    async with ground.open("bubblewrap") as box:
        done = await box.call("exec", {"command": "echo x > a; echo y > __pycache__/p/b"})
    assert "trash" not in done.for_llm and settings.read_text().endswith("Ann\n")
    assert (folder / ".git" / "hooks" / "pre-commit").exists()


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


async def test_an_index_that_a_layer_changes_names_no_repository_that_is_hidden_below_it(ground: Ground) -> None:
    """A command that wrote directly has left it in a folder that is not searched."""
    folder = ground.ws / "__pycache__" / "p"
    for each in (ground.ws, folder):
        subprocess.run(["git", "init", "-q", str(each)], check=True)
    commit = "git -c user.name=x -c user.email=x@y commit -q --allow-empty -m x"
    subprocess.run(["bash", "-c", commit], cwd=folder, check=True)
    with (folder / ".git" / "config").open("a") as settings:
        settings.write(f"[core]\nfsmonitor = {ground.program}\n")
    async with ground.open("bubblewrap", effects="journal") as box:
        done = await box.call("exec", {"command": "git add -f __pycache__/p"})
    assert "__pycache__/p/.git/config moved to the trash" in done.for_llm
    subprocess.run(["git", "status"], cwd=ground.ws, check=False, capture_output=True)
    assert not ground.marker.exists()


async def test_a_gitmodules_that_is_too_long_to_be_read_names_every_folder(ground: Ground) -> None:
    folder = ground.ws / "node_modules" / "p"
    folder.mkdir(parents=True)
    subprocess.run(["git", "init", "-q", str(ground.ws)], check=True)
    (ground.ws / ".gitmodules").write_text("path=x\n" * 50_000 + "path=node_modules/p\n")
    (ground.ws / "node_modules" / ".package-lock.json").write_text("{}")
    (ground.ws / "make.sh").write_text(
        f"git init -q {folder}; printf '[core]\\nfsmonitor = {ground.program}\\n' >> {folder}/.git/config\n"
        "echo y >> .gitmodules\n"
    )
    async with ground.open("bubblewrap") as box:
        await box.call("exec", {"command": "bash make.sh"})
    subprocess.run(["git", "-C", str(folder), "status"], check=False, capture_output=True)
    place = CommandPlace(str(ground.ws), str(ground.ws), "/home/me", on_disk=True)
    assert judge_command("git status", place).verdict == "ask"
    assert not ground.marker.exists() and (ground.ws / ".gitmodules").read_text().endswith("p\n")


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


@pytest.mark.parametrize("at_once", [False, True])
async def test_no_file_tool_makes_a_repository_unasked(ground: Ground, at_once: bool) -> None:
    orders = [
        ["config", "objects/keep", "refs/keep", "HEAD"],
        ["HEAD", "config", "refs/keep", "objects/keep"],
        ["hooks/post-index-change", "objects/keep", "HEAD"],
        ["objects/keep", "HEAD", "config"],
        ["config", "HEAD", "commondir"],
    ]
    async with ground.open("none", "assistant") as box:
        for number, names in enumerate(orders):
            before = len(ground.asked)
            paths = [f"r{number}/{name}" for name in names]
            calls = (box.call("write_file", {"path": path, "content": "ref: refs/heads/main\n"}) for path in paths)
            if at_once:
                await asyncio.gather(*calls)
            else:
                for call in calls:
                    await call
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


DEEP = "a/b/c/d/e/p"


@pytest.mark.parametrize("by", ["a rule", "a yes", "nobody"])
async def test_a_deep_repository_of_the_person_stays_when_the_index_takes_it(ground: Ground, by: str) -> None:
    """Its settings and hooks are nothing that the command made."""
    settings = "[user]\n\tname = Ann\n"
    for folder in (ground.ws, ground.ws / DEEP):
        subprocess.run(["git", "init", "-q", str(folder)], check=True)
    config, hook = (ground.ws / DEEP / ".git" / name for name in ("config", "hooks/pre-commit"))
    config.write_text(config.read_text() + settings)
    hook.write_text("#!/bin/sh\n")
    git = "git -c user.name=x -c user.email=x@y"
    commit = f"cd {ground.ws / DEEP}; {git} commit -q --no-verify --allow-empty -m x"
    subprocess.run(["bash", "-c", commit], check=True)
    async with ground.open("bubblewrap", allow=["Bash(git *)"] if by == "a rule" else [], yes=by == "a yes") as box:
        done = await box.call("exec", {"command": "git add . && rm -f x" if by == "a yes" else "git add ."})
        assert not done.is_error and len(ground.asked) == (by == "a yes")
        assert config.read_text().endswith(settings) and hook.exists()
        evil = f"git -C {DEEP} config core.fsmonitor {ground.program}"
        await box.call("exec", {"command": f"python3 -c \"import os; os.system('{evil}')\""})
    assert config.read_text().endswith(settings)


async def test_a_command_that_a_rule_allows_leaves_no_deep_repository(ground: Ground) -> None:
    """It goes when the command ends: a later one, which the index then names, does not make it the person's."""
    subprocess.run(["git", "init", "-q", str(ground.ws)], check=True)
    (ground.ws / "make.sh").write_text(
        f"mkdir -p {DEEP}; git init -q {DEEP}; cd {DEEP}\n"
        "git -c user.name=x -c user.email=x@y commit -q --allow-empty -m x\n"
        f"printf '[core]\\nfsmonitor = {ground.program}\\n' >> .git/config\n"
    )
    async with ground.open("bubblewrap", allow=["Bash(bash make.sh)", "Bash(git *)"]) as box:
        done = await box.call("exec", {"command": "bash make.sh"})
        assert f"{DEEP}/.git/config moved to the trash" in done.for_llm
        await box.call("exec", {"command": "git add ."})
    subprocess.run(["git", "status"], cwd=ground.ws, check=False, capture_output=True)
    assert not ground.marker.exists()


UNMARK = f"*** Begin Patch\n*** Update File: {MARK}\n*** Move to: x.json\n@@\n-a\n+b\n*** End Patch"
HIDDEN = {  # where a first command makes a repository that no search sees, and what others do before git enters it
    "too large, and small again": (DEEP, ["bash many.sh", "bash make.sh", "bash few.sh"]),
    "too large": (DEEP, ["bash many.sh", "bash make.sh"]),
    "a file tool saw it": ("venv/b/c/d/p", ["bash make.sh", "write"]),
    "no search goes as deep": ("/".join("a" * 105) + "/p", ["bash make.sh"]),
    "an editor enters it": (DEEP, ["bash many.sh", "bash make.sh", "modules"]),
    "from a plain one": ("a/b/c/d/m/p", ["bash many.sh", "bash make.sh", "bash link.sh", "write"]),
    "another process": (DEEP, ["bash many.sh", "bash make.sh", "bash few.sh", "new process"]),
    "in a tool's folder, where a file tool writes": ("__pycache__/p", ["bash make.sh", "beside"]),
    "in a tool's folder, where a command begins": ("__pycache__/p", ["bash make.sh", "inside"]),
    "in a tool's folder, which an editor enters": ("__pycache__/p", ["bash make.sh", "modules"]),
    "in a folder that is a tool's no more": ("node_modules/p", ["bash mark.sh", "bash make.sh", "unmark"]),
    "in one, for another process": ("node_modules/p", ["bash mark.sh", "bash make.sh", "unmark", "new process"]),
}


@pytest.mark.parametrize("way", HIDDEN)
async def test_what_no_search_saw_when_it_was_made_is_not_the_persons(
    ground: Ground, way: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(saved_files, "MAX_FILES", 50)
    monkeypatch.setattr(saved_files, "MORE", 1)
    monkeypatch.setattr(protected_search, "_MAX_ENTRIES", 50)
    folder, commands = HIDDEN[way]
    subprocess.run(["git", "init", "-q", str(ground.ws)], check=True)
    shutil.rmtree(ground.ws / ".git" / "hooks")
    (ground.ws / "many.sh").write_text("mkdir many; touch many/{1..200}\n")
    (ground.ws / "few.sh").write_text("rm -r many\n")
    (ground.ws / "mark.sh").write_text(f"mkdir node_modules; echo a > {MARK}\n")
    commit = "git -c user.name=x -c user.email=x@y commit -q --allow-empty -m x"
    (ground.ws / "link.sh").write_text(f"cd $(dirname {folder}); git init -q; git add p; {commit}\n")
    (ground.ws / "make.sh").write_text(
        f"mkdir -p {folder}; git init -q {folder}; cd {folder}\n"
        f"{commit}\nprintf '[core]\\nfsmonitor = {ground.program}\\n' >> .git/config\n"
    )
    at = commands.index("new process") if "new process" in commands else 0
    for part in filter(None, (commands[:at], [*commands[at:], "git add -f ."])):
        for kept in (protected_search._found, protected_search._of_person):
            kept.pop(str(ground.ws), None)
        protected_search._doubtful.discard(str(ground.ws))
        async with ground.open("bubblewrap", allow=["Bash(git *)"]) as box:
            for command in part:
                if path := {"write": "x.txt", "modules": ".gitmodules", "beside": f"{folder}/x"}.get(command):
                    text = f'[submodule "x"]\n\tpath = {folder}\n'
                    assert not (await box.call("write_file", {"path": path, "content": text})).is_error
                elif command == "unmark":
                    assert not (await box.call("apply_patch", {"patch": UNMARK})).is_error
                elif command == "inside":
                    assert not (await box.call("exec", {"command": "bash /dev/null", "working_dir": folder})).is_error
                elif command != "new process":
                    assert not (await box.call("exec", {"command": command})).is_error
    assert not ground.asked
    subprocess.run(["git", "status"], cwd=ground.ws, check=False, capture_output=True)
    assert not ground.marker.exists()


async def test_what_git_entered_before_all_commands_may_go_and_come_back(
    ground: Ground, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also in a workspace that is too large to be searched, as by `git checkout` of two branches."""
    monkeypatch.setattr(saved_files, "MAX_FILES", 1)
    monkeypatch.setattr(protected_search, "_MAX_ENTRIES", 1)
    for folder in (ground.ws, ground.ws / DEEP):
        subprocess.run(["git", "init", "-q", str(folder)], check=True)
    config, settings = ground.ws / DEEP / ".git" / "config", "[user]\n\tname = Ann\n"
    config.write_text(config.read_text() + settings)
    git = "git -c user.name=x -c user.email=x@y"
    line = f"cd {ground.ws / DEEP}; {git} commit -q --allow-empty -m x; cd {ground.ws}; git add ."
    subprocess.run(["bash", "-c", line], check=True, capture_output=True)
    async with ground.open("bubblewrap", allow=["Bash(git *)"]) as box:
        for command in (f"git rm -qf --cached {DEEP}", "git add ."):
            assert "Exit code: 0" in (await box.call("exec", {"command": command})).for_llm
    assert config.read_text().endswith(settings)
