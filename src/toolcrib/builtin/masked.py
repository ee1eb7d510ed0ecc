"""Prevents that a model overwrites a secret with the mask of the secret."""

from __future__ import annotations

from collections.abc import Callable

from ..core.errors import ToolError

LostBy = Callable[[str, str], str | None]
"""`lost_by(current, new)` returns why `new` in place of `current` would destroy a secret; None if it would not."""


def may_be_masked(text: str) -> bool:
    """Return whether the text may hold a mask. This quick check comes before the file is read."""
    return "***" in text or "[secret:" in text


def refuse_masks(lost_by: LostBy | None, current: str, new: str, shown: str) -> None:
    """Raise ToolError if a secret of the file would be overwritten with its mask."""
    if lost_by is None or not may_be_masked(new):
        return
    why = lost_by(current, new)
    if why is not None:
        raise ToolError(f"{shown} was not changed: {why}")
