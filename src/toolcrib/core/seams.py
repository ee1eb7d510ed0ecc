"""Who may look into a call or speak for it: the callables and interfaces that a pipeline's stages are filled with."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from .authorize import CallRequest, Grant
from .output import ToolOutput

if TYPE_CHECKING:
    from .call import ToolCall
    from .context import ToolContext
    from .labels import Labels
    from .tool import Tool

Next = Callable[..., Awaitable[ToolOutput]]


class Middleware(Protocol):
    """Wraps a call: look, rewrite, answer, or `return await next(call, ctx)`."""

    async def __call__(self, call: ToolCall, ctx: ToolContext, next: Next, /) -> ToolOutput:  # noqa: A002
        """Answer the call."""
        ...


class Hook:
    """Looks at calls. Subclass it and override what you need; any exception in `before*` refuses the call."""

    async def before_execute_tools(self, calls: Sequence[ToolCall]) -> None:
        """Once a batch, before any of its calls. Raise ToolExecutionDenied to refuse them all."""

    async def before(self, call: ToolCall, ctx: ToolContext) -> ToolCall | ToolOutput | None:
        """Before authorization: None to go on, a ToolCall to rewrite, a ToolOutput to answer."""

    async def after(self, call: ToolCall, output: ToolOutput, ctx: ToolContext) -> ToolOutput | None:
        """After the output was bounded: None to keep it, a ToolOutput to replace it."""

    async def error(self, call: ToolCall, output: ToolOutput, ctx: ToolContext) -> None:
        """After a call that ended in an error."""


class Guard(Protocol):
    """Notices calls that go round in circles (policy's loop guard)."""

    def before(self, tool: Tool, text: str, ctx: ToolContext) -> str | None:
        """Why the call is refused, or None."""
        ...

    def after(self, tool: Tool, text: str, output: ToolOutput, ctx: ToolContext) -> str | None:
        """A warning to add to the output, or None."""
        ...


class Flow(Protocol):
    """Gives results their information-flow labels, and remembers what a session has read."""

    def label(self, tool: Tool, arguments: Mapping[str, Any], output: ToolOutput, ctx: ToolContext) -> Labels:
        """The labels of a result, as the tool gave it: before it is cut or redacted."""
        ...


Intent = Callable[[CallRequest, Grant], Awaitable[None] | None]
"""Commits the intention to run a call with effects, before it runs. One that raises is a refusal."""
