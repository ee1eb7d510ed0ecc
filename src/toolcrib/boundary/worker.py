"""A process of ours for work on hostile bytes: one job at a time, with limits, killed when it is over them.

A job is a small JSON object and bytes; so is its answer. The process keeps waiting for the next job, so that what it
imported serves again, and ends by itself when it is idle or its parent is gone. It gets no environment and no open
files of ours; memory is limited by RLIMIT_AS, files cannot grow.
"""

from __future__ import annotations

import json
import os
import struct
import subprocess
import sys
import threading
import weakref
from collections.abc import Callable, Mapping
from typing import IO, Any

from ..core.errors import ToolcribError
from ..core.threads import ToolThreads

MEMORY = 1 << 30  # bytes of address space
IDLE_SECONDS = 60.0
WORKERS = max(1, min(4, os.cpu_count() or 1))

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


class Workers:
    """Processes that run `module.work`. At most as many at once as there are processors; further jobs wait."""

    def __init__(self, module: str, memory: int = MEMORY, idle: float = IDLE_SECONDS) -> None:
        self._settings = json.dumps([[entry for entry in sys.path if os.path.isabs(entry)], module, memory, idle])
        self._threads = ToolThreads(limit=WORKERS)
        self._idle: list[_Process] = []
        self._lock = threading.Lock()
        self._end = weakref.finalize(self, _end_all, self._idle)

    async def run(self, job: Mapping[str, Any], data: bytes, seconds: float) -> tuple[dict[str, Any], bytes]:
        """Have a job done. Raises WorkerFailed, WorkerTimeout. Cancelling ends its process."""
        held: list[_Process] = []
        try:
            return await self._threads.run(self._run, {"job": job, "data": data, "seconds": seconds, "held": held})
        except BaseException:
            for process in held:
                process.end()
            raise

    def close(self) -> None:
        """End all that are idle. Safe to call twice."""
        self._end()
        _end_all(self._idle)

    def _run(
        self, job: Mapping[str, Any], data: bytes, seconds: float, held: list[_Process]
    ) -> tuple[dict[str, Any], bytes]:
        for fresh in (False, True):
            process = self._take(fresh)
            held.append(process)
            try:
                answer = process.do(job, data, seconds)
            except BrokenPipeError:  # it had gone while it was idle
                process.kill()
                held.remove(process)
                if fresh:
                    raise WorkerFailed("the worker process ended at once") from None
                continue
            except BaseException:
                process.kill()
                raise
            held.remove(process)
            with self._lock:
                self._idle.append(process)
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


def _end_all(processes: list[_Process]) -> None:
    while processes:
        processes.pop().kill()


class _Process:
    def __init__(self, settings: str) -> None:
        self._child = subprocess.Popen(
            [sys.executable, "-I", "-c", _START, settings],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
            env={"PATH": os.defpath, "LC_ALL": "C.UTF-8"}, cwd="/", start_new_session=True,
        )  # fmt: skip
        self._killed = False

    @property
    def alive(self) -> bool:
        return self._child.poll() is None

    def do(self, job: Mapping[str, Any], data: bytes, seconds: float) -> tuple[dict[str, Any], bytes]:
        """Send a job and wait for the answer. Raises BrokenPipeError if the process had ended before."""
        over = threading.Event()

        def expire() -> None:
            over.set()
            self._child.kill()

        clock = threading.Timer(seconds, expire)
        clock.daemon = True
        clock.start()
        try:
            assert self._child.stdin is not None
            assert self._child.stdout is not None
            try:
                send(self._child.stdin, job, data)
                answer = receive(self._child.stdout)
            except BrokenPipeError:
                if over.is_set() or self._killed:
                    raise WorkerTimeout(f"it took longer than {seconds:g} s") from None
                raise
        finally:
            clock.cancel()
        if answer is not None:
            return answer
        if over.is_set():
            raise WorkerTimeout(f"it took longer than {seconds:g} s")
        code = self._child.wait()
        if code == 0:
            raise BrokenPipeError
        raise WorkerFailed(f"its process ended ({'signal' if code < 0 else 'status'} {abs(code)})")

    def end(self) -> None:
        """End it from another thread; whoever waits for its answer cleans up."""
        self._killed = True
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


# --- what both sides speak


def send(pipe: IO[bytes], head: Mapping[str, Any], data: bytes) -> None:
    """Write one message: two lengths, JSON, bytes."""
    text = json.dumps(head).encode()
    pipe.write(_LENGTHS.pack(len(text), len(data)))
    pipe.write(text)
    pipe.write(data)
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
        try:
            head, data = work(*message)
        except MemoryError:
            head, data = {"failed": f"it needed more than {memory >> 20} MiB of memory"}, b""
        except Exception as error:  # RecursionError and what a parser raises
            head, data = {"failed": f"{type(error).__name__}: {str(error)[:200]}"}, b""
        send(answers, head, data)


def _limit(memory: int) -> None:
    try:
        import resource
    except ImportError:  # Windows has none; the time limit holds there, too
        return
    for what, most in ((resource.RLIMIT_AS, memory), (resource.RLIMIT_FSIZE, 0), (resource.RLIMIT_CORE, 0)):
        try:
            resource.setrlimit(what, (most, most))
        except (ValueError, OSError):  # a lower one stands already
            pass
