"""Real paths, also of names that nothing can follow."""

import errno
import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

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


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    base = tmp_path_factory.mktemp("tree").resolve()
    (base / "a" / "b" / "a").mkdir(parents=True)
    (base / "a" / "file").touch()
    for name, target in (("l", "a"), ("a/up", ".."), ("a/b/l", "../file"), ("loop", "loop"), ("gone", "nowhere/x")):
        (base / name).symlink_to(target)
    return base


@given(
    st.sampled_from(["", "/", "//", "/proc/self/root", "{tree}", "/{tree}", "{tree}//a", "{tree}/l"]),
    st.lists(st.sampled_from(["a", "b", "l", "up", "file", "loop", "gone", "..", ".", ""]), max_size=5),
)
def test_it_is_what_python_finds_link_by_link(tree: Path, start: str, parts: list[str]) -> None:
    path = "/".join([start.format(tree=tree), *parts])
    assert real_path(path) == os.path.realpath(path)


def test_a_name_with_a_nul_is_not_taken_for_what_comes_before_it(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="null"):
        real_path(f"{tmp_path}\0/x")


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


def test_a_link_that_is_replaced_meanwhile_is_looked_at_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A command did so in a loop, and what another one made was not searched for protected names."""
    (tmp_path / "link").symlink_to("file")
    errors = [OSError(errno.EINVAL, "Invalid argument")] * 3
    readlink = os.readlink

    def replaced(path: str) -> str:
        if errors:
            raise errors.pop()
        return readlink(path)

    monkeypatch.setattr(os, "readlink", replaced)
    assert real_path(tmp_path / "link") == str(tmp_path / "file")
