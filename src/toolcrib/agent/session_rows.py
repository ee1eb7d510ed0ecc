"""Stores which sessions there are, a row each, in the record's database.

On Postgres the sessions of all workspaces are in one table: they are listed by workspace.
"""

from __future__ import annotations

import contextlib
import json
import logging
import secrets
import time
from collections.abc import Callable, Generator, Iterable
from typing import Any, Literal, ParamSpec, TypeVar

from ..core.bound import Redact, redacted
from ..core.dataclass import dataclass
from ..core.threads import shared_threads
from ..record.connection import naming, transaction
from ..record.database import RecordPart
from ..record.state import StateFolder
from .history import TokenUsage
from .session_lock import NoSuchSession, SessionError, SessionLocks
from .session_tables import STEPS

log = logging.getLogger("toolcrib.agent")

P = ParamSpec("P")
T = TypeVar("T")

State = Literal["idle", "running", "waiting", "ended"]
"""idle: it waits for a message. waiting: calls of it wait for a person. ended: it was closed."""
Stop = Literal["", "pause", "cancel"]
MINE = "(workspace = ?1 OR workspace IS NULL)"
"""The condition for the sessions of one workspace: on Postgres those of all are in the table."""


@dataclass(frozen=True, slots=True)
class SessionRow:
    """One session as it is stored. `usage` and `cost` are those of all its requests. `stop` is what a person wanted of
    its last turn from elsewhere, and `stopped_by` who that was."""

    id: str
    created: float
    updated: float
    title: str
    model: str
    system: str
    state: State
    waiting: tuple[dict[str, Any], ...]
    parent: str | None
    usage: TokenUsage
    cost: float | None
    extra: dict[str, Any]
    stop: Stop
    stopped_by: str


class SessionRows(RecordPart):
    """The rows of all sessions of a workspace. Any thread may use it. `redact` removes secrets from what is stored."""

    def __init__(self, state: StateFolder, redact: Redact = str) -> None:
        super().__init__(state.record, part="sessions", steps=STEPS)
        self._redact = redact
        self._workspace = state.path.name
        self.is_remote = bool(state.url)
        """Whether each commit waits for a network: an event loop should not wait with it."""
        self._locks = SessionLocks(state)

    def close(self) -> None:
        """Close the connection, and let go of the sessions."""
        super().close()
        self._locks.close()

    def _run(self, sql: str, *values: Any) -> list[Any]:
        if self.is_remote:  # Postgres stores no NUL in a text
            values = tuple(v.replace("\0", "\ufffd") if isinstance(v, str) else v for v in values)
        return super()._run(sql, *values)

    @contextlib.contextmanager
    def _writing(self, session_id: str) -> Generator[None]:
        """Run a transaction, or a part of one, that writes to a session. Raises LeaseOver if this process ran it and
        may not any more."""
        with self._lock, naming(self._where):
            inner = self._connection.in_transaction
            with contextlib.nullcontext() if inner else transaction(self._connection):
                self._locks.check(session_id, self._connection)
                yield

    def check_lease(self, session_id: str) -> None:
        """Raise LeaseOver if this process ran a session and may not any more."""
        with self._writing(session_id):
            pass

    async def do(self, act: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Call a function that uses the store: in a thread if the store is on another machine. Cancelling waits for its
        end, so that nothing is stored later."""
        if not self.is_remote:
            return act(*args, **kwargs)
        return await shared_threads.run_to_end(act, *args, **kwargs)

    def create(
        self, *, model: str, system: str, title: str = "", parent: str | None = None, **extra: Any
    ) -> SessionRow:
        """Store a new session, with these entries of `extra`, and return it."""
        while True:
            now, session_id = time.time(), new_id()
            made = self._run(
                "INSERT INTO agent_session VALUES (?,?,?,?,?,?,'idle','[]',?,'{}',NULL,?,?,'','')"
                " ON CONFLICT (id) DO NOTHING RETURNING id",
                session_id, now, self._used(now), self._redact(title), model, system, parent,
                json.dumps(extra), self._workspace,
            )  # fmt: skip
            if made:
                return self.get(session_id)

    def _used(self, now: float) -> float:
        """Return the time of a use: later than that of every other session, also where the clock was set back."""
        latest = f"SELECT max(updated) FROM agent_session WHERE {MINE}"  # noqa: S608
        return max(now, (self._run(latest, self._workspace)[0][0] or 0.0) + 1e-6)

    def get(self, session_id: str) -> SessionRow:
        """Return a session by its id or the beginning of it; `last` is the one used last. Raises SessionError."""
        if session_id == "last":
            rows = self._here("parent IS NULL ORDER BY updated DESC LIMIT 1")
        else:
            rows = self._here("substr(id, 1, ?2) = ?3", len(session_id), session_id)
            rows = [row for row in rows if row["id"] == session_id] or rows
        if not rows:
            if session_id == "last":
                raise NoSuchSession("there is no session here yet; `toolcrib run 'TASK'` starts one")
            raise NoSuchSession(f"there is no session {session_id!r}; `toolcrib sessions` lists them")
        if len(rows) > 1:
            found = ", ".join(row["id"] for row in rows[:5])
            raise SessionError(f"several sessions begin with {session_id!r}: {found}")
        return _session(rows[0])

    def list(self, limit: int = 50, *, subagents: bool = True) -> list[SessionRow]:
        """Return sessions, the one used last first; on request without those of subagents."""
        which = "TRUE" if subagents else "parent IS NULL"
        return _readable(self._here(f"{which} ORDER BY updated DESC LIMIT ?2", limit))

    def _here(self, condition: str, *values: Any) -> list[Any]:
        """Return the rows of this workspace that meet a condition, whose values begin with `?2`."""
        sql = f"SELECT * FROM agent_session WHERE {MINE} AND {condition}"  # noqa: S608
        return self._run(sql, self._workspace, *values)

    def children(self, parent: str) -> list[SessionRow]:
        """Return the subagents of a session, oldest first."""
        sql = "SELECT * FROM agent_session WHERE parent = ? ORDER BY created, id"
        return _readable(self._run(sql, parent))

    def last_turns(self, parent: str) -> dict[str, tuple[int | None, str]]:
        """Return the position of the last turn of each subagent of a session, and its state, oldest first."""
        last = "(SELECT max(position) FROM agent_turn WHERE session = id)"
        sql = f"SELECT id, state, {last} AS last FROM agent_session WHERE parent = ? ORDER BY created, id"  # noqa: S608
        return {row["id"]: (row["last"], row["state"]) for row in self._run(sql, parent)}

    def of_job(self, job_id: str) -> SessionRow | None:
        """Return the session that was begun for a job; None if there is none."""
        rows = _readable(self._here("""extra LIKE '%"job": %'"""))
        return next((r for r in rows if r.extra.get("job") == job_id and not r.extra.get("forked_from")), None)

    def of_chat(self, channel: str, chat_id: str) -> SessionRow | None:
        """Return the newest session that was begun for a chat; None if there is none."""
        found = [row for row in self.chats(channel) if row.extra["chat"][1] == chat_id]
        return found[-1] if found else None

    def chats(self, channel: str) -> list[SessionRow]:
        """Return the sessions that were begun for chats of a channel, oldest first."""
        rows = _readable(self._here("""extra LIKE '%"chat": [%' ORDER BY created, id"""))
        return [row for row in rows if row.extra.get("chat", [""])[0] == channel and not row.extra.get("forked_from")]

    def update(self, session_id: str, **changes: Any) -> None:
        """Change columns of a session: state, waiting, title, model, system, usage, cost, extra, stop, stopped_by."""
        stored = {
            name: json.dumps(value, default=vars_of) if name in ("waiting", "usage", "extra") else value
            for name, value in changes.items()
        }
        names = ", ".join(f"{name} = ?" for name in stored)
        sql = f"UPDATE agent_session SET {names}, updated = ? WHERE id = ?"  # noqa: S608
        with self._writing(session_id):
            self._run(sql, *stored.values(), self._used(time.time()), session_id)

    def set_extra(self, session_id: str, key: str, value: Any) -> None:
        """Store one entry of `extra`."""
        with self._writing(session_id):
            self._state(session_id)
            extra = {**self.get(session_id).extra, key: redacted(value, self._redact) if key == "todo" else value}
            self._run("UPDATE agent_session SET extra = ? WHERE id = ?", json.dumps(extra), session_id)

    def _state(self, session_id: str) -> State:
        """Return the state of a session, which nobody else changes before the end of this transaction. Raises
        SessionError if there is no such session."""
        rows = self._run("UPDATE agent_session SET state = state WHERE id = ? RETURNING state", session_id)
        return rows[0]["state"] if rows else self.get(session_id).state


def new_id() -> str:
    """Return an id for a session: the time, so that ids sort, and four random characters."""
    return f"{time.strftime('%Y%m%d-%H%M%S')}-{secrets.token_hex(2)}"


def vars_of(value: Any) -> Any:
    """Return a dataclass as a dict, for JSON."""
    import dataclasses

    return dataclasses.asdict(value)


def _session(row: Any) -> SessionRow:
    fields: dict[str, Any] = dict(row)
    del fields["workspace"]
    with reading_of(row["id"], ""):
        fields["waiting"] = tuple(json.loads(row["waiting"]))
        fields["usage"] = TokenUsage(**json.loads(row["usage"]))
        fields["extra"] = {**json.loads(row["extra"])}
    return SessionRow(**fields)


def _readable(rows: Iterable[Any]) -> list[SessionRow]:
    """Return the sessions that can be read. The log says of the others that they cannot."""
    found: list[SessionRow] = []
    for row in rows:
        try:
            found.append(_session(row))
        except SessionError as error:
            log.warning("%s", error)
    return found


@contextlib.contextmanager
def reading_of(session_id: str, how: str = "; `toolcrib sessions remove {}` removes it") -> Generator[None]:
    """Raise SessionError for what is stored of a session and is not ours."""
    try:
        yield
    except (TypeError, ValueError) as error:
        raise SessionError(
            f"the session {session_id} cannot be read: another version of Toolcrib, or another program, wrote to it"
            f"{how.format(session_id)}"
        ) from error
