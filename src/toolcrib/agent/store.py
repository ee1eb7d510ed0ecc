"""Stores sessions in the record's database: their turns, the results of calls, and messages that wait.

A turn is committed before anything happens because of it, and a result as soon as its call has ended. So a process may
end at any time, and another one goes on from the stored state. One process at a time runs a session (session_lock.py).
"""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import Generator, Sequence
from typing import Any, Literal

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
from .session_lock import SessionError
from .session_rows import MINE, SessionRow, SessionRows, Stop, reading_of

Kind = Literal["steer", "queue"]
"""steer: for the running turn, before its next request. queue: for after the running turn."""
KEY_SECONDS = 90 * 86400.0
"""Seconds in which a message with the same key is not sent again."""


class SessionStore(SessionRows):
    """All sessions of a workspace, with their turns and messages. Any thread may use it. Secrets are removed from what
    is stored, except from what a person wrote and from calls that have not ended."""

    # --- sessions

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

    def is_first(self, key: str, until: float) -> bool:
        """Return whether a key comes for the first time, and remember it until that time (Unix seconds)."""
        key = f"{self._workspace} {key}"
        self._run("DELETE FROM agent_seen WHERE expires < ?", time.time())
        return bool(self._run("INSERT INTO agent_seen VALUES (?,?) ON CONFLICT DO NOTHING RETURNING key", key, until))

    def has_seen(self, key: str) -> bool:
        """Return whether a key is remembered."""
        return bool(self._run("SELECT 1 FROM agent_seen WHERE key = ?", f"{self._workspace} {key}"))

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
        with reading_of(session_id):
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

    def told(self) -> frozenset[str]:
        """Return the sessions for which the report of a job or of a subagent waits."""
        sql = f"SELECT session, turn FROM agent_message WHERE session IN (SELECT id FROM agent_session WHERE {MINE})"  # noqa: S608
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
        with reading_of(session_id):
            return [load(row["turn"]) for row in rows]

    def waiting(self, session_id: str, kinds: tuple[Kind, ...]) -> tuple[int, UserTurn] | None:
        """Return the oldest waiting message of these kinds: its number and its turn."""
        marks = ",".join("?" * len(kinds))
        sql = f"SELECT seq, turn FROM agent_message WHERE session = ? AND kind IN ({marks}) ORDER BY kind DESC, seq LIMIT 1"  # noqa: S608, E501
        rows = self._run(sql, session_id, *kinds)
        with reading_of(session_id):
            turn = load(rows[0]["turn"]) if rows else None
        return (rows[0]["seq"], turn) if isinstance(turn, UserTurn) else None
