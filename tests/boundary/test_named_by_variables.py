import os
import platform
import sys
from pathlib import Path

import pytest

from toolcrib.boundary import named_by_variables
from toolcrib.boundary.host_files import host_file_at, host_files_in
from toolcrib.boundary.sandbox.protected_paths import ProtectedPaths

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="other systems have other variables")

MACHINE = platform.machine()


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.chdir(tmp_path)
    return os.path.realpath(tmp_path)


def given(monkeypatch: pytest.MonkeyPatch, **variables: str) -> None:
    monkeypatch.setattr(named_by_variables, "given", lambda: named_by_variables.paths_given(variables))


def asks(root: str, name: str) -> bool:
    return host_file_at(root, f"{root}/{name}") is not None


def test_libraries_of_the_system_are_not_replaced(root: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """An empty entry of LD_LIBRARY_PATH is the folder that Toolcrib starts in; `late` is not there yet."""
    Path("lib").mkdir()
    given(monkeypatch, LD_LIBRARY_PATH=f"/nowhere:{root}/lib:late;", LD_PRELOAD=f"libmine.so {root}/pre/x.so")
    for folder in ("", "lib/", "late/"):
        below = ("", "tls/", f"{MACHINE}/", f"tls/{MACHINE}/{MACHINE}/", "glibc-hwcaps/x/")
        assert all(asks(root, f"{folder}{each}libc.so.6") for each in below)
        assert asks(root, f"{folder}libmine.so")
        assert asks(root, f"{folder}libnss_files.so.2")
        assert not asks(root, f"{folder}libown.so")
        assert not asks(root, f"{folder}tls/server.go")
    assert not asks(root, "src/libc.so.6")


@pytest.mark.parametrize(
    "variable",
    ["LD_PRELOAD", "LD_AUDIT", "GCONV_PATH", "PYTHONPYCACHEPREFIX", "OPENSSL_CONF", "OPENSSL_MODULES",
     "SSL_CERT_FILE", "DOCKER_CONFIG", "JAVA_HOME", "BASH_ENV", "CLAUDE_ENV_FILE", "CLAUDE_CODE_SHELL_PREFIX"],
)  # fmt: skip
def test_what_a_variable_names_is_not_changed(variable: str, root: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whether it is there or not, a file or a folder, whole or seen from the current folder, or behind a link."""
    Path("real").mkdir()
    Path("way").symlink_to("real")
    for value, named in ((f"{root}/own/it", "own/it"), ("own/it", "own/it"), ("way/it", "real/it"), ("way/it", "way")):
        given(monkeypatch, **{variable: value})
        assert asks(root, named)
        assert asks(root, f"{named}/below")
        assert not asks(root, "own/other")
        assert not asks(root, "real/other")


def test_of_several_paths_each_counts_and_none_outside_or_empty(root: str, monkeypatch: pytest.MonkeyPatch) -> None:
    given(monkeypatch, LD_PRELOAD=f"/usr/lib/a.so:{root}/b.so {root}/c.so:", OPENSSL_CONF=f"{root}/a:b")
    assert [asks(root, name) for name in ("b.so", "c.so", "a:b", "b", "other")] == [True, True, True, False, False]


def test_a_link_in_the_place_of_a_folder_makes_what_it_leads_to_count(
    root: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    given(monkeypatch, LD_LIBRARY_PATH="lib", LD_AUDIT="aud/x.so")
    assert not asks(root, "out/libc.so.6")
    for link in ("lib", "aud"):
        Path(link).symlink_to("out")
        assert asks(root, link)
    assert asks(root, "out/libc.so.6")
    assert asks(root, "out/x.so")


def test_a_command_does_not_make_it(root: str, monkeypatch: pytest.MonkeyPatch) -> None:
    given(monkeypatch, LD_LIBRARY_PATH="lib", OPENSSL_CONF="o.cnf")
    guard = ProtectedPaths(root, frozenset())
    for each in host_files_in(root):
        guard.hold(each)
    Path("lib/tls").mkdir(parents=True)
    Path("lib/libown.so").touch()
    assert guard.appeared() == []
    for name in ("o.cnf", "lib/libc.so.6", "lib/tls/libm.so.6"):
        Path(name).touch()
    assert sorted(guard.appeared()) == ["lib/libc.so.6", "lib/tls/libm.so.6", "o.cnf"]
