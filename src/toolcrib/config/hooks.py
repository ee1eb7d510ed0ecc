"""Convert the `hooks` setting to the hook rules that the policy uses."""

from __future__ import annotations

from collections.abc import Iterator

from ..policy.hooks import DANGEROUS_PATTERNS, DANGEROUS_TOOLS, HookRule, safety_hook
from ..policy.settings import HookSettings
from .settings import Settings


def hook_rules(settings: Settings) -> list[HookRule]:
    """Return the rules of all hooks: one rule for each pattern of a hook."""
    return [rule for hook in settings.hooks for rule in _rules(hook)]


def _rules(hook: HookSettings) -> Iterator[HookRule]:
    if hook.preset == "safety":
        yield from safety_hook(hook.tools or DANGEROUS_TOOLS, hook.pattern or DANGEROUS_PATTERNS)
        return
    assert hook.action is not None, "the setting was checked"
    for pattern in hook.pattern or [None]:
        yield HookRule(
            hook.action, tuple(hook.tools), tuple(hook.categories), tuple(hook.channels), pattern, hook.message,
            tuple(hook.when), hook.file.expanduser() if hook.file else None, tuple(hook.command),
        )  # fmt: skip
