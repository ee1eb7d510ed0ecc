"""Where words point: links, `..`, homes, patterns and what is only partly known."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest

from toolcrib.policy.shell.judge import judge_command
from toolcrib.policy.shell.parts import CommandPlace, Word
from toolcrib.policy.shell.paths import find, secret


@pytest.fixture
def place(tmp_path: Path) -> CommandPlace:
    home = tmp_path.resolve() / "home"
    workspace = home / "project"
    (workspace / "src").mkdir(parents=True)
    (workspace / "src" / "a.py").write_text("")
    (home / "other").mkdir()
    os.symlink("/etc", workspace / "out")
    os.symlink("src", workspace / "inner")
    os.symlink(home / "other", workspace / "src" / "deep")
    return CommandPlace(str(workspace), str(workspace), str(home))


def where(text: str, place: CommandPlace, cwd: str | None = None) -> str:
    return find(Word((text,), text), cwd or place.cwd, place).where


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("src/a.py", "workspace"),
        ("./src/../src/a.py", "workspace"),
        ("", "stream"),
        (".", "root"),
        ("src/..", "root"),
        ("..", "outside"),
        ("src/../..", "outside"),
        ("out", "outside"),
        ("out/passwd", "outside"),
        ("inner/a.py", "workspace"),
        ("src/deep/x", "outside"),
        ("out/../x", "outside"),
        ("inner/../x", "workspace"),
        ("~", "outside"),
        ("~/project/x", "workspace"),
        ("~other/x", "outside"),
        ("/dev/null", "stream"),
        ("/dev/fd/3", "stream"),
        ("//etc", "outside"),
        ("file:///etc/passwd", "outside"),
        ("a\0b", "unknown"),
        ("missing/x/../y", "workspace"),
    ],
)
def test_where(text: str, expected: str, place: CommandPlace) -> None:
    assert where(text, place) == expected


def test_the_workspace_by_its_full_name(place: CommandPlace) -> None:
    assert where(place.workspace, place) == "root"
    assert where(f"{place.workspace}/src", place) == "workspace"
    assert where(f"{place.workspace}2/src", place) == "outside"


def test_links_are_followed_before_a_verdict(place: CommandPlace) -> None:
    for command, verdict in (
        ("cat out/hosts", "ask"), ("cat out/shadow", "deny"), ("echo x > out/x", "deny"), ("rm -rf src/deep/", "deny"),
        ("cat inner/a.py", "allow"), ("echo x > inner/b.py", "ask"), ("cat out/../x", "ask"), ("echo out/*", "ask"),
        ("echo inner/*", "allow"), ("echo src/*", "allow"), ("[ -e src/deep/k* ]", "ask"),
    ):  # fmt: skip
        assert judge_command(command, place).verdict == verdict, command


@pytest.mark.parametrize("command", ["zcat -f x", "gzip -cdf x", "zgrep -a . x", "unzip -p x"])
def test_the_suffix_that_a_program_adds_counts(command: str, place: CommandPlace) -> None:
    for name in ("x.gz", "x.zip"):
        os.symlink("../secret", f"{place.workspace}/{name}")
    assert judge_command(command, place).rule == "shell:read-outside"


def test_what_is_partly_known(place: CommandPlace) -> None:
    cases = {
        (("src/", None), False): "unknown",
        (("/etc/", None), False): "outside",
        ((None, "/x"), False): "unknown",
        (("src/*.py",), True): "workspace",
        (("*",), True): "workspace",
        (("/*",), True): "outside",
        (("*/../../x",), True): "unknown",
        (("x", None), False): "unknown",
    }
    for (parts, glob), expected in cases.items():
        assert find(Word(parts, glob=glob), place.cwd, place).where == expected, parts
    assert find(Word((None,), many=True), place.cwd, place).where == "unknown"
    assert find(Word(("x",)), None, place).where == "unknown"
    assert find(Word(("/etc/x",)), None, place).where == "outside"


@pytest.mark.parametrize(
    "text",
    [
        "~/.ssh/id_rsa",
        "~/.ssh/config",
        "~/.aws/credentials",
        ".env",
        "sub/.env.production",
        "a.pem",
        "/etc/shadow",
        "/proc/1/environ",
        "/proc/self/root/etc/passwd",
        "/var/run/docker.sock",
        "~/.config/gcloud/x",
        "~/.bash_history",
        "~/.local/state/toolcrib/x/spill/y",
        "~/.config/toolcrib/rules/user.json",
    ],
)
def test_secrets(text: str, place: CommandPlace) -> None:
    assert secret(find(Word((text,), text), place.cwd, place))


@pytest.mark.parametrize("text", [".env.example", "id_mapping.py", "x.pub", "src/a.py", "/etc/hosts", "/proc/cpuinfo"])
def test_no_secrets(text: str, place: CommandPlace) -> None:
    assert secret(find(Word((text,), text), place.cwd, place)) is None


@pytest.mark.parametrize(
    ("pattern", "is_secret"),
    [
        ("*", False),
        ("*.py", False),
        ("*.json", False),
        ("*.pem", True),
        (".env*", True),
        (".e?v", True),
        ("id_r*", True),
    ],
)
def test_secret_patterns(pattern: str, is_secret: bool, place: CommandPlace) -> None:
    assert (secret(find(Word((pattern,), pattern, glob=True), place.cwd, place)) is not None) == is_secret


@pytest.mark.parametrize(
    "command",
    [
        "cat *",
        "head -n1 src/*",
        "grep -r x src/*",
        "cat **/deep",
        "ls *",
        "cat < [[:alpha:]]*",
        "cat [^1]*",
        "echo */x*",
        "find . -exec ls {} +",
        "find . -type l -exec du -aH {} +",
        "find . -type l -exec cat {}/hostname \\;",
        "find . -maxdepth 1 -exec ls {}/. \\;",
        "find . -exec grep -r x {}/./apt \\;",
    ],
)
def test_a_pattern_may_select_a_link_that_leads_outside(command: str, place: CommandPlace) -> None:
    found = judge_command(command, replace(place, on_disk=True))
    assert (found.verdict, found.rule) == ("ask", "shell:links"), found
    # a wall for reading, or a sandbox, keeps what is outside from being read
    assert judge_command(command, replace(place, on_disk=True, walled=True)).verdict == "allow"
    assert judge_command(command, replace(place, on_disk=True, contained=True)).verdict == "allow"


def test_a_listing_that_follows_all_links_asks(place: CommandPlace) -> None:
    assert judge_command("ls -R", place).verdict == "allow"
    assert judge_command("ls -RL", place).rule == "shell:unknown-option"


def test_diff_follows_the_links_in_two_folders(place: CommandPlace) -> None:
    place = replace(place, on_disk=True)
    assert judge_command("diff src .", place).rule == "shell:links"
    assert judge_command("diff <(ls) <(ls src)", place).verdict == "allow"
    assert judge_command("cat src/*.py; diff src/a.py src/a.py", place).verdict == "allow"


@pytest.mark.parametrize("to", ["../.env", "../keys"])
def test_a_link_to_a_secret_in_the_workspace_asks_where_a_program_follows_it(to: str, tmp_path: Path) -> None:
    for name in (".env", "keys/server.pem", "src/a", "lib/a"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    place = CommandPlace(str(tmp_path), str(tmp_path), "/home/me", on_disk=True)
    commands = (
        "find src -exec cat {} +",
        "find src -type l -exec grep -r x {} \\;",
        "diff -r src lib",
        "diff src lib/a",
    )
    assert {judge_command(each, place).verdict for each in commands} == {"allow"}
    (tmp_path / "src/b").symlink_to(to)
    assert {judge_command(each, place).rule for each in commands} == {"shell:links"}
    assert judge_command("ls src/*; find src -type l; wc lib/*", place).verdict == "allow"


def test_a_folder_that_is_too_large_to_look_for_links_asks(
    place: CommandPlace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("toolcrib.policy.shell.paths._MAX_ENTRIES", 0)
    assert judge_command("cat src/*.py", replace(place, on_disk=True)).rule == "shell:links"


@pytest.mark.parametrize(
    ("name", "command"),
    [
        ("-Osh", "git grep -e x *"),
        ("--output=b", "git log *"),
        ("--output=b", 'for i in *; do git log "$i"; done'),
        ("--files0-from=x", "wc ?*"),
        ("-va[$(id)]", "printf %s *"),
        ("x --output=b", "for i in *; do git log $i; done"),
        ("src/x y", "for i in src/*; do cat $i; done"),
        ("src/x .*", "for i in */*; do cat ${i}; done"),
        ("src/*", "for i in src/?; do cat $i; done"),
        (".x/y .env z", "for i in .[x]/*; do cat $i; done"),
    ],
)
def test_names_of_files_that_a_program_takes_for_more_than_names_ask(
    name: str, command: str, place: CommandPlace
) -> None:
    os.unlink(f"{place.workspace}/out")
    os.unlink(f"{place.workspace}/src/deep")
    place = replace(place, on_disk=True)
    Path(place.workspace, ".x").mkdir()
    assert judge_command(command, place).verdict == "allow"
    Path(place.workspace, name).touch()
    found = judge_command(command, place)
    assert (found.verdict, found.rule) == ("ask", "shell:unknown-option"), found
    assert judge_command(command, replace(place, contained=True)).verdict == "allow"
    assert judge_command('cat ./*; for i in ./*; do cat "$i"; done', place).verdict == "allow"


@pytest.mark.parametrize(
    "command",
    [
        "{up}/usr/bin/ls", "cd link && ../../../../../usr/bin/ls", "$PWD/{up}/bin/ls", "cat {up}/dev/null",
        "ls > {up}/dev/stdout", "cd -P link; cd ..; cat a", "cd link; cd ../only; cat a", "cd link/../only && cat a",
        "env -C link/.. cat a", "timeout 5 env --chdir=link/../.. cat a",
    ],
)  # fmt: skip
def test_what_is_behind_a_link_and_two_dots_is_where_the_kernel_finds_it(command: str, tmp_path: Path) -> None:
    work = tmp_path / "work"
    (work / "deep" / "/".join("abcdefghijkl")).mkdir(parents=True)
    (work / "deep" / "/".join("abcdefghijk") / "only").mkdir()
    (work / "link").symlink_to("deep/" + "/".join("abcdefghijkl"))
    place = CommandPlace(str(work), str(work), str(tmp_path), "unrestricted", on_disk=True)
    up = "link" + "/.." * len(work.parts)
    assert judge_command(command.format(up=up), place).verdict in ("ask", "deny")
    assert judge_command("cd link && cat a; cd deep/a", place).verdict == "allow"


@pytest.mark.parametrize(
    "command", ["cat link/../../id", "cd link && cat ../../id", "cp link/../../id x", "tar c link/../.."]
)
def test_a_secret_that_the_kernel_finds_behind_a_link_and_dots_is_one(command: str, tmp_path: Path) -> None:
    """By its text alone the path leads out of the workspace, to a file without that name."""
    work = tmp_path / "work"
    (work / ".ssh" / "a" / "b").mkdir(parents=True)
    (work / "link").symlink_to(".ssh/a/b")
    place = CommandPlace(str(work), str(work), str(tmp_path), "unrestricted", on_disk=True)
    assert judge_command(command, place).verdict == "deny"


@pytest.mark.parametrize(
    ("command", "verdict"),
    [("cat chain", "allow"), ("cat chain/../a", "allow"), ("cd chain && ls", "allow"), ("rm chain", "ask")],
)
def test_a_chain_of_links_that_nothing_can_follow_is_judged(tmp_path: Path, command: str, verdict: str) -> None:
    for n in range(1_500):
        (tmp_path / (f"l{n}" if n else "chain")).symlink_to(f"l{n + 1}")
    place = CommandPlace(str(tmp_path), str(tmp_path), "/home/somebody")
    assert judge_command(command, place).verdict == verdict
