"""Real paths, also of names that nothing can follow."""

import os
from pathlib import Path

from toolcrib.boundary.real_path import real_path


def test_a_chain_of_links_that_the_kernel_does_not_follow_is_no_error(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to("file")
    assert real_path(tmp_path / "link") == str(tmp_path / "file")
    for each in range(2_000):
        (tmp_path / str(each)).symlink_to(str(each + 1))
    assert os.path.dirname(real_path(f"{tmp_path}/0")) == str(tmp_path)
