import os
import sys
from pathlib import Path

import pytest

from toolcrib.boundary.sandbox import readable_roots
from toolcrib.boundary.sandbox.readable_roots import ReadableRoots

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="bubblewrap is for Linux")


def program(path: Path, text: str = "#!/bin/sh\n") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(0o755)
    return path


def python(prefix: Path) -> Path:
    (prefix / "lib/python3.12").mkdir(parents=True)
    (prefix / "lib/python3.12/os.py").write_text("")
    return program(prefix / "bin/python3")


@pytest.fixture
def home(tmp_path: Path) -> Path:
    home = tmp_path / "home"
    (home / ".ssh").mkdir(parents=True)
    (home / ".ssh/id_rsa").write_text("secret")
    (home / "work").mkdir()
    return home


def visible(roots: ReadableRoots, path: Path) -> bool:
    return any(path == Path(target) or path.is_relative_to(target) for target in roots.binds)


def test_home_is_never_bound_as_a_whole(home: Path) -> None:
    roots = ReadableRoots(home, home / "work")
    (home / ".local/bin").mkdir(parents=True)
    (home / ".local/lib").mkdir()
    (home / "lib").mkdir()
    entries = [home, home / "bin", home / ".local/bin", home.parent, Path("/")]
    program(home / "bin/tool")
    kept = roots.add_path(os.pathsep.join(map(str, entries)))
    assert kept == [str(home / "bin"), str(home / ".local/bin")]
    assert not visible(roots, home / ".ssh/id_rsa")
    assert set(roots.binds) == {str(home / "bin"), str(home / ".local/bin")}


def test_relative_missing_and_empty_entries_are_dropped(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(home)
    assert ReadableRoots(home, home / "work").add_path(":work::.:/nonexistent/x:/usr/bin") == ["/usr/bin"]


def test_version_managers_are_bound_whole(home: Path) -> None:
    for folder in (".pyenv/shims", ".cargo/bin", ".nvm/versions/node/v20/bin"):
        (home / folder).mkdir(parents=True)
    (home / ".cargo/credentials.toml").write_text("secret")
    (home / ".rustup/toolchains").mkdir(parents=True)
    roots = ReadableRoots(home, home / "work")
    roots.add_path(f"{home}/.pyenv/shims:{home}/.cargo/bin:{home}/.nvm/versions/node/v20/bin")
    assert visible(roots, home / ".pyenv/versions/3.12")
    assert visible(roots, home / ".nvm/versions/node/v20/lib")
    assert visible(roots, home / ".rustup/toolchains")
    assert not visible(roots, home / ".cargo/credentials.toml")


def test_a_tool_of_uv_is_seen_with_its_interpreter_but_without_the_credentials(home: Path) -> None:
    uv, name = home / ".local/share/uv", "cpython-3.12-linux"
    python(uv / "python" / name)
    tool = program(uv / "tools/ruff/bin/ruff")
    (tool.parent / "python").symlink_to(uv / "python" / name / "bin/python3")
    (uv / "credentials").mkdir()
    (uv / "credentials/credentials.toml").write_text("secret")
    (home / ".local/bin").mkdir(parents=True)
    (home / ".local/bin/ruff").symlink_to(tool)
    roots = ReadableRoots(home, home / "work")
    roots.add_path(f"{home}/.local/bin")
    assert visible(roots, tool) and visible(roots, uv / "python" / name / "lib/python3.12/os.py")
    assert not visible(roots, uv / "credentials/credentials.toml")


def test_links_on_path_lead_to_their_installation(home: Path) -> None:
    (home / ".local/bin").mkdir(parents=True)
    tool = program(home / "apps/tool-1.0/bin/tool")
    (home / "apps/tool-1.0/lib").mkdir()
    single = program(home / "scripts/one")
    (home / "scripts/secret").write_text("secret")
    (home / ".local/bin/tool").symlink_to(tool)
    (home / ".local/bin/one").symlink_to(single)
    roots = ReadableRoots(home, home / "work")
    roots.add_path(f"{home}/.local/bin")
    assert visible(roots, home / "apps/tool-1.0/lib/x")
    assert visible(roots, single)
    assert not visible(roots, home / "scripts/secret")


@pytest.mark.parametrize("sign", [".git", ".env"])
def test_a_link_on_path_does_not_open_a_whole_project(home: Path, sign: str) -> None:
    (home / ".local/bin").mkdir(parents=True)
    tool = program(home / "src/project/bin/tool")
    (home / "src/project/lib").mkdir()
    (home / "src/project" / sign).mkdir()
    (home / ".local/bin/tool").symlink_to(tool)
    for entry in (".local/bin", "src/project/bin"):
        roots = ReadableRoots(home, home / "work")
        roots.add_path(f"{home}/{entry}")
        assert visible(roots, tool) and visible(roots, home / "src/project/lib/x")
        assert not visible(roots, home / "src/project/customers.db") and not visible(roots, home / "src/project/.env")


def test_an_environment_leads_to_its_interpreter_hop_by_hop(home: Path) -> None:
    real = home / "pythons/cpython-3.12.8"
    python(real)
    (home / "pythons/cpython-3.12").symlink_to("cpython-3.12.8")
    venv = home / "work/.venv"
    (venv / "bin").mkdir(parents=True)
    (venv / "pyvenv.cfg").write_text("")
    (venv / "bin/python").symlink_to(home / "pythons/cpython-3.12/bin/python3")
    roots = ReadableRoots(home, home / "work")
    roots.add_environments([str(home / "work")])
    assert roots.binds[str(home / "pythons/cpython-3.12")] == str(real)
    assert visible(roots, real / "lib/python3.12/os.py") or visible(roots, home / "pythons/cpython-3.12/lib")


@pytest.mark.parametrize("target", [".ssh/id_rsa", ".ssh/bin/python3", "bin/python3"])
def test_an_environment_cannot_name_a_folder_that_is_no_interpreter(home: Path, target: str) -> None:
    """A command may have written it: `.venv/bin/python` → something that it would like to read."""
    if target != ".ssh/id_rsa":
        program(home / target)
        (home / "lib/python3.12").mkdir(parents=True)
        (home / "lib/python3.12/os.py").write_text("")
    venv = home / "work/.venv"
    (venv / "bin").mkdir(parents=True)
    (venv / "pyvenv.cfg").write_text("")
    (venv / "bin/python").symlink_to(home / target)
    roots = ReadableRoots(home, home / "work")
    roots.add_environments([str(home / "work")])
    assert not visible(roots, home / ".ssh/id_rsa")
    assert roots.binds == {}


def test_folders_of_the_workspace_need_no_bind(home: Path) -> None:
    program(home / "work/node_modules/.bin/tool")
    roots = ReadableRoots(home, home / "work")
    assert roots.add_path(f"{home}/work/node_modules/.bin") == [f"{home}/work/node_modules/.bin"]
    assert roots.binds == {}


def test_a_version_manager_of_the_account_is_found_where_home_is_another_folder(tmp_path, monkeypatch):
    account, other, workspace = tmp_path / "account", tmp_path / "other", tmp_path / "work"
    shims = account / ".pyenv" / "shims"
    shims.mkdir(parents=True)
    other.mkdir()
    workspace.mkdir()
    (account / "secret").write_text("s")
    monkeypatch.setattr("toolcrib.boundary.sandbox.readable_roots._account_home", lambda: str(account))
    roots = ReadableRoots(other, workspace)
    assert roots.add_path(f"{shims}:{account}") == [str(shims)]
    assert roots.binds == {str(account / ".pyenv"): str(account / ".pyenv")}


def test_of_a_folder_with_secrets_all_else_is_seen_but_no_link_to_them(tmp_path, monkeypatch):
    for name in ("private/key.pem", "certs/ca.pem", "openssl.cnf"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("")
    (tmp_path / "key.pem").symlink_to("private/key.pem")
    (tmp_path / "ca.pem").symlink_to("certs/ca.pem")
    monkeypatch.setattr(readable_roots, "_ETC_FOLDERS", (f"..{tmp_path}",))
    monkeypatch.setattr(readable_roots, "_ETC_SECRETS", (f"/etc/..{tmp_path}/private",))
    paths = [path for path in readable_roots.system_paths() if str(tmp_path) in path]
    assert {Path(path).name for path in paths} == {"certs", "openssl.cnf", "ca.pem"}
    copied = readable_roots.open_system_files()
    for fd, _ in copied:
        os.close(fd)
    assert {Path(path).name for _, path in copied if str(tmp_path) in path} == {"openssl.cnf", "ca.pem"}
