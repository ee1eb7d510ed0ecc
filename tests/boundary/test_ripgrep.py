"""Which ripgrep is used."""

from __future__ import annotations

from pathlib import Path

import pytest

from toolcrib.boundary.ripgrep import file_types, find_ripgrep
from toolcrib.core.errors import ConfigError


def script(path: Path, version: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\necho 'ripgrep {version}'\n")
    path.chmod(0o755)
    return path


@pytest.fixture
def empty_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path / "empty"))


@pytest.mark.usefixtures("empty_path")
def test_the_packaged_one_is_found_without_path() -> None:
    found = find_ripgrep()
    assert found is not None
    assert found.origin == "packaged"
    assert found.version >= (15,)


def test_a_configured_one_goes_first(tmp_path: Path) -> None:
    own = script(tmp_path / "own", "14.1.0")
    found = find_ripgrep(str(own))
    assert found is not None
    assert (found.path, found.version, found.origin) == (str(own), (14, 1, 0), "configured")


@pytest.mark.parametrize("version", ["12.1.1", "nonsense"])
def test_a_configured_one_that_does_not_do_is_an_error(tmp_path: Path, version: str) -> None:
    with pytest.raises(ConfigError, match=r"tools\.ripgrep: .*13 or newer"):
        find_ripgrep(str(script(tmp_path / "own", version)))


@pytest.mark.usefixtures("programs_in_tmp")
def test_path_comes_before_the_package_but_not_old_ones(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    script(tmp_path / "old" / "rg", "11.0.0")
    new = script(tmp_path / "new" / "rg", "14.0.0")
    monkeypatch.setenv("PATH", f"relative:{tmp_path / 'old'}:{tmp_path / 'new'}")
    found = find_ripgrep()
    assert found is not None
    assert (found.path, found.origin) == (str(new), "PATH")


@pytest.mark.usefixtures("programs_in_tmp")
def test_one_inside_the_workspace_is_passed_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    script(tmp_path / "ws" / "bin" / "rg", "14.0.0")
    (tmp_path / "link").symlink_to(tmp_path / "ws" / "bin")
    monkeypatch.setenv("PATH", f"{tmp_path / 'ws' / 'bin'}:{tmp_path / 'link'}")
    found = find_ripgrep(writable=[tmp_path / "ws"])
    assert found is not None
    assert found.origin == "packaged"


@pytest.mark.usefixtures("empty_path")  # the packaged one: older ones have other types
def test_close_file_types() -> None:
    found = find_ripgrep()
    assert found is not None
    assert file_types(found, "pyhton")[0] == "python"
    assert file_types(found, "rs")[0] == "rust"
