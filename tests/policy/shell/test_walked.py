"""What commands would read in the folders that they walk, where no wall leaves secrets out."""

from __future__ import annotations

import os
import subprocess
import time
from dataclasses import replace
from pathlib import Path

import pytest

from toolcrib.boundary.ripgrep import find_ripgrep
from toolcrib.policy.shell import walked
from toolcrib.policy.shell.judge import judge_command
from toolcrib.policy.shell.parts import CommandPlace

HERE = Path(__file__).parent / "corpus"


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> CommandPlace:
    monkeypatch.delenv("RIPGREP_CONFIG_PATH", raising=False)
    root = tmp_path.resolve()
    for name in ("src/a.py", "cfg/prod.env", "cfg/server.pem", ".ci/job.pem", ".env", "README.md", "keys/id_rsa.pub"):
        (root / name).parent.mkdir(exist_ok=True)
        (root / name).write_text(f"content of {name}\n")
    return CommandPlace(str(root), str(root), "/home/me", profile="unrestricted", on_disk=True)


def rule(command: str, place: CommandPlace) -> str | None:
    found = judge_command(command, place)
    return found.rule if found.verdict == "ask" else found.verdict


SHOWS = [
    "cat **", "shopt -s globstar; cat **/*", "head **/*.p*",
    "grep x .", "grep x cfg", "grep x *", "ls | grep -3 x", "grep -n2 x", "grep -1 x .",  # ugrep walks them
    "grep -rh '' .", "grep -r x", "grep -R x .", "egrep --recursive x .", "grep -r x *", "grep x cfg/*",
    "grep -r x **", "grep -r x c**/",
    "rg -uuu x", "rg --hidden x", "rg -uu x", "rg x", "rg x cfg", "rg --no-ignore x .",
    "find . -exec cat {} +", "find . -type f -exec grep -l x {} \\;", "find cfg -name '*' -exec cat {} +",
    "find . ! -name '*.py' -exec cat {} +", "find . -name '*.py' -o -exec cat {} +",
    "find . -exec grep -v {} +", "find . -exec cat {} + -name '*.py'",
    "find . -iname '*.P*' -exec cat {} +", "tar -cO .", "tar c .",
    "cat cfg/*", "cat */*", "cat cfg/p*", "cat cfg/[^x]*", "cat cfg/[[:alpha:]]*", "head -n1 cfg/*",
    "head -n cfg/* README.md", "grep -v cfg/* README.md", "cut -d cfg/* -f1",
    "cd cfg && cat *", "for f in cfg/*; do cat \"$f\"; done", "for d in */; do grep -r x $d; done",
    "diff -r cfg src", "diff cfg src", "awk 1 cfg/*", "busybox grep -r x .", "timeout 5 grep -r x .",
    "ls; grep -r x . | head", "grep -r x --exclude=.env .", "grep -r x --exclude='*[v]' --exclude='*.pem' .",
    "grep -r x --include='*.p*' .", "rg -g '*.p*' x", "rg -g '!cfg/**' x", "rg --hidden -g '!.env' x",
    "rg -g '*.{py,pem}' x", "wc -l cfg/*", "grep -r x --include='*.py' --exclude-dir=src cfg --include='*.p*'",
    "x=*; grep -r y $x", "cat <(cat cfg/*)",
    "grep -r --exclude=zzz --include='*.py' x .", "grep -r --include='*.p*' --exclude='*.env' x .",
    "rg -uu --iglob '*.p*' -g '!*.pem' -g '!*.env' x", "git grep --untracked x", "git grep --untracked x -- cfg",
    "find . -type f -printf -name -printf x -exec cat {} +", "find . -printf -name -readable -exec cat {} +",
    "find . -name a.py -exec grep -r x . \\;", "find . -name cfg -exec grep -r x {} +",
    "find . -maxdepth 0 -name . -exec grep -r x {} +", "find cfg -name cfg -exec grep -r x {} +",
    "git diff cfg src", "git diff /dev/null cfg/p*", "git diff /dev/null cfg",
    "find . -name '[./]env' -exec cat {} +", "find . -iname '*[e/].PEM' -exec cat {} +",  # a slash that is none
    "grep -r --include='prod[./]env' x .", "grep -r --include='prod.e[!/]v' x .",
    "rg -uu -g '{x/.,.}env' x", "rg -g '{a/,cfg/}*er*' x",
    "find . -name a.py -exec cat {} + -o -exec cat {} +",
    "find . -name a.py -exec true {} ';' , -exec cat {} +",
    "find . -exec find . -name a.py ';' -exec cat {} +",
    "for n in '*.p*' a.py; do find . -name $n -exec cat {} +; done",
    "for n in a.py '*.p*'; do find . -name \"$n\" -exec cat {} +; done",
    "echo x | xargs -I@ rg @", "echo '-e x' | xargs rg",  # from /dev/null, so the folder
    "{ rg x; } < /dev/null", "for i in 1; do rg x; done < /dev/null",
    "grep -r x --exclude-dir=cfg cfg/*", "grep x --exclude-dir='*' cfg/*", "diff -x '*' cfg/* src/a.py",  # given
    "for f in *; do grep -r --exclude=$f x .; done", "grep x --exclude=.env **/*",
    "rg -g '#x' x", "rg -g ' ' x", "rg --iglob '#' x", "rg -g 'prod.env ' x", "rg -g '*.env ' x",  # comments, blanks
    "rg -g '~*' x", "grep -r --include='a b' x .", "rg -g '@(a)' x", "grep -r --include='^*' x .",  # in doubt: all
    "rg -g=*.p* x", "rg -g='!a.py' x", "rg -uug=#x x", "rg -g= x",
]  # fmt: skip
SHOWS_NONE = [
    "cat **/*.py",
    "grep x src", "grep -3 x src/a.py", "ls | grep -A3 x", "ls | grep -nC2 x", "ls | grep -m1 x",
    "grep -r x src", "grep x src/*", "cat *", "cat src/*.py", "cat */*.py", "head -n1 *",
    "ls | rg x", "rg x <<< y", "ls | while read -r y; do rg x; done", "ls | { rg x; }",
    "rg x src", "find . -name '*.py' -exec cat {} +", "find . -type f -iname '*.md' -exec grep x {} +",
    "find src -exec cat {} +", "find . -name '*.py' -exec cat {} +; find . -name '*.md' -exec cat {} +",
    "find . -type f", "ls -R", "ls -la cfg", "git diff", "git grep x",
    "git log -p src", "rg -g '*.py' x", "rg --files", "rg -g '*.{py,md}' x", "rg -uu -g '!*.env' -g '!*.pem' x",
    "grep -rn x --include='*.py' --include='*.md' .", "grep -rn x --include=*.py .",
    "grep -r x --exclude='*.env' --exclude='*.pem' .", "du -sh *", "cat keys/*",
    "grep -r x --exclude=.env --exclude-dir=cfg --exclude-dir=.ci .", "stat cfg/*",
    "rg -g '!*.pem' x keys", "git diff", "git diff src", "git diff HEAD -- src", "git diff --stat",
    "grep -rn x --include='*.py' --exclude=a.py .", "find . -name src -exec grep -r x {} +",
    "find . -maxdepth 2 -type f -name '*.py' -size -9k -exec grep x {} +", "git grep x -- cfg",
]  # fmt: skip


@pytest.mark.parametrize("command", SHOWS)
def test_a_command_that_would_show_a_secret_asks(command: str, place: CommandPlace) -> None:
    assert rule(command, place) == "shell:secrets-below", judge_command(command, place)


@pytest.mark.parametrize("command", SHOWS_NONE)
def test_a_command_that_shows_none_does_not_ask(command: str, place: CommandPlace) -> None:
    assert rule(command, place) == "allow", judge_command(command, place)


def test_git_reads_only_what_it_tracks_but_for_two_files_that_are_there(place: CommandPlace) -> None:
    git = Path(place.workspace, ".git")
    git.mkdir()
    (git / "HEAD").write_text("no repository for git")
    for command in ("git diff HEAD cfg", "git diff -- cfg", "git diff main -- .", "git log -p cfg", "git grep x cfg"):
        assert rule(command, place) == "allow", judge_command(command, place)
    for command in (
        "git diff cfg src", "git diff src -- cfg", "git diff /dev/null cfg/p*", "cd .git && git diff ../cfg ../src",
        "git grep --untracked x", "git --work-tree=cfg diff src cfg", "cd src && git diff ./../cfg /dev/null",
    ):  # fmt: skip
        assert rule(command, place) == "shell:secrets-below", judge_command(command, place)


@pytest.mark.parametrize("command", ["grep -r --exclude * x", "grep -re x --exclude *", "rg -uu -A * x"])
def test_names_of_files_may_take_the_place_of_an_option_s_value(command: str, place: CommandPlace) -> None:
    """One name is the value, and the rest is other than it looks; so the folder here is searched."""
    Path(place.workspace, "src/.env").touch()
    assert rule(f"cd src && {command}", place) not in ("allow", "deny")


@pytest.mark.parametrize("option", ["--no-ignore-vcs", "--max-depth 1"])
def test_an_ignore_file_can_have_hidden_files_searched(option: str, place: CommandPlace) -> None:
    Path(place.workspace, "src/.env").touch()
    assert rule(f"rg {option} x src", place) == "allow"
    Path(place.workspace, "src/.ignore").write_text("!.env\n")
    assert rule(f"rg {option} x src", place) == "shell:secrets-below"


def test_ripgrep_may_have_options_of_the_person(place: CommandPlace, monkeypatch: pytest.MonkeyPatch) -> None:
    Path(place.workspace, "src/.env").touch()
    assert rule("rg x src", place) == "allow"
    monkeypatch.setenv("RIPGREP_CONFIG_PATH", "/home/me/.ripgreprc")
    assert rule("rg x src", place) == "shell:secrets-below"


def test_links_in_a_circle_do_not_multiply_the_folders_of_a_pattern(place: CommandPlace) -> None:
    for name in "abcdefgh":
        (Path(place.workspace) / name).symlink_to(".")
    begun = time.process_time()
    for last in ("zzz", "*.p*", ".git/config", ".git/c*"):
        assert rule(f"cat {'*/' * 14}{last}", place) in ("allow", "shell:secrets-below")
    assert time.process_time() - begun < 2


def test_where_a_wall_leaves_secrets_out_nobody_is_asked(place: CommandPlace) -> None:
    for walls in ({"walled": True}, {"contained": True, "profile": "workspace-write"}, {"on_disk": False}):
        assert rule("grep -rh '' .", replace(place, **walls)) == "allow"


def test_what_ripgrep_leaves_out_does_not_count(place: CommandPlace, monkeypatch: pytest.MonkeyPatch) -> None:
    root, ripgrep = Path(place.workspace), find_ripgrep()
    if ripgrep is None:
        pytest.skip("ripgrep is not installed")
    (root / ".git").mkdir()
    (root / ".gitignore").write_text("*.pem\nprod.*\n")
    (root / "cfg/.gitignore").write_text("!kept.pem\n")
    commands = [
        "rg x", "rg x cfg", "rg -u x", "rg -uu x", "rg --hidden x", "rg --no-ignore x", "rg x .ci",
        "rg -g '*.p*' x", "rg -g '*.py' x", "rg --no-ignore-vcs x src", "rg -u x .ci", "rg --hidden -g '!.env' x",
    ]  # fmt: skip

    def agree(*, exactly: bool = True, most: int = len(commands)) -> None:
        for command in commands[:most]:
            words = [word.strip("'") for word in command.split()[1:] if word != "x"]
            shown = subprocess.run(
                [ripgrep.path, *words, "--files"], cwd=root, capture_output=True, text=True, check=False
            ).stdout
            secret = any(name.endswith((".pem", ".env")) for name in shown.split())
            asks = rule(command, place) == "shell:secrets-below"
            assert asks == secret if exactly else asks >= secret, (command, shown)

    agree()
    assert rule("rg x", place) == "allow"
    (root / "cfg/kept.pem").touch()
    agree()
    assert rule("rg x", place) == "shell:secrets-below"
    (root / "cfg/kept.pem").unlink()
    (root / ".gitignore").write_text("*.pem\nprod.*\n!.env\n")  # shown although it is hidden
    agree()
    assert rule("rg x", place) == "shell:secrets-below"
    for text in (
        b"# \xfc\n*.pem\nprod.*\n", b"x\r*.pem\rprod.*\n", b"prod.*\nx\x0c*.pem\n", b"prod.*\nx\xe2\x80\xa8*.pem\n",
        b"prod.*\n*.pem\x1f\n", b"*.pem\nprod.*\n!\n", b"prod.*\n**//*.pem\n", b"*.pem\nprod.*\n!*.[p]em\n",
        b"\xef\xbb\xbf!*.pem\nprod.*\n", b"*.pem\nprod.*\n!server.pem\xc2\xa0\n",
        b"*.pem\nprod.*\n" + b"#\n" * (1 << 19) + b"!*.pem\n",
    ):  # fmt: skip
        (root / ".gitignore").write_bytes(text)
        agree(exactly=False, most=1)
        assert rule("rg x", place) == "shell:secrets-below", text
    (root / ".gitignore").write_bytes(b"# \xc3\xbc\r\n*.pem \r\nprod.*\n*.py[cod]\n!/.env.example\n!**/a.b\n")
    agree(most=2)
    assert rule("rg x", place) == "allow"
    (root / "except").write_text("!*.pem\n")
    (root / "cfg/.gitignore").unlink()
    (root / "cfg/.gitignore").symlink_to("../except")
    agree()
    assert rule("rg x", place) == "shell:secrets-below"
    (root / "cfg/.gitignore").unlink()
    (root / "cfg/.gitignore").mkdir()
    assert rule("rg x", place) == "shell:secrets-below"
    (root / "cfg/.gitignore").rmdir()
    (root / ".git/info").mkdir()
    (root / ".git/info/exclude").write_text("#!x\n!.env\n")
    agree(exactly=False)
    assert rule("rg x", place) == "shell:secrets-below"
    (root / ".git/info/exclude").unlink()
    monkeypatch.setenv("HOME", str(root / "src"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(root / "src"))
    for name, text in (("git/ignore", "!.env\n"), ("ignored", "*.x\n!.env\n")):
        (root / "src" / name).parent.mkdir(exist_ok=True)
        (root / "src" / name).write_text(text)
        (root / "src/.gitconfig").write_text("[core]\n\texcludesFile = ~/ignored\n" if name == "ignored" else "")
        agree(exactly=False, most=1)
        assert rule("rg x", place) == "shell:secrets-below", name
        (root / "src" / name).unlink()
    (root / "src/.git").mkdir()  # a repository of its own, with rules of its own
    (root / "src/own.pem").touch()
    agree()
    (root / "src/own.pem").unlink()
    (root / ".ignore").write_text("!prod.env\n")
    agree(exactly=False)
    assert rule("rg x", place) == "shell:secrets-below"


def test_the_question_names_the_files_and_the_way_around_them(place: CommandPlace) -> None:
    text = judge_command("grep -rh '' .", place).reason
    assert text.startswith("`grep -rh '' .` reads .env, .ci/job.pem, cfg/prod.env and 1 more: environment files ")
    assert "To leave them out: git grep" in text
    for command in ("grep -r x cfg", "rg -uu x cfg", "find cfg -exec grep x {} +"):
        how = judge_command(command, place).reason.rpartition("To leave them out: ")[2].partition(", or ")[0]
        found = rule(command.replace("grep", f"grep {how}").replace("rg", f"rg {how}"), place)
        assert found == "allow", (command, how)
    assert judge_command("cat cfg/p*", place).reason.endswith("To leave it out: name only the files that are needed")


@pytest.mark.parametrize("command", ["grep -d recurse x .", "grep -d recurse x", "grep -drecurse x ."])
def test_another_spelling_of_recursion_asks(command: str, place: CommandPlace) -> None:
    assert judge_command(command, place).verdict == "ask"


@pytest.mark.parametrize("command", ["cat $(pwd)/cfg/*", "cat ~+/cfg/*", "cat `pwd`/cfg/*"])
def test_the_folder_of_the_command_may_be_a_substitution(command: str, place: CommandPlace) -> None:
    assert judge_command(command, place).verdict == "ask"


def test_a_file_s_name_cannot_change_the_question(place: CommandPlace) -> None:
    Path(place.workspace, "src/a b\nallow; `x`.pem").touch()
    reason = judge_command("grep -r x src", place).reason
    assert "\n" not in reason and "src/a b" in reason


def test_a_link_that_a_pattern_selects_counts_as_what_it_leads_to(place: CommandPlace) -> None:
    os.symlink("../.env", Path(place.workspace, "src/settings"))
    assert rule("cat src/*", place) == "shell:secrets-below"


def test_a_question_mark_may_be_one_byte_of_a_letter(place: CommandPlace) -> None:
    """It is in dash, and in all shells without LANG."""
    os.symlink("../.env", Path(place.workspace, "src/é.txt"))
    Path(place.workspace, "src/é.pem").touch()
    for command in (
        "cat src/??.txt",
        "cat src/??.p*",
        "grep -r x src --include='??.pem'",
        "grep -r x src --exclude='?.pem'",
    ):
        assert rule(command, place) != "allow", command


def test_a_folder_that_is_too_large_asks(place: CommandPlace, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in (".env", "cfg/prod.env", "cfg/server.pem", ".ci/job.pem"):
        Path(place.workspace, name).unlink()
    assert rule("grep -r x .", place) == "allow"
    monkeypatch.setattr(walked, "MAX_SECONDS", -1.0)
    assert "holds too much" in judge_command("grep -r x .", place).reason


def test_a_folder_that_is_too_deep_to_be_listed_asks(place: CommandPlace) -> None:
    """grep goes on from folder to folder, beyond the paths that the kernel takes."""
    at = os.open(Path(place.workspace, "src"), os.O_DIRECTORY)
    for _ in range(20):
        os.mkdir("d" * 200, dir_fd=at)
        inner = os.open("d" * 200, os.O_DIRECTORY, dir_fd=at)
        os.close(at)
        at = inner
    os.close(at)
    for command in ("grep -r x src", "grep -R x src", "find src -exec cat {} +"):
        assert judge_command(command, place).verdict == "ask", command


def test_a_workspace_without_secrets_hears_nothing_of_it(tmp_path: Path) -> None:
    (tmp_path / "src").mkdir()
    (tmp_path / "src/a.py").touch()
    here = CommandPlace(str(tmp_path), str(tmp_path), "/home/me", profile="unrestricted", on_disk=True)
    for command in (HERE / "everyday.txt").read_text().splitlines():
        assert judge_command(command, here).rule != "shell:secrets-below", command


SETTINGS = [
    "git for-each-ref --format='%(push:remotename)'", "git branch --format='%(upstream:remotename)'",
    "git remote -v", "git remote get-url origin", "git -C . remote show -n origin", "git config remote.origin.url",
    "git config --get-all http.extraHeader", "cat .git/config", "grep url .git/*", "head -5 ./.git/config",
    "cd .git && cat config", "grep -r x src .", "rg --hidden url",
]  # fmt: skip


@pytest.mark.parametrize("command", SETTINGS)
@pytest.mark.parametrize("whose", ["repository", "person"])
def test_settings_of_git_with_a_password_ask(command: str, whose: str, tmp_path: Path) -> None:
    root, home = tmp_path / "work", tmp_path / "home"
    for folder in (root / "src", root / ".git/objects", home):
        folder.mkdir(parents=True)
    (root / ".git/HEAD").write_text("ref: refs/heads/main\n")
    plain = '[remote "origin"]\n\turl = ssh://git@example.com/x.git\n'
    (root / ".git/config").write_text(plain)
    here = CommandPlace(str(root), str(root), str(home), profile="unrestricted", on_disk=True)
    assert rule(command, here) == "allow"
    if whose == "person" and not command.startswith("git "):
        return
    (root / ".git/config" if whose == "repository" else home / ".gitconfig").write_text(
        plain.replace("ssh://git", "https://me:hunter2")
    )
    assert rule(command, here) in ("shell:environment", "shell:secrets-below")
    assert judge_command(command, replace(here, contained=True)).verdict == "allow"
    for harmless in ("git status", "git branch -vv", "git log -p", "grep -r x src", "rg url"):
        assert rule(harmless, here) == "allow", harmless


def test_a_pattern_selects_the_settings_of_a_repository_with_a_password(place: CommandPlace) -> None:
    config = Path(place.workspace, "src/.git/config")
    config.parent.mkdir()
    config.write_text("[remote]\nurl = https://me:hunter2@example.com\n")
    assert rule("cat s*/.git/config", place) == "shell:environment"
    assert rule("cat c*/.git/config", place) == "allow"
