"""Build the part that handles the changes of a toolbox's commands: the setting, and how a person is asked."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from ..builtin.command_effects import EffectServices
from ..builtin.default_tools import open_spill
from ..core.errors import ConfigError
from ..core.wings import absent, has_wing

if TYPE_CHECKING:
    from ..builtin.command_effects import CommandEffects
    from ..core.registry import ToolRegistry
    from ..record.change_table import CommandChanges
    from ..record.state import StateFolder
    from .parts import Ground


def make_effects(ground: Ground, registry: ToolRegistry) -> CommandEffects | None:
    """Return the effects of a toolbox's commands; None if commands write directly. Raises ConfigError without the
    package."""
    settings = ground.settings
    if not has_wing("effects"):
        if settings.sandbox.effects != "direct":
            raise ConfigError(f'sandbox.effects = "{settings.sandbox.effects}": {absent("effects")}')
        return None
    from ..effects import effects_of_commands

    def answer_of(approval_id: str) -> str | None:
        row = ground.approvals.get(approval_id)
        return None if row is None else str(row["state"])

    services = EffectServices(
        registry.execute, answer_of, ground.redactor.redact, open_spill(ground.spill, ground.redactor),
        settings.approval.timeout, settings.mode == "autonomous",
    )  # fmt: skip
    return effects_of_commands(settings.sandbox.effects, ground.journal, services)


def recover_effects(state: StateFolder, *, prune: bool = False) -> list[str]:
    """Complete changes that a killed process had begun to apply or undo. Returns a line for each. `prune` also deletes
    changes that were held for too long."""
    if not has_wing("effects"):
        return []
    from ..effects import recover

    return recover(state, prune=prune)


def command_journal(state: StateFolder) -> Callable[[], CommandChanges] | None:
    """Return a function that makes the object to undo changes of commands; None without the package `effects`."""
    if not has_wing("effects"):
        return None
    from ..effects import command_changes

    return lambda: command_changes(state)
