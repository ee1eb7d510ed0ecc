"""In a home directory all hidden entries are protected, whatever they are called."""

import os
import pwd
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from types import SimpleNamespace

import pytest

from toolcrib import Toolbox
from toolcrib.boundary import hidden_entries
from toolcrib.boundary.hidden_entries import hidden_name, homes_in
from toolcrib.boundary.path_judgement import RULE_PROTECTED, judge_path
from toolcrib.boundary.sandbox.settings import SandboxSettings
from toolcrib.boundary.sandbox.writable import Writable
from toolcrib.boundary.workspace import Workspace
from toolcrib.policy.shell.judge import judge_command
from toolcrib.policy.shell.parts import CommandPlace
from toolcrib.toolbox.toolbox import Toolbox as OpenToolbox

HOLDS = [
    ".gradle/init.gradle",
    ".psqlrc",
    ".config/any/x",
    ".cache/zsh/zcompdump",
    ".local/share/applications/x",
    ".ünï",
]
"""Names that are in no list, or were not."""


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in ("XDG_CONFIG_HOME", "XDG_STATE_HOME"):
        monkeypatch.delenv(name, raising=False)
    home = tmp_path / "home"
    for folder in (".gradle", ".config/any", ".local/bin", "project/.config/any", "project/.github"):
        (home / folder).mkdir(parents=True)
    for file in (".psqlrc", ".gradle/init.gradle", ".config/any/x", "project/run.sh"):
        (home / file).write_text("old")
    monkeypatch.setenv("HOME", str(home))
    return home


@pytest.mark.parametrize("name", [".a", ".config", ".cache", ".venv", ".git-templates", ".histrc", ".é", "..x"])
def test_a_hidden_name_counts_whatever_it_is(name: str) -> None:
    found = hidden_name(name)
    assert found is not None
    assert found.name == name


@pytest.mark.parametrize(
    "name",
    [
        "bin", "a.b", ".git", ".gitignore", ".bash_history", ".zsh_history.new", ".bash_history-00123.tmp",
        ".viminfo", ".notes.txt.0123456789ab.tmp", ".notes.swp", ".xsession-errors.old", ".coverage.h.1",
        ".pytest_cache",
    ],
)  # fmt: skip
def test_other_names_and_plain_data_do_not(name: str) -> None:
    assert hidden_name(name) is None


def test_the_library_of_macos_is_hidden(monkeypatch: pytest.MonkeyPatch) -> None:
    assert hidden_name("Library") is None
    monkeypatch.setattr(sys, "platform", "darwin")
    assert hidden_name("Library") is not None


def test_a_home_is_that_of_the_variable_and_that_of_the_account(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (link := home.parent / "link").symlink_to("home")
    monkeypatch.setenv("HOME", str(link))
    assert homes_in(str(home)) == (str(home),)
    assert str(home) in homes_in(str(home.parent))
    assert homes_in(str(home / "project")) == ()
    account = os.path.realpath(pwd.getpwuid(os.getuid()).pw_dir)
    monkeypatch.setenv("HOME", "relative")
    assert account == "/" or account in homes_in(account)
    monkeypatch.setenv("HOME", "/")
    assert "/" not in homes_in("/")


def test_root_also_asks_for_the_homes_of_others_below_a_folder(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder that is the home of another user may be a project: an image has often such a user."""
    people = [(1000, "mina"), (1001, "nobody"), (33, "www"), (65_534, "gone")]
    there = [SimpleNamespace(pw_uid=uid, pw_dir=f"{home.parent}/{name}") for uid, name in people]
    monkeypatch.setattr(pwd, "getpwall", lambda: there)
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    hidden_entries._homes_of_others.cache_clear()  # pyright: ignore[reportPrivateUsage]
    try:
        assert homes_in(str(home.parent)) == (str(home), f"{home.parent}/mina", f"{home.parent}/nobody")
        assert homes_in(f"{home.parent}/mina") == ()
        there.append(SimpleNamespace(pw_uid=1002, pw_dir="/home/toolcrib-test"))
        hidden_entries._homes_of_others.cache_clear()  # pyright: ignore[reportPrivateUsage]
        assert homes_in("/home/toolcrib-test") == ("/home/toolcrib-test",)
        monkeypatch.setattr(os, "geteuid", lambda: 1000)
        assert homes_in(str(home.parent)) == (str(home),)
    finally:
        hidden_entries._homes_of_others.cache_clear()  # pyright: ignore[reportPrivateUsage]


@pytest.mark.parametrize("path", HOLDS)
@pytest.mark.parametrize("above", ["", "home/"])
def test_a_file_tool_asks_before_it_changes_one(home: Path, path: str, above: str) -> None:
    ws = Workspace(home.parent if above else home)
    found = judge_path(ws, above + path, write=True)
    assert found is not None
    assert (found.verdict, found.rule) == ("ask", RULE_PROTECTED)
    assert "programs load settings or code from hidden files" in found.reason


def test_other_files_of_a_home_and_hidden_ones_of_a_project_do_not_ask(home: Path) -> None:
    for path in ("notes.txt", "project/.config/any/x", "project/.github/y", ".bash_history"):
        assert judge_path(Workspace(home), path, write=True) is None
    (home / ".dotfiles").mkdir()
    for path in (".psqlrc", ".config/any/x"):
        for project in ("project", ".dotfiles"):
            assert judge_path(Workspace(home / project), path, write=True) is None
        assert judge_path(Workspace(home), path) is None  # nor does reading


def test_a_home_is_not_moved_from_above_without_a_question(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("XDG_CONFIG_HOME", "XDG_STATE_HOME"):  # else the home cannot be moved at all
        monkeypatch.setenv(name, "/nowhere")
    found = judge_path(Workspace(home.parent), "home", write=True)
    assert found is not None
    assert found.rule == RULE_PROTECTED


def test_what_a_hidden_link_leads_to_asks_too(home: Path) -> None:
    (home / "dotfiles").mkdir()
    (home / "dotfiles/rc").write_text("old")
    (home / "dotfiles/x").write_text("old")
    (home / ".anyrc").symlink_to("dotfiles/rc")
    (home / ".config/linked").symlink_to("../dotfiles/x")
    (home / ".local/bin/run").symlink_to("../../project/run.sh")
    for path in ("dotfiles/rc", "dotfiles/x"):
        found = judge_path(Workspace(home), path, write=True)
        assert found is not None
        assert found.rule == RULE_PROTECTED
    assert judge_path(Workspace(home), "project/run.sh", write=True) is None  # a person starts it


@pytest.mark.parametrize("contained", [True, False])
@pytest.mark.parametrize(
    ("command", "asks"),
    [
        ("touch ~/.newrc", True), ("echo x >> .psqlrc", True), ("rm -r ~/.gradle", True),
        ("cd .config && touch any/y", True), ("chmod +x .[a-z]*", True), ("touch notes.txt", False),
        ("touch project/.newrc", False), ("rm .bash_history", False),
    ],
)  # fmt: skip
def test_a_command_asks_in_the_same_way(home: Path, command: str, asks: bool, contained: bool) -> None:
    place = CommandPlace(str(home), str(home), str(home), contained=contained, on_disk=True)
    found = judge_command(command, place)
    assert ("programs load settings or code" in found.reason) is asks
    project = CommandPlace(str(home / "project"), str(home / "project"), str(home), contained=contained, on_disk=True)
    assert "programs load settings" not in judge_command(command, project).reason


def test_commands_have_them_read_only_and_what_they_make_is_found(home: Path) -> None:
    folders = Writable(home, SandboxSettings(), "workspace-write")
    (guard,) = guards = folders.guards(home / "project")
    read_only = {path for path, only in guard.mounts() if only}
    assert {f"{home}/{name}" for name in (".gradle", ".config", ".local", ".psqlrc")} <= read_only
    assert not any(path.startswith(f"{home}/project") for path in read_only)
    assert guard.forbids(f"{home}/.new", "file")
    assert not guard.forbids(f"{home}/new", "file")
    for name in (".new", ".bash_history", "new", "project/.new"):
        (home / name).write_text("made")
    (home / ".newer").mkdir()
    assert sorted(folders.appeared(guards)) == [".new", ".newer"]


def test_a_link_is_no_plain_data(home: Path) -> None:
    """A history that is a link: the interpreter would write what it has read from a command into `.profile`."""
    (home / ".python_history").write_text("typed")
    folders = Writable(home, SandboxSettings(), "workspace-write")
    guards = folders.guards(home)
    (home / ".python_history").unlink()
    (home / ".python_history").symlink_to(".profile")
    assert folders.appeared(guards) == [".python_history"]
    assert guards[0].forbids(f"{home}/.python_history", "link")
    assert not guards[0].forbids(f"{home}/.python_history", "file")


def test_a_home_that_is_granted_is_a_home(home: Path, tmp_path: Path) -> None:
    (work := tmp_path / "work").mkdir()
    found = judge_path(Workspace(work, write_roots=[home]), home / ".psqlrc", write=True)
    assert found is not None
    assert found.rule == RULE_PROTECTED
    folders = Writable(work, SandboxSettings(write_roots=(home,)), "workspace-write")
    guards = folders.guards(work)
    assert (f"{home}/.gradle", True) in [bind for guard in guards for bind in guard.mounts()]
    (home / ".new").write_text("made")
    assert folders.appeared(guards) == [f"{home}/.new"]


def test_what_is_granted_in_a_hidden_folder_is_not_read_only(home: Path) -> None:
    for folder in (".cache/mine", ".cache/other", ".config/fish"):
        (home / folder).mkdir(parents=True)
    settings = SandboxSettings(write_roots=(home / ".cache/mine",), allow_protected=(".config/fish",))
    folders = Writable(home, settings, "workspace-write")
    guards = folders.guards(home)
    read_only = {path.removeprefix(f"{home}/") for path, only in guards[0].mounts() if only}
    assert {".gradle", ".cache/other", ".config/any"} <= read_only
    assert read_only.isdisjoint({".cache", ".cache/mine", ".config", ".config/fish"})
    assert guards[0].forbids(f"{home}/.cache/x", "file")
    assert not guards[0].forbids(f"{home}/.cache/mine/x", "file")
    for name in (".cache/mine/new", ".cache/new", ".config/fish/new"):
        (home / name).write_text("made")
    assert folders.appeared(guards) == [".cache/new"]


SCRIPT = """
for name in (".psqlrc", ".gradle/init.gradle", ".config/any/x", ".newrc", "project/run.sh"):
    try:
        open(name, "w").write("made")
    except OSError:
        pass
"""


@pytest.fixture(params=["bubblewrap", pytest.param("landlock", marks=pytest.mark.slow), "none"])
async def box(request: pytest.FixtureRequest, home: Path, tmp_path: Path) -> AsyncIterator[OpenToolbox]:
    config = tmp_path / "toolcrib.toml"
    config.write_text(f'[sandbox]\nbackend = "{request.param}"\n')
    (tmp_path / "link").symlink_to("home")
    (home / "x.py").write_text(SCRIPT)
    async with Toolbox.open(tmp_path / "link", config=config, warm_up=False) as found:
        yield found


async def test_a_program_changes_none_behind_any_wall(box: OpenToolbox, home: Path) -> None:
    answer = await box.registry.execute("exec", {"command": "python3 x.py"})
    assert "Exit code: 0" in answer.for_llm
    assert (home / "project/run.sh").read_text() == "made"
    assert {(home / name).read_text() for name in (".psqlrc", ".gradle/init.gradle", ".config/any/x")} == {"old"}
    assert not (home / ".newrc").exists()
