"""One session: its stored turns, and what a person does with it."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator
from typing import Any, ParamSpec, TypeVar

from ..builtin.ask_user import chosen
from .history import (
    NOTHING,
    CallResult,
    Compaction,
    Content,
    Entry,
    Image,
    ModelCall,
    ModelTurn,
    ResultTurn,
    Text,
    TokenUsage,
    Turn,
    UserTurn,
    run_id_of,
    user,
    whole_characters,
)
from .history import UNANSWERED as NOT_RUN
from .session_lock import NoSuchSession
from .session_rows import SessionRow, Stop
from .store import SessionStore
from .todo import plan_text

P = ParamSpec("P")
T = TypeVar("T")


class AgentSession:
    """A conversation with an agent. Everything in it is stored before it is used."""

    def __init__(self, store: SessionStore, row: SessionRow) -> None:
        self._store, self.row = store, row
        self.entries: list[Entry] = store.turns(row.id)
        self.noted: list[Entry] = []
        """The entries whose labels the policy knows, and those that were added to them here."""
        self.has_subagents = False
        """Whether it may have some."""
        self._last_turns: dict[str, tuple[int | None, str]] = {}  # of its subagents
        self.compacted_at = 0
        """The size of a request after the last compaction, in tokens: it is not tried again before it has grown."""

    @property
    def id(self) -> str:
        """The session's id."""
        return self.row.id

    @property
    def last(self) -> Turn | None:
        """The last turn that a model sees."""
        return next((entry for entry in reversed(self.entries) if not isinstance(entry, Compaction)), None)

    @property
    def is_open(self) -> bool:
        """Whether its last turn was interrupted: only a person lets it go on."""
        last = self.last
        ended = last is None or (isinstance(last, ModelTurn) and not last.calls and last.stop != "interrupted")
        return not ended and self.row.state != "waiting"

    @property
    def answer(self) -> str:
        """The text of the last reply."""
        last = self.last
        return last.text if isinstance(last, ModelTurn) else ""

    @property
    def plan(self) -> str:
        """The todo list as text; empty without one."""
        return plan_text(self.row.extra.get("todo") or [])

    # --- what the loop does

    async def do(self, act: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Call a function that uses the store, as `SessionStore.do` does: nothing is stored after the session was given
        back."""
        return await self._store.do(act, *args, **kwargs)

    @contextlib.asynccontextmanager
    async def within(self, *blocks: contextlib.AbstractContextManager[None]) -> AsyncGenerator[None]:
        """Enter and leave these blocks as `do` calls a function."""
        with contextlib.ExitStack() as left:  # what was entered when a block refused
            for block in blocks:
                await self.do(left.enter_context, block)
            entered = left.pop_all()
        try:
            yield
        finally:
            await self.do(entered.close)

    @contextlib.contextmanager
    def running(self) -> Generator[None]:
        """Hold the session: nothing else runs it or writes to it. Raises SessionError if something does."""
        with self._store.running(self.id):
            self.reload()
            yield

    def lease_check(self) -> Callable[[], Awaitable[None]] | None:
        """Return what raises LeaseOver if another process may run the session now; None where the lock of a file stays
        with this process."""
        if not self._store.is_remote:
            return None
        return lambda: self.do(self._store.check_lease, self.id)

    @contextlib.contextmanager
    def working(self) -> Generator[None]:
        """Mark the session as running within this block."""
        self._update(state="running", waiting=(), stop="", stopped_by="")
        try:
            yield
        finally:
            if self.row.state == "running":
                self._update(state="idle")

    def append(self, entry: Entry, cost: float | None = None) -> None:
        """Store an entry after the others; of a reply also its usage and cost."""
        used = entry.usage if isinstance(entry, ModelTurn) else NOTHING
        self._store.append(self.id, len(self.entries), entry, used, cost)
        self.entries.append(entry)
        if used != NOTHING:
            self.row = self._store.get(self.id)

    def count(self, usage: TokenUsage, cost: float | None) -> None:
        """Add what a request used to the session's totals."""
        self._store.count(self.id, usage, cost)
        self.row = self._store.get(self.id)

    def run_id(self, call: ModelCall) -> str:
        """Return the id under which a call of the last reply runs."""
        position = max(index for index, entry in enumerate(self.entries) if isinstance(entry, ModelTurn))
        return run_id_of(self.id, position, call.id)

    def result(self, run_id: str) -> CallResult | None:
        """Return the stored result of a call."""
        return self._store.result(run_id)

    def entries_so_far(self) -> list[Entry]:
        """Return its entries, and the results that the calls of its last reply have so far."""
        last = self.last
        calls = last.calls if isinstance(last, ModelTurn) else ()
        found = [result for call in calls if (result := self.result(self.run_id(call))) is not None]
        return [*self.entries, ResultTurn(tuple(found))] if found else self.entries

    def reports(self) -> list[UserTurn]:
        """Return the reports of jobs and subagents that it has not taken yet."""
        return [turn for turn in self._store.messages(self.id) if isinstance(turn, UserTurn) and turn.labels]

    def stored_result(self, run_id: str) -> CallResult:
        """Return the stored result of a call that has one."""
        found = self._store.result(run_id)
        if found is None:
            raise KeyError(run_id)
        return found

    def store_result(self, run_id: str, result: CallResult) -> None:
        """Store the result of a call that has ended."""
        self._store.store_result(run_id, result)

    def begin_store_result(self, run_id: str, result: CallResult) -> asyncio.Task[None] | None:
        """Do the same as soon as possible; None if it is stored already, else what is to be awaited."""
        if self._store.is_remote:
            return asyncio.create_task(self.do(self.store_result, run_id, result))
        return self.store_result(run_id, result)

    def wait_for(self, waiting: list[dict[str, Any]]) -> None:
        """Store what the session waits for."""
        self._update(state="waiting", waiting=tuple(waiting))

    def take_message(self, *, queued: bool) -> UserTurn | None:
        """Take the oldest message that steers the session; with `queued` also one that waited for the turn's end."""
        turn = self._store.take(self.id, len(self.entries), ("steer", "queue") if queued else ("steer",))
        if turn is not None:
            self.entries.append(turn)
        return turn

    def paused_by(self) -> str | None:
        """Return who lets no next step begin: the session, or the one that began it, is paused from elsewhere, or its
        turn is cancelled. None if it goes on."""
        parents = [self.row.parent] if self.row.parent else []
        return self.cancelled_by() or self._store.asked_to("pause", self.id, *parents)

    def cancelled_by(self) -> str | None:
        """Return who cancelled the turn from elsewhere; None if nobody did."""
        return self._store.asked_to("cancel", self.id)

    def end_turn(self) -> bool:
        """End the turn, unless a message waits. Returns whether it is over: who sends one later learns that."""
        over = self._store.end_turn(self.id)
        self.row = self._store.get(self.id)
        return over

    # --- what a person does

    def say(self, text: str, *files: Content, note: str = "", source: str = "user") -> UserTurn:
        """Add a person's message. Calls that still wait for an answer get the result that they did not run.

        `note` (the time, for example) is part of the message, so that requests before it stay as they were.
        """
        self.close_calls()
        text = whole_characters(text)
        turn = user(f"{text}\n\n{note}" if note else text, *files, source=source)
        self.append(turn)
        if not self.row.title and source == "user":
            names = [file.file for file in files if isinstance(file, Text)]
            self._update(title=" ".join((text or " ".join(names)).split())[:80])
        return turn

    def steer(self, text: str, *files: Content) -> bool:
        """Send a message to the running turn: the model sees it with its next request.

        Returns whether a turn runs; without one the message waits for the next one.
        """
        return self._store.send(self.id, "steer", user(text, *files))

    def queue(self, text: str, *files: Content) -> bool:
        """Send a message for after the running turn. Returns whether a turn runs, as `steer` does."""
        return self._store.send(self.id, "queue", user(text, *files))

    def ask_to_stop(self, stop: Stop, person: str) -> bool:
        """Ask the turn that runs to stop, as `SessionStore.ask_to_stop` does. Returns whether one runs."""
        return self._store.ask_to_stop(self.id, stop, person)

    @property
    def question(self) -> dict[str, Any] | None:
        """The first question of the model that waits for its answer."""
        return next((waits for waits in self.row.waiting if waits["kind"] == "question"), None)

    def answer_question(self, run_id: str, text: str, *files: Content) -> None:
        """Answer a question of the model, an option also by its number, with the texts and images of files. Raises
        KeyError if the session does not wait for it."""
        asked = next((w for w in self.row.waiting if w["run_id"] == run_id and w["kind"] == "question"), None)
        if asked is None:
            raise KeyError(run_id)
        texts = [
            chosen(text.strip(), asked.get("options") or ()),
            *(file.text for file in files if isinstance(file, Text)),
        ]
        images = tuple(file for file in files if isinstance(file, Image))
        call_id = run_id.split(".", 2)[2]
        self.store_result(run_id, CallResult(call_id, asked["tool"], "\n\n".join(texts), images))

    def close_calls(self, known: Callable[[str, ModelCall], CallResult | None] | None = None) -> list[Entry]:
        """Give the calls of the last reply that have no result one: what is `known` of it, or that it did not run.
        Returns that reply and the results, if it did so."""
        last = self.last
        if not isinstance(last, ModelTurn) or not last.calls:
            return []
        ids = ((self.run_id(call), call) for call in last.calls)
        found = (self.result(run_id) or (known(run_id, call) if known else None) for run_id, call in ids)
        results = (
            r or CallResult(c.id, c.name, NOT_RUN, is_error=True) for r, c in zip(found, last.calls, strict=True)
        )
        self.append(ResultTurn(tuple(results)))
        self._update(state="idle", waiting=())
        return [last, self.entries[-1]]

    def check_end(self, before: int) -> None:
        """Raise SessionError where the session cannot end before this entry (`SessionStore.check_end`)."""
        self._store.check_end(self.id, before)

    def cut(self, position: int) -> None:
        """Remove the entries from a position on."""
        self._store.cut(self.id, position)
        del self.entries[position:]
        self._update(state="idle", waiting=())

    def subagents(self, run_id: str | None = None) -> list[AgentSession]:
        """Return the sessions of its subagents, or of those that a call started, oldest first."""
        rows = self._store.children(self.id)
        wanted = [r for r in rows if run_id is None or (r.extra.get("call") or "").split(" ")[0] == run_id]
        return [AgentSession(self._store, row) for row in wanted]

    def subagents_of_originals(self) -> list[AgentSession]:
        """Return the sessions of the subagents of those sessions that it is a copy of, as far as they are there."""
        found: list[SessionRow] = []
        row = self.row
        with contextlib.suppress(NoSuchSession):
            while original := row.extra.get("forked_from"):
                found += self._store.children(original)
                row = self._store.get(original)
        return [AgentSession(self._store, each) for each in found]

    def new_in_subagents(self) -> list[AgentSession]:
        """Return the sessions of its subagents that run, or have more turns than when this was last asked."""
        before, self._last_turns = self._last_turns, self._store.last_turns(self.id)
        grown = [key for key, last in self._last_turns.items() if last[1] == "running" or before.get(key) != last]
        return [AgentSession(self._store, self._store.get(key)) for key in grown]

    def remove(self) -> None:
        """Remove the session with its turns."""
        self._store.remove(self.id)

    def set_model(self, name: str) -> None:
        """Store the model that the session uses from now on."""
        self._update(model=name)

    def reload(self) -> None:
        """Read the session again: another process may have changed it."""
        self.row = self._store.get(self.id)
        self.entries = self._store.turns(self.id)

    def _update(self, **changes: Any) -> None:
        self._store.update(self.id, **changes)
        self.row = self._store.get(self.id)
