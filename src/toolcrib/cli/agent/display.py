"""Shows what an agent does: as lines for a person, or as JSON lines for a program."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import json
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable
from typing import Any

from ...agent.events import (
    AgentEvent,
    CallDone,
    CallRun,
    Compacted,
    MessageTaken,
    Outcome,
    PlanChanged,
    ReplyDone,
    ReplyDropped,
    RequestStarted,
    TurnPaused,
)
from ...agent.history import ModelCall, TokenUsage
from ...agent.model import CallBegun, TextDelta, ThinkingDelta, TryFailed
from ...agent.todo import plan_text
from ...agent.waiting import Waits
from ...core.finish import for_person
from ...core.text import clip, in_lines, one_line
from ...policy.plain import plain_line
from .. import show
from .file_changes import FileChange
from .markdown import MarkdownStream
from .screen import PlainScreen, Screen, width

MAX_ARGUMENTS = 100
MAX_DIFF_LINES = 8
MAX_REMEMBERED = 50
TICK_SECONDS = 0.5
_DIFF_STYLES = {"+": "green", "-": "red"}
_NAMES = {
    TextDelta: "text", ThinkingDelta: "thinking", CallBegun: "call_begun", RequestStarted: "request",
    ReplyDone: "reply", ReplyDropped: "dropped", TryFailed: "try_failed", CallRun: "call", CallDone: "result",
    Compacted: "compacted", MessageTaken: "message", PlanChanged: "plan", TurnPaused: "paused",
    Outcome: "outcome",
}  # fmt: skip


class JsonLines:
    """Prints each event as one line of JSON on stdout."""

    floor = contextlib.nullcontext
    """Gives the terminal to a question: nothing is drawn on it."""

    def show(self, event: AgentEvent) -> None:
        """Print an event."""
        show.out_json(as_json(event), lines=True)
        sys.stdout.flush()

    def end(self, session_id: str) -> None:
        """Print the session's id."""
        show.out_json({"event": "session", "id": session_id}, lines=True)


class AnswerLines:
    """Shows the answer as it comes, rendered at a terminal, and one line for each call.

    `changes` returns what a call changed in files, by the id of its run.
    """

    def __init__(
        self, screen: Screen | None = None, changes: Callable[[str], list[FileChange]] = lambda run_id: []
    ) -> None:
        self._screen = screen or PlainScreen()
        self.floor = self._screen.floor
        self._changes = changes
        self._answer = MarkdownStream(width, styled=show.coloured(sys.stdout)) if sys.stdout.isatty() else None
        self._raw_open = False
        self._model = ""
        self._now = ""  # what the model does
        self._since = 0.0
        self._running: dict[str, tuple[ModelCall, float]] = {}
        self._printed = ""  # the last line that a running command printed
        self._plan: tuple[dict[str, Any], ...] = ()
        self._waiting: tuple[dict[str, Any], ...] = ()  # what the last turn waits for
        self._timer: asyncio.TimerHandle | None = None
        self._loop, self._thread = asyncio.get_running_loop(), threading.get_ident()
        self.done: deque[tuple[CallDone, list[FileChange]]] = deque(maxlen=MAX_REMEMBERED)
        """The last calls, the newest last."""
        self.typed: list[str] = []
        """Messages to the running turn that the person typed at this terminal, where they still are."""
        self.totals: Callable[[], str] = lambda: ""
        """Says what the whole session has used."""

    def show(self, event: AgentEvent) -> None:
        """Show an event, from any thread."""
        if threading.get_ident() != self._thread:
            self._loop.call_soon_threadsafe(self.show, event)
            return
        match event:
            case RequestStarted():
                if self._model not in ("", event.model):
                    self._screen.line(f"(asking {event.model} now)", "yellow")
                self._model = event.model
                self._begin("waiting for the model")
            case ThinkingDelta():
                self._begin("thinking")
            case CallBegun():
                self._end_answer()
                self._begin(f"writing a call of {event.name}")
            case TextDelta():
                self._begin("")
                self._piece(event.text)
            case ReplyDone():
                self._begin("")
                self._end_answer()
            case CallRun():
                self._running[event.run_id] = event.call, time.monotonic()
                self._tick()
            case CallDone():
                self._running.pop(event.run_id, None)
                self._printed = ""
                self._call(event)
                self._tick()
            case PlanChanged():
                self._show_plan(event.items)
            case MessageTaken() if any(map(event.text.startswith, self.typed)):
                self.typed.clear()
                self._screen.line("(the agent has read your message)", "dim")
            case MessageTaken():
                mark = "›" if event.source == "user" else "report:"
                self._screen.line(f"{mark} {clip(one_line(event.text), width() - len(mark) - 1)}", "dim")
            case ReplyDropped():
                self._end_answer()
                self._screen.line(f"(this reply does not count: {event.reason})", "yellow")
            case TryFailed():
                again = f"; asking again in {event.pause:.1f} s" if event.pause else ""
                self._screen.line(f"(no reply: {event.reason}{again})", "yellow")
            case TurnPaused():
                self._screen.line(
                    f"(paused by {event.person}; it goes on with: toolcrib sessions resume {event.session})", "yellow"
                )
                self._begin("paused")
            case Compacted():
                what = "outputs of old calls" if event.stage == "outputs" else "old messages, by a summary,"
                self._screen.line(f"(made the history shorter: {what} {event.before} → {event.after} tokens)", "dim")
            case Outcome():
                self.stop()
                self._outcome(event)

    async def hear(self, text: str, stream: str) -> None:
        """Take what a running command has printed since the last time."""
        self._printed = plain_line(text.rstrip("\n").rpartition("\n")[2])

    def stop(self) -> None:
        """End what is shown of a turn: it is over, or was interrupted."""
        self._running.clear()
        self._printed = ""
        self._begin("")
        self._end_answer()

    def end(self, session_id: str) -> None:
        """Say how to go on with the session."""
        self.stop()
        go_on, kinds = f"toolcrib run --session {session_id}", {waits["kind"] for waits in self._waiting}
        how = f"answer with: {go_on} 'ANSWER'" if "question" in kinds else f"go on with: {go_on} '…'"
        how = f"after the approval go on with: {go_on}" if kinds == {"approval"} else how
        self._screen.line(f"(session {session_id}; {how})", "dim")

    def answer(self, text: str) -> None:
        """Show an answer of an earlier turn."""
        self._piece(text)
        self._end_answer()

    # --- the parts

    def _piece(self, text: str) -> None:
        text = show.clean(text)
        self._screen.answer(text if self._answer is None else self._answer.feed(text))
        self._raw_open = not text.endswith("\n")

    def _end_answer(self) -> None:
        if self._answer is not None:
            self._screen.answer(self._answer.end())
        elif self._raw_open:
            self._screen.answer("\n")
        self._raw_open = False

    def _call(self, event: CallDone) -> None:
        if event.call.name == "todo" and not event.output.is_error:
            return  # the plan is shown instead
        changed = [] if event.output.is_error else self._changes(event.run_id)
        self.done.append((event, changed))
        text, style = folded(event, width())
        self._screen.line(text, style)
        for change in changed:
            self._screen.line(f"  {change.summary}", "dim")
            for line in change.lines[:MAX_DIFF_LINES]:
                self._screen.line(f"  │ {clip(line, width() - 4)}", _DIFF_STYLES.get(line[:1], "dim"))
            if len(change.lines) > MAX_DIFF_LINES:
                self._screen.line(f"  │ … {in_lines(len(change.lines) - MAX_DIFF_LINES, 'more ')}", "dim")

    def _show_plan(self, items: tuple[dict[str, Any], ...]) -> None:
        """Show the plan; where only the states of steps changed, show those steps."""
        known = {item.get("text"): item.get("status") for item in self._plan}
        same = [item.get("text") for item in items] == list(known)
        shown = [item for item in items if not same or known.get(item.get("text")) != item.get("status")]
        done = sum(item.get("status") == "done" for item in items)
        self._plan = items
        if shown:
            self._screen.line(f"plan: {done} of {len(items)} done", "bold")
            for line in plan_text(shown).splitlines():
                self._screen.line(f"  {line}")

    def _outcome(self, outcome: Outcome) -> None:
        if outcome.state in ("error", "limit", "interrupted"):
            self._screen.line(f"toolcrib: {outcome.reason}", "red")
        if outcome.state == "refused":
            self._screen.line("toolcrib: the model declined to answer", "red")
        self._waiting = outcome.waiting
        self.show_waiting(outcome.waiting)
        total = self.totals()
        said = used(outcome.usage, outcome.cost, outcome.requests)
        self._screen.line(f"({said})" + (f" ({total})" if total else ""), "dim")

    def show_waiting(self, waiting: Iterable[Waits]) -> None:
        """Say what waits for the person, and how to answer."""
        for waits in waiting:
            if waits["kind"] == "approval":
                how = f"toolcrib approvals approve {waits['approval']}"
                self._screen.line(f"{waits['tool']} waits for approval: {how}", "yellow")
                if reason := waits.get("reason"):  # a script has one for each of its calls
                    self._screen.line(f"  why it asks: {reason}")
            else:
                self._screen.line(f"the agent asks: {waits['question']}", "yellow")
                for number, option in enumerate(waits.get("options") or (), 1):
                    self._screen.line(f"  {number}. {option}", "yellow")

    # --- what happens now

    def _begin(self, what: str) -> None:
        if what != self._now:
            self._now, self._since = what, time.monotonic()
            self._tick()

    def _tick(self) -> None:
        """Show what happens now and for how long, and again in half a second."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        text = self._status()
        self._screen.status(text)
        if text:
            self._timer = self._loop.call_later(TICK_SECONDS, self._tick)

    def _status(self) -> str:
        if self._running:
            call, since = next(iter(self._running.values()))
            others = f" and {len(self._running) - 1} more" if len(self._running) > 1 else ""
            end = f"  {lasted(time.monotonic() - since)}{others}"
            room = max(12, width() - len(end) - 3)
            shown = clip(call_line(call), room // 2 if self._printed else room)
            last = clip(self._printed, max(1, room - len(shown) - 3))
            return f"⋯ {shown}{end}{f' │ {last}' if self._printed else ''}"
        return f"⋯ {self._now} {lasted(time.monotonic() - self._since)}" if self._now else ""


def folded(event: CallDone, room: int) -> tuple[str, str]:
    """Return a call that has ended as one line, and its style: the call, how long it took, how it ended."""
    output = event.output
    text = for_person(output)
    first = one_line(text)
    lines = text.count("\n") + 1
    said = first if lines == 1 or output.is_error else f"{lines} lines"
    mark, style = ("✗", "red") if output.is_error else ("✓", "green")
    if output.pause_for_input:
        mark, style, said = "…", "yellow", "waits for a person"
    elif output.error_kind == "cancelled":
        mark, style, said = "■", "yellow", "interrupted"
    call, took = call_line(event.call), lasted(event.seconds)
    left = max(12, room - len(took) - 4)
    call = clip(call, left if not output.is_error else max(12, left // 2))
    left -= len(call) + 2
    return f"{mark} {call}  {took}{f'  {clip(said, left)}' if said and left > 8 else ''}", style


def lasted(seconds: float) -> str:
    """Return a time that something took."""
    return f"{seconds:.1f} s" if seconds < 60 else f"{seconds // 60:.0f} min {seconds % 60:.0f} s"


def call_line(call: ModelCall) -> str:
    """Return a call as one line: its name and the beginning of its arguments."""
    arguments = call.object
    shown = ", ".join(f"{key}={_short(value)}" for key, value in arguments.items()) if arguments else ""
    return one_line(f"{call.name}({clip(shown, MAX_ARGUMENTS)})")


def used(usage: TokenUsage, cost: float | None, requests: int) -> str:
    """Return what a run used, in words."""
    price = "" if cost is None else f", ${cost:.4f}"
    cached = f" ({usage.cache_read} cached)" if usage.cache_read else ""
    return (
        f"{requests} request{'' if requests == 1 else 's'}, {usage.input} tokens in{cached}, {usage.output} out{price}"
    )


def as_json(event: AgentEvent) -> dict[str, Any]:
    """Return an event as plain data."""
    if isinstance(event, CallDone):
        output = event.output
        data: dict[str, Any] = {"text": output.for_llm, "is_error": output.is_error, "error_kind": output.error_kind}
        data |= {"call": _call(event.call), "run_id": event.run_id, "seconds": round(event.seconds, 3)}
    elif isinstance(event, ReplyDone):
        data = {"text": event.turn.text, "stop": event.turn.stop, "calls": [_call(c) for c in event.turn.calls]}
        data |= {"usage": dataclasses.asdict(event.turn.usage), "cost": event.cost, "model": event.turn.model}
    elif isinstance(event, CallRun):
        data = {"call": _call(event.call), "run_id": event.run_id}
    else:
        data = dataclasses.asdict(event)
    return {"event": _NAMES[type(event)], **data}


def _call(call: ModelCall) -> dict[str, Any]:
    return {"id": call.id, "name": call.name, "arguments": call.object}


def _short(value: Any) -> str:
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return clip(one_line(text), 60)
