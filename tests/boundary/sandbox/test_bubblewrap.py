"""A command does not begin when our process was killed before it had set the command's limits, or when another command
changed what is mounted for it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from toolcrib.boundary.environment import command_environment
from toolcrib.boundary.mount_points import Mount, not_bound
from toolcrib.boundary.process import run
from toolcrib.boundary.process_tree import end_left_behind
from toolcrib.boundary.real_path import real_path
from toolcrib.boundary.sandbox import SandboxSettings, bubblewrap, namespace_helper, select_sandbox
from toolcrib.boundary.sandbox.bubblewrap import BubblewrapSandbox
from toolcrib.core.errors import SandboxUnavailable

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="bubblewrap is for Linux")

KILLED = """
import os, signal, sys, time
from pathlib import Path
from typing import Any
from toolcrib.boundary.environment import command_environment
from toolcrib.boundary.process import start
from toolcrib.boundary.sandbox import SandboxSettings, bubblewrap, namespace_helper, select_sandbox

workspace = Path(sys.argv[1])
sandbox = select_sandbox(SandboxSettings(backend="bubblewrap"), workspace)
for number in range(8):
    if os.fork():
        os.wait()
        continue
    command = ["/bin/sh", "-c", f"echo ran > {number}"]
    spawn = sandbox.wrap(command, cwd=workspace, env=command_environment(), timeout=60)
    spawn.handshake.feed = lambda data: os.kill(os.getpid(), signal.SIGKILL)  # it is ready to be released
    start(spawn, timeout=60, limit=100)
    time.sleep(60)
"""


def left_behind(workspace: Path) -> list[int]:
    found: list[int] = []
    for folder in Path("/proc").iterdir():
        try:
            words = (folder / "cmdline").read_bytes().split(b"\0") if folder.name.isdigit() else []
        except OSError:
            continue
        if b"--block-fd" in words and str(workspace).encode() in words:
            found.append(int(folder.name))
    return found


def waits(pid: int) -> bool:
    """Whether a process waits for a pipe, or has ended."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] in "SZ"
    except OSError:
        return True


def test_a_killed_process_leaves_no_command_that_begins(tmp_path: Path) -> None:
    done = subprocess.run([sys.executable, "-c", KILLED, tmp_path], timeout=100, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    until = time.monotonic() + 30
    quiet = 0
    while quiet < 20 and time.monotonic() < until:  # they set up their sandboxes, and come to where they wait
        quiet = quiet + 1 if all(map(waits, left_behind(tmp_path))) else 0
        time.sleep(0.01)
    assert quiet == 20
    assert list(tmp_path.iterdir()) == []
    mine = subprocess.Popen(["sleep", "60"], env={**os.environ, "TOOLCRIB_COMMAND": "1.2.3"})  # no sandbox
    try:
        end_left_behind()
        while left_behind(tmp_path) and time.monotonic() < until:
            time.sleep(0.01)
        assert left_behind(tmp_path) == []
        assert mine.poll() is None
    finally:
        mine.send_signal(signal.SIGKILL)
        mine.wait()


@pytest.mark.parametrize("helped", [False, True])
@pytest.mark.parametrize("target", ["..", "../.."])
async def test_a_link_in_the_place_of_a_protected_folder_shows_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, target: str, helped: bool
) -> None:
    """Another command that runs makes 'sub' protected, and a link to the home once it has been judged."""
    if helped:
        monkeypatch.setattr(bubblewrap, "MAX_OWN_BINDS", 0)
    (workspace := tmp_path / "home" / "ws").mkdir(parents=True)
    monkeypatch.setenv("HOME", str(workspace / target))
    sub = workspace / "sub"
    sub.mkdir()
    for folder in (sub, tmp_path, tmp_path / "home"):
        (folder / ".bashrc").write_text("secret")
    sandbox = select_sandbox(SandboxSettings(backend="bubblewrap"), workspace)
    spawn = sandbox.wrap(["/bin/cat", ".bashrc"], cwd=workspace, env=command_environment(), timeout=60)
    sub.rename(workspace / "other")
    sub.symlink_to(target)
    with pytest.raises(SandboxUnavailable, match="sub: it was changed" if helped else "sub was changed while"):
        await run(spawn, timeout=60)


@pytest.mark.parametrize("granted", ["read_roots", "write_roots", "workspace"])
async def test_a_link_in_the_place_of_a_granted_folder_shows_nothing_else(tmp_path: Path, granted: str) -> None:
    for name in ("ws", "granted", "home"):
        (tmp_path / name).mkdir()
    (tmp_path / "home" / "token").write_text("secret")
    folder = tmp_path / ("ws" if granted == "workspace" else "granted")
    more: Any = {} if granted == "workspace" else {granted: (folder,)}
    sandbox = select_sandbox(SandboxSettings(backend="bubblewrap", **more), tmp_path / "ws")
    command = ["/bin/sh", "-c", f"cat {folder}/token; echo x > {folder}/new"]
    spawn = sandbox.wrap(command, cwd=tmp_path / "ws", env=command_environment(), timeout=60)
    folder.rename(tmp_path / "other")
    folder.symlink_to("home")
    with pytest.raises(SandboxUnavailable, match="was changed while"):
        await run(spawn, timeout=60)
    assert os.listdir(tmp_path / "home") == ["token"]


@pytest.mark.parametrize("granted", ["read_roots", "write_roots"])
@pytest.mark.parametrize("hidden", ["real", "link"])
async def test_what_is_granted_through_a_link_has_the_same_protections(
    tmp_path: Path, granted: str, hidden: str
) -> None:
    (real := tmp_path / "real" / "g").mkdir(parents=True)
    (workspace := tmp_path / "ws").mkdir()
    (tmp_path / "link").symlink_to("real")
    (real / ".git" / "hooks").mkdir(parents=True)
    for name in ("plain", ".env", "hidden", ".git/HEAD"):
        (real / name).write_text(f"<{name}>")
    link = tmp_path / "link" / "g"
    more: Any = {granted: (link,), "hidden": (tmp_path / hidden / "g" / "hidden",)}
    settings = SandboxSettings(backend="bubblewrap", denied=lambda _: lambda path: path.endswith(".env"), **more)
    text = "; ".join(
        f"cat {each}/plain {each}/.env {each}/hidden; echo x > {each}/.git/hooks/new" for each in (link, real)
    )
    spawn = select_sandbox(settings, workspace).wrap(
        ["/bin/sh", "-c", f"{text}; echo x > {link}/new"], cwd=workspace, env=command_environment(), timeout=60
    )
    done = await run(spawn, timeout=60)
    assert done.stdout.excerpt().text == "<plain><plain>"
    assert os.listdir(real / ".git" / "hooks") == [] and (real / "new").exists() == (granted == "write_roots")


@pytest.mark.parametrize("backend", ["bubblewrap", "landlock"])
@pytest.mark.parametrize("granted", ["read_roots", "write_roots"])
@pytest.mark.parametrize("inside", ["ws/in", "outer/in", "link/in"])
async def test_a_link_that_a_command_made_for_a_granted_folder_leads_nowhere(
    tmp_path: Path, backend: Any, granted: str, inside: str
) -> None:
    for name in ("ws", "outer", "home"):
        (tmp_path / name).mkdir()
    (tmp_path / "link").symlink_to("outer")
    (tmp_path / "home" / "token").write_text("secret")
    (tmp_path / inside).symlink_to(tmp_path / "home")
    roots: dict[str, Any] = {"write_roots": (tmp_path / "outer",)}
    roots[granted] = (*roots.get(granted, ()), tmp_path / inside)
    spawn = select_sandbox(SandboxSettings(backend=backend, **roots), tmp_path / "ws").wrap(
        ["/bin/sh", "-c", f"cat {tmp_path}/home/token {tmp_path}/{inside}/token; echo x > {tmp_path}/home/new"],
        cwd=tmp_path / "ws", env=command_environment(), timeout=60,
    )  # fmt: skip
    done = await run(spawn, timeout=60)
    assert done.stdout.excerpt().text == "" and os.listdir(tmp_path / "home") == ["token"]


@pytest.mark.parametrize("granted", [("outer", "outer/cur"), ("link", "link/sub", "real"), ("link/file",), ("gone",)])
async def test_names_that_are_there_already_are_no_second_link(tmp_path: Path, granted: tuple[str, ...]) -> None:
    for folder in ("ws", "outer", "real/sub"):
        (tmp_path / folder).mkdir(parents=True)
    for file in ("real/file", "real/sub/file"):
        (tmp_path / file).touch()
    (tmp_path / "link").symlink_to("real")
    (tmp_path / "outer" / "cur").symlink_to(tmp_path / "real")
    settings = SandboxSettings(backend="bubblewrap", read_roots=tuple(tmp_path / each for each in granted))
    there = [tmp_path / each for each in granted if each != "gone"]
    command = ["/bin/sh", "-c", " && ".join(f"test -e {each}" for each in (tmp_path / "ws", *there))]
    spawn = select_sandbox(settings, tmp_path / "ws").wrap(
        command, cwd=tmp_path / "ws", env=command_environment(), timeout=60
    )
    assert (await run(spawn, timeout=60)).exit_code == 0


@pytest.mark.parametrize("granted", ["read_roots", "write_roots"])
def test_no_copy_is_written_into_a_granted_folder(tmp_path: Path, granted: str) -> None:
    """bubblewrap would empty the machine's /etc/passwd: it is the file that is copied. So this is not run."""
    (workspace := tmp_path / "ws").mkdir()
    (tmp_path / "etc").symlink_to("/etc")
    more: Any = {granted: (tmp_path / "etc",)}
    spawn = BubblewrapSandbox("/bin/true", SandboxSettings(**more), workspace).wrap(
        ["true"], cwd=workspace, env={}, timeout=1
    )
    targets = [spawn.argv[at + 2] for at, option in enumerate(spawn.argv) if option == "--file"]
    assert targets == [os.devnull]
    for fd in spawn.child_fds:
        os.close(fd)
    assert spawn.handshake is not None
    spawn.handshake.close()


def test_a_command_looks_up_what_is_hidden_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for folder in ("ws", "hidden"):
        (tmp_path / folder).mkdir()
    settings = SandboxSettings(hidden=(tmp_path / "hidden",), read_roots=(tmp_path,))
    sandbox = BubblewrapSandbox("/bin/true", settings, tmp_path / "ws")
    looked: list[str] = []
    monkeypatch.setattr(bubblewrap, "real_path", lambda path: looked.append(os.fspath(path)) or real_path(path))
    spawn = sandbox.wrap(["true"], cwd=tmp_path / "ws", env={}, timeout=1)
    assert looked.count(str(tmp_path / "hidden")) == 1
    assert ["--tmpfs", str(tmp_path / "hidden")] in [list(spawn.argv[at : at + 2]) for at in range(len(spawn.argv))]
    for fd in spawn.child_fds:
        os.close(fd)
    assert spawn.handshake is not None
    spawn.handshake.close()


@pytest.mark.parametrize("granted", [False, True])
async def test_a_false_python_shows_no_denied_file_under_another_name(tmp_path: Path, granted: bool) -> None:
    """The link outside was there; the rest is in the workspace, where a command can make it."""
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "link").symlink_to(tmp_path)
    for folder in ("ws/lib/python3.11", "ws/bin", "ws/.venv/bin", "other"):
        (tmp_path / folder).mkdir(parents=True)
    for name in ("lib/python3.11/os.py", ".venv/pyvenv.cfg", "bin/python3", ".env"):
        (tmp_path / "ws" / name).write_text("#!/bin/sh\n")
    (tmp_path / "ws" / "bin" / "python3").chmod(0o755)
    other = f"{tmp_path}/outside/link/ws"
    (tmp_path / "ws" / ".venv" / "bin" / "python").symlink_to(f"{other}/bin/python3")
    workspace = tmp_path / ("other" if granted else "ws")
    if granted:
        (workspace / ".venv").symlink_to("../ws/.venv")
    more: Any = {"write_roots": (tmp_path / "ws",)} if granted else {}
    settings = SandboxSettings(backend="bubblewrap", denied=lambda _: lambda path: path.endswith(".env"), **more)
    spawn = select_sandbox(settings, workspace).wrap(
        ["/bin/sh", "-c", f"cat {other}/.env; .venv/bin/python && cat {other}/bin/python3"],
        cwd=workspace, env=command_environment(), timeout=60,
    )  # fmt: skip
    done = await run(spawn, timeout=60)
    assert done.stdout.excerpt().text == "#!/bin/sh\n", done.stderr.excerpt().text


def test_each_path_must_be_bound_onto_itself_as_often_as_that_was_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    from toolcrib.boundary import mount_points

    there = [
        Mount("1", "0", "0:1", "/", "/new"), Mount("2", "1", "8:1", "/ws", "/new/ws"),
        Mount("3", "2", "8:1", "/ws/a", "/new/ws/a"), Mount("4", "3", "8:1", "/home", "/new/ws/a/b"),
        Mount("5", "2", "8:2", "/", "/new/ws/own"), Mount("6", "5", "8:2", "/x", "/new/ws/own/x"),
    ]  # fmt: skip
    monkeypatch.setattr(mount_points, "mounts", lambda pid: there)
    monkeypatch.setattr(mount_points, "_LOOKS", 1)
    ours = [Mount("7", "0", "8:2", "/", "/"), Mount("8", "7", "8:1", "/ws", "/ws"), Mount("9", "7", "8:2", "/x", "/")]
    assert not_bound(1, ours, ["/ws/a", "/ws/own/x"], "/new") == ""
    assert not_bound(1, ours, ["/ws/a", "/ws/a"], "/new") == "/ws/a"
    assert not_bound(1, ours, ["/ws/a/b"], "/new") == "/ws/a/b"
    assert not_bound(1, ours, ["/ws/a/c"], "/new") == "/ws/a/c"
    assert not_bound(1, ours, ["/ws/a", "/ws/own/x"], "/new", over_layer=True) == "/ws/own/x"
    assert not_bound(1, ours, ["/ws/a/b"], "/new", over_layer=True) == "/ws/a/b"
    assert not_bound(1, ours, [], "/new", whole=["/ws", "/ws/a"]) == ""
    assert not_bound(1, ours, [], "/new", whole=["/ws", "/ws/a/b"]) == "/ws/a/b"
    assert not_bound(1, ours, [], "/new", whole=["/ws/none"]) == "/ws/none"


async def test_what_is_read_only_stays_so_where_another_granted_folder_begins(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In a home that is the workspace, the folders of PATH are read-only; in a project that is granted they are not."""
    project = tmp_path / "project"
    (project / "sub" / "bin").mkdir(parents=True)
    (project / "sub" / ".envrc").touch()
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("PATH", f"{project}/sub/bin:{os.environ['PATH']}")
    settings = SandboxSettings(backend="bubblewrap", write_roots=(project,))
    spawn = select_sandbox(settings, tmp_path).wrap(
        ["/bin/sh", "-c", "echo x > project/sub/bin/tool; echo x > project/sub/new"],
        cwd=tmp_path, env=command_environment(), timeout=60,
    )  # fmt: skip
    await run(spawn, timeout=60)
    assert not (project / "sub" / "bin" / "tool").exists() and (project / "sub" / "new").exists()


@pytest.mark.parametrize("backend", ["bubblewrap", "landlock"])
@pytest.mark.parametrize("moved", ["a", "a/ws"])
async def test_a_granted_folder_in_another_one_stays_where_it_is(tmp_path: Path, backend: Any, moved: str) -> None:
    """A link in its place would lead the next command elsewhere."""
    (workspace := tmp_path / "outer" / "a" / "ws").mkdir(parents=True)
    settings = SandboxSettings(backend=backend, write_roots=(tmp_path / "outer",))
    spawn = select_sandbox(settings, workspace).wrap(
        ["/bin/sh", "-c", f"cd ../..; mv {moved} b; mkdir -p a; rmdir a/ws; ln -s / a/ws; echo x > a/ws/new"],
        cwd=workspace, env=command_environment(), timeout=60,
    )  # fmt: skip
    await run(spawn, timeout=60)
    assert not workspace.is_symlink() and (workspace / "new").exists() and spawn.appeared() == []


async def test_the_folder_of_a_hidden_file_keeps_its_name(tmp_path: Path) -> None:
    (tmp_path / "a" / "b").mkdir(parents=True)
    (hidden := tmp_path / "a" / "b" / "key").touch()
    sandbox = select_sandbox(SandboxSettings(backend="bubblewrap", hidden=(hidden,)), tmp_path)
    spawn = sandbox.wrap(["/bin/mv", "a", "c"], cwd=tmp_path, env=command_environment(), timeout=60)
    await run(spawn, timeout=60)
    assert hidden.exists()


HARM = """
for n in 000 150 299; do
    cd {workspace}/$n
    echo run > .git/hooks/pre-commit; echo '[core] fsmonitor = ./run' >> .git/config
    mv .git other; mv ../$n ../other$n; rm -rf .git/hooks .git/config; ln -sfn /tmp .git/hooks
    touch .git/index src
done 2>/dev/null
"""


def repositories(workspace: Path, count: int) -> list[Path]:
    made = [workspace / f"{number:03}" for number in range(count)]
    for each in made:
        for folder in ("objects", "hooks"):
            (each / ".git" / folder).mkdir(parents=True)
        (each / ".git" / "HEAD").write_text("ref: refs/heads/main\n")
        (each / ".git" / "config").write_text("[core]\n")
    return made


def own_binds(argv: Sequence[str]) -> int:
    return sum(each in ("--bind", "--ro-bind") for each in argv)


@pytest.mark.parametrize("helped", [True, pytest.param(False, marks=pytest.mark.slow)])
async def test_of_very_many_repositories_the_last_is_as_safe_as_the_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, helped: bool
) -> None:
    """bubblewrap needs seconds for that many mounts, so it makes few of them itself, where there is another way."""
    if not helped:
        monkeypatch.setattr(namespace_helper, "can_bind", lambda: False)
    made = repositories(tmp_path, 300)
    sandbox = select_sandbox(SandboxSettings(backend="bubblewrap"), tmp_path)
    command = ["/bin/sh", "-c", HARM.format(workspace=tmp_path)]
    spawn = sandbox.wrap(command, cwd=made[299], env=command_environment(), timeout=60)
    assert (own_binds(spawn.argv) < 100) is helped
    assert (await run(spawn, timeout=60)).exit_code == 0
    assert spawn.appeared() == []
    assert sorted(tmp_path.iterdir()) == made
    for each in made:
        assert (each / ".git" / "config").read_text() == "[core]\n"
        assert list((each / ".git" / "hooks").iterdir()) == []
        assert (each / "src").exists() is (each.name in ("000", "150", "299"))


async def test_what_is_hidden_stays_so_where_very_much_is_protected(tmp_path: Path) -> None:
    made = repositories(tmp_path, 60)
    for name in ("key", "kept"):
        (made[7] / name).mkdir()
        (made[7] / name / "text").write_text("secret")
    hidden = (made[7] / "key", made[9], made[11] / ".git" / "hooks")
    sandbox = select_sandbox(SandboxSettings(backend="bubblewrap", hidden=hidden), tmp_path)
    script = "cat 007/key/text; ls -A 009 011/.git/hooks; mv 007 other; cat 007/kept/text; echo x >> 009/.git/config"
    spawn = sandbox.wrap(["/bin/sh", "-c", script], cwd=tmp_path, env=command_environment(), timeout=60)
    assert own_binds(spawn.argv) < 100
    result = await run(spawn, timeout=60)
    assert result.stdout.excerpt().text == "009:\n\n011/.git/hooks:\nsecret", result.stderr.excerpt().text
    assert made[7].is_dir()


async def test_a_command_does_not_run_where_the_helper_cannot_protect_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bubblewrap, "MAX_OWN_BINDS", 0)
    (each,) = repositories(tmp_path, 1)
    sandbox = select_sandbox(SandboxSettings(backend="bubblewrap"), tmp_path)
    command = ["/bin/sh", "-c", "echo x > ran"]
    spawn = sandbox.wrap(command, cwd=tmp_path, env=command_environment(), timeout=60)
    (each / ".git" / "hooks").rmdir()
    with pytest.raises(SandboxUnavailable, match=r"could not be protected: .*hooks: No such file"):
        await run(spawn, timeout=60)
    assert not (tmp_path / "ran").exists()
