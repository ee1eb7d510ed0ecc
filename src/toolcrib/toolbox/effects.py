"""What becomes of what a toolbox's commands change: the setting, and the doors through which a person is asked."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from ..builtin.default_tools import open_spill
from ..builtin.effects import Effects

if TYPE_CHECKING:
    from ..core.context import ToolContext
    from ..core.output import ToolOutput
    from .toolbox import Toolbox


log = logging.getLogger("toolcrib")


def make_effects(box: Toolbox) -> Effects:
    """The effects of a toolbox's commands. What a killed process had begun is completed first."""
    for line in box.journal.layers.recover():
        log.warning("%s", line)
    box.journal.layers.prune()

    async def call(name: str, arguments: Mapping[str, Any], ctx: ToolContext) -> ToolOutput:
        return await box.registry.execute(name, arguments, ctx)

    def answer_of(approval_id: str) -> str | None:
        row = box.approvals.get(approval_id)
        return None if row is None else str(row["state"])

    settings = box.settings
    return Effects(
        settings.sandbox.effects, box.journal, call=call, answer_of=answer_of, redact=box.redactor.redact,
        open_spill=open_spill(box.spill, box.redactor), patience=settings.approval.timeout,
        unattended=settings.mode == "autonomous",
    )  # fmt: skip
