"""`toolcrib hookd`, as the first event of an agent starts it: a real process, which forks a child for each event."""

from __future__ import annotations

import ast
import json
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from toolcrib.cli import hook_client
from toolcrib.record.audit_reader import AuditReader
from toolcrib.record.state import StateFolder

from ..waiting import wait_until

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="it knows its clients by what Linux says of them")

CLIENT = [os.path.join(os.path.dirname(sys.executable), "toolcrib")]
SEEN = [sys.executable, "-X", "importtime", *CLIENT]
"""Prints what it imports."""


@dataclass
class Home:
    """A person's folders and workspace."""

    path: Path

    @property
    def work(self) -> Path:
        return self.path / "work"

    @property
    def folder(self) -> Path:
        return self.path / "state/toolcrib/hookd"

    @property
    def env(self) -> dict[str, str]:
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("TOOLCRIB_", "XDG_"))}
        return {**kept, "HOME": str(self.path), "XDG_STATE_HOME": str(self.path / "state")}

    def event(self, command: str, **more: Any) -> str:
        call = {"tool_name": "Bash", "tool_input": {"command": command}, "tool_use_id": command, "session_id": "s"}
        return json.dumps({"hook_event_name": "PreToolUse", "cwd": str(self.work), **call, **more})

    def hook(self, text: str, *words: str, start: list[str] = SEEN, **env: str) -> tuple[str, int, bool]:
        """The answer to an event, the exit code, and whether the process judged it itself."""
        done = subprocess.run(
            [*start, "hook", "claude", *words], input=text, capture_output=True, text=True, cwd=self.work,
            env={**self.env, **env}, check=False,
        )  # fmt: skip
        return done.stdout, done.returncode, "toolcrib.hosts" in done.stderr

    def decides(self, command: str, **env: str) -> tuple[str, bool]:
        said, code, itself = self.hook(self.event(command), **env)
        assert code == 0
        return json.loads(said)["hookSpecificOutput"]["permissionDecision"] if said else "pass", itself

    def pid(self) -> int | None:
        """The resident process: what holds the lock. A number that is not its own would end another process."""
        lock = self.folder / "lock"
        if not ((self.folder / "socket").exists() and lock.exists()):
            return None
        inode = f":{lock.stat().st_ino} "
        rows = (row.split() for row in Path("/proc/locks").read_text().splitlines() if inode in row)
        return next((pid for row in rows if (pid := int(row[4])) > 0 and is_resident(pid)), None)


def is_resident(pid: int) -> bool:
    try:
        return b"hookd" in Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return False


def made(path: Path) -> Iterator[Home]:
    found = Home(path)
    found.work.mkdir()
    yield found
    if (pid := found.pid()) is not None:
        os.kill(pid, signal.SIGTERM)


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Home]:
    yield from made(tmp_path)


@pytest.fixture(scope="module")
def resident(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Home]:
    """A home in which the first event has started the resident process."""
    for found in made(tmp_path_factory.mktemp("home")):
        assert found.decides("git status") == ("allow", True)
        wait_until(found.pid)
        yield found


def test_later_events_load_nothing_and_are_judged_by_settings_of_their_time(
    resident: Home, request: pytest.FixtureRequest
) -> None:
    settings = resident.path / ".config/toolcrib/config.toml"
    request.addfinalizer(lambda: settings.unlink(missing_ok=True))
    assert resident.decides("make all") == ("ask", False)
    settings.parent.mkdir(parents=True)
    settings.write_text('rules.allow = ["Bash(make *)"]', encoding="utf-8")
    assert resident.decides("make all") == ("allow", False)
    settings.write_text('rules.deny = ["Bash(make *)"]', encoding="utf-8")
    assert resident.decides("make all") == ("deny", False)
    assert resident.decides("cat .env") == ("deny", False)
    assert resident.decides("ls", TOOLCRIB_RULES__DENY="Bash(ls)") == ("deny", False)
    assert resident.hook("junk", "--closed") == (*resident.hook("junk", "--closed", TOOLCRIB_HOOKD="off")[:2], False)
    after = resident.event("make all", hook_event_name="PostToolUse", tool_response={"stdout": "done"})
    assert resident.hook(after)[:2] == ("", 0)
    settings.unlink()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_STATE_HOME", resident.env["XDG_STATE_HOME"])
        rows = list(AuditReader(StateFolder.for_workspace(resident.work).record).rows(kind=None))
    assert ["make all" in str(row) for row in rows] == [False, True, True, False, False, True]


def test_many_at_once(resident: Home) -> None:
    found: list[tuple[str, bool]] = []
    commands = ["git status", "cat .env", "make all"] * 4
    threads = [threading.Thread(target=lambda c=c: found.append(resident.decides(c))) for c in commands]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(decision for decision, _ in found) == ["allow"] * 4 + ["ask"] * 4 + ["deny"] * 4


def test_a_confined_client_gets_nothing(resident: Home) -> None:
    """A command in a sandbox could have done for it what its sandbox keeps it from."""
    confine = "import ctypes, os, sys; ctypes.CDLL(None).prctl(38, 1, 0, 0, 0); os.execv(sys.argv[1], sys.argv[1:])"
    _, _, itself = resident.hook(resident.event("git status"), start=[sys.executable, "-c", confine, *SEEN])
    assert itself
    assert resident.decides("git status") == ("allow", False)


def test_changed_code_ends_it(home: Home) -> None:
    module = home.path / "module.py"
    module.write_text("", encoding="utf-8")
    run = (
        "import sys, types; sys.modules['other'] = other = types.ModuleType('other');"
        f"other.__file__ = {str(module)!r};"
        "sys.argv = ['toolcrib', 'hookd']; from toolcrib.cli import main; main()"
    )  # fmt: skip
    with subprocess.Popen([sys.executable, "-c", run], stdin=subprocess.DEVNULL, env=home.env) as first:
        wait_until((home.folder / "socket").exists)
        try:
            assert home.decides("git status") == ("allow", False)
            module.write_text("changed = 1", encoding="utf-8")
            assert home.decides("git status") == ("allow", True)
            assert first.wait(60) == 0
        finally:
            first.kill()  # else a failure would wait until it is idle
    wait_until(home.pid)  # that event has started another one


@pytest.mark.parametrize("folder", ["open", "link"])
def test_a_folder_that_others_could_write_is_not_used(home: Home, folder: str) -> None:
    home.folder.parent.mkdir(parents=True)
    elsewhere = home.path / "elsewhere"
    elsewhere.mkdir(mode=0o700)
    if folder == "open":
        home.folder.mkdir()
        home.folder.chmod(0o755)
    elif folder == "link":
        home.folder.symlink_to(elsewhere)
    with listening(home) as listener:
        assert home.decides("git status") == ("allow", True)
        listener.setblocking(False)
        with pytest.raises(BlockingIOError):
            listener.accept()


def listening(home: Home) -> socket.socket:
    listener = socket.socket(socket.AF_UNIX)
    folder = os.open(home.folder, os.O_PATH)
    listener.bind(f"/proc/self/fd/{folder}/socket")
    os.close(folder)
    listener.listen()
    return listener


def lying(home: Home, answer: Callable[[socket.socket], None]) -> threading.Thread:
    """A process that has the socket, and ends without an answer."""
    home.folder.mkdir(parents=True, mode=0o700)
    listener = listening(home)
    listener.settimeout(20)  # a failure must not wait for a client for ever

    def serve() -> None:
        client, _ = listener.accept()
        with client, listener:
            answer(client)

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    return thread


def identity(home: Home) -> bytes:
    """What a resident process of the same code says first."""
    program = "from toolcrib.cli.hook_client import identity; print(identity())"
    return ast.literal_eval(subprocess.check_output([sys.executable, "-c", program], env=home.env, text=True))


@pytest.mark.parametrize("host", ["claude", "copilot"])
def test_an_event_whose_judge_ended_is_refused_in_closed_mode(home: Home, host: str, tmp_path: Path) -> None:
    own = identity(home)

    def take(client: socket.socket) -> None:
        client.sendall(own)
        for fd in socket.recv_fds(client, 8, 4)[1]:
            os.close(fd)

    for words in ([], ["--closed"]):
        thread = lying(home, take)
        done = subprocess.run(
            [*CLIENT, "hook", host, *words], input=home.event("git status"), capture_output=True, text=True,
            cwd=home.work, env=home.env, check=False,
        )  # fmt: skip
        thread.join()
        (home.folder / "socket").unlink()
        home.folder.rmdir()
        assert "has ended" in done.stderr
        assert ("deny" in done.stdout) == bool(words)
        assert done.returncode == (0 if host == "copilot" else 2) if words else 1


def test_an_event_whose_judge_says_nothing_is_refused(home: Home) -> None:
    own = identity(home)

    def take(client: socket.socket) -> None:
        client.sendall(own)
        fds = socket.recv_fds(client, 8, 4)[1]
        while client.recv(4096):  # until the client gives up: it ends only when nobody has its output
            pass
        for fd in fds:
            os.close(fd)

    thread = lying(home, take)
    client = (
        "from toolcrib.cli import hook_client as c; c.LAST_SECONDS = 0.5; raise SystemExit(c.ask(['hook', 'claude']))"
    )
    said, code, _ = home.hook(home.event("git status"), start=[sys.executable, "-c", client])
    thread.join()
    assert code == 2
    assert "longer than 0.5 s" in said


SLOW = """
import asyncio, os, sys
from toolcrib.cli import hook, hookd, hook_client

async def judged(event, settings):
    await asyncio.sleep(60)

hook.answer, hook.DEADLINE, hookd._code = judged, 0.5, dict
accept = hookd._accept
hookd._accept = lambda listener, path: (print("listens", flush=True), accept(listener, path))
hookd._serve(hook_client.private_folder())
"""


def test_a_call_that_takes_too_long_is_refused_here_too(home: Home) -> None:
    home.folder.mkdir(parents=True, mode=0o700)
    with subprocess.Popen([sys.executable, "-c", SLOW], env=home.env, stdout=subprocess.PIPE) as resident:
        assert resident.stdout is not None
        resident.stdout.readline()
        said, code, itself = home.hook(home.event("rm -rf src"))
        resident.kill()
    assert (code, itself) == (2, False)
    assert "longer than 0.5 s" in said


def test_other_code_gets_nothing(home: Home) -> None:
    lying(home, lambda client: client.sendall(b"another\n"))
    said, code, itself = home.hook(home.event("git status"))
    assert itself and code == 0 and "allow" in said
    wait_until(home.pid)  # it has started one of its own code, which ends with the test


def test_it_is_not_used_where_modules_of_the_workspace_could_come_first(resident: Home) -> None:
    assert resident.decides("git status", PYTHONPATH=str(resident.work)) == ("allow", True)
    assert resident.decides("git status", TOOLCRIB_HOOKD="off") == ("allow", True)


ENDS = """
import os, socket, sys
from toolcrib.cli import hookd
fd = os.open(sys.argv[1], os.O_PATH | os.O_DIRECTORY)
hookd._LOOK_SECONDS = 0.005
hookd.IDLE_SECONDS = 0.01
hookd._serve(fd)
print("was idle", flush=True)
hookd.IDLE_SECONDS = 60
hookd._serve(fd)
print("its socket is gone")
with socket.socket(socket.AF_UNIX) as listener:
    listener.bind("")
    listener.listen()
    hookd._accept(listener, sys.argv[1] + "/" + hookd.hook_client.SOCKET)
print("it was gone before it looked")
"""


def test_it_ends_when_it_is_idle_or_its_socket_is_gone(home: Home) -> None:
    """In a process of its own: it reaps every child of its process."""
    home.folder.mkdir(parents=True, mode=0o700)
    command = [sys.executable, "-c", ENDS, str(home.folder)]
    with subprocess.Popen(command, env=home.env, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "was idle\n"
        wait_until((home.folder / hook_client.SOCKET).exists)
        (home.folder / hook_client.SOCKET).unlink()
        said, _ = process.communicate(timeout=60)
    assert said.splitlines() == ["its socket is gone", "it was gone before it looked"]
