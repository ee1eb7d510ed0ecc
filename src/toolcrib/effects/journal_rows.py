"""Record a command's layer as one change in the journal, so that it is undone and redone in one order with edits."""

from __future__ import annotations

from collections.abc import Container, Generator
from contextlib import contextmanager

from ..boundary.workspace_paths import WorkspacePath
from ..core.errors import ToolError
from ..record.change import COMMAND_PREFIX, Change, ChangeTable, new_change
from ..record.journal import Journal
from .file_aliases import add_alias
from .layer_apply import ApplyConflict
from .layer_store import HeldChanges, LayerStore


class JournalledLayers:
    """The layers that rows of a journal name: the journal's `CommandChanges`."""

    def __init__(self, layers: LayerStore) -> None:
        self.layers = layers

    def apply(self, journal: Journal, held: HeldChanges) -> HeldChanges:
        """Apply a command's changes as one change of its call.

        Raises ApplyConflict, LayerUnknown, LayerBusy or OSError; then nothing is changed.
        """
        change = new_change(journal.ws.locate("."), held.call_id, "exec", held.session_id, held.command[:300])
        with _recorded(journal.table, change, held):
            done = self.layers.apply(held.id)
        journal.prune_sometimes()
        return done

    def conflict(self, change: Change, newer: Container[str]) -> str | None:
        """Return why a layer cannot be undone or redone now, but for paths in `newer`; None if it can. Raises
        LayerUnknown."""
        held = self._held(change)
        if _is_back(change, held):
            return None
        return "; ".join(self.layers.conflicts(held.id, newer)) or None

    def paths(self, change: Change) -> list[str]:
        """Return the absolute paths of a layer's steps. Raises LayerUnknown."""
        held = self._held(change)
        return [held.place_of(op) for op in held.ops()]

    def reverse(self, table: ChangeTable, workspace: WorkspacePath, change: Change, undo_id: str) -> str | None:
        """Undo or redo a layer. Returns a line about it; None if it was never applied. Raises ToolError."""
        held = self._held(change)
        if _is_back(change, held):
            table.undone(change.id)
            return None
        new = new_change(workspace, undo_id, "undo", change.session_id, None, change.id)
        with _recorded(table, new, held):
            line = self._turn(held)
        table.undone(change.id)
        status = "undone" if held.state == "applied" else "done"  # no matter how often it was undone and redone
        table.execute("UPDATE change SET status = ? WHERE kept = ? AND tool != 'undo'", status, change.kept)
        return line

    def restored(self, root: str, path: str, was: str, now: str) -> None:
        """Remember that an undo of an edit rewrote the file `was`: it is now the file `now`."""
        add_alias(self.layers.aliases, root, path, was, now)

    def _held(self, change: Change) -> HeldChanges:
        return self.layers.get(str(change.kept)[len(COMMAND_PREFIX) :])

    def _turn(self, held: HeldChanges) -> str:
        """Undo an applied layer, or redo an undone one: as a whole or not at all, even if forced."""
        back = held.state == "applied"
        try:
            turn = self.layers.undo if back else self.layers.redo
            turn(held.id)
        except ApplyConflict as error:
            raise ToolError(
                f"what call {held.call_id} changed cannot be {'taken back' if back else 'brought back'}: {error}. A "
                "command's changes go together, so nothing was changed; force does not help here."
            ) from None
        count = len(held.ops())
        return f"{'took back' if back else 'brought back'} what a command changed ({count} step{'s' * (count != 1)})"


def _is_back(change: Change, held: HeldChanges) -> bool:
    """Return whether there is nothing to reverse: the process ended before the apply, or within an undo that was
    completed since."""
    return held.state == "held" or (held.state == "undone" and change.tool != "undo")


@contextmanager
def _recorded(table: ChangeTable, change: Change, held: HeldChanges) -> Generator[None]:
    """Record a layer as one change while the block moves it. Its path is the root; the layer's plan has the paths
    below."""
    change.before_kind = change.after_kind = "dir"
    change.kept = f"{COMMAND_PREFIX}{held.id}"
    number = table.insert(change)
    try:
        yield
    except BaseException:
        table.drop(number)
        raise
    table.done(number, change.undoes)
