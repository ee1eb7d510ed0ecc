"""Shows what an agent does: as lines for a person, or as JSON lines for a program."""

from __future__ import annotations

import dataclasses
import json
import sys
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
)
from ...agent.history import ModelCall, TokenUsage
from ...agent.model import CallBegun, TextDelta, ThinkingDelta
from ...core.text import clip, one_line
from .. import show

MAX_ARGUMENTS = 100
_NAMES = {
    TextDelta: "text", ThinkingDelta: "thinking", CallBegun: "call_begun", RequestStarted: "request",
    ReplyDone: "reply", ReplyDropped: "dropped", CallRun: "call", CallDone: "result", Compacted: "compacted",
    MessageTaken: "message", PlanChanged: "plan", Outcome: "outcome",
}  # fmt: skip


class JsonLines:
    """Prints each event as one line of JSON on stdout."""

    def pause(self) -> None:
        """Do nothing: nothing is drawn."""

    def show(self, event: AgentEvent) -> None:
        """Print an event."""
        show.out_json(as_json(event), lines=True)
        sys.stdout.flush()

    def end(self, session_id: str) -> None:
        """Print the session's id."""
        show.out_json({"event": "session", "id": session_id}, lines=True)


class AnswerLines:
    """Prints the answer on stdout as it comes, and one line for each call on stderr."""

    def __init__(self) -> None:
        self._open = False  # whether the cursor is within a line of the answer

    def pause(self) -> None:
        """Make room for a question."""
        self._break()

    def show(self, event: AgentEvent) -> None:
        """Show an event."""
        match event:
            case TextDelta():
                print(show.clean(event.text), end="", flush=True)
                self._open = not event.text.endswith("\n")
            case CallDone():
                self._break()
                mark, style = ("✗", "red") if event.output.is_error else ("✓", "green")
                first = f": {clip(one_line(event.output.user_text), 120)}" if event.output.is_error else ""
                show.say(f"{mark} {call_line(event.call)}  {event.seconds:.1f} s{first}", style)
            case ReplyDropped():
                self._break()
                show.warn(f"the reply failed and is asked for again: {event.reason}")
            case Compacted():
                self._break()
                what = "outputs of old calls" if event.stage == "outputs" else "old messages, by a summary,"
                show.say(f"(made the history shorter: {what} {event.before} → {event.after} tokens)", "dim")
            case Outcome():
                self._break()
                self._outcome(event)
            case _:
                pass

    def end(self, session_id: str) -> None:
        """Say how to go on with the session."""
        self._break()
        show.say(f"(session {session_id}; go on with: toolcrib run --session {session_id} '…')", "dim")

    def _outcome(self, outcome: Outcome) -> None:
        if outcome.state in ("error", "limit"):
            show.error(outcome.reason)
        if outcome.state == "refused":
            show.error("the model declined to answer")
        for waits in outcome.waiting:
            if waits["kind"] == "approval":
                show.say(
                    f"{waits['tool']} waits for approval: toolcrib approvals approve {waits['approval']}", "yellow"
                )
            else:
                show.say(f"the agent asks: {waits['question']}", "yellow")
        show.say(used(outcome.usage, outcome.cost, outcome.requests), "dim")

    def _break(self) -> None:
        if self._open:
            print(flush=True)
            self._open = False


def call_line(call: ModelCall) -> str:
    """Return a call as one line: its name and the beginning of its arguments."""
    arguments = call.object
    shown = ", ".join(f"{key}={_short(value)}" for key, value in arguments.items()) if arguments else ""
    return f"{call.name}({clip(shown, MAX_ARGUMENTS)})"


def used(usage: TokenUsage, cost: float | None, requests: int) -> str:
    """Return what a run used, in words."""
    price = "" if cost is None else f", ${cost:.4f}"
    cached = f" ({usage.cache_read} cached)" if usage.cache_read else ""
    return f"({requests} requests, {usage.input} tokens in{cached}, {usage.output} out{price})"


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
