"""Background commands: their owners, and the limits of their number and their idle time."""

from __future__ import annotations

import asyncio
import secrets
import threading
import time
from collections import Counter
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import field
from typing import TYPE_CHECKING

from ..core.caller import finds_room
from ..core.dataclass import dataclass
from ..core.errors import ToolError
from .command_effects import CommandOutcome

if TYPE_CHECKING:
    from ..boundary.process import Process

MAX_SESSIONS = 8  # of an agent session
MAX_SESSIONS_IN_ALL = 64
IDLE_SECONDS = 1800.0  # an idle session is ended after this time
LOOK_SECONDS = 60.0  # at the end of all: a command may have made thousands of files that must go
_COMING_SECONDS = 5.0


@dataclass
class CommandSession:
    """One background command and the owner that started it in the folder `cwd`. `look_over` checks the workspace after
    its end."""

    owner: str | None
    command: str
    cwd: str
    process: Process
    look_over: Callable[[], CommandOutcome]
    layered: bool
    more_rights: str = ""
    """How to ask for more than the wall around it lets it do."""
    opened: bool = False
    """Whether hosts were opened to it."""
    lifted: bool = False
    """Whether a yes let it change what the host runs: its input asks in every mode."""
    brings_in: bool = False
    """Whether what it prints may come from the network, by its command or its input."""
    inputs: int = 0
    """How often it got input: a shell may then be in another folder, and its names may mean something else."""
    held_back: bool = False
    """Whether it said that something was refused, in output that was read already."""
    read_only: str = ""
    """What the sandbox keeps read-only, for a command that tries to change it."""
    caller: str | None = None
    """The name of the caller of a server, who may have many sessions."""
    id: str = field(default_factory=lambda: f"sh-{secrets.token_hex(4)}")
    started: float = field(default_factory=time.monotonic)
    outcome: CommandOutcome = field(default_factory=CommandOutcome)
    looked_over: threading.Event = field(default_factory=threading.Event)

    def touch(self) -> None:
        """Start to count the idle time anew: the command is ended when it was not used for too long."""
        self.process.extend(IDLE_SECONDS)

    def end(self) -> None:
        """Check the workspace after the end of the command."""
        try:
            self.outcome = self.look_over()
        finally:
            self.looked_over.set()

    @property
    def age(self) -> float:
        """Seconds since the start of the command."""
        return time.monotonic() - self.started


def may_wait() -> bool:
    """Return whether this thread may wait for commands: it runs no event loop, which they may need."""
    return asyncio._get_running_loop() is None


class Sessions:
    """The background commands of one toolbox. Each belongs to the agent session that started it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._sessions: dict[str, CommandSession] = {}
        self._unseen: dict[str, CommandSession] = {}  # those after which the workspace was not looked over yet
        self._closed = False
        # places that are reserved and not used yet, by owner and caller
        self._coming: Counter[tuple[str | None, str | None]] = Counter()

    @contextmanager
    def place(self, owner: str | None, caller: str | None) -> Generator[None]:
        """Keep a place for one more session until it is added or could not start. Ended sessions make room for it.

        Raises ToolError if the owner, or the whole toolbox, has too many sessions, or the caller would leave no place
        to others.
        """
        with self._lock:
            own = sum(count for (each, _), count in self._coming.items() if each == owner)
            for group, coming, most in (
                (self._of(owner), own, MAX_SESSIONS),
                ([*self._sessions.values()], self._coming.total(), MAX_SESSIONS_IN_ALL),
            ):
                over = len(group) + coming - most + 1
                for session in [s for s in group if s.process.done][: max(0, over)]:
                    self._sessions.pop(session.id, None)
                    over -= 1
                if over > 0:
                    running = ", ".join(s.id for s in self._of(owner)) or "all of other callers"
                    raise ToolError(
                        f"There are {most} background sessions already ({running}). End one with "
                        'exec_session(action="kill", session_id=…) first.'
                    )
            running = [s for s in self._sessions.values() if not s.process.done]
            mine = sum(s.caller == caller for s in running)
            mine += sum(count for (_, each), count in self._coming.items() if each == caller)
            if not finds_room(caller, mine, len(running) + self._coming.total(), MAX_SESSIONS_IN_ALL):
                raise ToolError(f"{mine} background sessions of yours run already, some of other connections. End one.")
            self._coming[owner, caller] += 1
        try:
            yield
        finally:
            with self._lock:
                self._coming -= Counter(((owner, caller),))  # drops an owner at 0

    def add(self, session: CommandSession) -> None:
        """Add a started command."""
        with self._lock:
            closed = self._closed
            self._sessions[session.id] = self._unseen[session.id] = session
        session.touch()
        session.process.when_done(lambda: threading.Thread(target=self._end, args=(session,), daemon=True).start())
        if closed:  # `close` ran while this command was starting
            session.process.kill()

    def _end(self, session: CommandSession) -> None:
        try:
            session.end()
        finally:
            with self._lock:
                self._unseen.pop(session.id, None)

    def get(self, owner: str | None, name: str) -> CommandSession:
        """Return a session of this owner. A session of another owner counts as unknown."""
        with self._lock:
            session = self._sessions.get(name)
            mine = [s.id for s in self._of(owner)]
        if session is None or session.owner != owner:
            known = f"yours: {', '.join(mine)}" if mine else "you have none"
            raise ToolError(f"There is no session {name!r} ({known}). It may have ended and been read.")
        session.touch()
        return session

    def forget(self, session: CommandSession) -> None:
        """Remove a session whose end was reported."""
        with self._lock:
            self._sessions.pop(session.id, None)

    def end_of(self, owner: str | None) -> None:
        """End the sessions of an owner that is gone. Returns at once."""
        with self._lock:
            ended = self._of(owner)
            for session in ended:
                del self._sessions[session.id]
        for session in ended:
            session.process.kill()

    def of(self, owner: str | None) -> list[CommandSession]:
        """Return the sessions of one owner, oldest first."""
        with self._lock:
            return self._of(owner)

    def _of(self, owner: str | None) -> list[CommandSession]:
        return [session for session in self._sessions.values() if session.owner == owner]

    def close(self) -> None:
        """End all sessions, and wait until the workspace was looked over after each, also after those whose owner is
        gone: from then on it is closed."""
        with self._lock:
            self._closed = True
        until = time.monotonic() + _COMING_SECONDS
        while self._coming.total() and may_wait() and time.monotonic() < until:
            time.sleep(0.01)  # some are just starting
        with self._lock:
            sessions, self._sessions = [*self._unseen.values()], {}
        for session in sessions:
            session.process.kill()
        for session in sessions:
            session.process.end(5.0)
            session.looked_over.wait(LOOK_SECONDS)
