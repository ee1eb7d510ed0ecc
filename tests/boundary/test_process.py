import asyncio
import os
import re
import resource
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from toolcrib.boundary import process_tree
from toolcrib.boundary.environment import command_environment
from toolcrib.boundary.process import Process, ProcessResult, run, start
from toolcrib.boundary.spawn import Spawn
from toolcrib.boundary.streams import Streams

from ..forking import forked
from ..waiting import printed_in_time, until, wait_until

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="POSIX only")

ENV = {"PATH": "/usr/bin:/bin"}


def unique(text: str) -> str:
    """Sleeps of 7x.5 seconds are this test run's own, so that it can look for them."""
    return re.sub(r"\b(7\d)\.5\b", rf"\g<1>.{os.getpid()}5", text)


ANY_THREAD = False


def shell(command: str, cwd: Path | str = "/tmp") -> Spawn:
    return Spawn(["/bin/bash", "-c", unique(command)], str(cwd), ENV, outlives_thread=ANY_THREAD)


@pytest.fixture(params=[False, True], ids=["by the process thread", "by the caller"])
def both_ways(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Commands are spawned by the process thread, and by the one that starts them."""
    monkeypatch.setitem(globals(), "ANY_THREAD", request.param)


async def sh(command: str, timeout: float = 20) -> ProcessResult:
    return await run(shell(command), timeout=timeout)


def out(result: ProcessResult) -> str:
    return result.stdout.excerpt().text


def alive(marker: str) -> list[int]:
    """Processes that have this argument."""
    found: list[int] = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            if unique(marker).encode() in Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0"):
                found.append(int(pid))
        except OSError:
            continue
    return found


async def gone(marker: str) -> bool:
    """A killed process takes a moment to go."""
    await until(lambda: not alive(marker))
    return True


def rss() -> float:
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize() / 2**20


@pytest.mark.usefixtures("both_ways")
async def test_streams_exit_code_and_duration() -> None:
    result = await sh("echo out; echo err >&2; sleep 0.05; exit 3")
    assert (out(result), result.stderr.excerpt().text) == ("out\n", "err\n")
    assert (result.exit_code, result.signal, result.ended_by) == (3, None, "exit")
    assert result.duration > 0


async def test_a_signal_of_its_own() -> None:
    result = await sh("kill -SEGV $$")
    assert (result.exit_code, result.signal, result.ended_by) == (None, signal.SIGSEGV, "exit")


async def test_stdin_is_at_its_end() -> None:
    result = await sh("cat; read x || echo closed")
    assert out(result) == "closed\n"


async def test_environment_and_folder_are_what_was_given(tmp_path: Path) -> None:
    result = await run(shell("pwd; env", tmp_path), timeout=5)
    assert out(result).startswith(f"{tmp_path}\n")
    names = {line.partition("=")[0] for line in out(result).splitlines()[1:]}
    assert names <= {"PATH", "PWD", "SHLVL", "_", process_tree.MARKER}


@pytest.mark.usefixtures("both_ways")
async def test_no_descriptor_leaks_into_the_command() -> None:
    with open("/etc/passwd") as held:
        os.set_inheritable(held.fileno(), True)
        result = await sh("ls /proc/self/fd")
    assert len(out(result).split()) == 4  # and the one that ls reads


@pytest.mark.usefixtures("both_ways")
async def test_timeout_keeps_what_was_printed() -> None:
    result = await printed_in_time(start(shell("echo part; sleep 71.5"), timeout=60))
    assert (out(result), result.ended_by, result.exit_code, result.reaped) == ("part\n", "timeout", None, True)
    assert await gone("71.5")


async def test_a_command_that_ignores_signals_is_ended() -> None:
    command = "trap '' TERM INT HUP; echo on; while :; do sleep 0.05; done"
    result = await printed_in_time(start(shell(command), timeout=60))
    assert result.ended_by == "timeout"
    assert out(result) == "on\n"


async def test_returns_when_the_shell_exits_though_a_child_holds_the_pipe() -> None:
    began = time.monotonic()
    result = await sh("sleep 72.5 & echo x")
    assert time.monotonic() - began < 30
    assert (out(result), result.exit_code) == ("x\n", 0)
    assert await gone("72.5")


async def test_a_child_that_never_stops_printing_does_not_hold_the_answer() -> None:
    began = time.monotonic()
    result = await sh("yes & echo x")
    assert time.monotonic() - began < 30
    assert result.exit_code == 0


@pytest.mark.usefixtures("both_ways")
async def test_cancelling_ends_it_before_it_returns() -> None:
    task = asyncio.create_task(sh("sleep 73.5"))
    while not alive("73.5"):
        await asyncio.sleep(0.01)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert await gone("73.5")


@pytest.mark.usefixtures("both_ways")
async def test_a_program_or_folder_that_is_missing() -> None:
    with pytest.raises(FileNotFoundError):
        await run(Spawn(["/nonexistent"], "/tmp", ENV, outlives_thread=ANY_THREAD), timeout=5)
    with pytest.raises(FileNotFoundError):
        await run(shell("true", "/nonexistent"), timeout=5)
    with pytest.raises(OSError, match="too long"):
        await run(shell("x" * 3_000_000), timeout=5)


@pytest.mark.usefixtures("both_ways")
async def test_no_descriptors_or_children_are_left() -> None:
    await sh("true")
    before, others = sorted(os.listdir("/proc/self/fd")), children()  # those of tests before this one
    for command in ("true", "exit 3", "kill -9 $$", "sleep 9 & echo x"):
        await sh(command)
    await sh("sleep 9", timeout=0.05)
    with pytest.raises(FileNotFoundError):
        await run(Spawn(["/nonexistent"], "/tmp", ENV, outlives_thread=ANY_THREAD), timeout=5)
    assert sorted(os.listdir("/proc/self/fd")) == before
    assert children() <= others


def children() -> set[str]:
    """The process ids of this process's children, ended ones too."""
    tasks = Path("/proc/self/task").iterdir()
    return {pid for task in tasks for pid in (task / "children").read_text().split()}


@pytest.mark.usefixtures("both_ways")
async def test_many_at_once() -> None:
    results = await asyncio.gather(*(sh(f"echo {n}; exit {n % 5}") for n in range(60)))
    assert [(out(r), r.exit_code) for r in results] == [(f"{n}\n", n % 5) for n in range(60)]


async def test_invalid_bytes_and_nul() -> None:
    result = await sh(r"printf 'a\xff\x00b'; printf '\xc3' >&2")
    assert out(result) == "a\ufffd\0b"
    assert result.stderr.excerpt().text == "\ufffd"


async def test_one_line_of_five_megabytes() -> None:
    result = await sh("head -c 5000000 /dev/zero | tr '\\0' x")
    excerpt = result.stdout.excerpt()
    assert (len(excerpt.head), len(excerpt.tail)) == (5000, 5000)
    assert excerpt.omitted == 4_990_000


async def test_memory_is_constant_however_much_is_printed() -> None:
    await sh("echo warm")
    before = rss()
    result = await sh("yes 0123456789abcdefghijklmnopqrstuvwxyz | head -c 100000000; yes e | head -c 50000000 >&2")
    assert (result.stdout.total, result.stderr.total) == (100_000_000, 50_000_000)
    assert rss() - before < 8


@pytest.mark.slow
async def test_half_a_gigabyte_is_read_to_its_end_in_constant_memory() -> None:
    await sh("echo warm")
    before = rss()
    result = await sh("yes 0123456789abcdefghijklmnopqrstuvwxyz | head -c 500000000", timeout=120)
    assert (result.stdout.total, result.exit_code) == (500_000_000, 0)
    assert rss() - before < 8  # how fast it is: `make bench-check`


async def test_all_input_at_once_before_the_command_began() -> None:
    for _ in range(20):  # the thread that starts it may be late, or early
        process = start(shell("cat"), timeout=20, interactive=True)
        assert process.write(b"all of it", end=True)
        assert out(await process.finished()) == "all of it"
    for given in (b"", b"all of it", b"x" * 3_000_000):
        assert out(await start(shell("cat | wc -c"), timeout=20, input=given).finished()).strip() == str(len(given))
    assert (await start(shell("true"), timeout=20, input=b"x" * 3_000_000).finished()).exit_code == 0


async def test_interactive_input_and_output_in_pieces() -> None:
    process = start(shell("while read x; do echo got $x; done; echo end"), timeout=20, interactive=True)
    assert process.write(b"one\n")
    while process.idle_output:
        await asyncio.sleep(0.005)
    assert process.take()[0].excerpt().text == "got one\n"
    assert process.write(b"two\n", end=True)
    result = await process.finished()
    assert out(result) == "got two\nend\n"
    assert not process.write(b"three\n")


async def test_input_for_a_command_that_does_not_read_is_bounded() -> None:
    process = start(shell("sleep 74.5"), timeout=20, interactive=True)
    taken = 0
    while process.write(b"x" * 100_000):
        taken += 100_000
        assert taken < 20_000_000
        await asyncio.sleep(0)
    process.kill()
    assert (await process.finished()).ended_by == "killed"


async def test_more_time_can_be_given() -> None:
    process = start(shell("read x; echo $x"), timeout=30, interactive=True)
    process.extend(90)
    await until(lambda: process.deadline and process.deadline > process.started + 60)
    process.write(b"x\n")
    assert out(await process.finished()) == "x\n"


async def test_an_error_of_ours_ends_one_command_and_not_the_others() -> None:
    class Broken:
        def __init__(self) -> None:
            self.fd, self.write_end = os.pipe()
            self.ready, self.ready_end = os.pipe()

        def feed(self, data: bytes) -> int | None:
            raise RuntimeError("cannot confine")

        def release(self) -> None: ...

        def failure(self, stderr: str, code: int) -> Exception | None:
            return None

        def close(self) -> None:
            for fd in (self.fd, self.write_end, self.ready, self.ready_end):
                os.close(fd)

    handshake = Broken()
    broken = start(Spawn(["/bin/sleep", unique("75.5")], "/tmp", ENV, handshake=handshake), timeout=20)
    other = start(shell("sleep 0.2; echo fine"), timeout=20)
    os.write(handshake.write_end, b"news")
    with pytest.raises(RuntimeError, match="cannot confine"):
        await broken.finished()
    assert out(await other.finished()) == "fine\n"
    assert await gone("75.5")


def test_waiting_without_an_event_loop() -> None:
    process = start(shell("read x; echo $x"), timeout=60, interactive=True)
    assert process.wait(0.01) is None
    process.write(b"x\n")
    result = process.wait(60)
    assert result is not None
    assert out(result) == "x\n"


def test_commands_end_with_the_process() -> None:
    script = (
        "from toolcrib.boundary.process import start; from toolcrib.boundary.spawn import Spawn; import time;"
        "start(Spawn(['/bin/sleep', '76.5'], '/tmp', {}), timeout=None); time.sleep(0.3)"
    )
    subprocess.run([sys.executable, "-c", unique(script)], check=True, timeout=20)
    wait_until(lambda: not alive("76.5"))


def test_a_fork_has_a_thread_of_its_own() -> None:
    start(shell("true"), timeout=5).wait()

    def run() -> None:
        result = start(shell("exit 5"), timeout=5).wait(60)
        assert result is not None and result.exit_code == 5

    assert forked(run) == 0


def test_daemons_are_swept_up_where_we_are_the_subreaper() -> None:
    """In a process of its own: being a subreaper cannot be taken back here without effects on other tests."""
    script = """
import asyncio, os, sys
sys.path[:0] = sys.argv[1:]
from toolcrib.boundary import process_tree
from toolcrib.boundary.process import run
from toolcrib.boundary.spawn import Spawn
assert process_tree.claim_process()
command = "setsid sh -c 'setsid sleep 77.5 & setsid sleep 77.5 & wait' >/dev/null 2>&1 & sleep 0.2; echo x"
result = asyncio.run(run(Spawn(["/bin/bash", "-c", command], "/tmp", {"PATH": "/usr/bin:/bin"}), timeout=9))
assert result.stdout.excerpt().text == "x\\n"
try:
    os.waitpid(-1, os.WNOHANG)
except ChildProcessError:
    print("no children left")
"""
    done = subprocess.run([sys.executable, "-c", unique(script)], capture_output=True, text=True, timeout=20)
    assert done.stdout == "no children left\n", done.stderr
    assert not alive("77.5")


@pytest.mark.skipif(sys.platform != "linux", reason="/proc")
def test_other_programs_of_the_user_look_not_into_a_claimed_process() -> None:
    script = """
import ctypes, os, subprocess
from toolcrib.boundary import process_tree
if os.geteuid() == 0:  # root may look into everything
    os.setresuid(65534, 65534, 65534)
    ctypes.CDLL(None).prctl(4, 1, 0, 0, 0)
def seen():
    looks = [["head", "-c1", f"/proc/{os.getpid()}/{name}"] for name in ("environ", "maps", "auxv")]
    return [subprocess.run(look, capture_output=True, cwd="/").returncode for look in looks]
before = seen()
process_tree.claim_process()
print(before, [bool(code) for code in seen()])
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=20)
    assert done.stdout == "[0, 0, 0] [True, True, True]\n", done.stderr


def test_importing_does_not_make_us_the_subreaper() -> None:
    script = (
        "import toolcrib.boundary.process, toolcrib.boundary.sandbox, ctypes as c; v = c.c_int();"
        "c.CDLL(None).prctl(37, c.byref(v), 0, 0, 0); print(v.value)"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout == "0\n"


def test_the_environment_is_short_and_without_secrets() -> None:
    host = {
        "PATH": "/bin", "HOME": "/h", "LC_ALL": "C", "OPENAI_API_KEY": "s", "AWS_SECRET_ACCESS_KEY": "s",
        "LD_PRELOAD": "x", "BASH_ENV": "x", "PYTHONPATH": "x", "SSH_AUTH_SOCK": "x", "MY_TOKEN": "t",
    }  # fmt: skip
    assert command_environment((), host) == {"PATH": "/bin", "HOME": "/h", "LC_ALL": "C", "LANG": "C.UTF-8"}
    assert command_environment(["MY_TOKEN", "ABSENT"], host)["MY_TOKEN"] == "t"
    assert "PATH" in command_environment((), {})


def test_a_command_outlives_the_thread_that_spawned_it() -> None:
    started: list[Process] = []
    spawn = Spawn(["/bin/sh", "-c", "sleep 0.1; echo done"], "/tmp", ENV, outlives_thread=True)
    thread = threading.Thread(target=lambda: started.append(start(spawn, timeout=20)))
    thread.start()
    thread.join()
    result = started[0].wait(60)
    assert result is not None
    assert out(result) == "done\n"


def test_an_interrupted_launch_is_an_error_and_spawns_nothing_more(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    process = Process(shell("true"), None, Streams(100, None, False, None, None))
    monkeypatch.setattr(subprocess, "Popen", interrupted)
    with pytest.raises(KeyboardInterrupt):
        process.launch()
    from toolcrib.boundary.spawner import spawner

    spawner().call(process.begin)
    with pytest.raises(RuntimeError, match="interrupted while it was started"):
        process.wait(60)


def test_kill_before_it_began() -> None:
    process = Process(shell("sleep 78.5"), None, Streams(100, None, False, None, None))
    process.kill()
    from toolcrib.boundary.spawner import spawner

    spawner().call(process.begin)
    result = process.wait(60)
    assert result is not None
    assert result.ended_by == "killed"
