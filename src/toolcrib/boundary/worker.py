"""A process of ours for work on hostile bytes: one job at a time, with limits, killed when it is over them.

A job is a small JSON object and bytes; so is its answer. The process keeps waiting for the next job, so that what it
imported serves again, and ends by itself when it is idle or its parent is gone; with `reuse=False` each job has a
process to itself, so that no job can reach the next. It gets no environment and no open files of ours; memory is
limited by RLIMIT_AS, files cannot grow.
"""

from __future__ import annotations

import json
import os
import struct
import subprocess
import sys
import threading
import time
import weakref
from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import IO, Any

from ..core.errors import ToolcribError
from ..core.threads import ToolThreads

MEMORY = 1 << 30  # bytes of address space
IDLE_SECONDS = 60.0
WORKERS = max(1, min(4, os.cpu_count() or 1))
_PIECE = 1 << 20
_LOOK_SECONDS = 0.1  # how often a waiting caller is asked whether it still waits
_GRACE_SECONDS = 5  # what a worker whose parent is gone gets beyond its time

Work = Callable[[Mapping[str, Any], bytes], tuple[Mapping[str, Any], bytes]]
"""What a worker does: (job, bytes) to (answer, bytes). Runs in the worker; what it raises fails the job."""

_LENGTHS = struct.Struct(">II")
_START = """
import json, sys
path, module, memory, idle = json.loads(sys.argv[1])
sys.path[:] = path
from toolcrib.boundary.worker import serve
serve(module, memory, idle)
"""


class WorkerFailed(ToolcribError):
    """The job was not done: its process died, ran out of memory, or raised. The text says which."""


class WorkerTimeout(WorkerFailed):
    """The job took longer than it may; its process was killed."""


class WorkerCancelled(WorkerFailed):
    """Nobody waited for the answer any more; the process was killed."""


@dataclass(frozen=True, slots=True)
class FileBytes:
    """The bytes of an open file as a job's data: they are never all in memory here. `size` is what it holds now."""

    fd: int
    size: int

    def __len__(self) -> int:
        return self.size

    def pieces(self) -> Iterator[bytes]:
        """All of them, once more at each call. WorkerFailed where the file became shorter meanwhile."""
        at = 0
        while at < self.size:
            piece = os.pread(self.fd, min(_PIECE, self.size - at), at)
            if not piece:
                raise WorkerFailed("the file changed while it was read")
            at += len(piece)
            yield piece


class Workers:
    """Processes that run `module.work`. At most as many at once as there are processors; further jobs wait."""

    def __init__(self, module: str, memory: int = MEMORY, idle: float = IDLE_SECONDS, *, reuse: bool = True) -> None:
        self._settings = json.dumps([[entry for entry in sys.path if os.path.isabs(entry)], module, memory, idle])
        self._threads = ToolThreads(limit=2 * WORKERS)
        self._slots = threading.BoundedSemaphore(WORKERS)
        self._reuse = reuse
        self._idle: list[_Process] = []
        self._lock = threading.Lock()
        self._busy: list[_Process] = []
        self._closes = 0  # a job that was begun before a close is not begun again after it
        self._end = weakref.finalize(self, _end_all, self._idle, self._busy)

    async def run(self, job: Mapping[str, Any], data: bytes, seconds: float) -> tuple[dict[str, Any], bytes]:
        """Have a job done. Raises WorkerFailed, WorkerTimeout. Cancelling ends its process."""
        gone = threading.Event()
        try:
            return await self._threads.run(self.run_here, job, data, seconds, gone.is_set)
        except BaseException:
            gone.set()
            raise

    def run_here(
        self,
        job: Mapping[str, Any],
        data: bytes | FileBytes,
        seconds: float,
        cancelled: Callable[[], bool] = lambda: False,
    ) -> tuple[dict[str, Any], bytes]:
        """The same, waiting in this thread. `cancelled` is asked now and then whether to give up: WorkerCancelled."""
        with self._slot(cancelled):
            return self._run(job, data, seconds, cancelled)

    @contextmanager
    def _slot(self, cancelled: Callable[[], bool]) -> Generator[None]:
        while not self._slots.acquire(timeout=_LOOK_SECONDS):
            if cancelled():
                raise WorkerCancelled("its caller no longer waits for it")
        try:
            yield
        finally:
            self._slots.release()

    def close(self) -> None:
        """End all; jobs that are being done fail. Safe to call twice."""
        self._closes += 1
        self._end()
        _end_all(self._idle, self._busy)

    def _run(
        self, job: Mapping[str, Any], data: bytes | FileBytes, seconds: float, cancelled: Callable[[], bool]
    ) -> tuple[dict[str, Any], bytes]:
        closes = self._closes
        for fresh in (False, True):
            process = self._take(fresh)
            self._busy.append(process)
            try:
                if self._closes != closes:
                    raise BrokenPipeError
                answer = process.do(job, data, seconds, cancelled)
            except BrokenPipeError:  # it had gone while it was idle, or was ended by a close
                process.kill()
                if self._closes != closes:
                    raise WorkerFailed("its process ended (signal 9: the workers were closed)") from None
                if fresh:
                    raise WorkerFailed("the worker process ended at once") from None
                continue
            except BaseException:
                process.kill()
                raise
            finally:
                self._busy.remove(process)
            if self._reuse:
                with self._lock:
                    self._idle.append(process)
            else:
                process.kill()
            if "failed" in answer[0]:
                raise WorkerFailed(str(answer[0]["failed"]))
            return answer
        raise AssertionError

    def _take(self, fresh: bool) -> _Process:
        with self._lock:
            while self._idle and not fresh:
                process = self._idle.pop()
                if process.alive:
                    return process
                process.kill()
        return _Process(self._settings)


def _end_all(idle: list[_Process], busy: list[_Process]) -> None:
    for process in list(busy):  # the caller that waits for its answer releases it
        process.end()
    while idle:
        idle.pop().kill()


class _Process:
    def __init__(self, settings: str) -> None:
        self._child = subprocess.Popen(
            [sys.executable, "-I", "-c", _START, settings],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
            env={"PATH": os.defpath, "LC_ALL": "C.UTF-8"}, cwd="/", start_new_session=True,
        )  # fmt: skip

    @property
    def alive(self) -> bool:
        return self._child.poll() is None

    def do(
        self, job: Mapping[str, Any], data: bytes | FileBytes, seconds: float, cancelled: Callable[[], bool]
    ) -> tuple[dict[str, Any], bytes]:
        """Send a job and wait for the answer. Raises BrokenPipeError if the process had ended before."""
        clock = _JobClock(self._child, seconds, cancelled)
        try:
            assert self._child.stdin is not None
            assert self._child.stdout is not None
            try:
                send(self._child.stdin, {"job": job, "seconds": seconds}, data)
                answer = receive(self._child.stdout)
            except BrokenPipeError:
                clock.check()
                raise
        finally:
            clock.stop()
        if answer is not None:
            return answer
        clock.check()
        code = self._child.wait()
        if code == 0:
            raise BrokenPipeError
        raise WorkerFailed(f"its process ended ({'signal' if code < 0 else 'status'} {abs(code)})")

    def end(self) -> None:
        """End it."""
        self._child.kill()

    def kill(self) -> None:
        """End it and let go of everything."""
        self.end()
        self._child.wait()
        for pipe in (self._child.stdin, self._child.stdout):
            if pipe is not None:
                try:
                    pipe.close()
                except OSError:  # what was not written yet
                    pass


class _JobClock:
    """Kills a process that is over its time, or whose answer is not wanted any more, from a thread of its own."""

    def __init__(self, child: subprocess.Popen[bytes], seconds: float, cancelled: Callable[[], bool]) -> None:
        self._child, self._seconds, self._cancelled = child, seconds, cancelled
        self._stopped = threading.Event()
        self._why: WorkerFailed | None = None
        threading.Thread(target=self._watch, name="toolcrib-worker-clock", daemon=True).start()

    def _watch(self) -> None:
        end = time.monotonic() + self._seconds
        while not self._stopped.wait(max(0.0, min(_LOOK_SECONDS, end - time.monotonic()))):
            if self._cancelled():
                self._why = WorkerCancelled("its caller no longer waits for it")
            elif time.monotonic() >= end:
                self._why = WorkerTimeout(f"it took longer than {self._seconds:g} s")
            if self._why is not None:
                self._child.kill()
                return

    def stop(self) -> None:
        self._stopped.set()

    def check(self) -> None:
        """Raises what it killed the process for."""
        if self._why is not None:
            raise self._why from None


# --- what both sides speak


def send(pipe: IO[bytes], head: Mapping[str, Any], data: bytes | FileBytes) -> None:
    """Write one message: two lengths, JSON, bytes."""
    text = json.dumps(head).encode()
    pipe.write(_LENGTHS.pack(len(text), len(data)))
    pipe.write(text)
    for piece in (data,) if isinstance(data, bytes) else data.pieces():
        pipe.write(piece)
    pipe.flush()


def receive(pipe: IO[bytes]) -> tuple[dict[str, Any], bytes] | None:
    """Read one message; None at the end."""
    lengths = pipe.read(_LENGTHS.size)
    if len(lengths) < _LENGTHS.size:
        return None
    size, more = _LENGTHS.unpack(lengths)
    text = pipe.read(size)
    data = pipe.read(more)
    if len(text) < size or len(data) < more:
        return None
    return json.loads(text), data


# --- in the worker


def serve(module: str, memory: int, idle: float) -> None:
    """Do jobs from stdin until it ends or nothing comes for `idle` seconds."""
    import importlib
    import select

    jobs, answers = sys.stdin.buffer, os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what a library prints must not be taken for an answer
    _limit(memory)
    work: Work = importlib.import_module(module).work
    while sys.platform == "win32" or select.select([jobs], [], [], idle)[0]:  # which can only wait for sockets
        message = receive(jobs)
        if message is None:
            return
        asked, given = message
        _alarm(asked["seconds"] + _GRACE_SECONDS)
        try:
            head, data = work(asked["job"], given)
        except MemoryError:
            head, data = {"failed": f"it needed more than {memory >> 20} MiB of memory"}, b""
        except Exception as error:  # RecursionError and what a parser raises
            head, data = {"failed": f"{type(error).__name__}: {str(error)[:200]}"}, b""
        _alarm(0)
        send(answers, head, data)
        del message, given, data


def _alarm(seconds: float) -> None:
    """Die after this time, even if busy: nothing else ends a worker whose parent was killed. 0 means never."""
    import signal

    if sys.platform != "win32":
        signal.setitimer(signal.ITIMER_REAL, seconds)


def _limit(memory: int) -> None:
    try:
        import resource
    except ImportError:  # Windows has none; the time limit holds there, too
        return
    for what, most in ((resource.RLIMIT_AS, memory), (resource.RLIMIT_FSIZE, 0), (resource.RLIMIT_CORE, 0)):
        try:
            resource.setrlimit(what, (most, most))
        except (ValueError, OSError):  # a lower limit is set already
            pass
