"""The tools `apply_changes` and `discard_changes`, which apply or drop the reviewed changes of a command."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..core.context import ToolContext
from ..core.errors import ToolError
from ..core.output import ToolOutput
from ..core.threads import shared_threads
from ..core.tool import Tool, tool
from ..core.verdict import Judgement
from ..record.journal import Journal
from .change_text import headline
from .journal_rows import JournalledLayers
from .layer_apply import ApplyConflict
from .layer_store import HeldChanges

APPLY, DISCARD = "apply_changes", "discard_changes"


class ChangesTools:
    """Both tools over one journal."""

    def __init__(self, journal: Journal, changes: JournalledLayers) -> None:
        self._journal, self._changes = journal, changes

    def tools(self) -> list[Tool]:
        """Return the two tools."""
        return [
            tool(
                self.apply_changes, name=APPLY, category="filesystem_write", destructive=True, open_world=False,
                judge=self._judge, preview=self._preview,
            ),
            tool(
                self.discard_changes, name=DISCARD, category="filesystem_write", destructive=False, open_world=False,
                judge=self._judge,
            ),
        ]  # fmt: skip

    async def apply_changes(self, changes: str, *, ctx: ToolContext) -> ToolOutput:
        """Apply the changes of a command that ran with review: all of them, or none if something changed meanwhile.

        Args:
            changes: The id that exec returned, like ch-19a5c0e7b21-3fa9c1.
        """
        held = await shared_threads.run(self._held, changes, ctx)
        try:
            await shared_threads.run(self._changes.apply, self._journal, held)
        except ApplyConflict as error:
            raise ToolError(
                f"nothing was applied, for the workspace changed since the command ran: {error}. Run the command again "
                f"to see what it does now; {DISCARD} drops these changes."
            ) from None
        except OSError as error:
            raise ToolError(f"nothing was applied: {error.strerror or error}") from None
        return ToolOutput(f"Applied the changes {changes}. `toolcrib undo {held.call_id}` takes them back.")

    async def discard_changes(self, changes: str, *, ctx: ToolContext) -> str:
        """Drop the changes of a command that ran with review, without applying them.

        Args:
            changes: The id that exec returned.
        """
        held = await shared_threads.run(self._held, changes, ctx)
        await shared_threads.run(self._changes.layers.discard, held.id)
        return f"Discarded the changes {changes}; the workspace is as it was."

    def _held(self, name: str, ctx: ToolContext) -> HeldChanges:
        held = self._changes.layers.get(name)
        if held.session_id != ctx.session_id and ctx.channel != "cli":  # in that case the caller is the person
            raise ToolError(f"changes {name} belong to another session; a person can apply them: toolcrib changes")
        if held.state != "held":
            raise ToolError(f"changes {name} are {held.state}")
        return held

    def _judge(self, args: Mapping[str, Any], ctx: ToolContext) -> Judgement | None:
        try:
            self._held(str(args.get("changes")), ctx)
        except ToolError as error:  # what cannot be done needs no question
            return Judgement("deny", str(error), "changes:unknown")
        return None

    def _preview(self, args: Mapping[str, Any], ctx: ToolContext) -> str:
        held = self._held(str(args.get("changes")), ctx)
        return f"{held.command}\nhas run, and would change ({headline(held.changes())}):\n{held.told}"
