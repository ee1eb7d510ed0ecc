"""The person's name and e-mail in commits: what git itself would say of the same files."""

import os
import shutil
import subprocess

import pytest

from toolcrib.boundary.git_identity import git_identity


@pytest.fixture
def home(tmp_path):
    (tmp_path / "home").mkdir()
    (tmp_path / "repo" / ".git").mkdir(parents=True)
    return tmp_path / "home"


def identity(home, **more):
    found = git_identity(home.parent / "repo", {"HOME": str(home), **more})
    assert {key for key in found if "AUTHOR" in key} == {key.replace("COMMITTER", "AUTHOR") for key in found}
    return found.get("GIT_AUTHOR_NAME"), found.get("GIT_COMMITTER_EMAIL")


def test_only_these_two_values_are_read(home):
    (home / ".gitconfig").write_text('[user]\n\tname = Ann "B." Lee ; me\n\temail=ann@example.com\n[core]\npager = x\n')
    assert git_identity(home.parent / "repo", {"HOME": str(home)}) == {
        "GIT_AUTHOR_NAME": "Ann B. Lee", "GIT_COMMITTER_NAME": "Ann B. Lee",
        "GIT_AUTHOR_EMAIL": "ann@example.com", "GIT_COMMITTER_EMAIL": "ann@example.com",
    }  # fmt: skip


def test_the_repository_and_the_environment_count_first(home):
    (home / ".gitconfig").write_text("[user]\nname = Ann\nemail = ann@example.com\n")
    assert identity(home, GIT_AUTHOR_NAME="x", GIT_COMMITTER_NAME="x") == (None, "ann@example.com")
    (home.parent / "repo/.git/config").write_text("[user]\nemail = own@example.com\n")
    assert identity(home) == ("Ann", None)
    tree = home.parent / "tree"
    tree.mkdir()
    (home.parent / "repo/.git/worktrees/tree").mkdir(parents=True)
    (home.parent / "repo/.git/worktrees/tree/commondir").write_text("../..\n")
    (tree / ".git").write_text(f"gitdir: {home.parent}/repo/.git/worktrees/tree\n")
    assert "GIT_AUTHOR_EMAIL" not in git_identity(tree, {"HOME": str(home)})


def test_included_files(home):
    (home / ".gitconfig").write_text(
        f'[user] name = Ann\n[include]\npath = more\n[includeIf "gitdir:{home.parent}/"]\npath = ~/work\n'
        '[includeIf "gitdir:/elsewhere/"]\npath = never\n[include]\npath = .gitconfig\n'
    )
    (home / "more").write_text("[user]\nemail = ann@example.com\n")
    (home / "work").write_text("[user]\nemail = ann@work.example\n")
    (home / "never").write_text("[user]\nname = Nobody\n")
    assert identity(home) == ("Ann", "ann@work.example")


def test_what_cannot_be_read_gives_nothing(home):
    assert identity(home) == (None, None)
    os.mkfifo(home / ".gitconfig")
    assert identity(home) == (None, None)
    (home / ".gitconfig").unlink()
    (home / ".gitconfig").write_bytes(b"[user\nname = x\n[user]\nname = a\x1b[31mb\nemail\n\xff")
    assert identity(home) == ("a[31mb", None)


@pytest.mark.skipif(shutil.which("git") is None, reason="compares with git")
@pytest.mark.parametrize(
    "text",
    [
        "[user]\nname=A # b\n", '[USER]\nName = "A # b"  \n', '[user]\nname = A\\\n B\n', '[user "x"]\nname = A\n',
        '[user]\nname = "A \\"q\\" \\\\ B"\n', "[user]\nname = A\nname = B\n", "[user] name = A\n",
        "[user.x]\nname=A\n", "; name\n[other]\nname = A\n", "[user]\n  name   =   A   B  ;c\n",
    ],
)  # fmt: skip
def test_it_reads_as_git_does(home, text):
    (home / ".gitconfig").write_text(text)
    command = ["git", "config", "--global", "user.name"]
    env = {"HOME": str(home), "PATH": os.environ["PATH"]}
    git = subprocess.run(command, env=env, cwd="/", capture_output=True, text=True, check=False)
    assert identity(home)[0] == (git.stdout.strip() or None)
