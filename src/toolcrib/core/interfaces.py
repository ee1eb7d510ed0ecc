"""The extension points of the pipeline: authorizer, middleware, hooks, loop guard, labels, intent."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from .dataclass import dataclass
from .output import Labels, ToolOutput

if TYPE_CHECKING:
    from .call import Call, ToolCall
    from .context import ToolContext, Wall
    from .tool import Tool


@dataclass(frozen=True, slots=True)
class Grant:
    """Permission to run a call. `edited` are arguments that the approver changed: they are bound and authorized again.

    `approval_id` names a stored yes. The run uses it up in the transaction that commits its intent. `wall` is what a
    command of the call can do at most; None if a person or a rule allowed the call as it is. `hosts` are those that a
    person or a rule opened to this call, each as `host:port`. `as_shown` says whether the call would still do what a
    person saw; None if no person saw this call.
    """

    rule: str | None = None
    reason: str = ""
    approver: str | None = None
    edited: Mapping[str, Any] | None = None
    approval_id: str | None = None
    wall: Wall | None = None
    hosts: tuple[str, ...] = ()
    as_shown: Callable[[], Awaitable[bool]] | None = None


class Authorizer(Protocol):
    """Decides whether a call may run."""

    def hides(self, tool: Tool) -> bool:
        """Return whether every call of this tool is denied, so that it should not be listed."""
        ...

    def clears(self, tool: Tool) -> bool:
        """Return whether every call of this tool is allowed, with any arguments and context. The answer is cached until
        `ToolRegistry.policy_changed()`."""
        ...

    async def authorize(self, request: Call, approved: Grant | None = None) -> Grant | ToolOutput:
        """Return a grant, or the error output to answer with. `approved` is a person's yes to arguments they edited."""
        ...


Next = Callable[..., Awaitable[ToolOutput]]


class Middleware(Protocol):
    """Wraps a call: look, rewrite, answer, or `return await next(call, ctx)`."""

    async def __call__(self, call: ToolCall, ctx: ToolContext, next: Next, /) -> ToolOutput:  # noqa: A002
        """Answer the call."""
        ...


class Hook:
    """Looks at calls. Subclass it and override what you need; any exception in `before*` refuses the call. A subclass
    with a method that is not async is a TypeError: it would refuse every call."""

    def __init_subclass__(cls) -> None:
        import inspect

        super().__init_subclass__()
        for name in ("before_execute_tools", "before", "after", "error"):
            method = inspect.unwrap(vars(cls).get(name, Hook.before))
            if inspect.isfunction(method) and not inspect.iscoroutinefunction(method):
                raise TypeError(f"{cls.__name__}.{name} is a plain function: write `async def {name}`")

    async def before_execute_tools(self, calls: Sequence[ToolCall]) -> None:
        """Once for the calls of one message, before any of them, or for a call that came alone. Raise
        ToolExecutionDenied to refuse them all. `current_context()` is their context."""

    async def before(self, call: ToolCall, ctx: ToolContext) -> ToolCall | ToolOutput | None:
        """Before authorization: None to go on, a ToolCall to rewrite, a ToolOutput to answer."""

    async def after(self, call: ToolCall, output: ToolOutput, ctx: ToolContext) -> ToolOutput | None:
        """After the output was bounded: None to keep it, a ToolOutput to replace it."""

    async def error(self, call: ToolCall, output: ToolOutput, ctx: ToolContext) -> None:
        """After a call that ended in an error."""


class CallGuard(Protocol):
    """Notices a model that repeats itself (policy's loop guard)."""

    def reset(self, session_id: str) -> None:
        """Forget the session's earlier calls: a user message came."""

    def before(self, tool: Tool, text: str, ctx: ToolContext) -> str | None:
        """Return why the call is refused, or None."""
        ...

    def after(self, tool: Tool, text: str, output: ToolOutput, ctx: ToolContext) -> str | None:
        """Return a warning to add to the output, or None."""
        ...


class Labeller(Protocol):
    """Labels results by where they came from, and remembers what a session has read."""

    def label(self, tool: Tool, arguments: Mapping[str, Any], output: ToolOutput, ctx: ToolContext) -> Labels:
        """Return the labels of a result. It is the tool's own: not cut or redacted yet."""
        ...


class Tape(Protocol):
    """Keeps the outputs of calls, or answers calls with outputs that it kept. It is asked after all decisions."""

    def find(self, call: Call) -> ToolOutput | None:
        """Return the output of a call whose tool must not run; None to run it."""
        ...

    def keep(self, call: Call, output: ToolOutput) -> None:
        """Keep the output of a tool that ran: without secrets, and bounded."""


Intent = Callable[["Call", Grant], Awaitable[None] | None]
"""Records that a call is about to run. If it raises an error, the call is refused."""
