"""The search for protected names, and for the links in protected folders."""

import os
from functools import partial
from pathlib import Path

import pytest

from toolcrib.boundary.sandbox import protected_search
from toolcrib.boundary.sandbox.protected_paths import find_protected_paths, forget_links, protected_behind
from toolcrib.boundary.sandbox.protected_search import remembered


def make(root: Path, *names: str) -> None:
    for name in names:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).mkdir() if name.endswith("/") else (root / name).touch()


def test_links_in_protected_folders_count_unless_they_stay_there(tmp_path: Path) -> None:
    make(tmp_path, "tools/hooks/own", "scripts/check", ".claude/skills/one/run.py", "skills/two/run.py", "shared/x")
    for link, target in {
        ".git/hooks": "../tools/hooks",
        "tools/hooks/pre-commit": f"{tmp_path}/scripts/check",
        "tools/hooks/pre-push": "own",
        "tools/hooks/all": "/",
        ".claude/skills/all": "../..",
        ".claude/skills/two": "../../skills/two",
        "skills/two/lib": "../../shared",
    }.items():
        (tmp_path / link).parent.mkdir(exist_ok=True)
        (tmp_path / link).symlink_to(target)
    leads = find_protected_paths(tmp_path, tmp_path, frozenset()).leads
    assert {os.path.relpath(path, tmp_path) for path in leads if not os.path.islink(path)} == {
        "tools/hooks", "scripts/check", "skills/two", "shared", "skills",
    }  # fmt: skip


def test_file_tools_find_links_of_other_folders_at_any_depth_and_then_commands_do(
    tmp_path: Path,
) -> None:
    make(tmp_path, "env/local", "a/b/c/d/e/")
    (tmp_path / "a/b/c/d/e/.envrc").symlink_to("../../../../../env/local")
    assert protected_behind([str(tmp_path)], f"{tmp_path}/env/local") is not None
    assert protected_behind([str(tmp_path)], f"{tmp_path}/env/other") is None
    found = find_protected_paths(tmp_path, tmp_path, frozenset(), remembered(str(tmp_path)))
    assert f"{tmp_path}/env/local" in found.read_only


def test_links_of_a_large_workspace_are_looked_for_again_after_a_command(tmp_path: Path) -> None:
    make(tmp_path, "env/local", *(f"many/{number}/" for number in range(150)))
    asked = partial(protected_behind, [str(tmp_path)], f"{tmp_path}/env/local")
    assert asked() is None
    (tmp_path / "many/7/.envrc").symlink_to("../../env/local")
    forget_links([str(tmp_path)])
    assert asked() is not None


def test_a_folder_is_listed_again_when_it_changed_also_with_its_old_times(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(protected_search, "SETTLED_NS", -5_000_000_000)  # as if it had changed long ago
    make(tmp_path, "env/local", "a/")
    listed, scandir = [], os.scandir
    monkeypatch.setattr(os, "scandir", lambda path: listed.append(path) or scandir(path))
    for expected in (True, False):
        listed.clear()
        assert find_protected_paths(tmp_path, tmp_path, frozenset()).leads == {}
        assert bool(listed) is expected
    before = os.stat(tmp_path / "a")
    while os.stat(tmp_path / "a").st_ctime_ns == before.st_ctime_ns:  # the kernel's clock ticks
        (tmp_path / "a/.envrc").unlink(missing_ok=True)
        (tmp_path / "a/.envrc").symlink_to("../env/local")
        os.utime(tmp_path / "a", ns=(before.st_atime_ns, before.st_mtime_ns))
    assert f"{tmp_path}/env/local" in find_protected_paths(tmp_path, tmp_path, frozenset()).leads


def test_a_link_does_not_move_with_its_folder(tmp_path: Path) -> None:
    make(tmp_path, "env/local", "p/a/")
    (tmp_path / "p/a/.envrc").symlink_to("../../env/local")
    (tmp_path / "p/a/.profile").symlink_to("../../../out")
    assert find_protected_paths(tmp_path, tmp_path, frozenset()).pinned == {
        f"{tmp_path}/{at}" for at in ("env", "p", "p/a")
    }


def test_names_are_found_where_case_does_not_count(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No file system of Linux that can be had everywhere ignores case, so the look for a name is what ignores it."""
    make(tmp_path, ".ENVRC", ".Git/Hooks/x", "Sub/Toolcrib.TOML", "note")
    folded = {str(path).casefold() for path in tmp_path.rglob("*")}
    monkeypatch.setattr(os.path, "lexists", lambda path: str(path).casefold() in folded)
    found = {f"{base}/{name}" for base, name in protected_search.Search(str(tmp_path)).names()}
    assert {f"{tmp_path}/.envrc", f"{tmp_path}/.git/hooks", f"{tmp_path}/Sub/toolcrib.toml"} <= found
    monkeypatch.undo()
    assert list(protected_search.Search(str(tmp_path)).names()) == []  # here these are other names


def test_each_folder_is_looked_at_once_from_whichever_folder_the_search_begins(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make(tmp_path, "a/b/c/d/", "a/e/", "f/")
    looked: list[str] = []
    listing = protected_search._list_once
    monkeypatch.setattr(protected_search, "_list_once", lambda folder: looked.append(folder) or listing(folder))
    find_protected_paths(tmp_path, tmp_path / "a/b", frozenset(), (f"{tmp_path}/a/e",))
    assert sorted(os.path.relpath(each, tmp_path) for each in looked if not each.endswith(("a/e", "a/b/c"))) == [
        ".", "a", "a/b", "a/b/c/d", "f",
    ]  # fmt: skip
    assert looked.count(f"{tmp_path}/a/b/c") == 1
    assert looked.count(f"{tmp_path}/a/e") == 2  # known, and then to be searched further down


@pytest.mark.parametrize("name", ["d", "d" * 200])  # too far down, or a path that is too long
def test_what_is_too_far_down_to_be_searched_is_protected_as_a_whole(tmp_path: Path, name: str) -> None:
    """git ran the settings of a repository in a folder whose path is as long as the kernel takes."""
    root = str(tmp_path)
    nothing = protected_search.search_all(root)
    assert nothing is not None
    before = find_protected_paths(tmp_path, tmp_path, frozenset())
    folders = [os.open(tmp_path, os.O_RDONLY)]
    for _ in range(120):
        os.mkdir(name, dir_fd=folders[-1])
        folders.append(os.open(name, os.O_RDONLY, dir_fd=folders[-1]))
    os.mkdir(".git", dir_fd=folders[-1])
    for each in folders:
        os.close(each)
    protected_search.search_all(root, nothing)
    (first,) = before.appeared(remembered(root))
    assert set(first.split("/")) == {name}
    assert protected_search.MAX_LENGTH < len(f"{root}/{first}") < 4_000 or first.count("/") == 100
    protected = find_protected_paths(tmp_path, tmp_path, frozenset(), remembered(root))
    assert protected.read_only == {f"{root}/{first}"}
    assert protected.appeared(remembered(root)) == []
