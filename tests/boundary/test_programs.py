"""Which programs the host may run: none that a tool or another user could replace."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolcrib.boundary.programs import (
    doubt,
    find_program,
    host_environment,
    links_followed,
    look_up,
    places_followed,
    search_path,
    within_any,
    within_known,
)

pytestmark = pytest.mark.usefixtures("programs_in_tmp")


def program(path: Path, mode: int = 0o755) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("#!/bin/sh\n")
    path.chmod(mode)
    return path


def test_the_first_on_path_that_no_tool_may_write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    planted = program(tmp_path / "ws" / ".venv" / "bin" / "tool")
    good = program(tmp_path / "opt" / "tool")
    monkeypatch.setenv("PATH", f"bin:{planted.parent}:{good.parent}")
    assert find_program("tool") == str(planted)
    assert find_program("tool", [tmp_path / "ws"]) == str(good)
    assert [path for path, why in look_up("tool", [tmp_path / "ws"]) if why] == [str(planted)]
    assert find_program(str(planted), [tmp_path / "ws"]) is None
    assert find_program("none") is None


def test_a_shim_is_passed_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A `.tool-versions` of the workspace says what it runs."""
    shim = program(tmp_path / ".asdf" / "shims" / "tool")
    program(tmp_path / "manager" / "mise")
    (tmp_path / "manager" / "tool").symlink_to("mise")
    good = program(tmp_path / "opt" / "tool")
    monkeypatch.setenv("PATH", f"{shim.parent}:{tmp_path}/manager:{good.parent}")
    assert find_program("tool") == str(good)
    assert next(look_up("tool", shims=True)) == (str(shim), None)


@pytest.mark.parametrize("how", ["file", "folder", "folder above", "chain"])
def test_links_through_the_workspace_are_seen(tmp_path: Path, how: str) -> None:
    """Whoever may change a link on the way decides what runs, wherever it leads to now."""
    good = program(tmp_path / "opt" / "bin" / "tool")
    ws = tmp_path / "ws"
    ws.mkdir()
    outside = tmp_path / "usr" / "bin"
    outside.mkdir(parents=True)
    if how == "file":
        (ws / "tool").symlink_to(good)
        (outside / "tool").symlink_to(ws / "tool")
    elif how == "folder":
        (ws / "bin").symlink_to(good.parent)
        (outside / "tool").symlink_to(ws / "bin" / "tool")
    elif how == "folder above":
        (ws / "opt").symlink_to(tmp_path / "opt")
        (outside / "tool").symlink_to("../../ws/opt/bin/tool")
    else:
        (ws / "up").symlink_to("../opt")
        (tmp_path / "hop").symlink_to("ws/up")
        (outside / "tool").symlink_to(tmp_path / "hop" / "bin" / "tool")
    assert os.path.realpath(outside / "tool") == str(good)
    assert "which tools may write" in (doubt(outside / "tool", [ws]) or "")
    assert doubt(ws / "tool", [ws]) == f"it lies in {ws}, which tools may write"
    assert doubt(good, [ws]) is None


def test_a_workspace_that_is_reached_by_a_link(tmp_path: Path) -> None:
    planted = program(tmp_path / "ws" / "tool")
    (tmp_path / "alias").symlink_to("ws")
    assert doubt(planted, [tmp_path / "alias"]) is not None
    assert doubt(tmp_path / "alias" / "tool", [tmp_path / "ws"]) is not None


def test_what_others_may_write(tmp_path: Path) -> None:
    tool = program(tmp_path / "bin" / "tool")
    assert doubt(tool) is None
    tool.chmod(0o757)
    assert "every user may write" in (doubt(tool) or "")
    tool.chmod(0o755)
    tool.parent.chmod(0o777)
    assert "every user may write" in (doubt(tool) or "")
    tool.parent.chmod(0o777 | stat.S_ISVTX)  # only the owner of an entry can replace it
    assert doubt(tool) is None


@pytest.mark.skipif(os.geteuid() != 0, reason="needs another user's files")
def test_what_belongs_to_others(tmp_path: Path) -> None:
    tool = program(tmp_path / "bin" / "tool")
    os.chown(tool, 4321, -1)
    assert "another user (uid 4321)" in (doubt(tool) or "")
    os.chown(tool, 0, 0)
    os.chown(tool.parent, 4321, -1)
    assert "another user" in (doubt(tool) or "")
    os.chown(tool.parent, 0, 4321)
    tool.parent.chmod(0o775)
    assert "its group 4321 may" in (doubt(tool) or "")


def test_a_loop_of_links_and_what_is_gone(tmp_path: Path) -> None:
    (tmp_path / "a").symlink_to("b")
    (tmp_path / "b").symlink_to("a")
    assert "cannot be checked" in (doubt(tmp_path / "a") or "")
    assert "cannot be checked" in (doubt(tmp_path / "gone") or "")


def test_temporary_folders_are_not_searched_by_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tool = program(tmp_path / "tool")
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr("toolcrib.boundary.programs.temporary_folders", lambda: (str(tmp_path),))
    assert find_program("tool") is None
    assert find_program(str(tool)) == str(tool)  # a person named this file


def test_the_environment_loads_nothing_of_a_workspace(tmp_path: Path) -> None:
    ws, opt = tmp_path / "ws", tmp_path / "opt"
    for each in (ws / "bin", opt):
        each.mkdir(parents=True)
    given = {
        "LD_PRELOAD": "x.so", "LD_LIBRARY_PATH": str(ws), "DYLD_INSERT_LIBRARIES": "x", "PYTHONPATH": str(ws),
        "PYTHONSTARTUP": "x", "GIT_DIR": str(ws), "GIT_CONFIG_COUNT": "1", "GIT_SSH_COMMAND": "x",
        "NODE_OPTIONS": "-r x",
        "PERL5OPT": "-Mx", "RUBYOPT": "-rx", "BASH_ENV": "x", "ENV": "x", "BASH_FUNC_ls%%": "() { x; }", "PAGER": "x",
        "VIRTUAL_ENV": str(ws), "PATH": f"{ws / 'bin'}:bin:.:{opt}:{tmp_path / 'gone'}", "HOME": "/h", "LANG": "C",
        "DOCKER_HOST": "unix:///x", "DISPLAY": ":0", "BROWSER": "x", "QT_PLUGIN_PATH": str(ws),
    }  # fmt: skip
    assert host_environment([ws], given) == {
        "PATH": str(opt), "HOME": "/h", "LANG": "C", "DOCKER_HOST": "unix:///x", "DISPLAY": ":0",
    }  # fmt: skip
    assert search_path([tmp_path], str(opt)) == "/usr/local/bin:/usr/bin:/bin"


@given(st.lists(st.sampled_from(["a", "b", "..", ".", "l", "m"]), max_size=8))
def test_no_path_into_the_workspace_is_trusted(parts: list[str]) -> None:
    """However it is written, what really lies in the workspace has a doubt."""
    base = Path(os.environ["PYTEST_TREE"])
    path = os.path.join(base, *parts)
    if os.path.lexists(path):
        inside = os.path.realpath(path).startswith(os.path.realpath(base / "ws"))
        assert not inside or doubt(path, [base / "ws"]) is not None


@pytest.fixture(autouse=True, scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> None:
    base = tmp_path_factory.mktemp("tree")
    (base / "ws" / "a" / "b").mkdir(parents=True)
    (base / "a" / "b").mkdir(parents=True)
    (base / "l").symlink_to("ws")
    (base / "a" / "m").symlink_to("../ws/a")
    (base / "ws" / "m").symlink_to("../a")
    os.environ["PYTEST_TREE"] = str(base)


def test_links_on_the_way_to_a_link_to_itself_are_known(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "name").symlink_to("real")
    (tmp_path / "real" / "loop").symlink_to("loop")
    found = links_followed(f"{tmp_path}/name/loop")
    assert set(found) == {f"{tmp_path}/name", f"{tmp_path}/real/loop"}
    assert places_followed(f"{tmp_path}/name/../name/loop")[:3] == [
        f"{tmp_path}/name", f"{tmp_path}/real", f"{tmp_path}/name",
    ]  # fmt: skip


@given(
    st.lists(st.sampled_from(["a", "ab", "b"]), max_size=4), st.sets(st.sampled_from(["/a", "/a/ab", "/b/b", "/ab"]))
)
def test_a_path_in_known_folders_is_the_same_as_in_any(parts: list[str], folders: set[str]) -> None:
    path = f"/{'/'.join(parts)}"
    assert within_known(path, folders) == within_any(path, folders)
