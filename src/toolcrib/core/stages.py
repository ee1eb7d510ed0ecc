"""The parts that a pipeline's stages use: policy, record, loop guard, redaction, hooks, events."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from .events import EventStream
from .gate import Gate
from .threads import ToolThreads, shared_threads

if TYPE_CHECKING:
    from .bound import Redact, Spill
    from .interfaces import Authorizer, CallGuard, Hook, Intent, Labeller, Middleware
    from .tool import Tool


@dataclass(eq=False)
class Stages:
    """The parts of one registry's stages, shared by its views. Empty stages are skipped. Any field may change later."""

    authorizer: Authorizer | None = None
    intent: Intent | None = None
    guard: CallGuard | None = None
    labeller: Labeller | None = None
    redact: Redact | None = None
    secrets: Callable[[Tool, str], str] | None = None
    """`secrets(tool, name)` returns the value of a secret that was granted to the tool, or raises ToolError."""
    spill: Spill | None = None
    dry_run: bool = False
    middleware: tuple[Middleware, ...] = ()
    hooks: tuple[Hook, ...] = ()
    events: EventStream = field(default_factory=EventStream)
    threads: ToolThreads = shared_threads
    gate: Gate = field(default_factory=Gate)
    watchers: int = 0
    running: dict[int, Tool] = field(default_factory=dict[int, "Tool"])
    """Calls under way, by the identity of their contexts; filled only while `watchers` is not 0."""
    cleared: set[Tool] = field(default_factory=set["Tool"])
    """Tools whose every call the authorizer allows."""
    policy_version: int = 0

    def policy_changed(self) -> None:
        """Forget which tools are allowed, and how they were listed."""
        self.cleared.clear()
        self.policy_version += 1

    def hides(self, tool: Tool) -> bool:
        """Return whether the policy denies every call of this tool."""
        return self.authorizer is not None and self.authorizer.hides(tool)

    def must_authorize(self, tool: Tool) -> bool:
        """Return whether the authorizer has to be asked about a call of this tool."""
        return self.authorizer is not None and tool not in self.cleared

    def runs_freely(self, tool: Tool) -> bool:
        """Return whether a call needs nothing but to be bound, run and bounded: then no `Call` is made for it."""
        return not (
            self.events.listeners
            or self.guard is not None
            or self.hooks
            or self.middleware
            or self.gate.needed
            or (self.authorizer is not None and tool not in self.cleared)
            or ((self.intent is not None or self.dry_run) and not tool.is_read_only)
        )
