"""The context of a call: its caller and its origin. Tools get it as a parameter, or by `current_context()`."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import field, replace
from typing import TYPE_CHECKING, Any, Literal

from .dataclass import dataclass
from .empty import EMPTY
from .errors import ToolError

if TYPE_CHECKING:
    from pathlib import Path

    from .caller import Caller

Ask = Callable[[str, Sequence[str]], Awaitable[str]]
"""`await ask(question, options)` puts a question to the person behind this call and returns the answer."""

Progress = Callable[[float, float | None, str | None], Awaitable[None]]
"""`await progress(done, total, message)` reports progress of the running call."""

Wall = Literal["read", "workspace", "all"]
"""What a command can do at most, because of the reason for which it was allowed. `read`: it only reads what is granted.
`workspace`: it also changes files of the workspace, in a sandbox. `all`: what the settings give to
every command, but it does not answer for the person, who did not approve it."""


SUBAGENT = "toolcrib_subagent"
"""A key in `ToolContext.metadata` where an agent runs: `await ctx.metadata[SUBAGENT](task, label, ctx)` lets a subagent
do a task, and returns its report as a ToolOutput."""

REFUSES = "toolcrib_refuses"
"""A key in `ToolContext.metadata`: `ctx.metadata[REFUSES](tool, arguments)` returns why a call that another one makes
(a script, a job, a schedule) must not run; empty if it may. With an empty name: whether any may not."""

READ_ELSEWHERE = "toolcrib_read_elsewhere"
"""A key in `ToolContext.metadata`: after `await ctx.metadata[READ_ELSEWHERE]()` the labels of the session are those of
what others have read for it until now, too. A script does so before its calls."""

MAY_ACT = "toolcrib_may_act"
"""A key in `ToolContext.metadata`: `await ctx.metadata[MAY_ACT]()` raises where another process may go on with the
session now. It is called after the intent of a call was committed, before its effect."""

BEHIND = "toolcrib_behind"
"""A key in `ToolContext.metadata`: the tool of an earlier call of the same message that waits for a person. Without an
answer, this call has no effect; in the `meta` of its output it says so."""

JOB = "toolcrib_job"
"""A key in `ToolContext.metadata` where a job runs the call: the job's id."""
FOR_JOB = "toolcrib_for_job"
"""The same, also where an agent makes the call for the job. A person who is asked reads it."""
MADE_IN = "toolcrib_made_in"
"""A key in `ToolContext.metadata` where a job runs: the channel in which it was made."""
COMMAND_OUTPUT = "toolcrib_command_output"
"""A key in `ToolContext.metadata` where somebody follows the call: `await ctx.metadata[COMMAND_OUTPUT](text, stream)`
gets what its command has printed since the last time."""
COMMAND_ENDED = "toolcrib_command_ended"
"""A key in `ToolContext.metadata`: `ctx.metadata[COMMAND_ENDED](printed)` gets at the end what a command printed, apart
from what we say of it."""


ANY_SHELL = "toolcrib_any_shell"
"""A key in `ToolContext.metadata`: true if the command of this call may be read by `sh`, also where there is a bash."""

SHARED = "toolcrib_shared_session"
"""A key in `ToolContext.metadata`: true if several clients may use this session id, because their protocol has no
sessions. Then nothing is approved for the session, and repeated calls are not counted."""


@dataclass(frozen=True)
class ToolContext:
    """The surroundings of one call. Frozen, and never shared between concurrent calls.

    `deps` is any data that the host passes to its tools. `ask` is None if there is no person to ask.
    `cancelled()` is true once the call was cancelled or timed out: sync tools poll it. `wall` is what a command of this
    call can do at most, `hosts` are those that were opened to it, `as_shown` says whether the call would still do what
    a person saw; the pipeline sets them. `caller` is the holder of a named token, whose limits the policy applies.
    """

    channel: str | None = None
    chat_id: str | None = None
    message_id: str | None = None
    sender_id: str | None = None
    session_id: str | None = None
    agent_id: str | None = None
    workspace: Path | None = None
    deps: Any = None
    metadata: Mapping[str, Any] = EMPTY
    call_id: str | None = None
    ask: Ask | None = field(default=None, compare=False, repr=False)
    on_progress: Progress | None = field(default=None, compare=False, repr=False)
    is_cancelled: Callable[[], bool] | None = field(default=None, compare=False, repr=False)
    secret_of: Callable[[str], str] | None = field(default=None, compare=False, repr=False)
    wall: Wall | None = field(default=None, compare=False, repr=False)
    hosts: tuple[str, ...] = field(default=(), compare=False, repr=False)
    as_shown: Callable[[], Awaitable[bool]] | None = field(default=None, compare=False, repr=False)
    caller: Caller | None = field(default=None, compare=False, repr=False)

    def with_channel(self, channel: str, chat_id: str | None = None) -> ToolContext:
        """Return a copy for another channel and chat."""
        return replace(self, channel=channel, chat_id=chat_id)

    def with_workspace(self, workspace: str | Path) -> ToolContext:
        """Return a copy with another workspace."""
        from pathlib import Path

        return replace(self, workspace=Path(workspace))

    @property
    def made_in(self) -> str | None:
        """The channel in which the work of this call began: that of its job or schedule, if one makes the call."""
        return self.metadata.get(MADE_IN, self.channel)

    @property
    def cancelled(self) -> bool:
        """Whether this call was cancelled or timed out meanwhile."""
        return self.is_cancelled is not None and self.is_cancelled()

    def secret(self, name: str) -> str:
        """Return the value of a secret that is granted to this tool. Raises ToolError for any other secret.

        The secret is read at first use, which may run a command. The tool's output is redacted.
        """
        if self.secret_of is None:
            raise ToolError(
                f"no secrets are granted here, so {name!r} cannot be had; a toolbox grants them by [secrets]"
            )
        return self.secret_of(name)

    async def progress(self, done: float, total: float | None = None, message: str | None = None) -> None:
        """Report progress, if there is a listener."""
        if self.on_progress is not None:
            await self.on_progress(done, total, message)


EMPTY_CONTEXT = object.__new__(ToolContext)  # its fields are the class's defaults: cheaper to copy

_current: ContextVar[ToolContext] = ContextVar("toolcrib_context", default=EMPTY_CONTEXT)


def current_context() -> ToolContext:
    """Return the context of the call that runs in this task or worker thread, or an empty context."""
    return _current.get()
