"""Whatever a command does to protected files, they are as before afterwards."""

import os
import shutil
import stat
import sys
import tempfile
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from toolcrib.boundary.sandbox.landlock.protected_backup import BackupStore
from toolcrib.boundary.sandbox.protected_paths import find_protected_paths

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="Landlock is for Linux")

PROTECTED = (".git/config", ".git/hooks", ".git/hooks/update", ".git/hooks/old", ".mcp.json", ".vscode/tasks.json")
CHANGES = ("write", "delete", "chmod", "link", "folder", "fifo", "move", "replace", "above", "new", "above-link")


def build(root: Path) -> None:
    (root / ".git/hooks").mkdir(parents=True)
    (root / ".vscode").mkdir()
    for name in (".git/config", ".git/hooks/update", ".mcp.json", ".vscode/tasks.json", "free"):
        (root / name).write_text(f"genuine {name}")
    (root / ".git/hooks/update").chmod(0o755)
    (root / ".git/hooks/old").symlink_to("update")


def remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        path.chmod(0o700)
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def change(root: Path, name: str, how: str, outside: Path) -> None:
    path = root / name
    if not os.path.realpath(path.parent).startswith(str(root)):
        return  # there Landlock would not let it write
    if how in ("above", "above-link"):
        path.parent.rename(root / f"moved-{len(os.listdir(root))}") if path.parent != root else None
        if how == "above-link" and path.parent != root:
            path.parent.symlink_to(outside)
    elif how == "write":
        with open(os.open(path, os.O_WRONLY | os.O_TRUNC | os.O_NOFOLLOW | os.O_NONBLOCK), "w") as file:
            file.write("evil")
    elif how == "chmod":
        if not path.is_symlink():
            path.chmod(0o000)
    elif how == "new":
        folder = path if path.is_dir() else path.parent
        if os.path.realpath(folder).startswith(str(root)):  # a link that leads out: see above
            folder.joinpath("added").write_text("evil")
    elif how == "move":
        path.rename(root / f"moved-{len(os.listdir(root))}")
    else:
        remove(path)
        if how == "link":
            path.symlink_to(outside / "secret")
        elif how == "folder":
            path.mkdir()
        elif how == "fifo":
            os.mkfifo(path)
        elif how == "replace":
            path.write_text("evil")


def seen(root: Path) -> dict[str, tuple[int, bytes]]:
    found: dict[str, tuple[int, bytes]] = {}
    for name in PROTECTED:
        mode = (root / name).lstat().st_mode
        content = (root / name).read_bytes() if stat.S_ISREG(mode) else b""
        found[name] = mode, os.fsencode(os.readlink(root / name)) if stat.S_ISLNK(mode) else content
    return found


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(st.sampled_from(PROTECTED), st.sampled_from(CHANGES)), min_size=1, max_size=4), st.booleans())
def test_everything_is_as_before(changes: list[tuple[str, str]], running: bool) -> None:
    with tempfile.TemporaryDirectory() as name:
        root, outside = Path(os.path.realpath(name), "w"), Path(os.path.realpath(name), "outside")
        build(root)
        outside.mkdir()
        (outside / "secret").write_text("S")
        before = seen(root)
        kept = BackupStore().take([find_protected_paths(root, root, frozenset())])
        for path, how in changes:
            try:
                change(root, path, how, outside)
            except OSError:  # an earlier change stands in its way
                continue
        if running:
            kept.restore(running=True)
        done = kept.restore()
        assert not done.failed
        assert seen(root) == before
        assert os.listdir(outside) == ["secret"]
        assert (outside / "secret").read_text() == "S"
        assert (root / "free").read_text() == "genuine free"
        for path in done.aside:
            if os.path.lexists(path):
                remove(Path(path))
        assert set(os.listdir(root / ".git/hooks")) == {"update", "old"}
        assert not kept.restore().failed


def test_a_look_is_enough_for_old_files_only(tmp_path: Path) -> None:
    build(tmp_path)
    keeper, path = BackupStore(), tmp_path / ".mcp.json"
    copy = keeper.take([find_protected_paths(tmp_path, tmp_path, frozenset())]).trees[0].copies[str(path)]
    status = path.lstat()
    assert replace(copy, taken=status.st_ctime_ns + 10**9).is_still(status)
    # too young to be told from a change in the same tick of the kernel's clock
    assert not replace(copy, taken=status.st_ctime_ns).is_still(status)
    path.write_text("evil")
    again = keeper.take([find_protected_paths(tmp_path, tmp_path, frozenset())])
    assert again.trees[0].copies[str(path)].content == b"evil"


def test_granted_names_are_not_kept(tmp_path: Path) -> None:
    build(tmp_path)
    kept = BackupStore().take([find_protected_paths(tmp_path, tmp_path, frozenset({".git", ".vscode"}))])
    assert list(kept.trees[0].copies) == [f"{tmp_path}/.mcp.json"]
    assert kept.places() == [(str(tmp_path), [".mcp.json"])]
