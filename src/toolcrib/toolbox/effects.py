"""What happens to the changes that a toolbox's commands make: the setting, and how a person is asked."""

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
    from ..core.registry import ToolRegistry
    from ..record.state import StateFolder
    from .parts import Ground

log = logging.getLogger("toolcrib")


def make_effects(ground: Ground, registry: ToolRegistry) -> CommandEffects | None:
    """The effects of a toolbox's commands; None where commands write directly."""

    async def call(name: str, arguments: Mapping[str, Any], ctx: ToolContext) -> ToolOutput:
        return await registry.execute(name, arguments, ctx)

    def answer_of(approval_id: str) -> str | None:
        row = ground.approvals.get(approval_id)
        return None if row is None else str(row["state"])

    settings = ground.settings
    services = EffectServices(
        call, answer_of, ground.redactor.redact, open_spill(ground.spill, ground.redactor),
        settings.approval.timeout, settings.mode == "autonomous",
    )  # fmt: skip
    return layered_commands(settings.sandbox.effects, ground.journal, services)


def recover_effects(state: StateFolder) -> None:
    """Complete what a killed process had begun to apply or undo, and forget what was held for too long."""
    for line in recover(state, prune=True):
        log.warning("%s", line)
