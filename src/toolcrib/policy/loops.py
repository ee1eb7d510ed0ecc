"""Detect a model that repeats itself in a loop, per session, since the last user message.

The same tool with the same arguments *and* the same result: a warning at the third time, refused after the fifth. The
same for alternating pairs and triples (A B A B A B), counted in rounds, and for edits that change nothing, whatever
their arguments. A successful call with effects in between makes repetition reasonable again: running the tests after
every edit is not a loop.
"""

from __future__ import annotations

import hashlib
from collections import deque
from collections.abc import Iterable
from dataclasses import field

from ..core.context import SHARED, ToolContext
from ..core.dataclass import dataclass
from ..core.output import ToolOutput
from ..core.recent import Recent
from ..core.text import matches
from ..core.tool import Tool

WARN, BLOCK = 3, 5
MAX_SESSIONS = 1_000
MAX_STEPS = 1_000
"""Different steps that are remembered for a session; the oldest are forgotten."""
WINDOW = 40

Step = tuple[bytes, bytes]
"""Digest of tool and arguments, digest of the result."""


@dataclass(slots=True)
class _LoopSession:
    seen: Recent[Step, int] = field(default_factory=lambda: Recent[Step, int](MAX_STEPS))
    steps: deque[Step] = field(default_factory=lambda: deque[Step](maxlen=WINDOW))
    unchanged: int = 0
    blocked: Recent[bytes, int] = field(default_factory=lambda: Recent[bytes, int](MAX_STEPS))


class LoopGuard:
    """A `Guard` for the pipeline. Its memory is limited: the least recently used sessions are forgotten.

    Tools that `may_repeat` are ignored: names, which may contain `*`.
    """

    def __init__(self, may_repeat: Iterable[str] = ()) -> None:
        self._free = tuple(may_repeat)
        self._sessions = Recent[str, _LoopSession](MAX_SESSIONS)

    def let_repeat(self, tools: Iterable[str]) -> None:
        """Ignore these tools from now on, instead of those before."""
        self._free = tuple(tools)

    def reset(self, session_id: str | None) -> None:
        """Forget the repetitions of a session, because a user message came or the session ended."""
        if session_id is not None:
            self._sessions.pop(session_id, None)

    def before(self, tool: Tool, text: str, ctx: ToolContext) -> str | None:
        """Return why the call is refused, or None."""
        session = self._watched(tool, ctx)
        if session is None or _digest(tool.name, text) not in session.blocked:
            return None
        return (
            f"{tool.name} was refused: the same call gave the same result {BLOCK} times. "
            "Do something else, or tell the user what is in the way."
        )

    def after(self, tool: Tool, text: str, output: ToolOutput, ctx: ToolContext) -> str | None:
        """Return a warning to add to the output, or None.

        What a server behind the gateway answered is passed on as it is: its clients may read it as data.
        """
        session = self._watched(tool, ctx)
        if session is None or output.error_kind in ("pending", "loop", "cancelled"):
            return None
        call = _digest(tool.name, text)
        step = (call, _digest(output.for_llm, ""))
        repeats = session.seen.pop(step, 0) + 1
        if repeats == 1 and not tool.is_read_only and not output.is_error and not _alternates(session.steps, step):
            session.seen.clear()  # something changed: a call that failed before may succeed now
            session.blocked.clear()
        session.seen[step] = repeats
        session.steps.append(step)
        if output.meta.get("no_change"):
            session.unchanged += 1
        elif not output.is_error and not tool.is_read_only:
            session.unchanged = 0
        rounds = max(repeats, session.unchanged if output.meta.get("no_change") else 0, _rounds(session.steps))
        if rounds >= BLOCK:
            session.blocked[call] = rounds
        if rounds >= WARN and not (ctx.channel == "mcp" and tool.origin is not None):
            return f"Loop warning: this is time {rounds} for the same step with the same result. Try something else."
        return None

    def _watched(self, tool: Tool, ctx: ToolContext) -> _LoopSession | None:
        return None if self._free and matches(tool.every_name, self._free) else self._session(ctx)

    def _session(self, ctx: ToolContext) -> _LoopSession | None:
        if ctx.session_id is None or SHARED in ctx.metadata:
            return None
        session = self._sessions.get(ctx.session_id) or _LoopSession()
        self._sessions[ctx.session_id] = session  # used last
        return session


def _digest(a: str, b: str) -> bytes:
    return hashlib.blake2b(f"{a}\0{b}".encode("utf-8", "surrogatepass"), digest_size=12).digest()


def _alternates(steps: deque[Step], step: Step) -> bool:
    return len(steps) >= 2 and (steps[-2] == step or (len(steps) >= 3 and steps[-3] == step))


def _rounds(steps: deque[Step]) -> int:
    """Return how often the last two or three different steps were repeated in the same order at the end."""
    best, n = 0, len(steps)
    if not ((n > 2 and steps[-1] == steps[-3]) or (n > 3 and steps[-1] == steps[-4])):
        return 1  # neither of the two was there before
    recent = list(steps)
    for period in (2, 3):
        last = recent[-period:]
        if len(set(last)) < 2:
            continue
        rounds = 0
        while len(recent) >= period * (rounds + 1) and recent[len(recent) - period * (rounds + 1) :][:period] == last:
            rounds += 1
        best = max(best, rounds)
    return best
