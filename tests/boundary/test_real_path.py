"""Real paths, also of names that nothing can follow."""

import os
from pathlib import Path

import pytest

import toolcrib
from toolcrib import Toolbox
from toolcrib.boundary.real_path import real_path

# Besides the module itself: the workspace that a host names, and the system's own clock.
OTHERS = {"boundary/real_path.py", "core/pipeline.py", "jobs/zones.py"}


def test_a_chain_of_links_that_the_kernel_does_not_follow_is_no_error(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to("file")
    assert real_path(tmp_path / "link") == str(tmp_path / "file")
    for each in range(2_000):
        (tmp_path / str(each)).symlink_to(str(each + 1))
    assert os.path.dirname(real_path(f"{tmp_path}/0")) == str(tmp_path)


async def test_such_a_chain_at_a_place_of_the_settings_ends_no_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    for each in range(1_100):
        (tmp_path / str(each)).symlink_to(str(each + 1))
    place = f"{tmp_path}/0"
    config = tmp_path / "config.toml"
    config.write_text(f"""[plugins]
enabled = true
plugin_dirs = ["{place}"]
[mcp_servers.a]
command = "{place}"
args = ["-m", "x"]
""")
    async with Toolbox.open(tmp_path, config=config) as box:
        await box.mcp.start()
        assert "Too many levels" in (box.mcp.servers["a"].error or "")


def test_every_room_resolves_links_in_this_way() -> None:
    root = Path(toolcrib.__file__).parent
    found = {str(path.relative_to(root)) for path in root.rglob("*.py") if "os.path.realpath" in path.read_text()}
    assert found == OTHERS
