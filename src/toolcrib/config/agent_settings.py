"""Settings of the agent: its model, its limits, and what it may cost."""

from __future__ import annotations

from dataclasses import field
from typing import Annotated, Literal

from ..core.dataclass import dataclass
from ..core.settings import AnyPath, Bounds, Checked, Count, Seconds, Section
from ..core.text import is_web_url
from ..core.tightening import Smaller

MAX_ITERATIONS = 50
IDLE_SECONDS = 120.0
"""Seconds without an event of the reply. Comments and pings do not count: they only show that the server lives."""

Dollars = Annotated[float, Bounds(gt=0, allow_inf_nan=False)]


def _address(url: str) -> None:
    if url and not is_web_url(url):
        raise ValueError("should be a URL like http://127.0.0.1:8080/v1")


@dataclass(frozen=True, slots=True)
class AgentSettings(Section):
    """The agent of `toolcrib run` and `toolcrib chat`."""

    model: str | None = None
    """`anthropic:NAME`, `openai:NAME`, `responses:NAME`, `chat:NAME`, `ollama:NAME`, `pydantic-ai:NAME` or
    `scripted:FILE`. Unset: the first model that is found."""
    fallback: tuple[str, ...] = ()
    """Models that are asked when the first one does not answer."""
    base_url: Annotated[str, Checked(_address)] | None = None
    """The URL before `/chat/completions` or `/responses`, for `chat:` and `responses:`."""
    effort: Literal["none", "low", "medium", "high"] | None = None
    """How much the model reasons. Unset: its own default."""
    instructions: str = ""
    """Text that is added to the system prompt."""
    context_window: Count = 128_000
    """Tokens that a request to the model may have. The history is made shorter before it is full."""
    max_output_tokens: Count | None = None
    """Tokens of one reply. Unset: the provider's default."""
    max_iterations: Annotated[Count, Smaller()] = MAX_ITERATIONS
    """Requests to the model in one run."""
    max_tokens: Annotated[Count | None, Smaller()] = None
    """Tokens of one run, input and output together."""
    max_seconds: Annotated[Seconds | None, Smaller()] = None
    """Seconds of one run."""
    max_cost: Annotated[Dollars | None, Smaller()] = None
    """Dollars of one run. The prices of the models must be known."""
    idle_timeout: Seconds = IDLE_SECONDS
    """Seconds without an event of a reply, after which the request counts as failed."""
    prices: dict[str, tuple[float, ...]] = field(default_factory=dict[str, tuple[float, ...]])
    """Dollars for a million tokens by model: `[input, output]` or `[input, output, cache read, cache write]`."""
    skills: tuple[AnyPath, ...] = ()
    """Further folders with skills."""
    max_subagents: Annotated[Count, Smaller()] = 8
    """Subagents that run at the same time."""
