"""What the shell tools need to know about the effects of commands: an interface, which the room `effects` fills."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Protocol

from ..boundary.capture import SpillTarget
from ..boundary.sandbox import Sandbox
from ..boundary.sandbox.spec import WriteLayer
from ..core.context import ToolContext
from ..core.output import ErrorKind
from ..core.tool import Tool
from ..core.verdict import Judgement
from .transcript import NO_UNDO

OpenCallSpill = Callable[[str, str], SpillTarget]
"""`open_spill(call_id, name)` opens a file for what an output has no room for."""


@dataclass(slots=True)
class CommandOutcome:
    """What the reader of a command's output learns about what the command changed.

    `kind` and `meta` make the output an error. `waiting` are changes that a person must agree to first; only
    `CommandEffects.ask` knows what they are. `touches` says whether applied changes concern a path of the workspace.
    """

    notes: list[str] = field(default_factory=list[str])
    undo: str = NO_UNDO
    kind: ErrorKind | None = None
    meta: dict[str, Any] = field(default_factory=dict[str, Any])
    waiting: object | None = None
    touches: Callable[[str], bool] = field(default=lambda _: False)


class CommandEffects(Protocol):
    """Holds back what commands change, or makes it undoable. In mode `direct` there is none."""

    @property
    def patience(self) -> float:
        """Seconds that a question about the changes of one command may take."""
        ...

    @property
    def question(self) -> str:
        """The tool whose calls ask a person about changes."""
        ...

    def tools(self) -> list[Tool]:
        """Tools with which a model applies or drops changes that wait."""
        ...

    def needs_review(self) -> bool:
        """Whether a person is asked about the changes of each command."""
        ...

    def judge(self, sandbox: Sandbox) -> Judgement | None:
        """What to say about every command before it runs, where its changes cannot be held back; else None."""
        ...

    def begin(self, sandbox: Sandbox) -> WriteLayer | None:
        """A layer for one command; None where the command writes directly."""
        ...

    def collect(self, layer: WriteLayer | None, sandbox: Sandbox, ctx: ToolContext, command: str) -> CommandOutcome:
        """Look at what a command left in its layer; apply it where nobody needs to be asked. Blocks; called once."""
        ...

    def earlier(self, session_id: str | None, command: str) -> CommandOutcome | None:
        """The outcome of exactly this command, if its changes still wait: it need not run again."""
        ...

    async def ask(self, outcome: CommandOutcome, ctx: ToolContext) -> CommandOutcome:
        """Ask a person about changes that wait, and add the answer to the outcome."""
        ...
