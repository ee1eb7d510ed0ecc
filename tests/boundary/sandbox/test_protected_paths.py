import hashlib
import os
import subprocess
import time
from pathlib import Path

import pytest

from toolcrib.boundary.path_judgement import judge_path, made_by
from toolcrib.boundary.protected_names import PROTECTED_NAMES
from toolcrib.boundary.sandbox.protected_paths import ProtectedPaths, find_protected_paths, protected_end
from toolcrib.boundary.workspace import Workspace


def paths(arguments: list[str], option: str, root: Path) -> set[str]:
    found = [arguments[at + 1] for at in range(0, len(arguments), 3) if arguments[at] == option]
    return {os.path.relpath(path, root) for path in found}


def make(root: Path, *names: str) -> None:
    for name in names:
        path = root / name
        if name.endswith("/"):
            path.mkdir(parents=True, exist_ok=True)
        else:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text("genuine")


def test_existing_names_are_read_only_and_folders_above_them_pinned(tmp_path: Path) -> None:
    make(tmp_path, ".git/hooks/", ".git/config", ".mcp.json", ".cursor/mcp.json", "src/a.py")
    arguments = find_protected_paths(tmp_path, tmp_path, frozenset()).arguments()
    assert paths(arguments, "--ro-bind", tmp_path) == {".git/hooks", ".git/config", ".mcp.json", ".cursor/mcp.json"}
    assert paths(arguments, "--bind", tmp_path) == {".git", ".cursor"}
    # A later mount hides an earlier one: what is outside must come first.
    assert arguments.index(str(tmp_path / ".git")) < arguments.index(str(tmp_path / ".git/hooks"))


def test_an_empty_workspace_needs_nothing(tmp_path: Path) -> None:
    found = find_protected_paths(tmp_path, tmp_path, frozenset())
    assert found.arguments() == []
    assert found.appeared() == []


def test_nested_repositories_and_those_above_a_deep_folder(tmp_path: Path) -> None:
    deep = tmp_path / "a/b/c/d/e/repo"
    make(tmp_path, "sub/project/.git/config", "a/b/c/d/e/repo/.git/config", "a/b/c/d/e/repo/src/")
    found = paths(find_protected_paths(tmp_path, deep / "src", frozenset()).arguments(), "--ro-bind", tmp_path)
    assert found == {"sub/project/.git/config", "a/b/c/d/e/repo/.git/config"}


def test_what_appears_is_found(tmp_path: Path) -> None:
    make(tmp_path, ".git/config", "sub/")
    found = find_protected_paths(tmp_path, tmp_path, frozenset())
    make(tmp_path, ".git/hooks/post-commit", ".git/commondir", "sub/.git/config", ".vscode/tasks.json", "src/b.py")
    assert sorted(found.appeared()) == [".git/commondir", ".git/hooks", ".vscode", "sub/.git/config"]


def test_a_grant_covers_what_is_below_it(tmp_path: Path) -> None:
    make(tmp_path, ".git/config", ".mcp.json")
    found = find_protected_paths(tmp_path, tmp_path, frozenset({".git"}))
    assert paths(found.arguments(), "--ro-bind", tmp_path) == {".mcp.json"}
    make(tmp_path, ".git/hooks/", ".vscode/")
    assert found.appeared() == [".vscode"]
    assert find_protected_paths(tmp_path, tmp_path, frozenset({"*"})).arguments() == []


def test_git_as_a_file_or_link_points_elsewhere(tmp_path: Path) -> None:
    make(tmp_path, "sub/.git", "plain/", "linked/real/config")
    (tmp_path / "linked/.git").symlink_to("real")
    found = find_protected_paths(tmp_path, tmp_path, frozenset())
    read_only = paths(found.arguments(), "--ro-bind", tmp_path)
    assert read_only == {"sub/.git", "linked/real"}
    (tmp_path / "linked/.git").unlink()
    (tmp_path / "linked/.git").symlink_to("other")
    make(tmp_path, "plain/.git")
    assert sorted(found.appeared()) == ["linked/.git", "plain/.git"]


def test_submodules(tmp_path: Path) -> None:
    module = ".git/modules/libs/one"
    make(tmp_path, f"{module}/HEAD", f"{module}/config", f"{module}/hooks/x", ".git/config", ".git/worktrees/w/HEAD")
    read_only = paths(find_protected_paths(tmp_path, tmp_path, frozenset()).arguments(), "--ro-bind", tmp_path)
    assert read_only == {f"{module}/config", f"{module}/hooks", ".git/config", ".git/worktrees"}


def test_links_are_followed_inside_and_compared(tmp_path: Path) -> None:
    workspace = tmp_path / "w"
    make(workspace, "dotfiles/bashrc", "dotconfig/fish/config.fish")
    (tmp_path / "outside").write_text("x")
    (workspace / ".bashrc").symlink_to("dotfiles/bashrc")
    (workspace / ".config").symlink_to("dotconfig")
    (workspace / ".profile").symlink_to(tmp_path / "outside")
    found = find_protected_paths(workspace, workspace, frozenset())
    assert paths(found.arguments(), "--ro-bind", workspace) == {"dotfiles/bashrc", "dotconfig/fish"}
    assert paths(found.arguments(), "--bind", workspace) == {"dotfiles", "dotconfig"}
    assert found.appeared() == []
    (workspace / ".bashrc").unlink()
    (workspace / ".bashrc").write_text("evil")
    (workspace / ".config").unlink()
    make(workspace, ".config/fish/config.fish")
    assert sorted(found.appeared()) == [".bashrc", ".config/fish"]


LEADS = {
    ".envrc": "local", ".vscode": "vs", ".cursor": "cur", ".git/hooks": "../mine",
    "packages/a/.envrc": "../../env/local", "packages/a/.github": "../../github",
    ".git/hooks/pre-commit": "../../scripts/check", ".vscode/tasks.json": "../shared/tasks.json",
    ".claude/skills/own": "../../skills/own",
}  # fmt: skip


@pytest.mark.parametrize("there", [True, False])
@pytest.mark.parametrize(("link", "path"), [
    (".envrc", "local"), (".vscode", "vs/tasks.json"), (".cursor", "cur/mcp.json"), (".git/hooks", "mine/pre-commit"),
    ("packages/a/.envrc", "env/local"), ("packages/a/.github", "github/mcp.json"),
    (".git/hooks/pre-commit", "scripts/check"), (".vscode/tasks.json", "shared/tasks.json"),
    (".claude/skills/own", "skills/own/run.py"),
])  # fmt: skip
def test_what_a_protected_link_leads_to_is_protected(tmp_path: Path, link: str, path: str, there: bool) -> None:
    (ws := tmp_path / "ws").mkdir()
    (ws / link).parent.mkdir(parents=True, exist_ok=True)
    (ws / link).symlink_to(LEADS[link])
    if there:
        make(ws, path)
    found = find_protected_paths(ws, ws, frozenset())
    workspace = Workspace(ws)
    judgement = judge_path(workspace, path, write=True)
    assert judgement is not None and judgement.verdict == "ask" and link in judgement.reason
    assert judge_path(workspace, "other/file", write=True) is None
    workspace.close()
    above = [path, *map(str, Path(path).parents)]
    if there:
        assert not paths(found.arguments(), "--ro-bind", ws).isdisjoint(above)
        assert found.appeared() == []
        return
    make(ws, path)
    appeared = found.appeared()
    assert len(appeared) == 1 and appeared[0] in above
    assert any(found.forbids(f"{ws}/{each}", "dir") for each in above)
    assert not found.forbids(f"{ws}/other", "file")


def test_links_on_the_way_of_a_protected_link_are_protected(tmp_path: Path) -> None:
    (ws := tmp_path / "ws").mkdir()
    (ws / ".envrc").symlink_to("middle")
    (ws / "middle").symlink_to("last")
    make(ws, "last")
    found = find_protected_paths(ws, ws, frozenset())
    assert found.appeared() == [] and found.keeps(f"{ws}/middle") and found.forbids(f"{ws}/middle", "file")
    workspace = Workspace(ws)
    judgement = judge_path(workspace, "middle", write=True)
    workspace.close()
    assert judgement is not None and judgement.verdict == "ask"
    (ws / "middle").unlink()
    make(ws, "middle")
    assert "middle" in found.appeared()


def ends(path: str, kind: str, *, generated: bool = True, allowed: str = "") -> bool:
    found = protected_end(path, kind, lambda name, before: False, lambda folder: generated, frozenset(allowed))
    return found is not None


def test_every_name_is_refused_in_a_layer() -> None:
    for each in PROTECTED_NAMES:
        for path in (each.name, f"a/b/{each.name}", each.name.upper()):
            assert ends(path, "dir"), path
        assert ends(f"target/{each.name}", "dir", generated=False) and not ends(f"target/{each.name}", "dir")


@pytest.mark.parametrize("path", [".cursor", "a/.github", ".config", ".local/share"])
def test_a_link_above_a_protected_name_is_not_made_in_a_layer(path: str) -> None:
    assert ends(path, "link") and ends(f"target/{path}", "link", generated=False)
    assert not ends(path, "dir") and not ends("src", "link")
    assert not ends(f"target/{path}", "link") and not ends(path, "link", allowed="*")


def test_large_workspaces_are_looked_at_for_a_bounded_time(tmp_path: Path) -> None:
    for number in range(60):
        for inner in range(40):
            (tmp_path / f"d{number}/e{inner}").mkdir(parents=True)
    (tmp_path / ".mcp.json").write_text("x")
    assert paths(find_protected_paths(tmp_path, tmp_path, frozenset()).arguments(), "--ro-bind", tmp_path) == {
        ".mcp.json"
    }


def test_a_new_link_above_a_protected_name_goes_itself(tmp_path: Path) -> None:
    make(tmp_path, "old/fish.txt", "linked/")
    (tmp_path / ".config").symlink_to("linked")
    found = find_protected_paths(tmp_path, tmp_path, frozenset())
    make(tmp_path, "x/mcp.json", "g/config", "linked/fish/config.fish")
    (tmp_path / ".cursor").symlink_to("x")
    (tmp_path / ".git").symlink_to("g")
    assert sorted(found.appeared()) == [".cursor", ".git", "linked/fish"]


def test_what_appears_in_a_deep_folder_where_the_command_starts_is_found(tmp_path: Path) -> None:
    deep = tmp_path / "a/b/c/d/e/repo"
    make(tmp_path, "a/b/c/d/e/repo/.git/HEAD")
    found = find_protected_paths(tmp_path, deep, frozenset())
    make(tmp_path, "a/b/c/d/e/repo/.git/hooks/pre-commit", "a/b/c/d/e/repo/.git/commondir")
    names = ["a/b/c/d/e/repo/.git/commondir", "a/b/c/d/e/repo/.git/hooks"]
    assert sorted(found.appeared()) == names


def test_a_repository_is_not_hidden_behind_many_folders(tmp_path: Path) -> None:
    make(tmp_path, "z/.git/config", "y/zz/.git/config")
    before = find_protected_paths(tmp_path, tmp_path, frozenset())
    for number in range(1100):
        (tmp_path / f"d{number}").mkdir()
    make(tmp_path, "z/.git/hooks/x")
    assert before.appeared() == ["z/.git/hooks"]
    later = find_protected_paths(tmp_path, tmp_path, frozenset(), before.known)
    assert {"z/.git/config", "y/zz/.git/config"} <= paths(later.arguments(), "--ro-bind", tmp_path)


def test_what_was_not_reached_before_is_not_taken_for_new(tmp_path: Path) -> None:
    for number in range(1100):
        (tmp_path / f"d{number}").mkdir()
    make(tmp_path, *(f"d{number}/zz/.git/config" for number in range(0, 1100, 100)))
    time.sleep(0.05)
    found = find_protected_paths(tmp_path, tmp_path, frozenset())
    for number in range(1, 1099):
        if number % 100:
            (tmp_path / f"d{number}").rmdir()
    assert found.appeared() == []
    make(tmp_path, "d100/zz/.git/hooks/x")
    assert found.appeared() == ["d100/zz/.git/hooks"]


def test_a_repository_without_a_dot_git_is_protected(tmp_path: Path) -> None:
    make(tmp_path, "real/HEAD", "real/objects/", "real/config", "real/hooks/", "plain/HEAD", "plain/config")
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub/.git").write_text("gitdir: ../real\n")
    found = find_protected_paths(tmp_path, tmp_path, frozenset())
    assert paths(found.arguments(), "--ro-bind", tmp_path) == {"sub/.git", "real/config", "real/hooks"}
    make(tmp_path, "HEAD", "objects/", "config", "hooks/pre-commit", "real/commondir")
    assert sorted(found.appeared()) == ["config", "hooks", "real/commondir"]
    assert find_protected_paths(tmp_path, tmp_path, frozenset({".git"})).arguments() == []


def test_a_submodule_is_not_hidden_by_what_lies_around_it(tmp_path: Path) -> None:
    """Its name may have slashes, and a command can make a HEAD in the folder above."""
    make(tmp_path, ".git/modules/libs/one/HEAD", ".git/modules/libs/one/config", ".git/modules/libs/HEAD")
    found = find_protected_paths(tmp_path, tmp_path, frozenset())
    assert paths(found.arguments(), "--ro-bind", tmp_path) == {".git/modules/libs/one/config"}
    make(tmp_path, ".git/modules/libs/one/two/HEAD", ".git/modules/libs/one/two/config")
    assert found.appeared() == [".git/modules/libs/one/two/config"]


def test_too_many_submodules_are_protected_as_a_whole(tmp_path: Path) -> None:
    make(tmp_path, *(f".git/modules/m{number}/HEAD" for number in range(600)), ".git/modules/m1/config")
    assert ".git/modules" in paths(
        find_protected_paths(tmp_path, tmp_path, frozenset()).arguments(), "--ro-bind", tmp_path
    )


@pytest.mark.parametrize("name", ["target", "venv", ".venv", "node_modules", ".tox", ".mypy_cache"])
def test_a_folder_that_only_has_the_name_of_a_generated_one_is_searched(tmp_path: Path, name: str) -> None:
    hooks = tmp_path / name / "project" / ".git" / "hooks"
    hooks.mkdir(parents=True)
    found = find_protected_paths(tmp_path, tmp_path, frozenset())
    assert str(hooks) in found.read_only


def test_a_generated_folder_is_passed_over_unless_it_is_a_repository(tmp_path: Path) -> None:
    hooks = tmp_path / "venv" / "src" / ".git" / "hooks"
    hooks.mkdir(parents=True)
    (tmp_path / "venv" / "pyvenv.cfg").write_text("")
    assert not find_protected_paths(tmp_path, tmp_path, frozenset()).read_only
    (tmp_path / "venv" / ".git" / "hooks").mkdir(parents=True)
    assert str(tmp_path / "venv" / ".git" / "hooks") in find_protected_paths(tmp_path, tmp_path, frozenset()).read_only


CONFIG = "[core]\n\tfsmonitor = evil\n"
HEAD = "ref: refs/heads/main\n"
REPOSITORIES: list[dict[str, str]] = [  # path → its text; "-> x" is a link to x
    {"y/config": CONFIG, "y/objects/k": "", "y/refs/k": "", "y/HEAD": HEAD},
    {"y/HEAD": HEAD, "y/objects/k": "", "y/refs/k": "", "y/config": CONFIG},
    {"y/HEAD": HEAD, "y/refs/k": "", "y/config": CONFIG, "y/objects/k": ""},
    {"y/config": CONFIG, "y/objects/k": "", "y/refs/k": "", "x/commondir": "../y", "x/HEAD": HEAD},
    {"y/config": CONFIG, "y/objects/k": "", "y/refs/k": "", "x/HEAD": HEAD, "x/commondir": "../y"},
    {"x/HEAD": HEAD, "x/commondir": "../y", "y/objects/k": "", "y/refs/k": "", "y/config": CONFIG},
    {"x/HEAD": "-> refs/heads/main", "x/commondir": "../y", "y/config": CONFIG, "y/objects/k": "", "y/refs/k": ""},
    {"y/HEAD": "-> refs/heads/main", "y/config": CONFIG, "y/objects/k": "", "y/refs/k": ""},
    {"y/HEAD": "-> refs/heads", "y/config": CONFIG, "y/objects/k": "", "y/refs/heads/k": ""},
    {"o/k": "", "y/config": CONFIG, "y/objects": "-> ../o", "y/refs": "-> ../o", "y/HEAD": HEAD},
    {"c": CONFIG, "y/config": "-> ../c", "y/objects/k": "", "y/refs/k": "", "y/HEAD": HEAD},
    {"__pycache__/config": CONFIG, "__pycache__/objects/k": "", "__pycache__/refs/k": "", "__pycache__/HEAD": HEAD},
    {"venv/pyvenv.cfg": "", "venv/config": CONFIG, "venv/objects/k": "", "venv/refs/k": "", "venv/HEAD": HEAD},
]  # fmt: skip


def _setting(folder: Path) -> str:
    command = ["git", "-C", str(folder), "-c", "safe.directory=*", "config", "core.fsmonitor"]
    return subprocess.run(command, capture_output=True, text=True, check=False, env=os.environ | {
        "GIT_CEILING_DIRECTORIES": str(folder.parent), "GIT_CONFIG_GLOBAL": "/dev/null",
    }).stdout.strip()  # fmt: skip


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.symlink_to(text[3:]) if text.startswith("-> ") else path.write_text(text)


@pytest.mark.parametrize("layout", REPOSITORIES)
def test_what_git_takes_for_a_repository_with_settings_does_not_stay(tmp_path: Path, layout: dict[str, str]) -> None:
    """git itself says what a repository is. Neither a command nor the file tools make one unasked."""
    (ws := tmp_path / "ws").mkdir()
    found = find_protected_paths(ws, ws, frozenset())
    for name, text in layout.items():
        _write(ws / name, text)
    folders = {(ws / name).parent for name in layout if name.endswith("HEAD")}
    assert {_setting(folder) for folder in folders} == {"evil"}
    for name in found.appeared():
        (ws / name).unlink()
    assert not any(map(_setting, folders))


@pytest.mark.parametrize("layout", REPOSITORIES)
def test_a_file_tool_asks_before_it_makes_a_repository(tmp_path: Path, layout: dict[str, str]) -> None:
    """Links, which only commands can make, are there already."""
    (ws := tmp_path / "ws").mkdir()
    workspace = Workspace(ws)
    links = {name for name, text in layout.items() if text.startswith("-> ")}
    files = [name for name in layout if name not in links]
    if not links:  # all in one patch
        for along in (made_by(workspace, files), made_by(workspace, [ws / name for name in files])):
            assert any(judge_path(workspace, name, write=True, along=along) for name in files)
    for name, text in sorted(layout.items(), key=lambda each: not each[1].startswith("-> ")):
        if text.startswith("-> ") or judge_path(workspace, name, write=True) is None:
            _write(ws / name, text)
    workspace.close()
    assert not any(
        _setting((ws / name).parent) for name in layout if name.endswith("HEAD") and (ws / name).parent.exists()
    )


PLAIN = """[core]
\trepositoryformatversion = 0
\tfilemode = true
\tbare = false
\tlogallrefupdates = true
[remote "origin"]
\turl = git@github.com:a/b.git
\tfetch = +refs/heads/*:refs/remotes/origin/*
[branch "main"]
\tremote = origin
\tmerge = refs/heads/main
"""


def new_repository(root: Path, text: str = PLAIN) -> list[str]:
    found = find_protected_paths(root, root, frozenset())
    make(root, ".git/hooks/pre-commit.sample", ".git/HEAD", ".git/objects/")
    (root / ".git/config").write_text(text)
    return found.appeared()


def test_what_git_writes_into_every_new_repository_may_stay(tmp_path: Path) -> None:
    assert new_repository(tmp_path) == []


@pytest.mark.parametrize(
    "line",
    [
        "\tfsmonitor = ./x", "\tpager = x", "[include]\n\tpath = x",
        "[alias]\n\tst = !x", "\tworktree = /", "\thooksPath = x",
        "[remote \"o\"] url = x", "\turl = ext::sh -c x", "\turl = -x",
        "\turl = a\\", "\tfilemode = true ; x", "# x",
        "[core] pager = x", "\tbare = false\u000b\tpager = x", "\tbare = false\r\n\tpager = x",
        "\t\tbare = true", "[filter \"x\"]", "\tuploadpack = x",
        "\tbare = false\n" * 200,
    ],
)  # fmt: skip
def test_any_other_setting_goes(tmp_path: Path, line: str) -> None:
    assert new_repository(tmp_path, f"{PLAIN}{line}\n") == [".git/config"]


def test_settings_that_can_be_changed_under_another_name_go(tmp_path: Path) -> None:
    found = find_protected_paths(tmp_path, tmp_path, frozenset())
    for name in ("linked", "hard", "pipe", "hooks", "program"):
        make(tmp_path, f"{name}/.git/hooks/pre-commit.sample")
    (tmp_path / "notes").write_text(PLAIN)
    (tmp_path / "linked/.git/config").symlink_to("../../notes")
    (tmp_path / "hard/.git/config").hardlink_to(tmp_path / "notes")
    os.mkfifo(tmp_path / "pipe/.git/config")
    (tmp_path / "hooks/.git/hooks/post-commit").symlink_to("pre-commit.sample")
    make(tmp_path, "program/.git/hooks/post-commit")
    assert sorted(found.appeared()) == [
        "hard/.git/config", "hooks/.git/hooks", "linked/.git/config", "pipe/.git/config", "program/.git/hooks",
    ]  # fmt: skip


def test_settings_that_were_replaced_are_not_new(tmp_path: Path) -> None:
    make(tmp_path, ".git/config", "elsewhere")
    os.rename(tmp_path / ".git/config", tmp_path / "kept")
    (tmp_path / ".git/config").symlink_to("../kept")
    found = find_protected_paths(tmp_path, tmp_path, frozenset())
    (tmp_path / ".git/config").unlink()
    (tmp_path / ".git/config").write_text(PLAIN)
    assert found.appeared() == [".git/config"]


def test_what_to_mount_in_very_many_repositories_is_known_at_once(tmp_path: Path) -> None:
    """Each path was compared with each other one: a second for 3,000."""
    found = ProtectedPaths(str(tmp_path), frozenset())
    found.pinned = {f"{tmp_path}/{number}" for number in range(20_000)}
    found.read_only = {f"{path}/hooks" for path in found.pinned}
    found.pinned |= {f"{path}/hooks/inner" for path in found.pinned}
    began = time.process_time()
    assert len(found.mounts()) == 40_000
    assert time.process_time() - began < 2


DETOURS = [
    ".git/COMMIT_EDITMSG", ".git/logs/HEAD", ".git/logs/refs/heads/objects/a/b", ".git/refs", ".git/objects/pack",
    ".git/objects/pack/x.pack", ".git/lfs/objects/ab/cd/x", ".git/modules/lib/FETCH_HEAD", ".hg/last-message.txt",
    "bare/FETCH_HEAD",
]  # fmt: skip


@pytest.mark.parametrize("path", DETOURS)
def test_a_new_link_in_the_own_folder_of_a_repository_goes(tmp_path: Path, path: str) -> None:
    """git writes through it: the message of a person's commit came into `~/.zshenv`."""
    make(tmp_path, ".git/config", ".git/HEAD", ".git/modules/lib/HEAD", ".hg/", "bare/HEAD", "bare/objects/")
    link = tmp_path / path
    link.parent.mkdir(parents=True, exist_ok=True)
    found = find_protected_paths(tmp_path, tmp_path, frozenset())
    link.symlink_to("/elsewhere/.zshenv")
    assert found.appeared() == [path]
    there = find_protected_paths(tmp_path, tmp_path, frozenset())
    there.started = time.time_ns()  # it is not new any more
    assert there.appeared() == []
    assert find_protected_paths(tmp_path, tmp_path, frozenset({".git", ".hg", "*"})).appeared() == []


def test_a_link_that_an_earlier_command_made_elsewhere_goes_when_it_comes_into_a_repository(tmp_path: Path) -> None:
    make(tmp_path, ".git/config", ".git/HEAD", "logs/", "other/")
    (tmp_path / "logs/HEAD").symlink_to("/elsewhere/.bashrc")
    (tmp_path / "other/COMMIT_EDITMSG").symlink_to("/elsewhere/.bashrc")
    found = find_protected_paths(tmp_path, tmp_path, frozenset())
    found.started = time.time_ns()  # the links themselves do not change
    (tmp_path / "logs").rename(tmp_path / ".git/logs")
    (tmp_path / "other").rename(tmp_path / "src.git")
    make(tmp_path, "src.git/HEAD", "src.git/objects/")
    assert sorted(found.appeared()) == [".git/logs/HEAD", "src.git/COMMIT_EDITMSG"]


def test_an_address_beside_the_settings_of_git_goes(tmp_path: Path) -> None:
    """`git remote add` asks; git also reads the address of `origin` from these files."""
    make(tmp_path, ".git/config", ".git/HEAD", ".git/branches/", ".git/refs/remotes/origin/HEAD")
    found = find_protected_paths(tmp_path, tmp_path, frozenset())
    make(tmp_path, ".git/remotes/origin", ".git/branches/up", ".git/refs/remotes/origin/main")
    assert sorted(found.appeared()) == [".git/branches/up", ".git/remotes/origin"]


@pytest.mark.parametrize(("path", "kind"), [(".git/logs/HEAD", "link"), ("a/.git/remotes/origin", "file")])
def test_what_leads_git_elsewhere_is_not_made_in_a_layer(path: str, kind: str) -> None:
    def beside(name: str, before: bool) -> bool:
        return False

    assert protected_end(path, kind, beside, lambda path: False, frozenset()) == ".git"
    assert protected_end(path, kind, beside, lambda path: False, frozenset({".git"})) is None
    assert protected_end(".git/logs/HEAD", "file", beside, lambda path: False, frozenset()) is None


def index_of(*names: str) -> bytes:
    """Return an index of git (gitformat-index(5), version 2) with these names."""
    entries = b""
    for name in map(str.encode, sorted(names)):
        entry = bytes(24) + (0o100755).to_bytes(4) + bytes(32) + len(name).to_bytes(2) + name
        entries += entry + bytes(8 - len(entry) % 8)
    whole = b"DIRC" + (2).to_bytes(4) + len(names).to_bytes(4) + entries
    return whole + hashlib.sha1(whole).digest()


@pytest.mark.parametrize("name", ["../../.zshenv", "/root/.zshenv", ".git/hooks/post-checkout", "a/.GIT/config"])
@pytest.mark.parametrize("file", [".git/index", ".git/sharedindex.1", ".git/modules/lib/index", "bare/index"])
def test_an_index_with_names_that_git_never_puts_there_goes(tmp_path: Path, name: str, file: str) -> None:
    """`git checkout .` of a person wrote these files, also outside the workspace, and ran the hook."""
    make(tmp_path, ".git/config", ".git/HEAD", ".git/modules/lib/HEAD", "bare/HEAD", "bare/objects/")
    found = find_protected_paths(tmp_path, tmp_path, frozenset())
    (tmp_path / file).write_bytes(index_of("a", "b/..c", ".github/x", "d/.gitignore"))
    assert found.appeared() == []
    (tmp_path / file).write_bytes(index_of("a", name))
    assert found.appeared() == [file]


def test_a_list_of_files_whose_conflicts_git_records_goes(tmp_path: Path) -> None:
    """`git commit` of a person copied a file outside into `.git/rr-cache`."""
    make(tmp_path, ".git/config", ".git/HEAD", "other/MERGE_RR")
    found = find_protected_paths(tmp_path, tmp_path, frozenset())
    (tmp_path / ".git/MERGE_RR").touch()
    assert found.appeared() == []
    (tmp_path / ".git/MERGE_RR").write_bytes(b"1" * 40 + b"\tkey\0")
    assert found.appeared() == [".git/MERGE_RR"]


def test_an_index_that_git_made_stays(tmp_path: Path) -> None:
    make(tmp_path, "a", "b/c", "ä/é")
    subprocess.run(["git", "init", "-q", str(tmp_path)], check=True)
    for version in ("2", "4"):
        found = find_protected_paths(tmp_path, tmp_path, frozenset())
        subprocess.run(["git", "-C", str(tmp_path), "add", "-A"], check=True)
        subprocess.run(["git", "-C", str(tmp_path), "update-index", "--index-version", version], check=True)
        assert found.appeared() == []


@pytest.mark.parametrize(
    "name",
    [
        ".lfsconfig",
        ".git/safe/",
        ".reviewboardrc",
        ".crush/crush.json",
        ".miserc.toml",
        "gtags.conf",
        ".bsp/",
        "hie.yaml",
        ".ropeproject/",
    ],
)
def test_a_new_file_that_says_what_programs_run_or_send_goes(tmp_path: Path, name: str) -> None:
    make(tmp_path, ".git/config")
    found = find_protected_paths(tmp_path, tmp_path, frozenset())
    make(tmp_path, name)
    assert found.appeared() == [name.rstrip("/")]
