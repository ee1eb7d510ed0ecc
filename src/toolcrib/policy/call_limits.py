"""Limit the number of calls in a run: since the last user message of a session, or since the toolbox was opened."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Mapping
from typing import Any

from ..core.context import ToolContext
from ..core.recent import Recent
from ..core.text import matches
from ..core.tool import Tool

MAX_SESSIONS = 10_000
_BEGAN = "\0"
"""Among the counts of a run: when it began, in Unix seconds. No pattern for tools has this character."""


class CallLimits:
    """Counts calls that were submitted to the policy, including refused ones. All calls without a session are one
    run."""

    def __init__(self, calls: int | None = None, per_tool: Mapping[str, int] | None = None) -> None:
        self.calls = calls
        self.per_tool = dict(per_tool or {})
        self._runs = Recent[str | None, Any](MAX_SESSIONS)  # counters, by tool of the settings; "": all calls

    def touches(self, tool: Tool) -> bool:
        """Return whether calls of this tool are counted."""
        return self.calls is not None or matches(tool.refused_as, self.per_tool)

    def reset(self, session_id: str | None) -> None:
        """Start a new run, because a user message came."""
        self._runs.pop(session_id, None)

    def share(self, giver: str | None, taker: str | None) -> None:
        """Count the calls of one session (a subagent's) in the run of another."""
        self._runs[taker] = self._run(giver)

    def carried(self, session_id: str | None) -> dict[str, float]:
        """Return the run of a session as JSON data, for work that is done later or in another process."""
        return dict(self._runs.get(session_id) or {})

    def carry_on(self, session_id: str | None, carried: Mapping[str, Any]) -> None:
        """Count on in a run that another process counts, if this one knows none, or only an earlier run of it."""
        given = {name: count for name, count in carried.items() if isinstance(count, int | float)}
        run = self._runs.get(session_id)
        if run is None or run[_BEGAN] < given.get(_BEGAN, 0):
            self._runs[session_id] = Counter(given)
        elif run[_BEGAN] == given.get(_BEGAN):
            run |= Counter(given)

    def _run(self, session_id: str | None) -> Counter[str]:
        run = self._runs.get(session_id)
        if run is None:
            run = self._runs[session_id] = Counter({_BEGAN: time.time()})
        return run

    def count(self, tool: Tool, ctx: ToolContext) -> str | None:
        """Count a call. Returns why it is over the limit, or None."""
        run = self._run(ctx.session_id)
        run[""] += 1
        if self.calls is not None and run[""] > self.calls:
            return _over("calls", self.calls, "any tool", ctx)
        for pattern, most in self.per_tool.items():
            if matches(tool.refused_as, (pattern,)):  # `shell` is `exec`
                run[pattern] += 1
                if run[pattern] > most:
                    return _over(f"per_tool.{pattern}", most, tool.name, ctx)
        return None


def _over(setting: str, most: int, what: str, ctx: ToolContext) -> str:
    until = "since the last user message" if ctx.session_id is not None else "since this toolbox was opened"
    return (
        f"this run may make {most} call{'' if most == 1 else 's'} of {what} (limits.{setting}) {until}; "
        "finish with what you have, or tell the user what is left to do"
    )
