"""Work goes on under Landlock, what ends is ended, and what is protected stays as it is."""

import errno
import os
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from toolcrib.boundary.environment import command_environment
from toolcrib.boundary.landlock_calls import landlock_abi
from toolcrib.boundary.process import Process, ProcessResult, run, start
from toolcrib.boundary.sandbox import CommandLimits, SandboxSettings, select_sandbox
from toolcrib.boundary.sandbox.landlock import landlock_sandbox
from toolcrib.boundary.sandbox.landlock.landlock_sandbox import LandlockSandbox
from toolcrib.boundary.sandbox.landlock.reading_rules import ReadingRules
from toolcrib.boundary.spawn import Spawn
from toolcrib.core.errors import SandboxUnavailable
from toolcrib.core.homes import state_home

from ...waiting import printed_in_time, wait_until

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


async def test_make_and_gcc_compile_and_git_looks(tmp_path: Path) -> None:
    for program in ("git", "make", "gcc"):
        need(program)
    (tmp_path / "src").mkdir()
    (tmp_path / "src/m.c").write_text('#include <stdio.h>\nint main(void) { puts("built"); return 0; }\n')
    (tmp_path / "src/Makefile").write_text("all: m.o\nm.o: m.c\n\tgcc -O1 -c m.c\n")
    subprocess.run(["git", "init", "-q", str(tmp_path)], check=True)
    subprocess.run(["git", "add", "src/m.c"], cwd=tmp_path, check=True)
    text = await out(tmp_path, "make -j2 -C src && mkdir src/d && mv src/m.o src/d && git status --short", **IDENTITY)
    assert "A  src/m.c" in text
    assert (tmp_path / "src/d/m.o").exists()


async def test_git_commits_where_git_is_granted(tmp_path: Path) -> None:
    need("git")
    subprocess.run(["git", "init", "-q", str(tmp_path)], check=True)
    (tmp_path / "a").write_text("x")
    granted = SandboxSettings(allow_protected=(".git",))
    text = await out(
        tmp_path, "echo y > b; git add a b && git commit -qm one && git log --oneline", granted, **IDENTITY
    )
    assert "one" in text


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


async def test_modes_owners_and_times_change_nowhere(tmp_path: Path) -> None:
    workspace, other = tmp_path / "w", tmp_path / "other"
    workspace.mkdir()
    (workspace / "own").write_text("x")
    other.write_text("x")
    other.chmod(0o600)
    (workspace / "link").symlink_to(other)
    (workspace / "t.py").write_text(
        "import os\n"
        "fd = os.open('own', os.O_RDONLY)\n"
        f"for path in ('own', fd, 'link', {str(other)!r}, '../other', '/etc/passwd'):\n"
        "    for change in (lambda: os.chmod(path, 0o666), lambda: os.utime(path), lambda: os.chown(path, -1, -1)):\n"
        "        try: change(); print('changed', path)\n"
        "        except PermissionError: print('refused')\n"
    )
    assert await out(workspace, "python3 t.py") == 18 * "refused\n"
    assert other.stat().st_mode & 0o777 == 0o600


async def test_requests_to_file_systems_change_no_file_that_is_only_read(tmp_path: Path) -> None:
    workspace, readable = tmp_path / "w", tmp_path / "r"
    workspace.mkdir()
    readable.mkdir()
    (readable / "a").write_text("A")
    code = (
        f"import fcntl\nfile = open({str(readable / 'a')!r}, 'rb')\n"
        "for request in (0x40087602, 0x40086604):\n"  # FS_IOC_SETVERSION and ext4's own
        " try: fcntl.ioctl(file, request, bytes(8)); print('done')\n except OSError as error: print(error.errno)\n"
    )
    settings = SandboxSettings(read_roots=(readable,))
    assert await out(workspace, f'python3 -c "{code}"', settings) == 2 * f"{errno.ENOTTY}\n"


async def test_attributes_outside_and_the_scheduling_of_other_processes_are_closed(tmp_path: Path) -> None:
    workspace, other = tmp_path / "w", tmp_path / "other"
    workspace.mkdir()
    other.touch()
    try:
        os.setxattr(other, "user.origin", b"token")
    except OSError:
        pytest.skip("this file system has no attributes")
    host, same = os.getpid(), sorted(os.sched_getaffinity(0))  # changes nothing, if it works
    code = (
        f"import os\nfor do in (lambda: os.getxattr({str(other)!r}, 'user.origin'), lambda: os.listxattr('../other'),"
        f" lambda: os.sched_setaffinity({host}, {same}), lambda: os.setpriority(os.PRIO_PROCESS, {host}, 0)):\n"
        " try: do(); print('done')\n except OSError: print('refused')\n"
        "os.sched_setaffinity(0, os.sched_getaffinity(0))\nos.nice(1)"
    )
    assert await out(workspace, f'python3 -c "{code}"') == 4 * "refused\n"


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
    await out(workspace, f"cat {readable}/a > {writable}/b", settings)
    assert (writable / "b").read_text() == "A"
    assert (await sh(workspace, f"echo x > {readable}/c", settings)).exit_code != 0


async def test_a_link_that_a_command_puts_at_a_granted_path_leads_nowhere(tmp_path: Path) -> None:
    """The path did not exist, or was moved away, when the grant was made: in the workspace tools may make links."""
    workspace, other = tmp_path / "w", tmp_path / "other"
    workspace.mkdir()
    other.mkdir()
    (other / "key").write_text("s3cret")
    settings = SandboxSettings(read_roots=(workspace / "late",), write_roots=(tmp_path / "o",))
    (tmp_path / "o").mkdir()
    sandbox = LandlockSandbox(settings, workspace)
    for command, said in (("ln -s ../other late", ""), ("cat late/key 2>&1", "Permission denied")):
        argv = ["/bin/bash", "-c", command]
        result = await run(sandbox.wrap(argv, cwd=workspace, env=command_environment(), timeout=9), timeout=9)
        assert said in result.stdout.excerpt().text
    assert "Permission denied" in (await sh(workspace, "cat late/key 2>&1", settings)).stdout.excerpt().text


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
    with pytest.raises(SandboxUnavailable, match="loopback"):
        LandlockSandbox(SandboxSettings(loopback=True), tmp_path)
    with pytest.raises(SandboxUnavailable, match="workspace"):
        LandlockSandbox(SandboxSettings(), Path("/usr"))


async def test_what_is_hidden_or_denied_is_neither_read_nor_changed(tmp_path: Path) -> None:
    for name in ("key", "denied", "plain"):
        (tmp_path / name).write_text(name)
    (tmp_path / "folder").mkdir()
    settings = SandboxSettings(hidden=(tmp_path / "key",), denied=lambda _: lambda path: path.endswith("/denied"))
    assert await out(tmp_path, "cat key denied plain || true", settings) == "plain"
    await out(tmp_path, "rm -f key denied || true; mv key folder || true; echo x > denied || true", settings)
    assert [(tmp_path / name).read_text() for name in ("key", "denied")] == ["key", "denied"]
    await out(tmp_path, "echo changed > plain; echo new > folder/new", settings)
    assert (tmp_path / "plain").read_text() == "changed\n"


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
    assert (await sh(tmp_path, "kill -TERM $$")).signal == signal.SIGTERM
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
    result = await printed_in_time(start(spawn, timeout=60))
    assert result.ended_by == "timeout"
    assert result.reaped
    assert result.stdout.excerpt().text == "begun\n"
    assert not alive(marker)


async def test_it_can_be_killed_before_it_began(tmp_path: Path) -> None:
    process: Process = start(prepared(tmp_path, "echo x > made; sleep 60"), timeout=60)
    process.kill()
    assert (await process.finished()).ended_by == "killed"


async def test_without_its_limits_it_does_not_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(pid: int, limits: object) -> None:
        raise PermissionError("no limits")

    monkeypatch.setattr("toolcrib.boundary.sandbox.landlock.landlock_sandbox.limit_process", fail)
    with pytest.raises(PermissionError, match="no limits"):
        await sh(tmp_path, "echo x > made")
    assert not (tmp_path / "made").exists()


async def test_a_session_takes_input(tmp_path: Path) -> None:
    process = start(prepared(tmp_path, "read line; echo got $line"), timeout=20, interactive=True)
    assert process.write(b"this\n")
    assert (await process.finished()).stdout.excerpt().text == "got this\n"


async def test_the_private_folder_is_gone_afterwards(tmp_path: Path) -> None:
    where = (await out(tmp_path, "mkdir -p ~/a/b; touch ~/a/b/c; chmod 000 ~/a; echo $HOME")).strip()
    assert where
    assert await until(lambda: not os.path.lexists(where))


def test_the_hosts_death_ends_the_command(tmp_path: Path) -> None:
    marker = f"81{os.getpid()}.5"
    code = (
        "import asyncio, sys, pathlib\n"
        "from toolcrib.boundary.environment import command_environment\n"
        "from toolcrib.boundary.process import run\n"
        "from toolcrib.boundary.sandbox.landlock.landlock_sandbox import LandlockSandbox\n"
        "from toolcrib.boundary.sandbox import SandboxSettings\n"
        f"w = pathlib.Path({str(tmp_path)!r})\n"
        f"s = LandlockSandbox(SandboxSettings(), w).wrap(['/bin/sh', '-c', 'sleep {marker} & sleep {marker}'],"
        " cwd=w, env=command_environment(), timeout=60)\n"
        "asyncio.run(run(s, timeout=60))\n"
    )
    host = subprocess.Popen([sys.executable, "-c", code])
    wait_until(lambda: alive(marker))
    host.kill()
    host.wait()
    wait_until(lambda: not alive(marker))


def test_the_host_itself_is_not_confined_and_may_become_another_user() -> None:
    if os.geteuid() != 0:
        pytest.skip("only root can become another user")
    code = (
        "import asyncio, os, sys, pathlib\n"
        "from toolcrib.boundary.process import run\n"
        "from toolcrib.boundary.sandbox import NoSandbox, SandboxSettings\n"
        "from toolcrib.boundary.sandbox.landlock.landlock_sandbox import LandlockSandbox\n"
        "w = pathlib.Path(sys.argv[1])\n"
        "def said(sandbox, command):\n"
        "    s = sandbox.wrap(['/bin/sh', '-c', command], cwd=w, env={'PATH': '/usr/bin:/bin'}, timeout=60)\n"
        "    return asyncio.run(run(s, timeout=60)).stdout.excerpt().text\n"
        "walled = LandlockSandbox(SandboxSettings(), w)\n"
        "look = 'grep -e NoNewPrivs -e ^CapEff -e ^CapBnd -e ^Seccomp: /proc/self/status | cut -f 2 | xargs'\n"
        "print(said(walled, look) + said(walled, look), end='')\n"
        "print(said(NoSandbox(), look), open('/proc/self/status').read().split('CapEff:')[1].split()[0], sep='')\n"
        "os.setgroups([]); os.setgid(65534); os.setuid(65534)\n"
        "print(said(walled, look) + said(walled, look), end='')\n"
    )
    with tempfile.TemporaryDirectory() as folder:  # that of pytest is closed to other users
        os.chmod(folder, 0o777)
        done = subprocess.run([sys.executable, "-c", code, folder], capture_output=True, text=True, cwd="/")
    assert done.returncode == 0, done.stderr
    first, second, bare, own, *others = done.stdout.split("\n")[:6]
    assert first == second == "0000000000000000 0000000000000000 1 2"
    assert bare.split()[0] == own != "0000000000000000"
    assert others == [first, first]


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


REPOSITORY = (".git/config", ".git/hooks/pre-commit", ".mcp.json", "sub/project/.vscode/tasks.json", "conf/mcp.json")


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    root = tmp_path / "w"
    for name in (*REPOSITORY, ".git/HEAD", "sub/README", "sub/project/a.py", "src/a.py"):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text("genuine")
    (root / "src/.cursor").mkdir()
    (root / "src/.cursor/mcp.json").symlink_to(root / "conf/mcp.json")
    return root


@pytest.mark.parametrize(
    "command",
    [
        "echo evil > {}", "echo evil >> {}", "rm -f {}", "mv {} moved", "mv src/a.py {}", "ln -f src/a.py {}",
        "ln -sf /etc/passwd {}", "truncate -s 0 {}", "chmod 777 {}", "mv $(dirname {}) src/moved", "ln {} src/linked",
        "python3 -c 'import os; os.replace(\"src/a.py\", \"{}\")'", "cp /proc/self/root/$PWD/src/a.py {}",
    ],
)  # fmt: skip
async def test_no_protected_file_is_changed_moved_or_replaced(repository: Path, command: str) -> None:
    for name in REPOSITORY:
        result = await sh(repository, command.format(name))
        assert result.exit_code != 0, (command, name)
        assert (repository / name).read_text() == "genuine"
    assert os.readlink(repository / "src/.cursor/mcp.json") == str(repository / "conf/mcp.json")


async def test_nothing_is_made_or_removed_next_to_a_protected_name_and_files_there_can_be_changed(
    repository: Path,
) -> None:
    for folder in (".", ".git", ".git/hooks", "sub", "sub/project", "src", "src/.cursor", "conf"):
        for command in ("echo x > {}/new", "mkdir {}/new", "ln -s /etc {}/new"):
            assert (await sh(repository, command.format(folder))).exit_code != 0, (command, folder)
    for name in ("sub/README", "src/a.py", "sub/project/a.py", ".git/HEAD"):
        assert (await sh(repository, f"rm {name}")).exit_code != 0
        assert await out(repository, f"echo changed > {name}; cat {name}") == "changed\n"


async def test_below_the_entries_everything_can_be_made(repository: Path) -> None:
    (repository / "lib").mkdir()
    await out(repository, "mkdir lib/d && echo x > lib/d/a && mv lib/d/a lib/b && ln lib/b lib/c && rm -r lib/d lib/b")
    assert os.listdir(repository / "lib") == ["c"]


async def test_a_link_next_to_a_protected_name_opens_nothing(repository: Path) -> None:
    outside = repository.parent / "outside"
    outside.mkdir()
    (repository / "link").symlink_to(outside)
    assert (await sh(repository, "echo x > link/new")).exit_code != 0
    assert os.listdir(outside) == []


async def test_a_granted_folder_does_not_open_what_is_protected_in_another(repository: Path) -> None:
    deep = repository / "1/2/3/4/5"
    (deep / ".git").mkdir(parents=True)
    (deep / ".git/config").write_text("genuine")
    for settings, workspace in (
        (SandboxSettings(write_roots=(repository,)), deep),
        (SandboxSettings(write_roots=(deep / ".git/config",)), deep),
    ):
        assert (await sh(workspace, "echo evil > .git/config", settings)).exit_code != 0
        assert (deep / ".git/config").read_text() == "genuine"


async def test_new_protected_names_are_found(tmp_path: Path) -> None:
    spawn = prepared(tmp_path, "echo x > .bashrc; mkdir .vscode")
    assert (await run(spawn, timeout=20)).exit_code == 0
    assert sorted(spawn.appeared()) == [".bashrc", ".vscode"]


async def test_nothing_is_said_of_a_command_that_changes_nothing(tmp_path: Path) -> None:
    (tmp_path / ".vscode").mkdir()
    (tmp_path / ".vscode/tasks.json").write_text("{}")
    spawn = prepared(tmp_path, "cat .vscode/tasks.json")
    await run(spawn, timeout=20)
    assert spawn.appeared() == []
    assert spawn.notes == []


async def test_granted_names_stay_changed(tmp_path: Path) -> None:
    (tmp_path / ".git/hooks").mkdir(parents=True)
    (tmp_path / ".git/config").write_text("genuine")
    granted = SandboxSettings(allow_protected=(".git",))
    spawn = prepared(tmp_path, "echo changed > .git/config; echo new > .git/hooks/update; echo x > top", granted)
    assert (await run(spawn, timeout=20)).exit_code == 0
    assert spawn.appeared() == []
    assert (tmp_path / ".git/config").read_text() == "changed\n"


async def test_the_mark_of_a_command_stays(tmp_path: Path) -> None:
    code = "import resource; resource.setrlimit(10, (1, 1))"  # lower, which the kernel alone would allow
    assert (await sh(tmp_path, f'python3 -c "{code}"')).exit_code == 1


STORM = """
import os, time
for _ in range(30):
    if os.fork() == 0:
        os.setsid()
        os.closerange(0, 100)
        until = time.time() + 20
        while time.time() < until:
            if os.fork():
                os._exit(0)
            open("still", "w").close()
        os._exit(0)
"""


async def test_processes_that_only_start_the_next_and_end_are_ended_too(tmp_path: Path) -> None:
    (tmp_path / "storm.py").write_text(STORM)
    await sh(tmp_path, f"{sys.executable} storm.py")
    (tmp_path / "still").unlink(missing_ok=True)
    assert not await until((tmp_path / "still").exists, 1)


async def test_one_that_was_missed_is_looked_for_again(monkeypatch: pytest.MonkeyPatch) -> None:
    mark, looks = 4_711, 0
    marked = landlock_sandbox._marked

    def missed_at_first(*given: object) -> object:
        nonlocal looks
        looks += 1
        if looks > 1:
            return marked(*given)  # type: ignore[arg-type]
        subprocess.run(["true"], check=True)  # something began meanwhile: perhaps the next of the command's
        return set[int]()

    sleeper = subprocess.Popen(["sleep", "60"])
    try:
        resource.prlimit(sleeper.pid, landlock_sandbox.MARK, (mark, mark))
        monkeypatch.setattr(landlock_sandbox, "_marked", missed_at_first)
        landlock_sandbox._end_marked(mark)
        assert looks > 1
        assert sleeper.wait(60) == -signal.SIGKILL
    finally:
        sleeper.kill()
        sleeper.wait()


def test_an_end_that_is_cut_short_is_said(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    landlock_sandbox._end_marked(4_712)
    assert not caplog.records
    monkeypatch.setattr(landlock_sandbox, "_END_SECONDS", 0.0)
    landlock_sandbox._end_marked(4_712)
    assert "may still run" in caplog.text


async def test_its_own_folder_lies_where_no_other_command_can_put_a_link_in_its_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (temporary := tmp_path / "tmp").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(temporary))
    text = await out(tmp_path, 'echo x > "$TMPDIR/x" && echo "$HOME"; ls tmp')
    assert text.startswith(f"{state_home()}/toolcrib-command-")
    assert text.count("\n") == 1
    wait_until(lambda: not list(state_home().glob("toolcrib-command-*")))


@pytest.mark.parametrize("profile", ["workspace-write", "read-only"])
def test_a_link_that_is_put_in_the_place_of_the_workspace_meanwhile_gets_no_rule(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, profile: Any
) -> None:
    (workspace := tmp_path / "ws").mkdir()
    sandbox = LandlockSandbox(SandboxSettings(profile=profile), workspace)
    look = ReadingRules.closed

    def moved(rules: ReadingRules) -> frozenset[str]:
        workspace.rename(tmp_path / "moved")
        workspace.symlink_to("/")
        return look(rules)

    monkeypatch.setattr(ReadingRules, "closed", moved)
    with pytest.raises(SandboxUnavailable, match="leads to / now"):
        sandbox.wrap(["/bin/true"], cwd=workspace, env=command_environment(), timeout=60)
