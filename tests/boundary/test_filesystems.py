"""Which file systems can keep us waiting."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from toolcrib.boundary.filesystems import may_hang


def test_a_folder_of_this_machine(tmp_path: Path) -> None:
    assert not may_hang(tmp_path)
    assert not may_hang(tmp_path / "none")


@pytest.mark.skipif(sys.platform != "linux", reason="statfs numbers are Linux's")
def test_what_is_not_known_to_be_local() -> None:
    assert may_hang("/proc")  # stands for any file system that is not in the table
