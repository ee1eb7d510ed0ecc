"""Our own settings and state, where they lie in a workspace: no path reaches them."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolcrib.boundary.path_judgement import judge_path
from toolcrib.boundary.workspace import Workspace
from toolcrib.boundary.workspace_paths import PrivatePath
from toolcrib.boundary.workspace_roots import Method
from toolcrib.core.errors import ConfigError, ToolError

SECRET = b"what Toolcrib trusts"
OWN = (".local/state/toolcrib", ".config/toolcrib")


def fill(home: Path) -> None:
    for own in OWN:
        (home / own).mkdir(parents=True)
        (home / own / "file").write_bytes(SECRET)
    (home / "plain").write_bytes(b"plain")


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in ("XDG_CONFIG_HOME", "XDG_STATE_HOME"):
        monkeypatch.delenv(name, raising=False)
    home = tmp_path / "home"
    monkeypatch.setenv("HOME", str(home))
    fill(home)
    return home


@pytest.fixture(params=["openat2", "walk"])
def ws(request: pytest.FixtureRequest, home: Path) -> Workspace:
    method: Method = request.param
    return Workspace(home, method=method)


def read(ws: Workspace, path: str) -> bytes:
    with open(ws.open_read(path), "rb") as file:
        return file.read()


NAMES = [
    ".local/state/toolcrib/file",
    "./.local//state/../state/toolcrib/file",
    "~/.config/toolcrib/file",
    ".LOCAL/State/toolcrib/file",
    "to-state/toolcrib/file",
    "to-own/file",
    "to-file",
    "deep/../to-absolute/file",
    "to-root/proc/self/cwd/.config/toolcrib/file",
]


def links(home: Path) -> None:
    (home / "to-state").symlink_to(".local/state")
    (home / "to-own").symlink_to("to-state/toolcrib")
    (home / "to-file").symlink_to("deep/.././.config/toolcrib/file")
    (home / "deep").mkdir()
    (home / "to-absolute").symlink_to(home / ".config/toolcrib")
    (home / "to-root").symlink_to("/")


@pytest.mark.parametrize("name", NAMES)
def test_nothing_of_ours_is_read_by_any_name(ws: Workspace, home: Path, name: str) -> None:
    links(home)
    if name.startswith(".LOCAL"):
        (home / ".LOCAL").mkdir()  # where the case of letters counts it is another folder; asking for it is refused
    with pytest.raises(ToolError):
        read(ws, name)
    found = judge_path(ws, name)
    assert found is not None and found.verdict == "deny"
    assert read(ws, "plain") == b"plain"


@pytest.mark.parametrize("method", ["openat2", "walk"])
@pytest.mark.parametrize("by", ["/proc/self/root", "/proc/self/cwd/../../../../../../../..", "/dev/fd/../../.."])
def test_the_whole_machine_as_a_workspace(home: Path, method: Method, by: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(home)
    ws = Workspace("/", method=method)
    assert read(ws, str(home / "plain")) == b"plain"
    with pytest.raises(ToolError):
        read(ws, f"{by}{home}/.config/toolcrib/file")
    with pytest.raises(ToolError, match="can only be read"):
        ws.stage(home / "plain", b"mine")
    ws.close()


CHANGES: list[Callable[[Workspace, str], object]] = [
    lambda ws, path: ws.rmdir(path),
    lambda ws, path: ws.stage(path, b"mine"),
    lambda ws, path: ws.chmod(path, 0o777),
]


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("path", [".local", ".local/state", *OWN, ".config/toolcrib/file", ".config/toolcrib/new"])
def test_what_they_lie_in_is_not_moved_or_replaced(
    ws: Workspace, change: Callable[[Workspace, str], object], path: str
) -> None:
    with pytest.raises(PrivatePath, match="Toolcrib"):
        change(ws, path)
    assert (ws.root / OWN[0] / "file").read_bytes() == (ws.root / OWN[1] / "file").read_bytes() == SECRET


def test_beside_them_everything_may_be_changed(ws: Workspace) -> None:
    ws.mkdir(".config/other")
    ws.stage(".config/other/file", b"x").commit()
    assert read(ws, ".config/other/file") == b"x"


def test_a_missing_folder_on_the_way_can_only_be_made_as_a_folder(ws: Workspace) -> None:
    for name in ("file", ""):
        (ws.root / ".config/toolcrib" / name).unlink() if name else (ws.root / ".config/toolcrib").rmdir()
    (ws.root / ".config").rmdir()
    with pytest.raises(PrivatePath):
        ws.stage(".config", b"mine")
    ws.mkdir(".config")
    ws.mkdir(".config/other")
    with pytest.raises(PrivatePath):
        ws.mkdir(".config/toolcrib")


def test_a_link_on_the_way_is_kept(tmp_path: Path, home: Path) -> None:
    os.rename(home / ".config", home / "dotfiles")
    (home / ".config").symlink_to("dotfiles")
    ws = Workspace(home)
    for path in (".config", "dotfiles", "dotfiles/toolcrib"):
        with pytest.raises(PrivatePath):
            ws.rmdir(path)
    with pytest.raises(PrivatePath):
        read(ws, "dotfiles/toolcrib/file")
    ws.close()


def test_a_granted_folder_around_them(tmp_path: Path, home: Path) -> None:
    (tmp_path / "work").mkdir()
    for granted in ({"read_roots": [home]}, {"write_roots": [home]}):
        ws = Workspace(tmp_path / "work", **granted)
        assert read(ws, str(home / "plain")) == b"plain"
        with pytest.raises(PrivatePath):
            read(ws, str(home / ".config/toolcrib/file"))
        ws.close()


@pytest.mark.parametrize("own", [*OWN, ".local/state/toolcrib/deeper"])
def test_they_are_no_workspace(home: Path, own: str) -> None:
    (home / own).mkdir(exist_ok=True)
    with pytest.raises(ConfigError, match="belongs to Toolcrib itself"):
        Workspace(home / own)


def test_no_path_of_any_text_reaches_them(home: Path) -> None:
    links(home)
    ws = Workspace(home)
    parts = st.sampled_from([
        ".local", "state", "toolcrib", "file", "..", ".", "to-state", "to-own", "to-file", "deep", "to-absolute",
        ".config", "home", "proc", "self", "root", "cwd", "~", "", "to-root", home.name, home.parent.name,
    ])  # fmt: skip

    @given(st.lists(parts, max_size=12), st.sampled_from(["", "/", f"{home}/", f"/proc/self/root{home}/"]))
    def tried(names: list[str], start: str) -> None:
        try:
            content = read(ws, start + "/".join(names))
        except (ToolError, OSError):
            return
        assert content == b"plain"

    tried()
    ws.close()
    assert re.fullmatch(rb"what Toolcrib trusts", (home / OWN[0] / "file").read_bytes())
