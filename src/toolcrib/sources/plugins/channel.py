"""Channel plugins: a program that runs permanently and carries messages both ways as JSON-RPC lines.

We send on stdin: `{"jsonrpc": "2.0", "id": N, "method": "send", "params": {"channel", "chat_id", "content", …}}`.
It sends on stdout: the answers, by id, and incoming messages, as notifications without an id: `{"jsonrpc": "2.0",
"method": "inbound", "params": {"chat_id", "content", "sender_id"?, "channel"?, "media"?, "message_id"?,
"forwarded"?}}`. Its stderr is stored for people. Both pipes are read all the time, so that it never waits for us.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import os
import signal
from collections.abc import Callable, Mapping, Sequence
from typing import Any, cast

from ...boundary.environment import command_environment
from ...boundary.lines import Lines
from ...core.dataclass import dataclass
from ...core.empty import EMPTY
from ...core.errors import ToolcribError
from .manifest import Manifest
from .program import PinnedProgram

log = logging.getLogger("toolcrib.plugins")

MAX_LINE = 4 << 20  # bytes; a longer line is dropped
MAX_WAITING = 1_000  # messages that were not read yet
MAX_STDERR = 16 << 10
MAX_COMPLAINTS = 20  # log lines about invalid output
STOP_SECONDS = 5.0
_PIECE = 1 << 16


class ChannelError(ToolcribError):
    """A channel cannot send, or is not running. The text says why."""


@dataclass(frozen=True, slots=True)
class Inbound:
    """A message that came in through a channel plugin."""

    channel: str
    chat_id: str
    content: str
    sender_id: str | None = None
    media: tuple[str, ...] = ()
    message_id: str | None = None
    forwarded: bool = False


class Channel:
    """One channel plugin while it runs. All methods must be called on the loop that started it.

    Incoming messages wait for `receive`. The process runs in its own session, outside the sandbox (it needs network
    access), with a short environment and `env`.
    """

    def __init__(
        self,
        manifest: Manifest,
        program: PinnedProgram,
        *,
        env: Mapping[str, str] | None = None,
        redact: Callable[[str], str] | None = None,
    ) -> None:
        assert manifest.binary is not None
        self.manifest = manifest
        self.dropped = 0
        self._program = program
        self._env = {**(manifest.env or {}), **(env or {})}
        self._redact: Callable[[str], str] = redact or str
        self._complaints = 0
        self._seconds = manifest.seconds
        self._process: asyncio.subprocess.Process | None = None
        self._tasks: list[asyncio.Task[None]] = []
        self._waiting: dict[int, asyncio.Future[Any]] = {}
        self._number = 0
        self._messages: asyncio.Queue[Inbound] = asyncio.Queue(MAX_WAITING)
        self._stderr = b""
        self._ended = asyncio.Event()
        self._writing = asyncio.Lock()

    @property
    def running(self) -> bool:
        """Whether its process is running."""
        return self._process is not None and not self._ended.is_set()

    @property
    def said(self) -> str:
        """The end of its stderr, without secrets."""
        return self._redact(self._stderr.decode("utf-8", "replace")).strip()

    async def start(self) -> None:
        """Start the process. Raises ChannelError or ProgramRefused if it cannot start."""
        if self._process is not None:
            raise ChannelError(f"the channel {self.manifest.name} was started already")
        fd = self._program.open()
        try:
            self._process = await asyncio.create_subprocess_exec(
                f"/proc/self/fd/{fd}" if os.path.isdir("/proc/self/fd") else str(self._program.place),
                stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
                cwd=self.manifest.folder, env={**command_environment(), **self._env}, pass_fds=(fd,),
                start_new_session=True,
            )  # fmt: skip
        except OSError as error:
            raise ChannelError(f"{self._program.place} could not be started: {error.strerror or error}") from None
        finally:
            os.close(fd)
        self._tasks = [asyncio.create_task(work) for work in (self._read_stdout(), self._read_stderr())]
        self._tasks.append(asyncio.create_task(self._watch()))

    async def send(
        self, chat_id: str, content: str, *, media: Sequence[str] = (), metadata: Mapping[str, Any] = EMPTY
    ) -> Any:
        """Send a message and return the plugin's answer (`result`). Raises ChannelError if it fails."""
        params: dict[str, Any] = {"channel": self.manifest.name, "chat_id": chat_id, "content": content}
        if media:
            params["media"] = list(media)
        if metadata:
            params["metadata"] = dict(metadata)
        process = self._process
        if process is None or process.stdin is None or self._ended.is_set():
            raise ChannelError(self._gone())
        self._number += 1
        number = self._number
        answer = self._waiting[number] = asyncio.get_running_loop().create_future()
        line = json.dumps({"jsonrpc": "2.0", "id": number, "method": "send", "params": params}).encode() + b"\n"
        try:
            async with asyncio.timeout(self._seconds):
                async with self._writing:
                    process.stdin.write(line)
                    await process.stdin.drain()
                return await answer
        except TimeoutError:
            raise ChannelError(
                f"the channel {self.manifest.name} did not answer send within {self._seconds:g} s"
            ) from None
        except (ConnectionError, RuntimeError):  # the process has closed its end of the pipe
            raise ChannelError(self._gone()) from None
        finally:
            self._waiting.pop(number, None)
            answer.cancel()

    async def receive(self) -> Inbound:
        """Return the next incoming message.

        Raises ChannelError once the process has ended and all messages were read.
        """
        if not self._messages.empty():
            return self._messages.get_nowait()
        getting, ending = asyncio.ensure_future(self._messages.get()), asyncio.ensure_future(self._ended.wait())
        try:
            await asyncio.wait((getting, ending), return_when=asyncio.FIRST_COMPLETED)
            if getting.done():
                return getting.result()
        finally:
            getting.cancel()
            ending.cancel()
        raise ChannelError(self._gone())

    async def stop(self) -> None:
        """Close its stdin, wait a little, then kill its process group. It is safe to call this twice."""
        process = self._process
        if process is None:
            return
        if process.stdin is not None:
            process.stdin.close()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(STOP_SECONDS):
                await process.wait()
        if process.returncode is None:  # so the number is still theirs
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(process.pid, signal.SIGKILL)
        await self._ended.wait()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    # --- its output

    async def _read_stdout(self) -> None:
        assert self._process is not None
        assert self._process.stdout is not None
        lines = Lines(MAX_LINE, cut=True)
        while piece := await self._process.stdout.read(_PIECE):
            for line in lines.feed(piece):
                self._line(line)
        self._line(lines.rest())

    def _line(self, line: bytes) -> None:
        if not line.strip():
            return
        if len(line) > MAX_LINE:
            log.warning("the channel %s printed a line that is too long; it was dropped", self.manifest.name)
            return
        try:
            found: Any = json.loads(line)
        except (ValueError, RecursionError):
            found = None
        if not isinstance(found, dict):
            self._complain("printed a line that is not JSON-RPC", line)
            return
        message = cast("dict[str, Any]", found)
        if message.get("method") in ("inbound", "notification: inbound") and isinstance(message.get("params"), dict):
            self._inbound(cast("dict[str, Any]", message["params"]), line)
        elif "method" in message:
            self._complain("called a method that there is not", line)
        else:
            self._answered(message, line)

    def _answered(self, message: Mapping[str, Any], line: bytes) -> None:
        number = message.get("id")
        waiting = self._waiting.get(number) if isinstance(number, int) else None
        if waiting is None or waiting.done():
            self._complain("answered what was not asked", line)
            return
        error = message.get("error")
        if error is None:
            waiting.set_result(message.get("result"))
            return
        said: Any = cast("dict[str, Any]", error).get("message") if isinstance(error, dict) else error
        waiting.set_exception(ChannelError(f"the channel {self.manifest.name} refused: {str(said)[:1000]}"))

    def _inbound(self, params: Mapping[str, Any], line: bytes) -> None:
        chat_id, content, sender = params.get("chat_id"), params.get("content"), params.get("sender_id")
        media: Any = params.get("media") or []
        message_id: Any = params.get("message_id")
        if not isinstance(chat_id, (str, int)) or not isinstance(content, str) or not isinstance(media, list):
            self._complain("sent a message without chat_id or content", line)
            return
        message = Inbound(
            self.manifest.name, str(chat_id), content, None if sender is None else str(sender),
            tuple(str(each) for each in cast("list[Any]", media)), None if message_id is None else str(message_id),
            bool(params.get("forwarded")),
        )  # fmt: skip
        if self._messages.full():
            self.dropped += 1
            if self.dropped == 1:
                log.warning("messages of the channel %s are dropped: nothing reads them", self.manifest.name)
            return
        self._messages.put_nowait(message)

    def _complain(self, what: str, line: bytes) -> None:
        self._complaints += 1
        if self._complaints > MAX_COMPLAINTS:
            return
        shown = self._redact(line[:200].decode("utf-8", "replace"))
        last = "; further ones are not shown" if self._complaints == MAX_COMPLAINTS else ""
        log.warning("the channel %s %s: %r%s", self.manifest.name, what, shown, last)

    async def _read_stderr(self) -> None:
        assert self._process is not None
        assert self._process.stderr is not None
        while piece := await self._process.stderr.read(_PIECE):
            self._stderr = (self._stderr + piece)[-MAX_STDERR:]

    # --- its end

    async def _watch(self) -> None:
        process = self._process
        assert process is not None
        await process.wait()
        with contextlib.suppress(TimeoutError):  # child processes that it left may hold the pipes open
            async with asyncio.timeout(1.0):
                await asyncio.gather(*self._tasks[:2], return_exceptions=True)
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
        self._ended.set()
        for waiting in self._waiting.values():
            if not waiting.done():
                waiting.set_exception(ChannelError(self._gone()))

    def _gone(self) -> str:
        if self._process is None:
            return f"the channel {self.manifest.name} was not started"
        said = f": {self.said[-1000:]}" if self.said else ""
        return f"the channel {self.manifest.name} has ended (exit {self._process.returncode}){said}"
