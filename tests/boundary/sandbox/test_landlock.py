"""Work goes on under Landlock, what ends is ended, and what is protected is put back."""

import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from toolcrib.boundary.environment import command_environment
from toolcrib.boundary.landlock_calls import landlock_abi
from toolcrib.boundary.process import Process, ProcessResult, run, start
from toolcrib.boundary.sandbox import CommandLimits, SandboxSettings, select_sandbox
from toolcrib.boundary.sandbox.landlock import landlock_sandbox as module
from toolcrib.boundary.sandbox.landlock.landlock_sandbox import LandlockSandbox
from toolcrib.boundary.sandbox.landlock.protected_backup import ProtectedBackup
from toolcrib.boundary.spawn import Spawn
from toolcrib.core.errors import SandboxUnavailable

if sys.platform != "linux" or landlock_abi() < 1:
    pytest.skip("this kernel has no Landlock", allow_module_level=True)

IDENTITY = {
    "GIT_AUTHOR_NAME": "A", "GIT_AUTHOR_EMAIL": "a@example.com",
    "GIT_COMMITTER_NAME": "A", "GIT_COMMITTER_EMAIL": "a@example.com",
}  # fmt: skip


def prepared(workspace: Path, command: str, settings: SandboxSettings | None = None, **env: str) -> Spawn:
    sandbox = LandlockSandbox(settings or SandboxSettings(), workspace)
    return sandbox.wrap(["/bin/bash", "-c", command], cwd=workspace, env=command_environment() | env, timeout=60)


async def sh(workspace: Path, command: str, settings: SandboxSettings | None = None, **env: str) -> ProcessResult:
    return await run(prepared(workspace, command, settings, **env), timeout=60)


async def out(workspace: Path, command: str, settings: SandboxSettings | None = None, **env: str) -> str:
    result = await sh(workspace, command, settings, **env)
    stderr = result.stderr.excerpt().text
    assert result.exit_code == 0, f"{command}: {result.exit_code}\n{result.stdout.excerpt().text}\n{stderr}"
    return result.stdout.excerpt().text


def need(program: str) -> None:
    if shutil.which(program) is None:
        pytest.skip(f"{program} is not installed")


async def until(condition: object, seconds: float = 10) -> bool:
    ends = time.monotonic() + seconds
    while time.monotonic() < ends:
        if condition():  # type: ignore[operator]
            return True
        time.sleep(0.02)
    return False


def alive(argument: str) -> bool:
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            if argument.encode() in Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0"):
                return True
        except OSError:
            continue
    return False


# --- what goes on ---------------------------------------------------------------------------------------------


def test_it_is_had_by_name_only(tmp_path: Path) -> None:
    sandbox = select_sandbox(SandboxSettings(backend="landlock"), tmp_path)
    assert (sandbox.name, sandbox.profile, sandbox.active) == ("landlock", "workspace-write", True)


async def test_git_make_and_gcc(tmp_path: Path) -> None:
    for program in ("git", "make", "gcc"):
        need(program)
    (tmp_path / "m.c").write_text('#include <stdio.h>\nint main(void) { puts("built"); return 0; }\n')
    (tmp_path / "Makefile").write_text("all: m\n\t./m\nm: m.c\n\tgcc -O1 -o m m.c\n")
    subprocess.run(["git", "init", "-q", str(tmp_path)], check=True)
    text = await out(tmp_path, "make -j2 && git add m.c && git commit -qm one && git log --oneline", **IDENTITY)
    assert "built" in text
    assert "one" in text
    assert os.access(tmp_path / "m", os.X_OK)  # the linker's chmod, made in its place


async def test_python_with_a_virtual_environment_and_node(tmp_path: Path) -> None:
    base = os.path.realpath(sys.executable)
    subprocess.run([base, "-m", "venv", "--without-pip", str(tmp_path / ".venv")], check=True)
    code = "import ssl, sqlite3, subprocess as s, tempfile as t; t.mkdtemp(); print(s.check_output(['echo', 'x']))"
    assert "b'x" in await out(tmp_path, f'.venv/bin/python -c "{code}"')
    if shutil.which("node"):
        script = "require('child_process').execFile('echo', ['hi'], (e, o) => console.log(o))"
        assert "hi" in await out(tmp_path, f'node -e "{script}"')


async def test_text_tools_and_substitution(tmp_path: Path) -> None:
    text = await out(
        tmp_path, "seq 3 | awk '{s += $1} END {print s}'; cat <(echo a) <<< b; mktemp; cd ~; pwd; echo > x"
    )
    assert text.startswith("6\na\n")


async def test_modes_and_times_change_inside_and_nowhere_else(tmp_path: Path) -> None:
    workspace, other = tmp_path / "w", tmp_path / "other"
    workspace.mkdir()
    other.write_text("x")
    other.chmod(0o600)
    (workspace / "link").symlink_to(other)
    (workspace / "t.py").write_text(
        "import os\n"
        "os.mkdir('d'); open('d/f', 'w').close()\n"
        "os.chmod('d/f', 0o640); assert os.stat('d/f').st_mode & 0o777 == 0o640\n"
        "fd = os.open('d/f', os.O_RDONLY); os.fchmod(fd, 0o600); os.utime(fd, (3, 4))\n"
        "assert os.stat('d/f').st_mode & 0o777 == 0o600 and os.stat('d/f').st_mtime == 4\n"
        "at = os.open('d', os.O_RDONLY); os.chmod('f', 0o611, dir_fd=at); os.utime('f', ns=(5, 7), dir_fd=at)\n"
        "assert os.stat('d/f').st_mode & 0o777 == 0o611 and os.stat('d/f').st_mtime_ns == 7\n"
        "os.chmod(f'/proc/self/fd/{fd}', 0o777); os.chown('d/f', -1, -1); os.utime('d/f')\n"
        "os.utime('link', (1, 1), follow_symlinks=False); assert os.lstat('link').st_mtime == 1\n"
        "try: os.chmod('missing', 0o600)\n"
        "except FileNotFoundError: print('missing')\n"
        f"for path in ('link', {str(other)!r}, '../other', '/etc/passwd'):\n"
        "    for change in (lambda: os.chmod(path, 0o666), lambda: os.utime(path), lambda: os.chown(path, -1, -1)):\n"
        "        try: change(); print('changed', path)\n"
        "        except PermissionError: print('refused')\n"
    )
    text = await out(workspace, "python3 t.py")
    assert text == "missing\n" + 12 * "refused\n"
    assert other.stat().st_mode & 0o777 == 0o600


async def test_where_the_launcher_cannot_be_asked_these_calls_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asking, refusing = module.landlock_syscalls.filters(module.seccomp.X86_64, landlock_abi())
    assert asking != refusing
    sandbox = LandlockSandbox(SandboxSettings(), tmp_path)
    monkeypatch.setattr(sandbox, "_filters", [b"\0" * 8, sandbox._filters[1]])  # one that the kernel refuses
    command = ["/bin/sh", "-c", "echo x > a; chmod 777 a"]
    result = await run(sandbox.wrap(command, cwd=tmp_path, env=command_environment(), timeout=9), timeout=9)
    assert result.exit_code == 1
    assert "not permitted" in result.stderr.excerpt().text


async def test_read_only_profile(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("content")
    settings = SandboxSettings(profile="read-only")
    assert await out(tmp_path, "cat a; echo x > $TMPDIR/scratch", settings) == "content"
    for command in ("echo x > a", "rm a", "touch b", "chmod 777 a"):
        assert (await sh(tmp_path, command, settings)).exit_code != 0, command
    assert (tmp_path / "a").read_text() == "content"


async def test_granted_paths(tmp_path: Path) -> None:
    workspace, readable, writable = tmp_path / "w", tmp_path / "r", tmp_path / "rw"
    for folder in (workspace, readable, writable):
        folder.mkdir()
    (readable / "a").write_text("A")
    settings = SandboxSettings(read_roots=(readable,), write_roots=(writable,))
    await out(workspace, f"cat {readable}/a > {writable}/b && chmod 755 {writable}/b", settings)
    assert (writable / "b").read_text() == "A"
    assert (await sh(workspace, f"echo x > {readable}/c", settings)).exit_code != 0


@pytest.mark.parametrize("abi", [1, 2, 3, 5])
async def test_older_versions_keep_files_from_being_truncated(abi: int, tmp_path: Path) -> None:
    if abi > landlock_abi():
        pytest.skip("this kernel has an older one")
    workspace, readable = tmp_path / "w", tmp_path / "r"
    workspace.mkdir()
    readable.mkdir()
    (readable / "a").write_text("A")
    code = (
        f"import os\nfor fn in (lambda: os.truncate({str(readable / 'a')!r}, 0),"
        f" lambda: os.open({str(readable / 'a')!r}, os.O_RDONLY | os.O_TRUNC)):\n"
        " try: fn(); print('done')\n except OSError: print('refused')\n"
        "open('b', 'w').write('x'); f = open('b', 'r+'); f.truncate(0)"
    )
    sandbox = LandlockSandbox(SandboxSettings(read_roots=(readable,)), workspace, abi)
    spawn = sandbox.wrap(["/usr/bin/python3", "-c", code], cwd=workspace, env=command_environment(), timeout=9)
    result = await run(spawn, timeout=9)
    assert result.stdout.excerpt().text == "refused\nrefused\n", result.stderr.excerpt().text
    assert result.exit_code == 0
    assert (readable / "a").read_text() == "A"


def test_what_it_cannot_do_is_refused(tmp_path: Path) -> None:
    (tmp_path / "key").write_text("secret")
    with pytest.raises(SandboxUnavailable, match="hidden"):
        prepared(tmp_path, "true", SandboxSettings(hidden=(tmp_path / "key",)))
    with pytest.raises(SandboxUnavailable, match="loopback"):
        LandlockSandbox(SandboxSettings(loopback=True), tmp_path)
    with pytest.raises(SandboxUnavailable, match="workspace"):
        LandlockSandbox(SandboxSettings(), Path("/usr"))


async def test_limits_and_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MY_SECRET", "s3cret")
    limits = SandboxSettings(limits=CommandLimits(file_size=1 << 20, address_space=1 << 30, open_files=64))
    await sh(tmp_path, "head -c 5000000 /dev/zero > big", limits)
    assert (tmp_path / "big").stat().st_size == 1 << 20
    assert (await out(tmp_path, "ulimit -n; ulimit -c; ulimit -v", limits)).split() == ["64", "0", str(1 << 20)]
    assert "s3cret" not in (await sh(tmp_path, "env; cat /proc/*/environ 2>/dev/null")).stdout.excerpt().text


# --- what ends ------------------------------------------------------------------------------------------------


async def test_exit_codes_and_signals(tmp_path: Path) -> None:
    assert (await sh(tmp_path, "exit 7")).exit_code == 7
    assert (await sh(tmp_path, "kill -TERM $$")).exit_code == 128 + signal.SIGTERM
    with pytest.raises(SandboxUnavailable, match="No such file"):
        sandbox = LandlockSandbox(SandboxSettings(), tmp_path)
        spawn = sandbox.wrap(["/nonexistent"], cwd=tmp_path, env=command_environment(), timeout=5)
        await run(spawn, timeout=5)


async def test_what_a_command_leaves_behind_ends_with_it(tmp_path: Path) -> None:
    marker = f"78{os.getpid()}.5"
    daemon = f"(setsid nohup setsid sleep {marker} >/dev/null 2>&1 &) & "
    assert await out(tmp_path, f"{daemon} sleep {marker} & sleep 0.2; echo x") == "x\n"
    assert not alive(marker)


async def test_time_is_up_for_the_whole_tree(tmp_path: Path) -> None:
    marker = f"79{os.getpid()}.5"
    spawn = prepared(tmp_path, f"echo begun; (setsid sleep {marker} &); sleep {marker}")
    result = await run(spawn, timeout=1.5)
    assert result.timed_out
    assert result.reaped
    assert result.stdout.excerpt().text == "begun\n"
    assert not alive(marker)


async def test_it_can_be_killed_before_it_began(tmp_path: Path) -> None:
    process: Process = start(prepared(tmp_path, "echo x > made; sleep 60"), timeout=60)
    process.kill()
    assert (await process.finished()).ended_by == "killed"


async def test_a_session_takes_input(tmp_path: Path) -> None:
    process = start(prepared(tmp_path, "read line; echo got $line"), timeout=20, interactive=True)
    assert process.write(b"this\n")
    assert (await process.finished()).stdout.excerpt().text == "got this\n"


async def test_the_private_folder_is_gone_afterwards(tmp_path: Path) -> None:
    where = (await out(tmp_path, "mkdir -p ~/a/b; touch ~/a/b/c; chmod 000 ~/a; dirname $HOME")).strip()
    assert where
    assert await until(lambda: not os.path.lexists(where))


async def test_the_launchers_death_ends_the_command(tmp_path: Path) -> None:
    marker = f"80{os.getpid()}.5"
    process = start(prepared(tmp_path, f"sleep {marker}"), timeout=60)
    assert await until(lambda: alive(marker))
    assert process.pid is not None
    os.kill(process.pid, signal.SIGKILL)
    assert (await process.finished()).signal == signal.SIGKILL
    assert await until(lambda: not alive(marker))


def test_the_hosts_death_ends_the_command(tmp_path: Path) -> None:
    marker = f"81{os.getpid()}.5"
    code = (
        "import asyncio, sys, pathlib\n"
        "from toolcrib.boundary.environment import command_environment\n"
        "from toolcrib.boundary.process import run\n"
        "from toolcrib.boundary.sandbox.landlock.landlock_sandbox import LandlockSandbox\n"
        "from toolcrib.boundary.sandbox import SandboxSettings\n"
        f"w = pathlib.Path({str(tmp_path)!r})\n"
        f"s = LandlockSandbox(SandboxSettings(), w).wrap(['/bin/sh', '-c', 'setsid sleep {marker} & sleep {marker}'],"
        " cwd=w, env=command_environment(), timeout=60)\n"
        "asyncio.run(run(s, timeout=60))\n"
    )
    host = subprocess.Popen([sys.executable, "-c", code])
    ends = time.monotonic() + 20
    while not alive(marker) and time.monotonic() < ends:
        time.sleep(0.05)
    assert alive(marker)
    host.kill()
    host.wait()
    while alive(marker) and time.monotonic() < ends:
        time.sleep(0.05)
    assert not alive(marker)


async def test_from_a_host_with_many_threads(tmp_path: Path) -> None:
    done = threading.Event()
    threads = [threading.Thread(target=done.wait) for _ in range(20)]
    for thread in threads:
        thread.start()
    try:
        assert await out(tmp_path, "echo x") == "x\n"
    finally:
        done.set()
        for thread in threads:
            thread.join()


# --- what is protected -----------------------------------------------------------------------------------------


@pytest.fixture
def unwatched(monkeypatch: pytest.MonkeyPatch) -> None:
    """As for a user who has no inotify watches left: everything is put back at the end."""
    monkeypatch.setattr(ProtectedBackup, "places", lambda self: [])


@pytest.mark.usefixtures("unwatched")
async def test_protected_files_are_put_back_and_what_was_made_of_them_is_moved_aside(tmp_path: Path) -> None:
    subprocess.run(["git", "init", "-q", str(tmp_path)], check=True)
    hook = tmp_path / ".git/hooks/pre-commit"
    hook.write_text("#!/bin/sh\n")
    hook.chmod(0o755)
    before = (tmp_path / ".git/config").read_bytes()
    (tmp_path / ".mcp.json").write_text("{}")
    command = (
        "git config core.pager evil; echo evil > .git/hooks/post-commit; rm .git/hooks/pre-commit; echo x > .bashrc;"
        "ln -sf /etc/passwd .mcp.json; chmod 000 .git/hooks"
    )
    spawn = prepared(tmp_path, command)
    assert (await run(spawn, timeout=20)).exit_code == 0
    assert (tmp_path / ".git/config").read_bytes() != before
    away = spawn.appeared()
    assert (tmp_path / ".git/config").read_bytes() == before
    assert (hook.read_text(), hook.stat().st_mode & 0o777) == ("#!/bin/sh\n", 0o755)
    assert (tmp_path / ".mcp.json").read_text() == "{}"
    assert not (tmp_path / ".mcp.json").is_symlink()
    assert ".bashrc" in away
    assert ".git/hooks/post-commit" in away
    assert len([path for path in away if "changed-by-command" in path]) == 2
    assert any("put back" in note and ".git/config" in note for note in spawn.notes)
    shutil.rmtree(tmp_path / ".git/hooks")


@pytest.mark.usefixtures("unwatched")
async def test_a_folder_moved_away_comes_back(tmp_path: Path) -> None:
    (tmp_path / ".git/hooks").mkdir(parents=True)
    (tmp_path / ".git/hooks/update").write_text("genuine")
    outside = tmp_path.parent / f"{tmp_path.name}-outside"
    outside.mkdir()
    spawn = prepared(tmp_path, f"mv .git away; ln -s {outside} .git")
    assert (await run(spawn, timeout=20)).exit_code == 0
    away = spawn.appeared()
    assert (tmp_path / ".git/hooks/update").read_text() == "genuine"
    assert any(path.startswith(".git.changed-by-command") for path in away)
    assert os.listdir(outside) == []  # nothing is written through the link


async def test_nothing_is_said_of_a_command_that_changes_nothing(tmp_path: Path) -> None:
    (tmp_path / ".vscode").mkdir()
    (tmp_path / ".vscode/tasks.json").write_text("{}")
    spawn = prepared(tmp_path, "cat .vscode/tasks.json; touch a")
    await run(spawn, timeout=20)
    assert spawn.appeared() == []
    assert spawn.notes == []


async def test_granted_names_stay_changed(tmp_path: Path) -> None:
    need("git")
    granted = SandboxSettings(allow_protected=(".git",))
    spawn = prepared(tmp_path, "git init -q && git remote add origin https://example.com/x.git", granted)
    assert (await run(spawn, timeout=20)).exit_code == 0
    assert spawn.appeared() == []
    assert "example.com" in (tmp_path / ".git/config").read_text()


def test_too_much_to_copy_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from toolcrib.boundary.sandbox.landlock import protected_backup

    monkeypatch.setattr(protected_backup, "_MAX_BYTES", 1000)
    (tmp_path / ".idea").mkdir()
    (tmp_path / ".idea/cache").write_bytes(b"x" * 2000)
    with pytest.raises(SandboxUnavailable, match=r"\.idea.*allow_protected"):
        prepared(tmp_path, "true")


async def test_protected_files_are_put_back_while_the_command_still_runs(tmp_path: Path) -> None:
    (tmp_path / ".git/hooks").mkdir(parents=True)
    (tmp_path / ".git/config").write_text("genuine")
    command = (
        "until_back() { for i in $(seq 300); do grep -qs genuine .git/config && return; sleep 0.02; done; echo late; };"
        "echo evil > .git/config; echo evil > .git/hooks/post-commit; until_back;"
        "mv .git away; until_back; echo evil > .git/config; until_back; sleep 0.2; ls .git/hooks/post-commit 2>&-; true"
    )
    spawn = prepared(tmp_path, command)
    result = await run(spawn, timeout=40)
    assert result.exit_code == 0
    assert result.stdout.excerpt().text == "", result.stderr.excerpt().text
    away = spawn.appeared()
    assert (tmp_path / ".git/config").read_text() == "genuine"
    assert os.listdir(tmp_path / ".git/hooks") == []
    assert all("changed-by-command" in path or path.startswith("away") for path in away)
    assert ".git/config" in " ".join(spawn.notes)


async def test_a_command_that_goes_on_changing_them_is_ended(tmp_path: Path) -> None:
    (tmp_path / ".mcp.json").write_text("genuine")
    spawn = prepared(tmp_path, "while :; do echo evil > .mcp.json; done 2>/dev/null")
    result = await run(spawn, timeout=50)
    assert result.exit_code == 128 + signal.SIGKILL
    assert len(spawn.appeared()) <= 60
    assert (tmp_path / ".mcp.json").read_text() == "genuine"
    assert any("went on changing" in note for note in spawn.notes)
