"""The interface of a model: a request goes in, events come out, and the last event holds the whole reply."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from typing import Any, Literal, Protocol

from ..core.dataclass import dataclass
from ..core.errors import ToolcribError
from .history import NOTHING, ModelTurn, TokenUsage, Turn

Effort = Literal["none", "low", "medium", "high"]


@dataclass(frozen=True, slots=True)
class ToolDefinition:
    """A tool as the model sees it: `parameters` is a JSON Schema of an object."""

    name: str
    description: str
    parameters: dict[str, Any]


@dataclass(frozen=True, slots=True)
class ModelRequest:
    """One request. `system` and `tools` stay the same for a whole session, so that providers can cache them."""

    system: str
    history: Sequence[Turn]
    tools: Sequence[ToolDefinition] = ()
    max_tokens: int | None = None
    effort: Effort | None = None
    prefix: str = ""
    """Says which system prompt and tools these are: some providers bind reasoning to them."""


@dataclass(frozen=True, slots=True)
class TextDelta:
    """A piece of the answer."""

    text: str


@dataclass(frozen=True, slots=True)
class ThinkingDelta:
    """A piece of the model's reasoning, where the provider shows it."""

    text: str


@dataclass(frozen=True, slots=True)
class CallBegun:
    """The model began to write a call of this tool. The call itself is in the reply."""

    name: str


@dataclass(frozen=True, slots=True)
class UsageSeen:
    """What the provider has reported for a request so far, with its tries that failed: it counts without a reply."""

    usage: TokenUsage


@dataclass(frozen=True, slots=True)
class TryFailed:
    """A model did not answer, and nothing of a reply came. The next try begins after `pause` seconds, perhaps with
    another model."""

    reason: str
    pause: float


@dataclass(frozen=True, slots=True)
class ReplyEnd:
    """The end of a reply, with all of it. `lost` is what the provider reported for tries that failed before it."""

    turn: ModelTurn
    lost: TokenUsage = NOTHING


ModelEvent = TextDelta | ThinkingDelta | CallBegun | UsageSeen | TryFailed | ReplyEnd

ModelErrorKind = Literal[
    "key", "limit", "overloaded", "context", "refused", "server", "network", "silent", "protocol", "missing"
]
AGAIN: frozenset[ModelErrorKind] = frozenset({"limit", "overloaded", "server", "network", "silent"})
"""The kinds of errors after which the same request may succeed."""
MAX_CALLS = 1_000
"""Calls of one reply."""


class ModelError(ToolcribError):
    """A model did not answer. `retry_after` is in seconds, where the provider said it."""

    def __init__(
        self, text: str, kind: ModelErrorKind, *, status: int | None = None, retry_after: float | None = None
    ) -> None:
        super().__init__(text)
        self.kind: ModelErrorKind = kind
        self.status, self.retry_after = status, retry_after


class Model(Protocol):
    """A model that can be asked. `name` is the one of the settings (`anthropic:NAME`)."""

    name: str

    def stream(self, request: ModelRequest) -> AsyncGenerator[ModelEvent]:
        """Ask. The last event is a `Reply`. Raises ModelError."""
        ...

    async def aclose(self) -> None:
        """Close its connections."""


class Wire(Protocol):
    """The language of a provider, without IO: it encodes requests and decodes replies."""

    path: str
    """The end of the URL, after the base."""

    def encode(self, request: ModelRequest) -> dict[str, Any]:
        """Return the JSON body of a request."""
        ...

    def decoder(self) -> Decoder:
        """Return a decoder for one reply."""
        ...


class Decoder(Protocol):
    """Collects the events of one reply. `usage` is what the provider has reported so far."""

    usage: TokenUsage

    def take(self, event: str, data: str) -> Sequence[ModelEvent]:
        """Take one server-sent event. Raises ModelError for an error that the provider reports."""
        ...

    def finish(self) -> ModelTurn:
        """Return the reply at the end of the stream. Raises ModelError if the stream ended too early."""
        ...
