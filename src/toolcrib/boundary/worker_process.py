"""Run work on untrusted bytes in a separate process: one job at a time, with limits. The process is killed if it
exceeds them.

A job is a small JSON object and bytes; so is its answer. The process waits for the next job, so that its imports are
used again. It ends when it is idle or its parent has ended. With `reuse=False` each job has a new process, so that no
job can affect the next. It gets no environment and none of our open files; memory is limited by RLIMIT_AS, files cannot
grow.
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
from contextlib import contextmanager, suppress
from typing import IO, Any

from ..core.dataclass import dataclass
from ..core.errors import ToolcribError
from ..core.threads import ToolThreads
from .programs import interpreter

MEMORY = 1 << 30  # bytes of address space
IDLE_SECONDS = 60.0
WORKERS = max(1, min(4, os.cpu_count() or 1))
_PIECE = 1 << 20
_LOOK_SECONDS = 0.1  # how often the caller is asked whether it still waits
_GRACE_SECONDS = 5  # the extra time of a worker whose parent has ended

Work = Callable[[Mapping[str, Any], bytes], tuple[Mapping[str, Any], bytes]]
"""A worker's function: (job, bytes) to (answer, bytes). It runs in the worker; if it raises, the job fails."""

_LENGTHS = struct.Struct(">II")
_START = """
import json, sys
path, module, memory, idle = json.loads(sys.argv[1])
sys.path[:] = path
from toolcrib.boundary.worker_process import serve
serve(module, memory, idle)
"""


class WorkerFailed(ToolcribError):
    """The job was not done: its process died, ran out of memory, or raised. The text says which."""


class WorkerTimeout(WorkerFailed):
    """The job exceeded its time limit; its process was killed."""


class WorkerCancelled(WorkerFailed):
    """The caller did not wait for the answer any more; the process was killed."""


@dataclass(frozen=True, slots=True)
class FileBytes:
    """The bytes of an open file as a job's data: they are never all in memory here. `size` is its current size."""

    fd: int
    size: int

    def __len__(self) -> int:
        return self.size

    def pieces(self) -> Iterator[bytes]:
        """Yield all pieces; each call starts again. Raises WorkerFailed if the file became shorter meanwhile."""
        at = 0
        while at < self.size:
            piece = os.pread(self.fd, min(_PIECE, self.size - at), at)
            if not piece:
                raise WorkerFailed("the file changed while it was read")
            at += len(piece)
            yield piece


class Workers:
    """A pool of processes that run `module.work`: at most one per processor; further jobs wait."""

    def __init__(self, module: str, memory: int = MEMORY, idle: float = IDLE_SECONDS, *, reuse: bool = True) -> None:
        self._settings = json.dumps([[entry for entry in sys.path if os.path.isabs(entry)], module, memory, idle])
        self._threads = ToolThreads(limit=2 * WORKERS)
        self._slots = threading.BoundedSemaphore(WORKERS)
        self._reuse = reuse
        self._idle: list[_Process] = []
        self._lock = threading.Lock()
        self._busy: list[_Process] = []
        self._closes = 0  # a job that began before a close is not begun again after it
        self._end = weakref.finalize(self, _end_all, self._idle, self._busy)

    async def run(self, job: Mapping[str, Any], data: bytes, seconds: float) -> tuple[dict[str, Any], bytes]:
        """Run a job. Cancelling ends its process. Raises WorkerFailed if it fails, WorkerTimeout if it is too slow."""
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
        """Do the same, but wait in this thread. `cancelled` is called now and then; if it returns True, raises
        WorkerCancelled."""
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
        """End all processes; running jobs fail. Safe to call twice."""
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
            except BrokenPipeError:  # it ended while it was idle, or a close ended it
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
                if process.child.poll() is None:
                    return process
                process.kill()
        return _Process(self._settings)


def _end_all(idle: list[_Process], busy: list[_Process]) -> None:
    for process in list(busy):  # the caller that waits for its answer releases it
        process.child.kill()
    while idle:
        idle.pop().kill()


class _Process:
    def __init__(self, settings: str) -> None:
        self.child = subprocess.Popen(
            [interpreter(), "-I", "-c", _START, settings],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
            env={"PATH": os.defpath, "LC_ALL": "C.UTF-8"}, cwd="/", start_new_session=True,
        )  # fmt: skip

    def do(
        self, job: Mapping[str, Any], data: bytes | FileBytes, seconds: float, cancelled: Callable[[], bool]
    ) -> tuple[dict[str, Any], bytes]:
        """Send a job and wait for the answer.

        Raises WorkerFailed if the job fails, BrokenPipeError if the process had ended before.
        """
        clock = _JobClock(self.child, seconds, cancelled)
        try:
            assert self.child.stdin is not None
            assert self.child.stdout is not None
            try:
                send(self.child.stdin, {"job": job, "seconds": seconds}, data)
                answer = receive(self.child.stdout)
            except BrokenPipeError:
                clock.check()
                raise
        finally:
            clock.stopped.set()
        if answer is not None:
            return answer
        clock.check()
        code = self.child.wait()
        if code == 0:
            raise BrokenPipeError
        raise WorkerFailed(f"its process ended ({'signal' if code < 0 else 'status'} {abs(code)})")

    def kill(self) -> None:
        """End the process and close its pipes."""
        self.child.kill()
        self.child.wait()
        for pipe in (self.child.stdin, self.child.stdout):
            if pipe is not None:
                with suppress(OSError):  # data that was not written yet
                    pipe.close()


class _JobClock:
    """A thread that kills a process when its time is over, or when its answer is not wanted any more."""

    def __init__(self, child: subprocess.Popen[bytes], seconds: float, cancelled: Callable[[], bool]) -> None:
        self._child, self._seconds, self._cancelled = child, seconds, cancelled
        self.stopped = threading.Event()
        self._why: WorkerFailed | None = None
        threading.Thread(target=self._watch, name="toolcrib-worker-clock", daemon=True).start()

    def _watch(self) -> None:
        end = time.monotonic() + self._seconds
        while not self.stopped.wait(max(0.0, min(_LOOK_SECONDS, end - time.monotonic()))):
            if self._cancelled():
                self._why = WorkerCancelled("its caller no longer waits for it")
            elif time.monotonic() >= end:
                self._why = WorkerTimeout(f"it took longer than {self._seconds:g} s")
            if self._why is not None:
                self._child.kill()
                return

    def check(self) -> None:
        """Raise the reason for which it killed the process, if it did."""
        if self._why is not None:
            raise self._why from None


# --- for both sides


def send(pipe: IO[bytes], head: Mapping[str, Any], data: bytes | FileBytes) -> None:
    """Write one message: two lengths, JSON, bytes."""
    text = json.dumps(head).encode()
    pipe.write(_LENGTHS.pack(len(text), len(data)))
    pipe.write(text)
    for piece in (data,) if isinstance(data, bytes) else data.pieces():
        pipe.write(piece)
    pipe.flush()


def receive(pipe: IO[bytes]) -> tuple[dict[str, Any], bytes] | None:
    """Read one message; return None at the end."""
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
    """Do jobs from stdin until it ends or no job comes for `idle` seconds."""
    import importlib
    import select

    jobs, answers = sys.stdin.buffer, os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # a library's prints must not be taken for an answer
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
        except Exception as error:  # RecursionError, and errors of a parser
            head, data = {"failed": f"{type(error).__name__}: {str(error)[:200]}"}, b""
        _alarm(0)
        send(answers, head, data)
        del message, given, data


def _alarm(seconds: float) -> None:
    """End the process after this time, even if it is busy: otherwise a worker whose parent was killed would run on.
    0 means never."""
    import signal

    if sys.platform != "win32":
        signal.setitimer(signal.ITIMER_REAL, seconds)


def _limit(memory: int) -> None:
    try:
        import resource
    except ImportError:  # Windows has none; the time limit holds there, too
        return
    for what, most in ((resource.RLIMIT_AS, memory), (resource.RLIMIT_FSIZE, 0), (resource.RLIMIT_CORE, 0)):
        with suppress(ValueError, OSError):  # a lower limit is set already
            resource.setrlimit(what, (most, most))
