"""The limits of a run, and what it has used."""

from __future__ import annotations

import time

from ..core.dataclass import dataclass
from .cost import Prices
from .history import TokenUsage


@dataclass(frozen=True, slots=True)
class RunLimits:
    """Limits of one run: requests to the model, tokens, seconds and dollars. None is without limit."""

    iterations: int | None = 50
    tokens: int | None = None
    seconds: float | None = None
    cost: float | None = None


class Spent:
    """What a run has used, and its subagents. `cost` is None as soon as one reply has no known price. `earlier` is what
    runs after the same message of a person have used, which reports began: it counts for the limits."""

    def __init__(
        self, limits: RunLimits, prices: Prices, parent: Spent | None = None, earlier: Spent | None = None
    ) -> None:
        self.limits, self._prices, self._parent, self._earlier = limits, prices, parent, earlier
        self._start = time.monotonic()
        self.model = 0
        """The number of the model that answered last: those before it failed, and are not asked again."""
        self.usage = TokenUsage()
        self.cost: float | None = 0.0
        self.requests = 0

    def add(self, usage: TokenUsage, model: str) -> float | None:
        """Count what a model reported, also for the parent, and return its cost."""
        if self._parent is not None:
            self._parent.add(usage, model)
        self.usage += usage
        cost = self._prices.cost(model, usage)
        self.cost = None if cost is None or self.cost is None else self.cost + cost
        return cost

    def leave_out(self, seconds: float) -> None:
        """Do not count these seconds: a person had paused the run."""
        self._start += seconds

    @property
    def seconds_left(self) -> float | None:
        """How long the run may still take; None without a limit."""
        own = None if self.limits.seconds is None else self.limits.seconds - (time.monotonic() - self._start)
        above = None if self._parent is None else self._parent.seconds_left
        left = [seconds for seconds in (own, above) if seconds is not None]
        return max(0.0, min(left)) if left else None

    def has_requests_for(self, messages: int) -> bool:
        """Return whether each of so many messages can have a request of its own, and one is left."""
        return self.limits.iterations is None or self.limits.iterations - self._all()[0] > messages

    def _all(self) -> tuple[int, int, float | None]:
        """Return the requests, tokens and dollars that count for the limits."""
        requests, tokens, cost = self._earlier._all() if self._earlier is not None else (0, 0, 0.0)
        both = None if cost is None or self.cost is None else cost + self.cost
        return requests + self.requests, tokens + self.usage.input + self.usage.output, both

    def exceeded(self) -> str | None:
        """Return the limit that is reached, in words, or None."""
        limits, (requests, tokens, cost) = self.limits, self._all()
        if limits.iterations is not None and requests >= limits.iterations:
            return f"the limit of {limits.iterations} requests to the model (agent.max_iterations)"
        if limits.tokens is not None and tokens >= limits.tokens:
            return f"the limit of {limits.tokens} tokens (agent.max_tokens; {tokens} were used)"
        if limits.seconds is not None and time.monotonic() - self._start >= limits.seconds:
            return f"the limit of {limits.seconds:g} seconds (agent.max_seconds)"
        if limits.cost is not None and cost is None:
            limit = f"the limit of ${limits.cost:g} cannot be enforced (agent.prices)"
            return f"the first reply without a known price: {limit}"
        if limits.cost is not None and cost is not None and cost >= limits.cost:
            return f"the limit of ${limits.cost:g} (agent.max_cost; ${cost:.4f} was spent)"
        return None if self._parent is None else self._parent.exceeded()
