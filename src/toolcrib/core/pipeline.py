"""The row of stages that every call goes through, whatever door it came in by.

    find → parse → validate → middleware and before-hooks → authorize → intent → run → redact and bound
         → after-hooks → record

`Pipeline.run` is written for the common case: one strict parse of the JSON text, no event, no hash, no timer
unless somebody needs it. A stage that nobody filled in costs one comparison. The stages are functions, one file a
question: `observing` (who is told), `intercepting` (hooks and middleware), `judging` (may it run), `running`,
`finishing`; `seams` says what they are filled with, and `call` what they hand on.
"""

from __future__ import annotations

import itertools
import os
import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from .authorize import Authorizer
from .bound import Redact, Spill
from .call import Call, ToolCall
from .context import EMPTY_CONTEXT, ToolContext
from .errors import InvalidArguments, ToolExecutionDenied
from .events import EventStream
from .finishing import clean, tell_refused
from .forward import meant
from .gate import Gate
from .judging import is_free
from .observing import observed
from .output import ToolOutput
from .refusals import denied, invalid, unexpected, with_hint
from .running import perform
from .seams import Flow, Guard, Hook, Intent, Middleware
from .threads import ToolThreads, shared_threads
from .tool import Tool

if TYPE_CHECKING:
    from .registry import ToolRegistry

__all__ = ["Hook", "Middleware", "Pipeline", "ToolCall"]

Raw = Mapping[str, Any] | str | bytes | None
"""Arguments as they come in: a dict or JSON text."""


class Pipeline:
    """The stages and what fills them in. One per registry; views share it."""

    def __init__(self) -> None:
        self.authorizer: Authorizer | None = None
        self.intent: Intent | None = None
        self.guard: Guard | None = None
        self.flow: Flow | None = None
        self.redact: Redact | None = None
        self.secrets: Callable[[Tool, str], str] | None = None
        """`secrets(tool, name)` gives a tool the value of a secret that was granted to it, or raises ToolError."""
        self.spill: Spill | None = None
        self.dry_run = False
        self.events = EventStream()
        self.middleware: tuple[Middleware, ...] = ()
        self.hooks: tuple[Hook, ...] = ()
        self.threads: ToolThreads = shared_threads
        self.running: dict[int, Tool] = {}
        """Calls under way, by the identity of their contexts; kept only while somebody watches."""
        self.watchers = 0
        self.policy_version = 0
        self.cleared: set[Tool] = set()
        """Tools whose every call the authorizer allows; `judging` keeps them."""
        self.gate = Gate()
        self._prefix = f"call_{os.getpid():x}{time.time_ns() & 0xFFFFFFFF:08x}"
        self._count = itertools.count(1)

    def policy_changed(self) -> None:
        """Forget which tools need no authorization, and how they were listed."""
        self.cleared.clear()
        self.policy_version += 1

    def new_id(self) -> str:
        """A call id that is unique across processes for all practical purposes."""
        return f"{self._prefix}{next(self._count):x}"

    @property
    def stuck(self) -> int:
        """How many timed-out sync tools still hold a thread."""
        return self.threads.stuck

    async def run(
        self,
        registry: ToolRegistry,
        name: str,
        arguments: Raw,
        ctx: ToolContext | None,
        call_id: str | None = None,
        waiting: Callable[[], None] | None = None,
    ) -> ToolOutput:
        """One call, from the model's JSON to a bounded output. Raises only cancellation.

        `waiting()` is called when the call begins to wait for a person.
        """
        tool = registry.find(name)
        if ctx is None:
            ctx = EMPTY_CONTEXT
        if tool is None:
            output = ToolOutput.error(registry.unknown(name), "not_found")
            return self.refused(str(name)[:200], arguments, ctx, call_id, output)
        if tool.forward is not None:
            found = self._meant(registry, tool, arguments)
            if isinstance(found, ToolOutput):
                return self.refused(tool.name, arguments, ctx, call_id, found)
            return await self.run(registry, *found, ctx, call_id, waiting)
        if (
            self.events.listeners
            or self.guard is not None
            or self.hooks
            or self.middleware
            or self.gate.needed
            or not is_free(self, tool)
        ):
            return await observed(self, Call(call_id or self.new_id(), tool, ctx, waiting), arguments)
        try:
            kwargs = tool.bind(arguments)[0]
        except InvalidArguments as error:
            return clean(self, invalid(tool, error))
        except Exception as error:
            return clean(self, unexpected(tool, error))
        return await perform(self, tool, kwargs, ctx, call_id or self.new_id())

    def _meant(self, registry: ToolRegistry, tool: Tool, arguments: Raw) -> tuple[str, Any] | ToolOutput:
        """The name and arguments of the call that a tool stands for, or why there is none."""
        try:
            return meant(registry, tool, arguments)
        except InvalidArguments as error:
            return invalid(tool, error)
        except ToolExecutionDenied as error:
            return denied(tool, error)
        except Exception as error:
            return unexpected(tool, error)

    def refused(
        self, name: str, arguments: Any, ctx: ToolContext | None, call_id: str | None, output: ToolOutput
    ) -> ToolOutput:
        """The outcome of a call that never reached a tool; it is an event like any other."""
        output = clean(self, with_hint(output))
        if self.events.listeners:
            tell_refused(self, call_id or self.new_id(), name, arguments, ctx or EMPTY_CONTEXT, output)
        return output
