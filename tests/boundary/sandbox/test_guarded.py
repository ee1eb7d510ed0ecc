import os
from pathlib import Path

from toolcrib.boundary.sandbox.guarded import guard


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
    arguments = guard(tmp_path, tmp_path, frozenset()).arguments()
    assert paths(arguments, "--ro-bind", tmp_path) == {".git/hooks", ".git/config", ".mcp.json", ".cursor/mcp.json"}
    assert paths(arguments, "--bind", tmp_path) == {".git", ".cursor"}
    # A later mount hides an earlier one: what is outside must come first.
    assert arguments.index(str(tmp_path / ".git")) < arguments.index(str(tmp_path / ".git/hooks"))


def test_an_empty_workspace_needs_nothing(tmp_path: Path) -> None:
    found = guard(tmp_path, tmp_path, frozenset())
    assert found.arguments() == []
    assert found.appeared() == []


def test_nested_repositories_and_those_above_a_deep_folder(tmp_path: Path) -> None:
    deep = tmp_path / "a/b/c/d/e/repo"
    make(tmp_path, "sub/project/.git/config", "a/b/c/d/e/repo/.git/config", "a/b/c/d/e/repo/src/")
    found = paths(guard(tmp_path, deep / "src", frozenset()).arguments(), "--ro-bind", tmp_path)
    assert found == {"sub/project/.git/config", "a/b/c/d/e/repo/.git/config"}


def test_what_appears_is_found(tmp_path: Path) -> None:
    make(tmp_path, ".git/config", "sub/")
    found = guard(tmp_path, tmp_path, frozenset())
    make(tmp_path, ".git/hooks/post-commit", ".git/commondir", "sub/.git/config", ".vscode/tasks.json", "src/b.py")
    assert sorted(found.appeared()) == [".git/commondir", ".git/hooks", ".vscode", "sub/.git/config"]


def test_a_grant_covers_what_is_below_it(tmp_path: Path) -> None:
    make(tmp_path, ".git/config", ".mcp.json")
    found = guard(tmp_path, tmp_path, frozenset({".git"}))
    assert paths(found.arguments(), "--ro-bind", tmp_path) == {".mcp.json"}
    make(tmp_path, ".git/hooks/", ".vscode/")
    assert found.appeared() == [".vscode"]
    assert guard(tmp_path, tmp_path, frozenset({"*"})).arguments() == []


def test_git_as_a_file_or_link_points_elsewhere(tmp_path: Path) -> None:
    make(tmp_path, "sub/.git", "plain/", "linked/real/config")
    (tmp_path / "linked/.git").symlink_to("real")
    found = guard(tmp_path, tmp_path, frozenset())
    read_only = paths(found.arguments(), "--ro-bind", tmp_path)
    assert read_only == {"sub/.git", "linked/real"}
    (tmp_path / "linked/.git").unlink()
    (tmp_path / "linked/.git").symlink_to("other")
    make(tmp_path, "plain/.git")
    assert sorted(found.appeared()) == ["linked/.git", "plain/.git"]


def test_submodules(tmp_path: Path) -> None:
    module = ".git/modules/libs/one"
    make(tmp_path, f"{module}/HEAD", f"{module}/config", f"{module}/hooks/x", ".git/config", ".git/worktrees/w/HEAD")
    read_only = paths(guard(tmp_path, tmp_path, frozenset()).arguments(), "--ro-bind", tmp_path)
    assert read_only == {f"{module}/config", f"{module}/hooks", ".git/config", ".git/worktrees"}


def test_links_are_followed_inside_and_compared(tmp_path: Path) -> None:
    workspace = tmp_path / "w"
    make(workspace, "dotfiles/bashrc", "dotconfig/fish/config.fish")
    (tmp_path / "outside").write_text("x")
    (workspace / ".bashrc").symlink_to("dotfiles/bashrc")
    (workspace / ".config").symlink_to("dotconfig")
    (workspace / ".profile").symlink_to(tmp_path / "outside")
    found = guard(workspace, workspace, frozenset())
    assert paths(found.arguments(), "--ro-bind", workspace) == {"dotfiles/bashrc", "dotconfig/fish"}
    assert paths(found.arguments(), "--bind", workspace) == {"dotfiles", "dotconfig"}
    assert found.appeared() == []
    (workspace / ".bashrc").unlink()
    (workspace / ".bashrc").write_text("evil")
    (workspace / ".config").unlink()
    make(workspace, ".config/fish/config.fish")
    assert sorted(found.appeared()) == [".bashrc", ".config/fish"]


def test_large_workspaces_are_looked_at_for_a_bounded_time(tmp_path: Path) -> None:
    for number in range(60):
        for inner in range(40):
            (tmp_path / f"d{number}/e{inner}").mkdir(parents=True)
    (tmp_path / ".mcp.json").write_text("x")
    assert paths(guard(tmp_path, tmp_path, frozenset()).arguments(), "--ro-bind", tmp_path) == {".mcp.json"}
