"""Commands that go on in the background: who may touch them, how many there may be, and for how long."""

from __future__ import annotations

import secrets
import threading
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

from ..boundary.process import Process
from ..core.errors import ToolError
from .command_effects import CommandOutcome

MAX_SESSIONS = 8  # a caller
MAX_SESSIONS_IN_ALL = 64
IDLE_SECONDS = 1800.0  # a session that nobody touched for so long is ended


@dataclass
class CommandSession:
    """One background command and who started it."""

    id: str
    owner: str | None
    command: str
    process: Process
    look_over: Callable[[], CommandOutcome]
    layered: bool = False
    started: float = field(default_factory=time.monotonic)
    outcome: CommandOutcome = field(default_factory=CommandOutcome)
    looked_over: threading.Event = field(default_factory=threading.Event)

    def watch(self) -> None:
        """Begin: end it when idle for too long, and look over the workspace when it has ended."""
        self.touch()
        self.process.when_done(lambda: threading.Thread(target=self._look_over, daemon=True).start())

    def touch(self) -> None:
        """Somebody cares: start counting idle time anew."""
        self.process.extend(IDLE_SECONDS)

    def _look_over(self) -> None:
        try:
            self.outcome = self.look_over()
        finally:
            self.looked_over.set()

    @property
    def age(self) -> float:
        """Seconds since it was started."""
        return time.monotonic() - self.started


class Sessions:
    """The background commands of one toolbox. Each belongs to the agent session that started it."""

    def __init__(self, most: int = MAX_SESSIONS) -> None:
        self._most = most
        self._lock = threading.Lock()
        self._sessions: dict[str, CommandSession] = {}
        self._closed = False
        self._coming: Counter[str | None] = Counter()  # reserved, not added yet

    def reserve(self, owner: str | None) -> None:
        """Keep room for one more, until `add` or `release`. Ended sessions that nobody read make way."""
        with self._lock:
            for group, coming, most in (
                (self._of(owner), self._coming[owner], self._most),
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

            self._coming[owner] += 1

    def release(self, owner: str | None) -> None:
        """Give back what was reserved."""
        with self._lock:
            self._coming[owner] -= 1
            if self._coming[owner] <= 0:
                del self._coming[owner]

    def add(
        self,
        owner: str | None,
        command: str,
        process: Process,
        look_over: Callable[[], CommandOutcome],
        *,
        layered: bool = False,
    ) -> CommandSession:
        """Keep a command that was started. `look_over` looks at the workspace once it has ended."""
        with self._lock:
            name = f"sh-{secrets.token_hex(3)}"
            while name in self._sessions:
                name = f"sh-{secrets.token_hex(3)}"
            session = CommandSession(name, owner, command, process, look_over, layered)
            closed = self._closed
            if not closed:
                self._sessions[name] = session
        session.watch()
        if closed:  # it was on its way while everything was ended
            process.kill()
        return session

    def get(self, owner: str | None, name: str) -> CommandSession:
        """A session of this owner. Another's is as unknown as one that never was."""
        with self._lock:
            session = self._sessions.get(name)
            mine = [s.id for s in self._of(owner)]
        if session is None or session.owner != owner:
            known = f"yours: {', '.join(mine)}" if mine else "you have none"
            raise ToolError(f"There is no session {name!r} ({known}). It may have ended and been read.")
        session.touch()
        return session

    def forget(self, session: CommandSession) -> None:
        """Its end was reported."""
        with self._lock:
            self._sessions.pop(session.id, None)

    def of(self, owner: str | None) -> list[CommandSession]:
        """The sessions of one owner, oldest first."""
        with self._lock:
            return self._of(owner)

    def _of(self, owner: str | None) -> list[CommandSession]:
        return [session for session in self._sessions.values() if session.owner == owner]

    def close(self) -> None:
        """End them all."""
        with self._lock:
            self._closed = True
            sessions, self._sessions = [*self._sessions.values()], {}
        for session in sessions:
            session.process.kill()
        for session in sessions:
            session.process.end(5.0)
            session.looked_over.wait(5.0)
