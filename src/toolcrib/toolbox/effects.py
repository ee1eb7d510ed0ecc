"""How does a toolbox come to the effects of its commands? The setting, and who asks a person about them."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from ..builtin.default_tools import open_spill
from ..effects import EffectServices, layered_commands, recover

if TYPE_CHECKING:
    from ..builtin.command_effects import CommandEffects
    from ..core.context import ToolContext
    from ..core.output import ToolOutput
    from .toolbox import Toolbox


log = logging.getLogger("toolcrib")


def make_effects(box: Toolbox) -> CommandEffects | None:
    """The effects of a toolbox's commands; None where commands write directly. What a killed process had begun is
    completed first."""
    for line in recover(box.state, prune=True):
        log.warning("%s", line)

    async def call(name: str, arguments: Mapping[str, Any], ctx: ToolContext) -> ToolOutput:
        return await box.registry.execute(name, arguments, ctx)

    def answer_of(approval_id: str) -> str | None:
        row = box.approvals.get(approval_id)
        return None if row is None else str(row["state"])

    settings = box.settings
    services = EffectServices(
        call, answer_of, box.redactor.redact, open_spill(box.spill, box.redactor),
        settings.approval.timeout, settings.mode == "autonomous",
    )  # fmt: skip
    return layered_commands(settings.sandbox.effects, box.journal, services)
