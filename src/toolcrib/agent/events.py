"""What an agent reports while it works: the pieces of a reply, its calls, and what the loop did by itself."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import field
from typing import Any, Literal

from ..core.dataclass import dataclass
from ..core.output import ToolOutput
from .history import NOTHING, ModelCall, ModelTurn, TokenUsage
from .model import CallBegun, TextDelta, ThinkingDelta, TryFailed

OutcomeState = Literal["done", "waiting", "limit", "refused", "error", "interrupted"]
"""done: it answered. waiting: a call waits for a person. limit: a limit was reached. refused: the model declined.
interrupted: a person cancelled the turn."""


@dataclass(frozen=True, slots=True)
class RequestStarted:
    """The loop asks a model. `number` counts the requests of this run."""

    model: str
    number: int


@dataclass(frozen=True, slots=True)
class ReplyDone:
    """A reply is complete. `cost` is in dollars, None where the price is not known."""

    turn: ModelTurn
    cost: float | None


@dataclass(frozen=True, slots=True)
class ReplyDropped:
    """What was shown of a reply does not count: it failed in the middle. The loop asks again where that can help."""

    reason: str


@dataclass(frozen=True, slots=True)
class CallRun:
    """A call of the model begins to run."""

    call: ModelCall
    run_id: str


@dataclass(frozen=True, slots=True)
class CallDone:
    """A call has ended. `seconds` is how long it ran."""

    call: ModelCall
    run_id: str
    output: ToolOutput = field(repr=False)
    seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class Compacted:
    """The history became shorter. `stage` says how; the sizes are tokens of a request, estimated."""

    stage: Literal["outputs", "summary"]
    before: int
    after: int


@dataclass(frozen=True, slots=True)
class MessageTaken:
    """A message that was sent while the agent worked is in the history now: of a person (`source` is user), or of
    a job or a subagent."""

    text: str
    source: str = "user"


@dataclass(frozen=True, slots=True)
class TurnPaused:
    """A person paused the turn of a session from elsewhere: its next step waits for them."""

    session: str
    person: str


@dataclass(frozen=True, slots=True)
class PlanChanged:
    """The model changed its todo list."""

    items: tuple[dict[str, Any], ...]


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a run ended. `usage` and `cost` are those of this run; `waiting` says what waits for a person, also in
    subagents that work in the background after an answer."""

    state: OutcomeState
    text: str = ""
    reason: str = ""
    usage: TokenUsage = NOTHING
    cost: float | None = 0.0
    requests: int = 0
    waiting: tuple[dict[str, Any], ...] = ()
    data: Any = None


AgentEvent = (
    TextDelta
    | ThinkingDelta
    | CallBegun
    | RequestStarted
    | TryFailed
    | ReplyDone
    | ReplyDropped
    | CallRun
    | CallDone
    | Compacted
    | MessageTaken
    | PlanChanged
    | TurnPaused
    | Outcome
)

Emit = Callable[[AgentEvent], None]
