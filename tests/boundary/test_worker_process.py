"""The process for hostile bytes: it answers, is killed when it takes too long or too much, and is there again."""

import asyncio
import os
import sys
from pathlib import Path

import pytest

from toolcrib.boundary import worker_process
from toolcrib.boundary.worker_process import FileBytes, WorkerCancelled, WorkerFailed, Workers, WorkerTimeout

from ..waiting import until

MODULE = """
import os, sys, time

def work(job, data):
    what = job["do"]
    print("a library that talks")
    if what == "echo":
        return {"pid": os.getpid(), "env": dict(os.environ), "size": len(data)}, data[::-1]
    if what == "hang":
        while True: pass
    if what == "memory":
        return {}, bytes(len(bytearray(4 << 30)))
    if what == "raise":
        raise ValueError("no good")
    if what == "die":
        os.kill(os.getpid(), 11)
    if what == "exit":
        os._exit(3)
    if what == "write":
        with open(job["path"], "wb") as file:
            file.write(b"x" * 10)
            file.flush()
    if what == "recurse":
        def down(): down()
        down()
"""


@pytest.fixture
def workers(tmp_path: Path, monkeypatch):
    (tmp_path / "work_for_tests.py").write_text(MODULE)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setenv("SECRET_OF_THE_HOST", "hush")
    made = Workers("work_for_tests")
    yield made
    made.close()


async def echo(workers: Workers, data: bytes = b"abc"):
    return await workers.run({"do": "echo"}, data, 20)


async def test_it_answers_and_is_used_again(workers):
    first, data = await echo(workers)
    assert data == b"cba"
    second, data = await echo(workers, b"x" * 3_000_000)
    assert first["pid"] == second["pid"] != os.getpid()
    assert second["size"] == len(data) == 3_000_000
    assert "SECRET_OF_THE_HOST" not in first["env"]


async def test_jobs_at_once_have_processes_of_their_own(workers):
    found = await asyncio.gather(*(echo(workers, str(n).encode()) for n in range(8)))
    assert [data for _, data in found] == [str(n).encode() for n in range(8)]
    assert len({head["pid"] for head, _ in found}) <= 4


@pytest.mark.parametrize(
    ("job", "said"),
    [
        ({"do": "raise"}, "ValueError: no good"), ({"do": "recurse"}, "RecursionError"),
        ({"do": "memory"}, "memory"), ({"do": "die"}, "signal 11"), ({"do": "exit"}, "status 3"),
        ({"do": "nothing"}, "TypeError"),
    ],
)  # fmt: skip
async def test_what_fails_is_said_and_the_next_job_is_done(workers, job, said):
    with pytest.raises(WorkerFailed, match=said):
        await workers.run(job, b"", 20)
    assert (await echo(workers))[1] == b"cba"


async def test_one_that_takes_too_long_is_killed(workers):
    pid = (await echo(workers))[0]["pid"]
    with pytest.raises(WorkerTimeout, match=r"longer than 0\.3 s"):
        await workers.run({"do": "hang"}, b"", 0.3)
    assert gone(pid)
    assert (await echo(workers))[1] == b"cba"


async def test_a_cancelled_job_is_killed(workers):
    pid = (await echo(workers))[0]["pid"]
    job = asyncio.create_task(workers.run({"do": "hang"}, b"", 60))
    await until(lambda: workers._busy)
    job.cancel()
    with pytest.raises(asyncio.CancelledError):
        await job
    await until(lambda: gone(pid))


async def test_one_that_has_gone_is_replaced(workers):
    pid = (await echo(workers))[0]["pid"]
    os.kill(pid, 9)
    await until(lambda: ended(pid))
    assert (await echo(workers))[0]["pid"] != pid


@pytest.mark.skipif(sys.platform == "win32", reason="has no resource limits")
async def test_it_writes_no_files(workers, tmp_path):
    with pytest.raises(WorkerFailed):
        await workers.run({"do": "write", "path": str(tmp_path / "made")}, b"", 20)
    assert not (tmp_path / "made").exists() or (tmp_path / "made").stat().st_size == 0


async def test_it_ends_when_idle_and_when_closed(workers, tmp_path):
    short = Workers("work_for_tests", idle=0.1)
    pid = (await echo(short))[0]["pid"]
    await until(lambda: ended(pid))
    assert (await echo(short))[0]["pid"] != pid
    pid = (await echo(workers))[0]["pid"]
    workers.close()
    workers.close()
    assert gone(pid)
    short.close()


async def test_jobs_that_are_being_done_end_with_a_close(workers):
    job = asyncio.create_task(workers.run({"do": "hang"}, b"", 60))
    await until(lambda: workers._busy)
    workers.close()
    with pytest.raises(WorkerFailed, match="signal 9"):
        await job


async def test_a_process_for_each_job(workers):
    once = Workers("work_for_tests", reuse=False)
    pids = [(await echo(once))[0]["pid"] for _ in range(3)]
    assert len(set(pids)) == 3
    assert all(map(gone, pids))


def test_a_file_is_sent_from_where_it_is(workers, tmp_path):
    (tmp_path / "f").write_bytes(b"0123456789" * 300_000)
    with (tmp_path / "f").open("rb") as file:
        head, data = workers.run_here({"do": "echo"}, FileBytes(file.fileno(), 3_000_000), 60)
        assert (head["size"], data[:3]) == (3_000_000, b"987")
        with pytest.raises(WorkerFailed, match="changed"):
            workers.run_here({"do": "echo"}, FileBytes(file.fileno(), 3_000_001), 60)


def test_whoever_waits_may_give_up(workers):
    asked = iter([False, False, True])
    with pytest.raises(WorkerCancelled):
        workers.run_here({"do": "hang"}, b"", 60, lambda: next(asked, True))


@pytest.mark.skipif(sys.platform == "win32", reason="has no timers of that kind")
def test_one_whose_parent_is_gone_ends_by_itself(workers, monkeypatch):
    monkeypatch.setattr(worker_process, "_LOOK_SECONDS", 60)  # nobody looks after it
    monkeypatch.setattr(worker_process._JobClock, "_watch", lambda self: None)
    with pytest.raises(WorkerFailed, match="signal 14"):
        workers.run_here({"do": "hang"}, b"", -4)  # its own alarm: five seconds after the end of its time


def ended(pid: int) -> bool:
    """Also if nobody has reaped it."""
    try:
        return Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()[0] == b"Z"
    except OSError:
        return True


def gone(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    return False
