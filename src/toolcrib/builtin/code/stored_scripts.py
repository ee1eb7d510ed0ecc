"""Store the state of scripts, so that any process of this machine goes on with one.

A state holds values of the interpreter, which trusts them: so it is signed with a key of the state folder. A row that
was written by somebody else, or on another machine, is refused, and the script is not run again from its start: some of
its calls have had their effects.
"""

from __future__ import annotations

import contextlib
import functools
import hmac
import json
import os
import secrets
import time
from base64 import b64decode, b64encode
from collections.abc import Mapping
from typing import Any, cast

from ...boundary.own_files import lock_file, replace_file
from ...core.context import ToolContext
from ...core.dataclass import dataclass
from ...core.errors import ToolError
from ...policy.callers import caller_of, has_ended, holder_of, this_process
from ...record.database import RecordPart
from ...record.state import StateFolder, private_folder

KEPT_SECONDS = 30 * 86400.0
"""Seconds that the state of a script is kept that nobody goes on with."""
_STATE = -1  # the number of the row with a script's state; the others are results of its calls

STEPS = (
    """
CREATE TABLE IF NOT EXISTS script (
    key TEXT NOT NULL,               -- hashes: of the code, and of the session (of the caller if there is none)
    run TEXT NOT NULL,               -- the id of the call that began it
    number INTEGER NOT NULL,         -- -1: the state; else the number of a call, with its result
    time REAL NOT NULL,
    body TEXT NOT NULL,              -- JSON
    mac TEXT NOT NULL,               -- HMAC-SHA256 of the other columns but the time
    PRIMARY KEY (key, number)
) WITHOUT ROWID;
""",
)


@dataclass(frozen=True, slots=True)
class ScriptState:
    """A waiting script: its run, the interpreter's state, the calls that wait by number (name and arguments), the
    approvals that these wait for, what was printed, and how many calls were made."""

    run: str
    snapshot: bytes
    calls: Mapping[int, tuple[str, dict[str, Any]]]
    approvals: Mapping[int, str]
    printed: str
    made: int
    labels: tuple[bool, bool]
    """Whether something untrusted, and something private, was read."""
    elsewhere: bool = False
    """Whether another toolbox stored it, which knew what was read."""


@dataclass(frozen=True, slots=True)
class HeldScript:
    """The key of a script, and the descriptor that holds its lock."""

    key: str
    fd: int


class ScriptStore(RecordPart):
    """The states of scripts."""

    def __init__(self, state: StateFolder) -> None:
        super().__init__(state.record, part="scripts", steps=STEPS)
        self._folder = state.path / "scripts"
        self._process = this_process(secrets.token_hex(4))
        self._waiting: dict[str, str | None] = {}  # key → session, of what was stored here

    def take(self, script: str, session: str, caller: str) -> HeldScript:
        """Take the lock of a session's script. Raises ToolError if it runs already."""
        private_folder(self._folder)
        while True:
            key = self.key_of(script, session, caller)
            path = self._folder / key
            fd = lock_file(path, wait=False)
            if fd is None:
                raise ToolError("exactly this script runs already, for the same caller; wait for its end")
            try:  # the one who had it may have removed the file, and the state
                if os.path.samestat(os.fstat(fd), os.stat(path)) and self.key_of(script, session, caller) == key:
                    return HeldScript(key, fd)
            except FileNotFoundError:
                pass
            except BaseException:
                os.close(fd)
                raise
            os.close(fd)

    def release(self, held: HeldScript) -> None:
        """Release the lock of a script."""
        with contextlib.suppress(OSError):
            os.unlink(self._folder / held.key)
        os.close(held.fd)

    def key_of(self, script: str, session: str, caller: str) -> str:
        """Return the key of a session's script, whoever calls it there: a chat, a job and a terminal go on with one
        session. A session without a state of it goes on with that of another session of the same caller that is
        over, or whose process has ended: that one cannot come back."""
        own = f"{script}-{session}"
        rows = self._run(
            "SELECT * FROM script WHERE number = ? AND key >= ? AND key < ? ORDER BY time DESC",
            _STATE, f"{script}-", f"{script}.",
        )  # fmt: skip
        if any(row["key"] == own for row in rows):
            return own
        for row in filter(self._is_signed, rows):
            state = json.loads(row["body"])
            if state.get("caller") == caller and (state["holder"] is None or has_ended(state["holder"])):
                return row["key"]
        return own

    def load(self, key: str) -> tuple[ScriptState, dict[int, Any]] | None:
        """Return a script's state and the stored results of its calls, as JSON data. Raises ToolError for a state that
        this state folder has not signed."""
        rows = self._run("SELECT * FROM script WHERE key = ?", key)
        if not rows:
            return None
        if len({row["run"] for row in rows}) > 1 or not all(map(self._is_signed, rows)):
            raise ToolError(
                "this script waits on another machine, or its stored state was changed. It was not started again, "
                "because some of its calls have run. Change the script, for example a comment, to start anew"
            )
        found = {row["number"]: json.loads(row["body"]) for row in rows}
        state = found.pop(_STATE, None)
        return None if state is None else (_state(state, state["process"] != self._process), found)

    def save(self, key: str, state: ScriptState, results: Mapping[int, Any], ctx: ToolContext) -> None:
        """Store a state in the place of the one before, with the results that the script has not got yet. `ctx` is the
        context of the script's call."""
        with self._transaction():
            self._run("DELETE FROM script WHERE key = ? OR time < ?", key, time.time() - KEPT_SECONDS)
            self._insert(
                key,
                state.run,
                _STATE,
                {
                    **_data(state), "process": self._process, "holder": holder_of(ctx, self._process),
                    "caller": caller_of(ctx),
                },
            )  # fmt: skip
            for number, result in results.items():
                self._insert(key, state.run, number, result)
        self._waiting[key] = ctx.session_id

    def add_result(self, key: str, run: str, number: int, result: Any) -> None:
        """Store the result of one call."""
        with self._transaction():
            self._insert(key, run, number, result)

    def delete(self, key: str) -> None:
        """Remove a script that has ended."""
        self._waiting.pop(key, None)
        self._run("DELETE FROM script WHERE key = ?", key)

    def end_session(self, session_id: str | None) -> None:
        """Let the next session of the same caller go on with the scripts of one that is over."""
        for key in [key for key, session in tuple(self._waiting.items()) if session == session_id]:
            del self._waiting[key]
            rows = self._run("SELECT * FROM script WHERE key = ? AND number = ?", key, _STATE)
            for row in filter(self._is_signed, rows):
                state = json.loads(row["body"])
                if state["holder"] == self._process:
                    with self._transaction():
                        self._run("DELETE FROM script WHERE key = ? AND number = ?", key, _STATE)
                        self._insert(key, row["run"], _STATE, {**state, "holder": None})

    def forget(self, run: str) -> None:
        """Remove the script that the call with this id began: its session was taken back to before it."""
        self._run("DELETE FROM script WHERE run = ?", run)

    def _insert(self, key: str, run: str, number: int, data: Any) -> None:
        body = json.dumps(data)
        mac = self._mac(key, run, number, body)
        self._run("INSERT INTO script VALUES (?,?,?,?,?,?)", key, run, number, time.time(), body, mac)

    def _is_signed(self, row: Mapping[str, Any]) -> bool:
        expected = self._mac(row["key"], row["run"], row["number"], row["body"])
        return hmac.compare_digest(expected.encode(), str(row["mac"]).encode(errors="replace"))

    def _mac(self, *columns: Any) -> str:
        return hmac.new(self._key, repr(columns).encode(), "sha256").hexdigest()

    @functools.cached_property
    def _key(self) -> bytes:
        """The key of this state folder; made at the first use."""
        private_folder(self._folder)
        path = self._folder / "key"
        fd = lock_file(self._folder / "key.lock")
        try:
            with contextlib.suppress(FileNotFoundError):
                if len(found := path.read_bytes()) == 32:
                    return found
            replace_file(path, made := secrets.token_bytes(32))
            return made
        finally:
            os.close(fd)


def _data(state: ScriptState) -> dict[str, Any]:
    return {
        "run": state.run, "snapshot": b64encode(state.snapshot).decode(),
        "printed": state.printed, "made": state.made, "labels": state.labels,
        "calls": {str(number): call for number, call in state.calls.items()},
        "approvals": {str(number): approval for number, approval in state.approvals.items()},
    }  # fmt: skip


def _state(data: dict[str, Any], elsewhere: bool) -> ScriptState:
    calls = cast("Mapping[str, tuple[str, dict[str, Any]]]", data["calls"])
    approvals = cast("Mapping[str, str]", data["approvals"])
    return ScriptState(
        data["run"], b64decode(data["snapshot"]), {int(n): (name, given) for n, (name, given) in calls.items()},
        {int(n): approval for n, approval in approvals.items()}, data["printed"], data["made"], tuple(data["labels"]),
        elsewhere,
    )  # fmt: skip
