"""A program of the workspace that runs because another one looks for it in PATH."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from toolcrib.policy.shell.judge import judge_command
from toolcrib.policy.shell.parts import CommandPlace


@pytest.mark.parametrize(
    ("planted", "command"),
    [
        ("gzip", "tar tzf a.tgz"), ("xz", "gtar tf a.txz"), ("gzip", "/usr/bin/zcat a.gz"), ("gzip", "gunzip -c a.gz"),
        ("grep", "zgrep x a.gz"), ("grep", "egrep x a"), ("grep", "ls | fgrep x"), ("sed", "git submodule status"),
        ("diff", "diff3 a b c"), ("dpkg-query", "dpkg -l"),
    ],
)  # fmt: skip
def test_a_program_that_others_start_asks(tmp_path: Path, planted: str, command: str) -> None:
    place = CommandPlace(str(tmp_path), str(tmp_path), "/home/me", on_disk=True, program_folders=(f"{tmp_path}/bin",))
    (tmp_path / "bin").mkdir()
    assert judge_command(command, place).verdict == "allow"
    (tmp_path / "bin" / planted).touch()
    assert judge_command(command, place).rule == "shell:workspace-program"
    assert judge_command("ls", place).verdict == "allow"


def test_a_repository_whose_index_names_too_many_others_asks(tmp_path: Path) -> None:
    place = CommandPlace(str(tmp_path), str(tmp_path), "/home/me", on_disk=True)
    subprocess.run(["git", "init", "-q", str(tmp_path)], check=True)
    assert judge_command("git status", place).verdict == "allow"
    one = bytes(24) + (0o160000).to_bytes(4) + bytes(32) + (0xFFF).to_bytes(2)
    names = b"".join(one + b"%04000d" % each + bytes(2) for each in range(300))  # 4,064 bytes
    (tmp_path / ".git/index").write_bytes(b"DIRC" + (2).to_bytes(4) + (300).to_bytes(4) + names)
    assert "one of many repositories" in judge_command("git status", place).reason


@pytest.mark.skipif(shutil.which("dpkg") is None, reason="no Debian")
def test_these_are_started(tmp_path: Path) -> None:
    """The programs themselves say whom they start."""
    (tmp_path / "a").touch()
    subprocess.run("gzip -k a; tar czf a.tgz a; git init -q", shell=True, cwd=tmp_path, check=True)
    (tmp_path / "bin").mkdir()
    for name in ("gzip", "grep", "sed", "diff", "dpkg-query"):
        (tmp_path / "bin" / name).write_text(f"#!/bin/sh\ntouch {tmp_path}/ran-{name}\n")
        (tmp_path / "bin" / name).chmod(0o755)
    path = f"{tmp_path}/bin:{os.environ['PATH']}"
    for command in ("tar tzf a.tgz", "zcat a.gz", "egrep x a", "git submodule status", "diff3 a a a", "dpkg -l"):
        subprocess.run(command.split(), cwd=tmp_path, env={**os.environ, "PATH": path}, capture_output=True)
    assert len(list(tmp_path.glob("ran-*"))) == 5


@pytest.mark.parametrize(
    ("variable", "value", "command"),
    [
        ("RIPGREP_CONFIG_PATH", "{ws}/.rgrc", "rg x"), ("RIPGREP_CONFIG_PATH", ".rgrc", "rg x"),
        ("PERL5LIB", "/usr/x:{ws}/lib", "perl -V"), ("GIT_EXTERNAL_DIFF", "./x", "git diff"),
        ("JAVA_TOOL_OPTIONS", "-javaagent:{ws}/x.jar", "java -version"),
        ("DOCKER_CONFIG", "{ws}/.docker", "docker --help"), ("PYTHONPATH", "/usr/x:", "pip3 list"),
        ("TAR_OPTIONS", "--checkpoint=1 --checkpoint-action=exec=./x", "tar tf a"),
    ],
)  # fmt: skip
def test_a_variable_that_names_a_file_of_the_workspace_asks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, variable: str, value: str, command: str
) -> None:
    place = CommandPlace(str(tmp_path), str(tmp_path), "/home/me", on_disk=True)
    monkeypatch.setenv(variable, "/home/me/own")
    assert judge_command(command, place).verdict == "allow"
    monkeypatch.setenv(variable, value.format(ws=tmp_path))
    assert judge_command(command, place).rule == "shell:workspace-program"
    assert judge_command("ls", place).verdict == "allow"
