"""A command's layer as one change in the journal: taken back and brought back in one order with edits."""

from __future__ import annotations

from typing import Any

from ..boundary.layers.apply import ApplyConflict
from ..core.errors import ToolError
from .layers import HeldChanges, Layers

_KEPT = "layers/"


def is_layer(row: dict[str, Any]) -> bool:
    """Whether a row of the journal is a command's layer."""
    return str(row["kept"]).startswith(_KEPT)


def row_of(held: HeldChanges) -> dict[str, Any]:
    """What the journal keeps of a layer. The path of such a row is the root: what is below stands in its plan."""
    return {"before_kind": "dir", "after_kind": "dir", "kept": f"{_KEPT}{held.id}", "kept_size": 0}


def held_of(layers: Layers, row: dict[str, Any]) -> HeldChanges:
    """The layer of a row. ToolError where it was cleaned away."""
    return layers.get(str(row["kept"])[len(_KEPT) :])


def conflict(layers: Layers, row: dict[str, Any]) -> str | None:
    """What stands against turning a layer round; None if nothing."""
    held = held_of(layers, row)
    if held.state == "held":  # the process ended before it was applied
        return None
    return "; ".join(layers.conflicts(held.id)) or None


def turn(layers: Layers, held: HeldChanges) -> str:
    """Take back what was applied, or bring back what was taken back: whole, or not at all, whatever forces it."""
    back = held.state == "applied"
    try:
        if back:
            layers.undo(held.id)
        else:
            layers.redo(held.id)
    except ApplyConflict as error:
        raise ToolError(
            f"what call {held.call_id} changed cannot be {'taken back' if back else 'brought back'}: {error}. A "
            "command's changes go together, so nothing was changed; force does not help here."
        ) from None
    count = len(held.ops())
    return f"{'took back' if back else 'brought back'} what a command changed ({count} step{'s' * (count != 1)})"
