"""Which folders a command may change, and what is protected in them."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import tempfile
from collections.abc import Generator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from toolcrib.boundary.path_judgement import judge_path
from toolcrib.boundary.sandbox import writable
from toolcrib.boundary.sandbox.found_files import withheld_files
from toolcrib.boundary.sandbox.protected_search import remember, search_all
from toolcrib.boundary.sandbox.settings import SandboxSettings
from toolcrib.boundary.sandbox.writable import Writable, workspace_of
from toolcrib.boundary.workspace import Workspace
from toolcrib.core.errors import SandboxUnavailable


@pytest.mark.parametrize("folder", ["/", "/usr", "/etc", "/nonexistent/folder"])
def test_no_folder_of_the_system_is_a_workspace(folder: str) -> None:
    with pytest.raises(SandboxUnavailable, match="must be a folder that is not part of the system"):
        workspace_of(Path(folder))


def test_a_workspace_is_a_real_path_so_that_no_link_put_in_its_place_moves_it(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    assert workspace_of(tmp_path / "real") == tmp_path / "real"
    with pytest.raises(SandboxUnavailable, match="leads to"):
        workspace_of(tmp_path / "link")


def test_granted_folders_are_guarded_too_and_outer_ones_first(tmp_path: Path) -> None:
    inner, outer = tmp_path / "a" / "work", tmp_path / "b"
    for folder in (inner, outer):
        (folder / ".git").mkdir(parents=True)
    folders = Writable(inner, SandboxSettings(write_roots=(outer, tmp_path / "gone")), "workspace-write")
    guards = folders.guards(inner)
    assert [(found.root, found.absolute) for found in guards] == [(str(outer), True), (str(inner), False)]


def test_a_workspace_that_has_become_a_link_is_none(tmp_path: Path) -> None:
    (workspace := tmp_path / "ws").mkdir()
    folders = Writable(workspace, SandboxSettings(), "workspace-write")
    workspace.rename(tmp_path / "other")
    workspace.symlink_to("/etc")
    with pytest.raises(SandboxUnavailable, match="leads to /etc now"):
        folders.guards(workspace)


def test_a_folder_granted_for_reading_in_a_writable_one_is_read_only(tmp_path: Path) -> None:
    """The innermost root decides, for commands as for tools."""
    work, outer = tmp_path / "work", tmp_path / "outer"
    for folder in (work / "kept", outer / "kept"):
        folder.mkdir(parents=True)
    reading = (work / "kept", outer / "kept", outer / "none")
    settings = SandboxSettings(read_roots=reading, write_roots=(outer,))
    folders = Writable(work, settings, "workspace-write")
    guards = {found.root: found for found in folders.guards(work)}
    for root in (work, outer):
        assert guards[str(root)].mounts() == [(str(root / "kept"), True)]
    (outer / "none").symlink_to("/etc")
    assert folders.appeared(guards.values()) == [str(outer / "none")]


@pytest.mark.parametrize("profile", ["read-only", "unrestricted"])
def test_other_profiles_let_a_command_change_nothing(tmp_path: Path, profile: writable.Profile) -> None:
    assert Writable(tmp_path, SandboxSettings(write_roots=(tmp_path,)), profile).guards(tmp_path) == []


def test_folders_are_remembered_as_they_appear_up_to_the_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writable, "_MAX_KNOWN", 7)
    folders = Writable(tmp_path, SandboxSettings(), "workspace-write")
    for count in range(1, 12):  # one repository more before each command
        (tmp_path / f"r{count:02}" / ".git" / "hooks").mkdir(parents=True)
        (found,) = folders.guards(tmp_path)
    (last,) = folders.guards(tmp_path)
    remembered = folders._known[tmp_path]  # pyright: ignore[reportPrivateUsage]
    assert len(remembered) == 7
    assert set(remembered) <= set(found.known) <= set(last.known)


def test_of_very_many_new_protected_names_none_is_missed(tmp_path: Path) -> None:
    folders = Writable(tmp_path, SandboxSettings(), "workspace-write")
    guards = folders.guards(tmp_path)
    new = [tmp_path / "a/b/c/d" / str(number) for number in range(2_500)]
    for folder in new:
        folder.mkdir(parents=True)
        (folder / ".envrc").touch()
    remember(str(tmp_path), map(str, new))
    assert set(folders.appeared(guards)) == {str(each.relative_to(tmp_path) / ".envrc") for each in new}


def test_what_a_protected_link_of_another_folder_leads_to_is_read_only(tmp_path: Path) -> None:
    (ws := tmp_path / "ws").mkdir()
    (other := tmp_path / "other").mkdir()
    (other / "local").touch()
    (ws / ".envrc").symlink_to(other / "local")
    guards = Writable(ws, SandboxSettings(write_roots=(str(other),)), "workspace-write").guards(ws)
    assert any(str(other / "local") in guard.read_only for guard in guards)
    workspace = Workspace(ws, write_roots=[other])
    judgement = judge_path(workspace, other / "local", write=True)
    workspace.close()
    assert judgement is not None and ".envrc" in judgement.reason


@pytest.mark.parametrize("link", [".bashrc", ".config/fish"])
def test_what_a_link_of_the_home_leads_to_is_read_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, link: str
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    (ws := tmp_path / "dotfiles").mkdir()
    (ws / "target").touch()
    (tmp_path / link).parent.mkdir(exist_ok=True)
    (tmp_path / link).symlink_to(ws / "target")
    assert Writable(ws, SandboxSettings(), "workspace-write").guards(ws)[0].read_only == {str(ws / "target")}
    workspace = Workspace(ws)
    judgement = judge_path(workspace, "target", write=True)
    other = judge_path(workspace, "other", write=True)
    workspace.close()
    assert judgement is not None and link in judgement.reason and other is None


@pytest.mark.parametrize("owner", ["home", "granted"])
def test_a_link_on_the_way_of_a_link_elsewhere_must_not_lead_to_another_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, owner: str
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    (ws := tmp_path / "ws").mkdir()
    for folder in (tmp_path / "home", tmp_path / "granted", ws / "v1", ws / "v2"):
        folder.mkdir()
        (folder / "rc").touch()
    (ws / "now").symlink_to("v1")
    (tmp_path / owner / ".bashrc").symlink_to(ws / "now" / "rc")
    folders = Writable(ws, SandboxSettings(write_roots=(tmp_path / "granted",)), "workspace-write")
    guards = folders.guards(ws)
    assert all(each.keeps(str(ws / "now")) for each in guards if each.root == str(ws))
    (ws / "now").unlink()
    (ws / "now").symlink_to("v2")
    assert "now" in folders.appeared(guards)
    workspace = Workspace(ws)
    judgement = judge_path(workspace, "now", write=True) if owner == "home" else None
    workspace.close()
    assert owner == "granted" or judgement is not None


@pytest.mark.parametrize("steps", [("swap",), ("remove", "swap")])
def test_a_link_on_the_way_to_what_git_runs_must_not_lead_to_another_place(
    tmp_path: Path, steps: tuple[str, ...]
) -> None:
    for folder in ("v1/hooks", "v2/hooks"):
        (tmp_path / folder).mkdir(parents=True)
    (tmp_path / ".git").mkdir()
    (tmp_path / ".git" / "HEAD").write_text("ref: refs/heads/main")
    (tmp_path / ".git" / "config").write_text("[core]\n\thooksPath = now/hooks\n")
    (link := tmp_path / "now").symlink_to("v1")
    folders = Writable(tmp_path, SandboxSettings(), "workspace-write")
    found: list[str] = []
    for step in steps:
        guards = folders.guards(tmp_path)
        link.unlink(missing_ok=True)
        if step == "swap":
            link.symlink_to("v2")
        found = folders.appeared(guards)
    assert found == ["now"]
    assert str(tmp_path / "v1") not in folders.guards(tmp_path)[0].read_only


@pytest.mark.parametrize("owner", ["home", "git", "git, through a link"])
def test_a_folder_that_dots_leave_must_stay_a_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, owner: str
) -> None:
    """Where 'sub/../rc' leads depends on where 'sub' does."""
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    ws, sub = tmp_path / "ws", tmp_path / "ws" / "sub"
    for folder in ("home", "ws/sub", "ws/v1/deep", "ws/v2/deep", "ws/.git/objects"):
        (tmp_path / folder).mkdir(parents=True)
    if owner == "home":
        (tmp_path / "home" / ".bashrc").symlink_to(f"{sub}/../rc")
    else:
        (ws / ".git" / "HEAD").touch()
        (ws / ".git" / "config").write_text("[core]\n\thooksPath = sub/../rc\n")
    if through := owner.endswith("a link"):
        sub.rmdir()
        sub.symlink_to("v1/deep")
    (ws / ("v1/rc" if through else "rc")).touch()
    folders = Writable(ws, SandboxSettings(), "workspace-write")
    guards = folders.guards(ws)
    assert str(ws / ("v1/rc" if through else "rc")) in guards[0].read_only
    assert str(sub) not in guards[0].read_only and (through or str(sub) in guards[0].pinned)
    sub.unlink() if through else sub.rmdir()
    sub.symlink_to("v2/deep")
    assert folders.appeared(guards) == ["sub"]


@pytest.mark.parametrize(("path", "content"), [
    ("sub/.git", "gitdir: a\0b"), ("sub/.git/commondir", "a\0b"), ("sub/.git/config", "[core]\nhooksPath = h\0x\n"),
    ("sub/.git/config", "[core]\nworktree = h\0x\n[include]\npath = i\0x\n[core]\nfsmonitor = sh f\0x\n"),
])  # fmt: skip
def test_a_nul_in_what_a_command_made_stops_no_check(tmp_path: Path, path: str, content: str) -> None:
    folders = Writable(tmp_path, SandboxSettings(), "workspace-write")
    guards = folders.guards(tmp_path)
    (tmp_path / path).parent.mkdir(parents=True)
    (tmp_path / path).write_text(content)
    (tmp_path / ".envrc").touch()
    found = folders.appeared(guards)
    assert sorted(found) == [".envrc", path]
    workspace = Workspace(tmp_path)
    try:
        judge_path(workspace, "sub/x", write=True)
    finally:
        workspace.close()
    folders.guards(tmp_path / "sub")


@pytest.mark.parametrize("owner", ["home", "ws/sub"])
@pytest.mark.parametrize(("link", "name"), [
    (".config", "fish"), (".cursor", "mcp.json"), (".local/share", "systemd"), (".jj/repo", "config.toml"),
])  # fmt: skip
def test_what_would_get_a_protected_name_behind_a_link_must_not_appear(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, owner: str, link: str, name: str
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    for folder in ("home", "ws/other", "ws/mine"):
        (tmp_path / folder).mkdir(parents=True)
    (tmp_path / owner / link).parent.mkdir(parents=True, exist_ok=True)
    (tmp_path / owner / link).symlink_to(tmp_path / "ws" / "mine")
    folders = Writable(tmp_path / "ws", SandboxSettings(), "workspace-write")
    guards = folders.guards(tmp_path / "ws")
    workspace = Workspace(tmp_path / "ws")
    judgement = judge_path(workspace, f"mine/{name}", write=True)
    other = judge_path(workspace, f"other/{name}", write=True)
    workspace.close()
    assert judgement is not None and link in judgement.reason and other is None
    for folder in ("mine", "other"):
        (tmp_path / "ws" / folder / name).touch()
    assert folders.appeared(guards) == [f"mine/{name}"]


CLOSED = """
import os, sys
from pathlib import Path
from toolcrib.boundary.sandbox.found_files import withheld_files
from toolcrib.boundary.sandbox.settings import SandboxSettings
from toolcrib.boundary.sandbox.writable import Writable
from toolcrib.core.errors import SandboxUnavailable

if os.geteuid() == 0:
    os.setuid(65534)  # root may list every folder
os.chdir(sys.argv[1])
root = Path.cwd()
for name in ("theirs/.git/hooks", "theirs/keys", ".git/modules/one/hooks"):
    os.makedirs(name)
for name in ("theirs/.git/HEAD", ".git/HEAD", ".git/modules/one/HEAD"):
    Path(name).touch()
for folder in ("theirs/keys", "theirs", ".git/modules"):
    os.chmod(folder, 0o311)
folders = Writable(root, SandboxSettings(), "workspace-write")
guards = folders.guards(root)
assert guards[0].read_only == {str(root / "theirs"), str(root / ".git/modules")}, guards[0].read_only
settings = SandboxSettings(denied=lambda _: lambda path: path.endswith("/keys/secret"))
assert withheld_files(root, settings).paths() == (str(root / "theirs"), str(root / ".git/modules"))

os.makedirs("new/.vscode")
os.chmod("new", 0o311)
assert folders.appeared(guards) == ["new/.vscode"]
assert os.stat("new").st_mode & 0o777 == 0o711 and os.stat("theirs").st_mode & 0o777 == 0o311
os.chmod(".", 0o311)
try:
    folders.guards(root)
except SandboxUnavailable as error:
    assert "chmod u+rwx" in str(error)
else:
    raise AssertionError
"""


SHUT = """
import os, sys
from pathlib import Path
from toolcrib.boundary.programs import within_any
from toolcrib.boundary.sandbox.bubblewrap import BubblewrapSandbox
from toolcrib.boundary.sandbox.settings import SandboxSettings
from toolcrib.boundary.sandbox.writable import Writable
from toolcrib.core.errors import SandboxUnavailable

if os.geteuid() == 0:
    os.setuid(65534)
os.chdir(sys.argv[1])
root = Path.cwd()
for name in (".git", ".git/modules/s", "sub/.git", "bare"):
    os.makedirs(f"{name}/hooks")
    os.makedirs(f"{name}/objects")
    Path(name, "HEAD").touch()
for name in (".local/share/fish", "a/b/c/d/hooks", "keys"):
    os.makedirs(name)
Path(".git/config").write_text("[core]\\n\\thooksPath = a/b/c/d/hooks\\n")
Path("keys/secret").touch()
inside = {
    ".git": "hooks", ".git/modules": "s/hooks", ".git/modules/s": "hooks", "sub": ".git/hooks", "sub/.git": "hooks",
    "bare": "hooks", ".local/share": "fish", "a/b/c/d": "hooks",
}
for mode in (0o444, 0o000):
    for closed, rest in inside.items():
        path, unknown = str(root / closed / rest), closed.endswith(".git")
        folders = Writable(root, SandboxSettings(), "workspace-write")
        guards = folders.guards(root)
        os.chmod(closed, mode)
        assert within_any(path, Writable(root, SandboxSettings(), "workspace-write").guards(root)[0].read_only), path
        assert not (found := folders.appeared(guards)), (closed, found)
        assert os.access(closed, os.X_OK) or closed == "a/b/c/d", path
        os.chmod(closed, mode)
        try:
            assert within_any(path, folders.guards(root)[0].read_only) and not unknown, path
        except SandboxUnavailable as error:
            assert unknown and f"chmod u+rwx {root / closed}" in str(error)
        os.chmod(closed, 0o755)
    settings = SandboxSettings(denied=lambda _: lambda path: path.endswith("/keys/secret"), hidden=(root / "no/key",))
    sandbox = BubblewrapSandbox("/bin/true", settings, root)
    for cover in (["/dev/null", str(root / "keys/secret")], ["--tmpfs", str(root / "keys")]):
        argv = sandbox.wrap(["true"], cwd=root, env={}, timeout=1).argv
        assert cover in [argv[at : at + 2] for at in range(len(argv))]
        assert str(root / "no") not in argv
        os.chmod("keys", mode)
    os.chmod("keys", 0o755)
"""


DEEP = """
import os, sys
from pathlib import Path
from toolcrib.boundary.sandbox.settings import SandboxSettings
from toolcrib.boundary.sandbox.writable import Writable
from toolcrib.boundary.workspace import Workspace
from toolcrib.core.context import ToolContext
from toolcrib.effects.saved_files import FileSaver
from toolcrib.record.journal import Journal
from toolcrib.record.state import StateFolder

if os.geteuid() == 0:
    os.setuid(65534)
os.chdir(sys.argv[1])
root, state = Path("ws").absolute(), Path("state").absolute()
os.makedirs("ws/a/b/c/d/theirs/sub/.vscode")
os.chmod("ws/a/b/c/d/theirs", 0o311)
saver = FileSaver(Journal(StateFolder.for_workspace(root, state), Workspace(root), sync=False))
folders = Writable(root, SandboxSettings(), "workspace-write")
for mode in (0o000, 0o311, 0o444, 0o600):
    saved = saver.save()
    guards = folders.guards(root)
    made = [f"a/b/c/{name}/.vscode" for name in (f"{mode}/x/y", f"z{mode}/x")]
    for name in made:
        (root / name).mkdir(parents=True)
    os.chmod(root / f"a/b/c/{mode}/x", mode)
    os.chmod(root / f"a/b/c/{mode}", mode)
    saver.outcome(saved, ToolContext())
    assert sorted(folders.appeared(guards)) == sorted(made), mode
    for name in made:
        (root / name).rmdir()
assert os.stat("ws/a/b/c/d/theirs").st_mode & 0o777 == 0o311
"""


@pytest.mark.parametrize("script", [CLOSED, SHUT, DEEP])
def test_folders_that_their_owner_may_not_list_or_enter_hide_nothing(script: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        if os.geteuid() == 0:
            os.chown(folder, 65534, 65534)
        done = subprocess.run([sys.executable, "-c", script, folder], capture_output=True, text=True, timeout=60)
        for closed in (".", "theirs", "theirs/keys", ".git/modules", "ws/a/b/c/d/theirs"):
            if os.path.exists(f"{folder}/{closed}"):
                os.chmod(f"{folder}/{closed}", 0o700)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("granted", [False, True])
def test_names_that_begin_above_a_workspace_are_protected_in_it(tmp_path: Path, granted: bool) -> None:
    """In `~/.config`, 'fish' is what the shell runs."""
    (root := tmp_path / ".local" / "share").mkdir(parents=True)
    (tmp_path / "run").mkdir()
    (root / "fish").symlink_to("../../run")
    own = Workspace(tmp_path / "run", write_roots=[root]) if granted else Workspace(root)
    settings = SandboxSettings(write_roots=(root,) if granted else (), allow_protected=(".local/share/systemd",))
    folders = Writable(Path(own.root), settings, "workspace-write")
    guards = folders.guards(Path(own.root))
    assert granted or all(each.keeps(str(root / "fish")) for each in guards)
    for name in ("systemd", "dbus-1", "other"):
        (root / name).mkdir()
    assert [Path(each).name for each in folders.appeared(guards)] == ["dbus-1"]
    asked = [judge_path(own, root / name / "x", write=True) for name in ("systemd", "dbus-1", "other")]
    own.close()
    assert [each is not None and each.verdict for each in asked] == ["ask", "ask", False]


@pytest.mark.parametrize("link", ["nope/../x", "nope/x", "file/../x"])
def test_a_folder_on_the_way_that_is_not_there_is_not_bound(tmp_path: Path, link: str) -> None:
    (tmp_path / "file").touch()
    (tmp_path / ".envrc").symlink_to(link)
    (tmp_path / ".git").mkdir()
    (tmp_path / ".git" / "config").write_text("[core]\n\thooksPath = bin/../hooks\n")
    (guard,) = (folders := Writable(tmp_path, SandboxSettings(), "workspace-write")).guards(tmp_path)
    assert all(os.path.isdir(path) or path in guard.read_only for path, _ in guard.mounts())
    (tmp_path / "bin").symlink_to("/usr/bin")
    assert "bin" in folders.appeared([guard])


def test_a_closed_folder_outside_is_not_opened(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "access", lambda path, mode: not os.path.realpath(path).endswith("/shut"))  # as for no root
    for folder in ("ws/.vscode", "ws/in/shut", "outside/shut"):
        (tmp_path / folder).mkdir(parents=True)
        (tmp_path / folder).chmod(0o511)
    (guard,) = (folders := Writable(tmp_path / "ws", SandboxSettings(), "workspace-write")).guards(tmp_path / "ws")
    guard.search.closed.clear()  # as if the command had closed them
    (tmp_path / "ws" / ".vscode" / "link").symlink_to(tmp_path / "outside" / "shut")
    folders.appeared([guard])
    assert (tmp_path / "ws/in/shut").stat().st_mode & 0o777 == 0o711
    assert (tmp_path / "outside/shut").stat().st_mode & 0o777 == 0o511


@contextmanager
def no_descriptors() -> Generator[None]:
    """Let every new descriptor fail."""
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (0, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)


def test_what_cannot_be_searched_for_want_of_descriptors_does_not_count_as_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("toolcrib.boundary.sandbox.protected_search.SETTLED_NS", -(10**10))  # all is old
    subprocess.run(["git", "init", "-q"], cwd=tmp_path, check=True)
    (tmp_path / ".env").touch()
    settings = SandboxSettings(denied=lambda name: lambda path: path.endswith("/.env"))
    there = Writable(tmp_path, settings, "workspace-write")
    with no_descriptors():
        for look in (lambda: there.guards(tmp_path), withheld_files(tmp_path, settings).paths):
            with pytest.raises(OSError, match="Too many open files"):
                look()
    (guard,) = there.guards(tmp_path)
    assert {f"{tmp_path}/.git/config", f"{tmp_path}/.git/hooks", f"{tmp_path}/.env"} <= {*guard.existing, *guard.held}


def test_what_a_command_made_is_searched_for_until_there_are_descriptors_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    there = Writable(tmp_path, SandboxSettings(), "workspace-write")
    guards = there.guards(tmp_path)
    (tmp_path / ".envrc").touch()
    with ExitStack() as short:
        short.enter_context(no_descriptors())
        monkeypatch.setattr("toolcrib.boundary.descriptors.time.sleep", lambda _: short.close())
        assert there.appeared(guards) == [".envrc"]


def test_a_search_of_everything_fails_without_descriptors(tmp_path: Path) -> None:
    (tmp_path / ".envrc").touch()
    with no_descriptors(), pytest.raises(OSError, match="Too many open files"):
        search_all(str(tmp_path))
    assert search_all(str(tmp_path)) == {str(tmp_path)}
