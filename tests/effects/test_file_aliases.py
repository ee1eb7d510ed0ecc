"""A file that an undo wrote again counts as the one that it replaced, and no later file does."""

from __future__ import annotations

import time
from pathlib import Path

from toolcrib.effects.change_list import Op
from toolcrib.effects.file_aliases import add_alias, follow_aliases, read_aliases
from toolcrib.effects.file_entry import Entry


def _op(ino: int, ctime: int) -> Op:
    return Op("swap", 0, "f", None, Entry("file", 0o644, 1, ino, 9, 500, ctime))


def test_a_later_file_with_the_same_inode_is_another_one(tmp_path: Path) -> None:
    path = tmp_path / "same.jsonl"
    before = time.time_ns()
    add_alias(path, "/w", "f", "1:7:500:9", "1:8:500:9")
    known = read_aliases(path)
    followed = follow_aliases(known, "/w", _op(7, before), back=True).after
    assert followed is not None and followed.ino == 8
    later = _op(7, time.time_ns() + 1)
    assert follow_aliases(known, "/w", later, back=True) == later
