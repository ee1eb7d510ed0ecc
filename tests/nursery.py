"""Runs a command of ours in a process of its own that is there in no time, because it is forked."""

from __future__ import annotations

import fcntl
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest

from .waiting import wait_until

asking = threading.Lock()
RUNNING = 1_000
"""What the nursery says instead of an exit code of what has not ended."""

# Imports the package once, except what no command needs, and then forks for each run: a process of its own that is
# there in no time. Its arguments are a socket for `PYTHON` and the folders that it imports from; without any, as usual.
NURSERY = """
import gc, json, marshal, os, runpy, select, signal, socket, sys, traceback
from contextlib import suppress
door = socket.socket(socket.AF_UNIX)
door.bind(sys.argv.pop(1))
door.listen(64)
OTHERS = ("toolcrib.__main__", "toolcrib.adapters", "toolcrib.agent.acp", "toolcrib.testing")
if sys.argv[1:]:
    sys.path = [*sys.argv[1:], *(path for path in sys.path if "-packages" not in path)]
from importlib import import_module
from pkgutil import walk_packages
import toolcrib
from toolcrib.cli import main
for found in walk_packages(toolcrib.__path__, "toolcrib."):
    if not found.name.startswith(OTHERS):
        try:
            import_module(found.name)
        except ImportError:
            pass  # it needs an extra that is not there
gc.freeze()
def open_stream(fd):
    name = ("stdin", "stdout", "stderr")[fd]
    setattr(sys, name, open(fd, "rww"[fd], 1, "utf-8", getattr(sys, name).errors, closefd=False))
def go_on_at(terminal):
    # The child gets the terminal for its own, and a child in turn, whose exit code it leaves in a file. The nursery's
    # child waits until the terminal is open.
    opened, done = os.pipe()
    if os.fork() != 0:
        os.close(done)
        os.read(opened, 1)
        os._exit(0)
    os.setsid()
    for fd in range(3):
        os.dup2(os.open(terminal["tty"], os.O_RDWR), fd)
        open_stream(fd)
    os.close(done)
    pid = os.fork()
    if pid != 0:
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        with open(terminal["status"] + ".new", "w") as file:
            file.write(str(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])))
        os.rename(terminal["status"] + ".new", terminal["status"])
        os._exit(0)
def live(run, files):
    # What a forked process does for the rest of its life.
    try:
        os.chdir(run["cwd"])
        os.environ.clear()
        os.environ.update(run["env"])
        for fd, opened in enumerate(files):
            os.dup2(opened, fd)
            os.close(opened)
            if run.get("starts"):
                open_stream(fd)
        if "program" in run:
            sys.argv = [run["program"], *run["args"]]
            sys.path.insert(0, os.path.dirname(run["program"]))
            runpy.run_path(run["program"], run_name="__main__")
        elif "code" in run:
            sys.argv = ["-c", *run["args"]]
            exec(run["code"], {"__name__": "__main__"})
        else:
            main(run["args"])
        code = 0
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else 0 if end.code is None else 1
        if isinstance(end.code, str):
            print(end.code, file=sys.stderr)
    except BaseException:
        traceback.print_exc()
        code = 70
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
    os._exit(code)
def asked_by(asker):
    # What a PYTHON wants to run, and its streams.
    size, files, _, _ = socket.recv_fds(asker, 4, 3)
    cwd, env, words = marshal.loads(asker.recv(int.from_bytes(size, "little"), socket.MSG_WAITALL))
    run = {"cwd": cwd, "env": env, "starts": True, "args": words[2:]}
    if words[0] == "-c":
        run["code"] = words[1]
    elif words[:2] != ["-m", "toolcrib"]:
        run |= {"program": words[0], "args": words[1:]}
    return run, files
running = {}  # by a descriptor of each process that somebody waits for: its pid, and the socket of its PYTHON if any
def begin(run, files, asked=None):
    # Returns the pid; of one that gets a session of its own when it has it.
    is_ready, ready = os.pipe()
    pid = os.fork()
    if pid == 0:
        for opened in filter(None, (door, asked, *(asker for _, asker in running.values()))):
            opened.close()
        for opened in (is_ready, *running):
            os.close(opened)
        if "tty" in run:
            go_on_at(run)
        if run.get("starts"):
            os.setsid()
        os.close(ready)
        live(run, files)
    for opened in (ready, *files):
        os.close(opened)
    if run.get("starts"):
        os.read(is_ready, 1)
    os.close(is_ready)
    return pid
while True:
    askers = {asker: pid for pid, asker in running.values() if asker}
    some = select.select([sys.stdin, door, *running, *askers], [], [])[0]
    for ended in set(some) & set(running):
        pid, asker = running.pop(ended)
        askers.pop(asker, None)
        os.close(ended)
        code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        if asker is None:
            print(code, flush=True)
            continue
        with asker, suppress(OSError):  # it may be gone
            asker.sendall(code.to_bytes(4, "little", signed=True))
    for asker in set(some) & set(askers):  # it was killed
        os.killpg(askers[asker], signal.SIGKILL)
    if door in some:
        asker, _ = door.accept()
        try:
            run, files = asked_by(asker)
        except (OSError, EOFError, ValueError):  # it was killed before it said what it wants
            asker.close()
            continue
        pid = begin(run, files, asker)
        running[os.pidfd_open(pid)] = pid, asker
        with suppress(OSError):
            asker.sendall(pid.to_bytes(4, "little"))
    if sys.stdin not in some:
        continue
    line = sys.stdin.readline()  # never two at a time, of which the second would be in a buffer
    if not line:
        break
    run = json.loads(line)
    if "poll" in run:
        pid, status = os.waitpid(run["poll"], os.WNOHANG)
        print(os.waitstatus_to_exitcode(status) if pid else RUNNING, flush=True)
        continue
    files = [os.open(name, os.O_NOCTTY | (os.O_RDONLY if fd == 0 else os.O_WRONLY))
             for fd, name in enumerate(run.get("files", ()))]
    pid = begin(run, files)
    if run.get("starts"):
        print(pid, flush=True)
    else:
        running[os.pidfd_open(pid)] = pid, None
""".replace("RUNNING", str(RUNNING))

# A program that can be started in place of Python: as `-m toolcrib …`, `-c …` or `program.py …` it has a process forked
# that gets its folder, environment, streams and signals, in a small part of the time that Python takes to load us.
PYTHON = """#!{python} -IS
import _socket, marshal, os, signal, sys
nursery = _socket.socket(_socket.AF_UNIX)
nursery.connect({door!r})
run = marshal.dumps([os.getcwd(), dict(os.environ), sys.argv[1:]])
streams = b"".join(fd.to_bytes(4, sys.byteorder) for fd in range(3))
nursery.sendmsg([len(run).to_bytes(4, "little")], [(_socket.SOL_SOCKET, _socket.SCM_RIGHTS, streams)])
nursery.sendall(run)
pid = int.from_bytes(nursery.recv(4), "little")
for fd in range(3):
    os.close(fd)
for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
    signal.signal(number, lambda number, _: os.kill(pid, number))
code = int.from_bytes(nursery.recv(4) or b"F\\0\\0\\0", "little", signed=True)  # 70: the nursery was killed
if code < 0:
    if -code != signal.SIGKILL:
        signal.signal(-code, signal.SIG_DFL)
    os.kill(os.getpid(), -code)
os._exit(code)
"""


@contextmanager
def nursery_in(*folders: Path) -> Iterator[subprocess.Popen[str]]:
    with tempfile.TemporaryDirectory() as place, nursery_at(Path(place, "door"), *folders) as process:
        yield process


@contextmanager
def nursery_at(door: Path, *folders: Path, python: str = sys.executable) -> Iterator[subprocess.Popen[str]]:
    words = [python, "-c", NURSERY, *map(str, [door, *folders])]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        yield process
        process.kill()  # a run that a test left behind would keep it from ending by itself


@pytest.fixture(scope="session")
def _born(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """Of the processes that run the tests, the first one imports the package; the others have theirs forked from it."""
    shared = tmp_path_factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        shared = shared.parent
    with tempfile.TemporaryDirectory() as place, ExitStack() as stack:
        python, door = Path(place, "python"), Path(place, "door")
        python.write_text(PYTHON.format(python=sys.executable, door=str(door)))
        command = Path(place, "toolcrib")
        command.write_text(f'#!/bin/sh\nexec {python} -m toolcrib "$@"\n')
        for program in (python, command):
            program.chmod(0o755)
        with (shared / "nursery").open("a+") as first:
            fcntl.flock(first, fcntl.LOCK_EX)
            first.seek(0)
            mother = first.read()
            if not mother or not Path(mother).exists():  # there is none, or its process of tests has ended
                mother = sys.executable
                first.truncate(0)
                first.write(str(python))
            process = stack.enter_context(nursery_at(door, python=mother))
            wait_until(door.exists)
        yield process, str(python)


@pytest.fixture(scope="session")
def nursery(_born: tuple[subprocess.Popen[str], str]) -> subprocess.Popen[str]:
    return _born[0]


@pytest.fixture(scope="session")
def forked_python(_born: tuple[subprocess.Popen[str], str]) -> str:
    """A program to start in place of `sys.executable`: what it runs is there in no time. In its folder is such a
    `toolcrib`. Not for what a test must see in a process of its own from the start, as what is imported. SIGKILL ends
    what it runs a moment after itself: who needs to know reads its output to the end."""
    return _born[1]


def ask(nursery: subprocess.Popen[str], run: dict[str, Any]) -> int:
    """Have the nursery run it; what it says."""
    assert nursery.stdin is not None
    assert nursery.stdout is not None
    with asking:
        print(json.dumps(run), file=nursery.stdin, flush=True)
        return int(nursery.stdout.readline())


def run_command(
    nursery: subprocess.Popen[str],
    args: Sequence[str],
    cwd: Path,
    env: Mapping[str, str],
    scratch: Path,
    stdin: str | bytes = "",
) -> subprocess.CompletedProcess[str]:
    """Run it to its end. Its input and output are files in the folder `scratch`."""
    files = [scratch / name for name in ("stdin", "stdout", "stderr")]
    files[0].write_bytes(stdin.encode() if isinstance(stdin, str) else stdin)
    for file in files[1:]:
        file.write_bytes(b"")
    run = {"args": [*args], "cwd": str(cwd), "env": {**env}, "files": [*map(str, files)]}
    code = ask(nursery, run)
    return subprocess.CompletedProcess([*args], code, files[1].read_text("utf-8"), files[2].read_text("utf-8"))


class Started:
    """A command, or a program of the tests, in a session of its own that the nursery has started. Its input and output
    are descriptors of ours."""

    def __init__(
        self,
        nursery: subprocess.Popen[str],
        args: Sequence[str],
        cwd: Path,
        env: Mapping[str, str],
        *files: int,
        program: Path | None = None,
    ) -> None:
        self._nursery = nursery
        self._code: int | None = None
        run: dict[str, Any] = {"args": [*args], "cwd": str(cwd), "env": {**env}, "starts": True}
        run["files"] = [f"/proc/{os.getpid()}/fd/{file}" for file in files]
        self.pid = ask(nursery, run if program is None else {**run, "program": str(program)})

    def poll(self) -> int | None:
        """Its exit code; None while it runs."""
        if self._code is None and (code := ask(self._nursery, {"poll": self.pid})) != RUNNING:
            self._code = code
        return self._code

    def wait(self, seconds: float = 60) -> int:
        """Its exit code, when it has ended. Raises TimeoutError after so many seconds."""
        wait_until(lambda: self.poll() is not None, seconds)
        assert self._code is not None
        return self._code

    def send_signal(self, number: int) -> None:
        """Send it, unless the process has ended."""
        if self.poll() is None:
            os.kill(self.pid, number)

    def kill(self) -> None:
        """End it now."""
        self.send_signal(signal.SIGKILL)
