"""Everything below a folder is found, however deep it is, and no link is followed."""

import os
from collections.abc import Callable, Iterator
from pathlib import Path

from toolcrib.boundary.descriptors import LISTED, closing_fd
from toolcrib.boundary.read_tree import all_below, folders_below
from toolcrib.boundary.remove_tree import remove_all


def nested(folder: Path, depth: int) -> None:
    """Make folders in each other, and a file of 7 bytes in the innermost, whose path is longer than a path may be."""
    folder.mkdir()
    fd = os.open(folder, LISTED)
    for _ in range(depth):
        os.mkdir("d" * 9, dir_fd=fd)
        below = os.open("d" * 9, LISTED, dir_fd=fd)
        os.close(fd)
        fd = below
    with closing_fd(fd), closing_fd(os.open("leaf", os.O_WRONLY | os.O_CREAT, dir_fd=fd)) as leaf:
        os.write(leaf, b"content")


def test_what_is_below(tmp_path: Path) -> None:
    for name in ("a/b", "c"):
        (tmp_path / "top" / name).mkdir(parents=True)
    for name in ("a/b/x", "c/x", "y"):
        (tmp_path / "top" / name).write_text("1")
    (tmp_path / "top" / "c" / "out").symlink_to("/")
    with closing_fd(os.open(tmp_path / "top", LISTED)) as fd:
        found = list(all_below(fd))
        assert sorted(name for _, name, _ in found) == ["a", "b", "c", "out", "x", "x", "y"]
        assert len({(path, name) for path, name, _ in found}) == 7
        assert {(path, name) for path, name, _ in all_below(fd)} == {(path, name) for path, name, _ in found}


def test_folders_as_os_walk_lists_them(tmp_path: Path) -> None:
    for name in ("a/b", "c", "left/out"):
        (tmp_path / "top" / name).mkdir(parents=True)
    for name in ("a/b/x", "c/x", "y"):
        (tmp_path / "top" / name).write_text("1")
    for name, target in (("folder", "a"), ("file", "y"), ("circle", "circle"), ("gone", "no")):
        (tmp_path / "top" / name).symlink_to(target)

    def listed(walk: Callable[[str], Iterator[tuple[str, list[str], list[str]]]]) -> Iterator[object]:
        for at, folders, names in walk(str(tmp_path / "top")):
            folders[:] = sorted(name for name in folders if name != "left")
            yield at, tuple(folders), sorted(names)

    assert list(listed(folders_below)) == list(listed(os.walk))


def test_any_depth_and_no_descriptor_is_left(tmp_path: Path) -> None:
    before = len(os.listdir("/proc/self/fd")) if os.path.isdir("/proc/self/fd") else 0
    nested(tmp_path / "deep", 3_000)
    try:
        with closing_fd(os.open(tmp_path / "deep", LISTED)) as fd:
            found = list(all_below(fd))
            assert len(found) == 3_001
            assert found[-1][1] == "leaf"
            assert found[-1][2].st_size == 7
            next(all_below(fd))
        assert len(list(folders_below(str(tmp_path / "deep")))) > 300  # as far as a path may be long
    finally:
        remove_all(tmp_path / "deep")
    assert not before or len(os.listdir("/proc/self/fd")) == before
