"""The bootstrap finds a Python that works, and says what to do where there is none."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPTS = Path(__file__).parent.parent / "scripts"
pytestmark = pytest.mark.skipif(
    sys.platform == "win32" or not SCRIPTS.exists(), reason="a POSIX script of the checkout"
)


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """The script beside a stand-in for what it hands over to, and a folder of commands."""
    (tmp_path / "bin").mkdir()
    (tmp_path / "broken").mkdir()
    shutil.copy(SCRIPTS / "bootstrap", tmp_path / "bootstrap")
    (tmp_path / "bootstrap.py").write_text("import sys; print(sys.argv[1:], sys.version_info >= (3, 11))")
    for command in ("sh", "dirname", "pwd"):
        found = shutil.which(command)
        if found:
            (tmp_path / "bin" / command).symlink_to(found)
    shim = tmp_path / "broken" / "python3"
    shim.write_text("#!/bin/sh\nexit 127\n")
    shim.chmod(0o755)
    return tmp_path


def run(checkout: Path, *path: str, **env: str) -> subprocess.CompletedProcess[str]:
    search = ":".join(str(checkout / folder) for folder in path)
    command = [str(checkout / "bootstrap"), "given"]
    return subprocess.run(command, capture_output=True, text=True, env={"PATH": search, **env}, timeout=60)


def test_a_shim_that_fails_is_passed_over(checkout: Path) -> None:
    (checkout / "later").mkdir()
    (checkout / "later" / "python3").symlink_to(sys.executable)
    done = run(checkout, "broken", "bin", "later")
    assert (done.stdout, done.returncode) == ("['given'] True\n", 0)


def test_other_names_are_tried(checkout: Path) -> None:
    (checkout / "bin" / "python3.12").symlink_to(sys.executable)
    assert run(checkout, "broken", "bin").returncode == 0


def test_a_named_python_is_used(checkout: Path) -> None:
    assert run(checkout, "bin", PYTHON=sys.executable).returncode == 0
    done = run(checkout, "bin", PYTHON=str(checkout / "broken" / "python3"))
    assert done.returncode == 2
    assert "no Python 3.11 or newer" in done.stderr


def test_without_any_it_says_what_to_install(checkout: Path) -> None:
    done = run(checkout, "broken", "bin")
    assert done.returncode == 2
    assert "apt-get install python3" in done.stderr


@pytest.mark.parametrize("more", [[], ["--runtime"]])
def test_what_only_runs_needs_no_development_tools(tmp_path: Path, more: list[str]) -> None:
    (tmp_path / "scripts").mkdir()
    shutil.copy(SCRIPTS / "bootstrap.py", tmp_path / "scripts")
    uv = tmp_path / "bin" / "uv"
    uv.parent.mkdir()
    uv.write_text('#!/bin/sh\n[ "$1" = --version ] && echo uv 0.99.0 || echo "$@" > asked\n')
    uv.chmod(0o755)
    (uv.parent / "bwrap").symlink_to(uv)
    command = [sys.executable, str(tmp_path / "scripts/bootstrap.py"), *more]
    subprocess.run(command, env={"PATH": str(uv.parent)}, check=True, capture_output=True, timeout=60)
    asked = (tmp_path / "asked").read_text()
    assert ("--group dev" in asked and "--extra web" in asked) != bool(more)
    assert ("--no-default-groups --inexact" in asked) == bool(more)
