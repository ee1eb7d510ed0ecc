"""What settings say of commands, as `exec` takes it."""

from __future__ import annotations

import math
import os

from ..builtin.command_rules import CommandRules, patterns
from .settings import Settings

MOST_SECONDS = 600  # what `exec` takes


def command_rules(settings: Settings) -> CommandRules:
    """The sections `sandbox` and `tools.exec`. Raises ConfigError for a pattern that is no regular expression."""
    box, exec_ = settings.sandbox, settings.tools.exec
    seconds = None if exec_.timeout is None else min(MOST_SECONDS, math.ceil(exec_.timeout))
    return CommandRules(
        profile="unrestricted" if box.backend == "none" else box.profile,
        readable=tuple(os.path.realpath(root) for root in box.read_roots),
        writable=tuple(os.path.realpath(root) for root in box.write_roots),
        deny=patterns("tools.exec.deny_patterns", exec_.deny_patterns),
        allow=patterns("tools.exec.allow_patterns", exec_.allow_patterns),
        restrict_to_workspace=exec_.restrict_to_workspace,
        timeout=seconds,
    )
