"""Stores sessions in the record's database: their turns, the results of calls, and messages that wait.

A turn is committed before anything happens because of it, and a result as soon as its call has ended. So a process may
end at any time, and another one goes on from the stored state. One process at a time runs a session (session_lock.py).
On Postgres the sessions of all workspaces are in one table: they are listed by workspace.
"""

from __future__ import annotations

import contextlib
import json
import logging
import secrets
import time
from collections.abc import Callable, Generator, Iterable, Sequence
from typing import Any, Literal, ParamSpec, TypeVar

from ..core.bound import Redact, redacted
from ..core.dataclass import dataclass
from ..core.threads import shared_threads
from ..record.connection import naming, transaction
from ..record.database import RecordPart
from ..record.state import StateFolder
from .history import (
    NOTHING,
    CallResult,
    Entry,
    ModelTurn,
    ResultTurn,
    TokenUsage,
    UserTurn,
    dump,
    dump_result,
    load,
    load_result,
    results_in_copy,
    run_id_of,
    without_secrets,
)
from .session_lock import NoSuchSession, SessionError, SessionLocks
from .session_tables import STEPS

log = logging.getLogger("toolcrib.agent")

P = ParamSpec("P")
T = TypeVar("T")

State = Literal["idle", "running", "waiting", "ended"]
"""idle: it waits for a message. waiting: calls of it wait for a person. ended: it was closed."""
Stop = Literal["", "pause", "cancel"]
Kind = Literal["steer", "queue"]
"""steer: for the running turn, before its next request. queue: for after the running turn."""
_MINE = "(workspace = ?1 OR workspace IS NULL)"
"""The condition for the sessions of one workspace: on Postgres those of all are in the table."""
KEY_SECONDS = 90 * 86400.0
"""Seconds in which a message with the same key is not sent again."""


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


class SessionStore(RecordPart):
    """All sessions of a workspace. Any thread may use it. `redact` removes secrets from what is stored, except from
    what a person wrote and from calls that have not ended."""

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

    async def do(self, act: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Call a function that uses the store: in a thread if the store is on another machine. Cancelling waits for its
        end, so that nothing is stored later."""
        if not self.is_remote:
            return act(*args, **kwargs)
        return await shared_threads.run_to_end(act, *args, **kwargs)

    # --- sessions

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
        latest = f"SELECT max(updated) FROM agent_session WHERE {_MINE}"  # noqa: S608
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
        sql = f"SELECT * FROM agent_session WHERE {_MINE} AND {condition}"  # noqa: S608
        return self._run(sql, self._workspace, *values)

    def children(self, parent: str) -> list[SessionRow]:
        """Return the subagents of a session, oldest first."""
        sql = "SELECT * FROM agent_session WHERE parent = ? ORDER BY created, id"
        return _readable(self._run(sql, parent))

    def number_in_run(self, subagent: SessionRow) -> int:
        """Return how many subagents its parent has begun since the last message of a person, up to this one."""
        parent = subagent.parent or ""
        said = (
            at for at, turn in enumerate(self.turns(parent))
            if isinstance(turn, UserTurn) and turn.source in ("user", "schedule")
        )  # fmt: skip
        return self._run(
            "SELECT count(*) AS number FROM agent_session WHERE parent = ? AND (created, id) <= (?, ?) AND created >="
            " coalesce((SELECT time FROM agent_turn WHERE session = ? AND position = ?), 0)",
            parent, subagent.created, subagent.id, parent, max(said, default=-1),
        )[0]["number"]  # fmt: skip

    def last_turns(self, parent: str) -> dict[str, tuple[int | None, str]]:
        """Return the position of the last turn of each subagent of a session, and its state, oldest first."""
        last = "(SELECT max(position) FROM agent_turn WHERE session = id)"
        sql = f"SELECT id, state, {last} AS last FROM agent_session WHERE parent = ? ORDER BY created, id"  # noqa: S608
        return {row["id"]: (row["last"], row["state"]) for row in self._run(sql, parent)}

    def report(self, session_id: str, turn: UserTurn, approvals: Sequence[str] = ()) -> None:
        """Send the report of a background subagent to its parent: once at its end, and once for the `approvals` that
        it waits for."""
        with self._transaction():
            self._state(session_id)
            row = self.get(session_id)
            work: dict[str, Any] | None = row.extra.pop("background", None)
            if not row.parent or work is None:
                return
            known: list[str] = work.get("waits") or []
            if approvals:
                row.extra["background"] = {**work, "waits": [*known, *approvals]}
            self._run("UPDATE agent_session SET extra = ? WHERE id = ?", json.dumps(row.extra), session_id)
            if not approvals or not set(approvals) <= set(known):
                self._send(row.parent, "steer", turn)

    def tell(self, session_id: str, turn: UserTurn, key: str) -> bool:
        """Send a message that steers a session, once for each key. Returns whether it was sent now; False, too, if
        there is no such session."""
        with self._transaction():
            known = self._run("SELECT 1 FROM agent_session WHERE id = ?", session_id)
            first = bool(known) and self.is_first(key, time.time() + KEY_SECONDS)
            if first:
                self._send(session_id, "steer", turn)
        return first

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

    def is_first(self, key: str, until: float) -> bool:
        """Return whether a key comes for the first time, and remember it until that time (Unix seconds)."""
        key = f"{self._workspace} {key}"
        self._run("DELETE FROM agent_seen WHERE expires < ?", time.time())
        return bool(self._run("INSERT INTO agent_seen VALUES (?,?) ON CONFLICT DO NOTHING RETURNING key", key, until))

    def has_seen(self, key: str) -> bool:
        """Return whether a key is remembered."""
        return bool(self._run("SELECT 1 FROM agent_seen WHERE key = ?", f"{self._workspace} {key}"))

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

    def remove(self, session_id: str) -> None:
        """Remove a session with its turns."""
        with self._writing(session_id):
            for table in ("agent_turn", "agent_message"):
                self._run(f"DELETE FROM {table} WHERE session = ?", session_id)  # noqa: S608
            self._forget_results(session_id)
            self._run("DELETE FROM agent_session WHERE id = ?", session_id)
        self._locks.forget(session_id)

    def check_end(self, session_id: str, before: int) -> None:
        """Raise SessionError where an end before this turn parts a reply from the results of its calls: the session
        would make them again, and what is stored has no secrets."""
        if isinstance(next(iter(self.turns(session_id)[before:]), None), ResultTurn):
            raise SessionError(
                f"turn {before} of {session_id} has the results of the calls of turn {before - 1}, so a session cannot "
                f"end between them: name turn {before - 1}, before the calls, or {before + 1}, after them"
            )

    def fork(self, session_id: str, before: int | None = None) -> SessionRow:
        """Copy a session with its turns before a position, and return the copy. Raises SessionError as `check_end`."""
        source = self.get(session_id)
        if before:
            self.check_end(session_id, before)
        with self._transaction():
            copy = self.create(model=source.model, system=source.system, title=source.title, parent=None)
            self._run(
                "INSERT INTO agent_turn SELECT ?, position, time, turn FROM agent_turn"
                " WHERE session = ? AND position < ?",
                copy.id, source.id, 1 << 60 if before is None else before,
            )  # fmt: skip
            turns = self.turns(copy.id)
            if turns and isinstance(last := turns[-1], ModelTurn) and last.calls:
                results = (self.result(run_id_of(source.id, len(turns) - 1, call.id)) for call in last.calls)
                self._append(copy.id, len(turns), results_in_copy(last, results))
            task_from = {"task_from": source.parent} if source.parent else {}
            self.update(copy.id, extra={**source.extra, **task_from, "forked_from": source.id})
        return self.get(copy.id)

    @contextlib.contextmanager
    def running(self, session_id: str) -> Generator[None]:
        """Hold the lock of a session while it runs. Raises SessionError if something else holds it."""
        with self._locks.hold(session_id):
            yield

    def is_running(self, session_id: str) -> bool:
        """Return whether something runs a session now."""
        return self._locks.is_held(session_id)

    def state_of(self, row: SessionRow) -> str:
        """Return the state of a session; one that its process left in the middle of a turn is interrupted, and one that
        goes on only after a person said so is paused."""
        if row.state != "running":
            return row.state
        return "interrupted" if not self.is_running(row.id) else "paused" if row.stop == "pause" else "running"

    # --- stopping

    def ask_to_stop(self, session_id: str, stop: Stop, person: str) -> bool:
        """Ask for the end of the turn of a session, from any process, or for a pause before its next step; "" lets it
        go on. Returns whether a turn runs, which does so (agent/stopping.py)."""
        with self._transaction():
            if self._state(session_id) != "running" or not self.is_running(session_id):
                return False
            sql = "UPDATE agent_session SET stop = ?, stopped_by = ? WHERE id = ?"
            self._run(sql, stop, person, session_id)
            return True

    def asked_to(self, stop: Stop, *session_ids: str) -> str | None:
        """Return who asked one of these sessions to stop like this; None if nobody did."""
        marks = ",".join("?" * len(session_ids))
        sql = f"SELECT stopped_by FROM agent_session WHERE stop = ? AND id IN ({marks})"  # noqa: S608
        rows = self._run(sql, stop, *session_ids)
        return rows[0]["stopped_by"] if rows else None

    # --- turns

    def turns(self, session_id: str) -> list[Entry]:
        """Return the turns of a session, in order; a turn's index is its position. Raises SessionError."""
        rows = self._run("SELECT turn FROM agent_turn WHERE session = ? ORDER BY position", session_id)
        with _reading(session_id):
            return [load(row["turn"]) for row in rows]

    def append(
        self, session_id: str, position: int, turn: Entry, usage: TokenUsage = NOTHING, cost: float | None = None
    ) -> None:
        """Store the turn at the next position, and add what its request used to the session's totals."""
        with self._writing(session_id):
            self._append(session_id, position, turn)
            if usage != NOTHING:
                self._count(session_id, usage, cost)

    def _append(self, session_id: str, position: int, turn: Entry) -> None:
        text = dump(without_secrets(turn, self._redact, ended=False))
        self._run("INSERT INTO agent_turn VALUES (?,?,?,?)", session_id, position, time.time(), text)
        if isinstance(turn, ResultTurn):
            self._forget_results(session_id)
            self._hide_calls(session_id, position - 1)

    def _hide_calls(self, session_id: str, position: int) -> None:
        """Remove secrets from the calls of a reply, which have ended."""
        where = "WHERE session = ? AND position = ?"
        for row in self._run(f"SELECT turn FROM agent_turn {where}", session_id, position):  # noqa: S608
            before = load(row["turn"])
            if (after := without_secrets(before, self._redact)) != before and isinstance(before, ModelTurn):
                self._run(f"UPDATE agent_turn SET turn = ? {where}", dump(after), session_id, position)  # noqa: S608

    def _forget_results(self, session_id: str) -> None:
        """Remove the results of a session's calls: `/` is the character after `.`."""
        sql = "DELETE FROM agent_result WHERE call_id > ? AND call_id < ?"
        self._run(sql, f"{session_id}.", f"{session_id}/")

    def count(self, session_id: str, usage: TokenUsage, cost: float | None) -> None:
        """Add what a request used to the session's totals. `cost` is None where the price is not known."""
        with self._writing(session_id):
            self._count(session_id, usage, cost)

    def _count(self, session_id: str, usage: TokenUsage, cost: float | None) -> None:
        row = self.get(session_id)
        total = None if cost is None and row.cost is None else (row.cost or 0.0) + (cost or 0.0)
        self.update(session_id, usage=row.usage + usage, cost=total)

    def take(self, session_id: str, position: int, kinds: tuple[Kind, ...]) -> UserTurn | None:
        """Make the oldest waiting message of these kinds the turn at the next position, and return it."""
        with self._writing(session_id):
            found = self.waiting(session_id, kinds)
            if found is None:
                return None
            number, turn = found
            self._append(session_id, position, turn)
            self._run("DELETE FROM agent_message WHERE seq = ?", number)
            return turn

    def end_turn(self, session_id: str) -> bool:
        """Mark a session as idle, unless a message waits for it. Returns whether it is idle."""
        with self._writing(session_id):
            self._state(session_id)
            if self.waiting(session_id, ("steer", "queue")) is not None:
                return False
            self.update(session_id, state="idle")
            return True

    def cut(self, session_id: str, position: int) -> None:
        """Remove the turns from a position on."""
        with self._writing(session_id):
            self._run("DELETE FROM agent_turn WHERE session = ? AND position >= ?", session_id, position)

    def result(self, run_id: str) -> CallResult | None:
        """Return the stored result of a call, by the id under which it ran."""
        rows = self._run("SELECT result FROM agent_result WHERE call_id = ?", run_id)
        return load_result(rows[0]["result"]) if rows else None

    def store_result(self, run_id: str, result: CallResult) -> None:
        """Store the result of a call that has ended."""
        sql = "INSERT INTO agent_result VALUES (?,?) ON CONFLICT (call_id) DO UPDATE SET result = excluded.result"
        with self._writing(run_id.partition(".")[0]):
            self._run(sql, run_id, dump_result(result))

    # --- messages that wait

    def send(self, session_id: str, kind: Kind, turn: UserTurn) -> bool:
        """Store a message for a session, from any process. Returns whether a turn runs, which will read it; else it
        waits for the next one."""
        with self._transaction():
            return self._send(session_id, kind, turn)

    def _send(self, session_id: str, kind: Kind, turn: UserTurn) -> bool:
        state = self._state(session_id)
        text = dump(without_secrets(turn, self._redact))
        self._run("INSERT INTO agent_message (session, kind, turn) VALUES (?,?,?)", session_id, kind, text)
        return state == "running"

    def _state(self, session_id: str) -> State:
        """Return the state of a session, which nobody else changes before the end of this transaction. Raises
        SessionError if there is no such session."""
        rows = self._run("UPDATE agent_session SET state = state WHERE id = ? RETURNING state", session_id)
        return rows[0]["state"] if rows else self.get(session_id).state

    def told(self) -> frozenset[str]:
        """Return the sessions for which the report of a job or of a subagent waits."""
        sql = f"SELECT session, turn FROM agent_message WHERE session IN (SELECT id FROM agent_session WHERE {_MINE})"  # noqa: S608
        rows = self._run(sql, self._workspace)
        found: set[str] = set()
        for row in rows:
            with contextlib.suppress(ValueError):  # who reads the messages of its session says so
                if getattr(load(row["turn"]), "source", "") in ("job", "subagent"):
                    found.add(row["session"])
        return frozenset(found)

    def messages(self, session_id: str) -> list[Entry]:
        """Return all messages that wait for a session, oldest first."""
        rows = self._run("SELECT turn FROM agent_message WHERE session = ? ORDER BY seq", session_id)
        with _reading(session_id):
            return [load(row["turn"]) for row in rows]

    def waiting(self, session_id: str, kinds: tuple[Kind, ...]) -> tuple[int, UserTurn] | None:
        """Return the oldest waiting message of these kinds: its number and its turn."""
        marks = ",".join("?" * len(kinds))
        sql = f"SELECT seq, turn FROM agent_message WHERE session = ? AND kind IN ({marks}) ORDER BY kind DESC, seq LIMIT 1"  # noqa: S608, E501
        rows = self._run(sql, session_id, *kinds)
        with _reading(session_id):
            turn = load(rows[0]["turn"]) if rows else None
        return (rows[0]["seq"], turn) if isinstance(turn, UserTurn) else None


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
    with _reading(row["id"], ""):
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
def _reading(session_id: str, how: str = "; `toolcrib sessions remove {}` removes it") -> Generator[None]:
    """Raise SessionError for what is stored of a session and is not ours."""
    try:
        yield
    except (TypeError, ValueError) as error:
        raise SessionError(
            f"the session {session_id} cannot be read: another version of Toolcrib, or another program, wrote to it"
            f"{how.format(session_id)}"
        ) from error
