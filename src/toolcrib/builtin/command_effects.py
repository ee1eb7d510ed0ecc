"""The interface through which the shell tools learn the effects of commands. The package `effects` implements it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import field
from typing import Any, Protocol

from ..boundary.capture import SpillTarget
from ..boundary.sandbox import Sandbox
from ..boundary.sandbox.spec import WriteLayer
from ..core.context import ToolContext
from ..core.dataclass import dataclass
from ..core.output import ErrorKind, ToolOutput
from ..core.tool import Tool
from ..core.verdict import Judgement
from .transcript import NO_UNDO

OpenCallSpill = Callable[[str, str], SpillTarget]
"""`open_spill(call_id, name)` opens a file for the part of an output that is too long to show."""


UNSEARCHED = "[it made so many files that not all were searched for what other programs run or trust]"


@dataclass(slots=True)
class CommandOutcome:
    """The part of a command's output that describes the changes of the command.

    `kind` and `meta` make the output an error. `waiting` holds changes that a person must approve first; only
    `CommandEffects.ask` knows their type. `touches` says whether applied changes concern a path of the workspace.
    """

    notes: list[str] = field(default_factory=list[str])
    undo: str = NO_UNDO
    kind: ErrorKind | None = None
    meta: dict[str, Any] = field(default_factory=dict[str, Any])
    waiting: object | None = None
    touches: Callable[[str], bool] = field(default=lambda _: False)


@dataclass(frozen=True, slots=True)
class EffectServices:
    """The services that the effects of commands need from a toolbox.

    `call` runs a tool of the toolbox through its pipeline. `answer_of(approval_id)` returns the state of an approval
    request (pending, approved, denied …). `patience` is how many seconds a request may take; `unattended` says whether
    no person is asked in the mode of now, `hides_more` whether `redact` would hide more of a text than secrets.
    """

    call: Callable[[str, Mapping[str, Any], ToolContext], Awaitable[ToolOutput]] | None = None
    answer_of: Callable[[str], str | None] | None = None
    redact: Callable[[str], str] | None = None
    open_spill: OpenCallSpill | None = None
    patience: float = 0.0
    unattended: Callable[[], bool] = lambda: False
    hides_more: Callable[[str], bool] = lambda text: False


class SavesFiles(Protocol):
    """Saves what a command could delete or rewrite, where commands write directly."""

    def covers(self, path: str) -> bool:
        """Return whether the file at an absolute path would be saved, judged by its place and size."""
        ...

    def save(self) -> Any:
        """Save the files of the workspace as they are. Blocks, and never raises."""

    def forget(self, path: str) -> None:
        """Leave out what was moved away from the command that made it: undoing another one would bring it back."""

    def outcome(self, saved: Any, ctx: ToolContext) -> CommandOutcome:
        """Let undo cover what the command deleted or rewrote since. Blocks; call it once."""
        ...


class CommandEffects(Protocol):
    """Holds back the changes of commands, or makes it possible to undo them. It does not exist in mode `direct`."""

    @property
    def patience(self) -> float:
        """The seconds that an approval of one command's changes may take."""
        ...

    @property
    def question(self) -> str:
        """The name of the tool whose calls ask a person about changes."""
        ...

    def tools(self) -> list[Tool]:
        """Return the tools with which a model applies or drops waiting changes."""
        ...

    def needs_review(self) -> bool:
        """Return whether a person must approve the changes of each command."""
        ...

    def judge(self, sandbox: Sandbox) -> Judgement | None:
        """Return the judgement of every command before it runs if its changes cannot be held back, else None."""
        ...

    def why_direct(self, sandbox: Sandbox) -> str:
        """Return why commands of a sandbox that can write do so directly; "" if their changes are held back. Blocks."""
        ...

    def begin(self, sandbox: Sandbox) -> WriteLayer | None:
        """Return a layer for the changes of one command, or None if the command writes directly."""
        ...

    def collect(self, layer: WriteLayer | None, sandbox: Sandbox, ctx: ToolContext, command: str) -> CommandOutcome:
        """Read the changes in a command's layer, and apply them if they need no approval. Blocks; call it once."""
        ...

    def earlier(self, ctx: ToolContext, command: str) -> CommandOutcome | None:
        """Return the outcome of exactly this command if its changes still wait. Then it need not run again."""
        ...

    async def ask(self, outcome: CommandOutcome, ctx: ToolContext) -> CommandOutcome:
        """Ask a person about waiting changes, and add the answer to the outcome."""
        ...
