"""What git runs or obeys in a workspace because settings name it: git itself says so, by running what was planted."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from toolcrib import Toolbox
from toolcrib.boundary import git_identity, git_settings
from toolcrib.boundary.git_settings import entries, named_by_git
from toolcrib.boundary.host_files import RULE_HOST_FILES, host_file_at, host_files_in
from toolcrib.boundary.path_judgement import judge_path
from toolcrib.boundary.sandbox.protected_paths import find_protected_paths
from toolcrib.boundary.sandbox.settings import SandboxSettings
from toolcrib.boundary.sandbox.writable import Writable
from toolcrib.boundary.workspace import Workspace

WHO = '[user]\n\tname = Ann\n\temail = ann@example.com\n[protocol "file"]\n\tallow = always\n'


class Person:
    """A person with a repository, who runs git there."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.ws, self.home, self.marker = folder / "ws", folder / "home", folder / "marker"
        self.ws.mkdir()
        self.home.mkdir()
        monkeypatch.setenv("HOME", str(self.home))
        monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
        for name in [name for name in os.environ if name.startswith("GIT_")]:
            monkeypatch.delenv(name)
        (self.home / ".gitconfig").write_text(WHO)
        self.git("init -q")
        (self.ws / "a.txt").write_text("a\n")
        (self.ws / ".gitattributes").write_text("*.txt filter=x diff=x merge=x\n")
        self.git("add -A")
        self.git("commit -qm first")

    def git(self, line: str, folder: str = ".") -> None:
        env = {**os.environ, "GIT_TERMINAL_PROMPT": "0"}
        subprocess.run(
            f"git {line}", shell=True, cwd=self.ws / folder, env=env, capture_output=True, check=False,
            input=b"protocol=https\nhost=example.com\n\n", timeout=30,
        )  # fmt: skip

    def plant(self, name: str) -> None:
        path = self.ws / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if name.endswith(".cfg"):
            text = f"[core]\n\tfsmonitor = \"echo x >> '{self.marker}'; false\"\n"
        elif name.endswith(".py"):
            text = f"open({str(self.marker)!r}, 'a').write('x')\n"
        else:
            text = f"#!/bin/sh\necho x >> '{self.marker}'\n"
        path.write_text(text)
        path.chmod(0o755)


@pytest.fixture
def person(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Person:
    return Person(tmp_path, monkeypatch)


COMMIT = "commit -q --allow-empty -m x"
CHANGE = "status; echo b > a.txt; git diff; git add a.txt"
MERGE = (
    "checkout -qb other; echo o > a.txt; git commit -qam o; git checkout -q -; echo m > a.txt; git commit -qam m;"
    " git merge other"
)
CASES = [  # settings, what is planted, what the person does
    ("[core]\n\thooksPath = .githooks\n", ".githooks/pre-commit", COMMIT),
    ("[core]\r\n\thooksPath = .githooks\r\n", ".githooks/pre-commit", COMMIT),
    ("[core]\n\thooksPath = \"hooks\fown\"\n", "hooks\fown/pre-commit", COMMIT),
    ("[core] hooksPath=./tools/hooks/\n", "tools/hooks/pre-commit", COMMIT),
    ("[core]\n\thooksPath = .husky/_\n", ".husky/pre-commit", COMMIT),
    ("[core]\n\tfsmonitor = tools/fsm\n", "tools/fsm", "status"),
    ("[include]\n\tpath = ../more.cfg\n", "more.cfg", "status"),
    ("[includeIf \"gitdir:**/ws/.git\"]\n\tpath = ../more.cfg\n", "more.cfg", "status"),
    ("[include]\n\tpath = own\n", "more.cfg", "status"),
    ("[filter \"x\"]\n\tclean = python3 tools/clean.py %f\n", "tools/clean.py", CHANGE),
    ("[filter \"x\"]\n\tclean = python3 tools/there.py %f\n", "tools/json.py", CHANGE),
    ("[filter \"x\"]\n\tclean = python3 -m there\n", "json.py", CHANGE),
    ("[filter \"x\"]\n\tprocess = \"V=1 ./long/process\"\n", "long/process", CHANGE),
    ("[diff \"x\"]\n\ttextconv = ./conv\n", "conv", CHANGE),
    ("[diff]\n\texternal = ./ext\n", "ext", CHANGE),
    ("[merge \"x\"]\n\tdriver = sh merging/driver.sh %O %A %B\n", "merging/driver.sh", MERGE),
    ("[alias]\n\tst = !./st.sh\n", "st.sh", "st"),
    ("[alias]\n\tst = -c core.fsmonitor=./fsm.sh status\n", "fsm.sh", "st"),
    ("[credential]\n\thelper = \"!f() { ./bin/helper \\\"$@\\\"; }; f\"\n", "bin/helper", "credential fill"),
    ("[gpg]\n\tprogram = ./sign/gpg\n", "sign/gpg", f"{COMMIT} -S"),
    ("[core]\n\teditor = tools/ed --wait\n", "tools/ed", "commit --allow-empty"),
    ("[sequence]\n\teditor = tools/ed\n", "tools/ed", "rebase -i --root"),
    ("[core]\n\tsshCommand = tools/ssh -v\n", "tools/ssh", "ls-remote ssh://example.com/x"),
    ("[remote \"o\"]\n\turl = .\n\tuploadpack = tools/up\n", "tools/up", "ls-remote o"),
    ("[init]\n\ttemplateDir = ~/../ws/tpl\n", "tpl/hooks/pre-commit", f"init -q new; cd new; git {COMMIT}"),
    ("[difftool \"x\"]\n\tcmd = tools/dt\n[diff]\n\ttool = x\n", "tools/dt", "status; echo b > a.txt; git difftool -y"),
]  # fmt: skip


@pytest.mark.parametrize("by", ["the repository", pytest.param("the person", marks=pytest.mark.slow)])
@pytest.mark.parametrize(("settings", "planted", "does"), CASES)
def test_what_git_runs_is_protected_before_it_is_there(
    person: Person, settings: str, planted: str, does: str, by: str
) -> None:
    (person.ws / ".git" / "own").write_text("[include]\n\tpath = ../more.cfg\n")
    husky = person.ws / ".husky" / "_" / "pre-commit"
    husky.parent.mkdir(parents=True)
    husky.write_text('#!/bin/sh\nsh -e "$(dirname "$0")/../$(basename "$0")"\n')
    husky.chmod(0o755)
    for name in ("tools/there.py", "there.py"):
        (person.ws / name).parent.mkdir(exist_ok=True)
        (person.ws / name).write_text("import json\n")
    for folder in ("auth", "src", "long/other", "test"):
        (person.ws / folder).mkdir(parents=True, exist_ok=True)
    if planted in ("conv", "bin/helper", "long/process"):  # a word of a shell's text counts if there is such a file
        (person.ws / planted).parent.mkdir(exist_ok=True)
        (person.ws / planted).write_text("")
    config = person.ws / ".git" / "config"
    if by == "the person":
        config = person.home / ".gitconfig"
        settings = settings.replace("path = ../", "path = ../ws/").replace("path = own", "path = ../ws/.git/own")
    config.write_text(config.read_text() + settings)
    root = os.path.realpath(person.ws)
    found = host_file_at(root, f"{root}/{planted}")
    assert found is not None and "outside the sandbox, as you" in found.reason
    for name in ("src/app.py", "auth/x", "test/x", "a.txt", "docs/index.md"):
        assert host_file_at(root, f"{root}/{name}") is None
    person.plant(planted)
    person.git(does)
    of_person_alone = "templateDir" in settings and by == "the repository"
    assert person.marker.exists() != of_person_alone  # git does run it


def test_a_file_tool_asks_and_says_what_it_means(person: Person) -> None:
    person.git("config core.hooksPath .husky/_")
    ws = Workspace(person.ws)
    found = judge_path(ws, ".husky/pre-commit", write=True)
    assert found is not None and found.verdict == "ask" and found.rule == RULE_HOST_FILES
    assert found.reason == (
        ".husky/pre-commit: git runs the hooks in it outside the sandbox, as you (core.hookspath in .git/config)"
    )
    assert judge_path(ws, ".husky", write=True) is not None
    assert judge_path(ws, "a.txt", write=True) is None
    ws.close()


def test_settings_are_read_again_when_they_change(person: Person) -> None:
    root = os.path.realpath(person.ws)
    assert host_files_in(root) == []
    person.git("config core.hooksPath hooks")
    assert [each.path for each in host_files_in(root)] == [f"{root}/hooks"]
    person.git("config core.hooksPath elsewhere")
    assert [each.path for each in host_files_in(root)] == [f"{root}/elsewhere"]
    person.git("config --unset core.hooksPath")
    assert host_files_in(root) == []


@pytest.mark.parametrize("by", [".git/config", ".git/more"])
def test_settings_that_are_too_large_to_be_read_let_nothing_be_changed(
    person: Person, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, by: str
) -> None:
    monkeypatch.setattr(git_settings, "_MAX_BYTES", 2_000)
    config = person.ws / ".git" / "config"
    config.write_text(f"{config.read_text()}[include]\n\tpath = more\n")
    with Toolbox.open(person.ws, yes=True) as box:
        assert not box.call_sync("write_file", {"path": "b.txt", "content": "b"}).is_error
        with open(person.ws / by, "a") as file:
            file.write("# x\n" * 1_000 + "[core]\n\tfsmonitor = ./fsm\n")
        for name, arguments in (("write_file", {"path": "fsm", "content": "b"}), ("exec", {"command": "touch fsm"})):
            output = box.call_sync(name, arguments)
            assert output.is_error and "is larger than 2,000 bytes" in output.for_llm
    assert caplog.records and not any(each.exc_info for each in caplog.records)
    assert not (person.ws / "fsm").exists()


@pytest.mark.slow
def test_settings_that_name_too_much_to_look_at_let_nothing_be_changed(person: Person) -> None:
    config, before = person.ws / ".git" / "config", (person.ws / ".git" / "config").read_text()
    config.write_text(before + "[x]\n\tcommand = ./same y\n" * 4_000)
    with Toolbox.open(person.ws, yes=True) as box:
        assert not box.call_sync("write_file", {"path": "b.txt", "content": "b"}).is_error
        config.write_text(before + "".join(f"[x]\n\tcommand = ./other{each} y\n" for each in range(4_000)))
        for name, arguments in (("write_file", {"path": "same", "content": "b"}), ("exec", {"command": "touch same"})):
            output = box.call_sync(name, arguments)
            assert output.is_error and "names too much for git to run" in output.for_llm
    assert not (person.ws / "same").exists()


def test_what_names_data_and_programs_on_path_does_not_count(person: Person) -> None:
    for name in ("src", "store", "refs/heads/main", "less", "delta", "clean"):
        (person.ws / name).mkdir(parents=True)
    (person.ws / ".gitmessage").write_text("")
    config = person.ws / ".git" / "config"
    config.write_text(
        f"{config.read_text()}[core]\n\tpager = less -R\n\texcludesFile = .gitmessage\n\teditor = code --wait\n"
        '[remote "o"]\n\turl = ./src\n\tfetch = +refs/heads/*:refs/remotes/o/*\n[branch "main"]\n\tremote = .\n'
        "\tmerge = refs/heads/main\n[commit]\n\ttemplate = .gitmessage\n[alias]\n\tst = status src\n\tt = !make clean\n"
        "[credential]\n\thelper = store\n\thelper = !/usr/bin/gh auth git-credential\n[pull]\n\trebase = true\n"
        '[filter "lfs"]\n\tclean = git-lfs clean -- %f\n\tsmudge = git-lfs smudge -- %f\n\trequired = true\n'
    )
    assert host_files_in(os.path.realpath(person.ws)) == []


def test_a_submodule_a_worktree_and_a_repository_above(person: Person) -> None:
    origin = person.home / "origin"
    person.git(f"init -q {origin}; git -C {origin} commit -q --allow-empty -m x")
    person.git(f"submodule add {origin} libs/sub")
    person.git("config core.hooksPath .hooks", "libs/sub")
    person.git("config extensions.worktreeConfig true; git worktree add ../ws/tree")
    person.git("config --worktree core.hooksPath wt-hooks", "tree")
    root = os.path.realpath(person.ws)
    hooks, of_tree = f"{root}/libs/sub/.hooks", f"{root}/tree/wt-hooks"
    assert [each.path for each in host_files_in(root)] == [hooks]
    assert {each.path for each in named_by_git(root, [f"{root}/tree"])} == {of_tree, hooks}
    for folder, planted in (("libs/sub", "libs/sub/.hooks"), ("tree", "tree/wt-hooks")):
        person.plant(f"{planted}/pre-commit")
        person.git(COMMIT, folder)
        assert person.marker.exists()
        person.marker.unlink()
    person.git("config core.worktree ../; git config core.hooksPath sub/hooks")
    (person.ws / "sub").mkdir()
    assert [each.path for each in host_files_in(f"{root}/sub")] == [f"{root}/sub/hooks"]  # .git is above it


def test_commands_have_it_read_only_also_in_a_nested_repository(person: Person) -> None:
    person.git("init -q packages/one")
    person.git("config core.hooksPath .hooks; git config core.fsmonitor ./fsm", "packages/one")
    person.plant("packages/one/.hooks/pre-commit")
    root = Path(os.path.realpath(person.ws))
    (guard,) = Writable(root, SandboxSettings(), "workspace-write").guards(root)
    one = f"{root}/packages/one"
    assert f"{one}/.hooks" in guard.read_only and f"{one}/fsm" in guard.held
    person.plant("packages/one/fsm")
    assert guard.appeared() == ["packages/one/fsm"]
    granted = SandboxSettings(allow_protected=("packages/one/.hooks",))
    (guard,) = Writable(root, granted, "workspace-write").guards(root)
    assert f"{one}/.hooks" not in guard.read_only
    assert find_protected_paths(root, root, frozenset()).held == set()


def test_a_hooks_folder_behind_a_link(person: Person) -> None:
    (person.ws / "real").mkdir()
    (person.ws / ".githooks").symlink_to("real")
    person.git("config core.hooksPath .githooks")
    root = os.path.realpath(person.ws)
    assert {each.path for each in host_files_in(root)} == {f"{root}/.githooks", f"{root}/real"}


@pytest.mark.parametrize("link", [".husky/pre-commit", ".husky/_/pre-commit"])
def test_a_hook_that_is_a_link(person: Person, link: str) -> None:
    (person.ws / link).parent.mkdir(parents=True)
    (person.ws / link).symlink_to(person.ws / "check")
    person.git("config core.hooksPath .husky/_")
    assert host_file_at(str(person.ws), f"{person.ws}/check") and not host_file_at(str(person.ws), f"{person.ws}/other")


def test_files_that_include_each_other_end(person: Person) -> None:
    (person.ws / "one.cfg").write_text("[include]\n\tpath = two.cfg\n[core]\n\thooksPath = h\n")
    (person.ws / "two.cfg").write_text("[include]\n\tpath = one.cfg\n")
    person.git("config include.path ../one.cfg")
    root = os.path.realpath(person.ws)
    assert {os.path.relpath(each.path, root) for each in host_files_in(root)} == {"one.cfg", "two.cfg", "h"}


def test_files_that_include_the_same_file_many_times_are_read_once(tmp_path: Path) -> None:
    for level in range(9):
        (tmp_path / f"{level}").write_text(f"[include]\n{f'path = {level + 1}' + chr(10)}" * 3)
    (tmp_path / "9").write_text("[user]\nname = Ann\n[core]\nfsmonitor = ./x\n")
    found = list(git_settings._with_included(str(tmp_path / "0")))
    assert len(found) == 9 * 3 + 1
    assert git_identity._user(tmp_path / "0", "/home/ann", None, known := {}) == {"name": "Ann"}
    assert len(known) == 10


def test_a_value_ends_at_a_nul_as_for_git(tmp_path: Path) -> None:
    (tmp_path / "config").write_bytes(b'[core]\n\thooksPath = hk\0x\n\tpager = "p\0q" \n[a]\n\tb = c\n')
    assert [each.value for each in entries(str(tmp_path / "config"))] == ["hk", "p", "c"]
