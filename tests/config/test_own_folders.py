"""What may not be granted, because our own settings and record are there."""

from __future__ import annotations

from pathlib import Path

import pytest

from toolcrib.core.errors import ConfigError
from toolcrib.toolbox.build import refuse_own_folders


@pytest.fixture
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    (tmp_path / "link").symlink_to(tmp_path / "state")
    return tmp_path / "state" / "toolcrib"


@pytest.mark.parametrize(
    "root", [".", "state", "state/toolcrib", "state/toolcrib/one", "link", "config", "config/toolcrib/rules"]
)
def test_a_folder_with_our_own_in_it_or_within_ours_is_refused(tmp_path: Path, state: Path, root: str) -> None:
    with pytest.raises(ConfigError, match="grant smaller folders"):
        refuse_own_folders([tmp_path / "data", tmp_path / root], state)


def test_folders_beside_ours_may_be_granted(tmp_path: Path, state: Path) -> None:
    refuse_own_folders([tmp_path / "data", tmp_path / "state" / "toolcrib-other", tmp_path / "configs"], state)
