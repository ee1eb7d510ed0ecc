"""Find names in settings that no tool has: what they say there has no effect."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from typing import TYPE_CHECKING

from ..core.errors import ConfigError
from ..core.text import matches

if TYPE_CHECKING:
    from ..config import Settings
    from ..core.registry import ToolRegistry
    from ..core.tool import Tool

_AGENT = "only the agent has it (`toolcrib chat`, `toolcrib run`)"
_MANY = "it comes with more tools than tools.list_limit"
ELSEWHERE = {
    **dict.fromkeys(("ask_user", "job", "message", "read_skill", "spawn", "todo"), _AGENT),
    **dict.fromkeys(("call_tool", "search_tools"), _MANY),
    "run_code": "the setting tools.code adds it; `toolcrib code FILE.py` runs a script without it",
}
"""Tools of ours that a single call cannot have, and who has them."""
LATER = (*ELSEWHERE, "create_tool", "cron", "final_answer", "schedule_task")
"""Tools of ours that are not in every toolbox: the agent and `toolcrib serve` add some, others need a setting."""


def check_names(settings: Settings, registry: ToolRegistry, built_in: Iterable[Tool]) -> list[str]:
    """Return a warning for each setting that names tools which are not there.

    A name with `*`, or of a server's tool, may mean tools that come later; only built-in tools can be disabled, so for
    these it is a warning, too. An unknown name in `approval.require_for` is an error, unless servers or plugins may add
    it: somebody relies on that question. Raises ConfigError for it.
    """
    named = [(key, names) for key, names in _named(settings) if names]
    if not named:
        return []
    from ..core.near import unknown

    ours = {name for tool in built_in for name in tool.every_name} | set(LATER) | set(registry.unavailable)
    known = (
        {name for tool in registry for name in tool.every_name} | ours | {f"openapi:{api}" for api in settings.openapi}
    )
    found: list[str] = []
    for key, names in named:
        if key == "tools.disabled":
            of, elsewhere = "built-in tool", [name for name in names if not _fits(name, ours)]
            said = unknown(elsewhere, ours) + [repr(name) for name in elsewhere if "*" in name]
        else:
            of, elsewhere = "tool", []
            said = unknown([name for name in names if not name.startswith(("mcp_", "mcp:"))], known)
        if not said:
            continue
        text = f"{_place(settings, key)}{key}: there is no {of} {', '.join(said)}"
        if key == "approval.require_for" and not settings.mcp_servers and not settings.plugins.enabled:
            raise ConfigError(
                f"{text}, so nothing would ask because of it; known here: {', '.join(sorted(known.difference(LATER)))}."
                " A name with * may mean tools that come later"
            )
        if any(_fits(name, known) for name in elsewhere):
            text += "; tools from elsewhere are forbidden with rules.deny"
        found.append(f"{text}. It has no effect; `toolcrib list` names the tools")
    return found


def _named(settings: Settings) -> Iterator[tuple[str, Iterable[str]]]:
    """Yield each setting that names tools, with the names."""
    yield "approval.require_for", settings.approval.require_for
    yield "approval.dangerous_tools", settings.approval.dangerous_tools
    for name in settings.limits.per_tool:
        yield f"limits.per_tool.{name}", [name]
    yield "limits.may_repeat", settings.limits.may_repeat
    yield "tools.disabled", settings.tools.disabled
    yield "tools.errors_as_text", settings.tools.errors_as_text
    yield "hooks", [name for hook in settings.hooks for name in hook.tools]
    for name, secret in settings.secrets.items():
        yield f"secrets.{name}.tools", secret.tools
    yield "serve.tokens", [name for token in settings.serve.tokens for name in token.tools]


def _fits(pattern: str, names: Collection[str]) -> bool:
    return any(matches(name, (pattern,)) for name in names)


def _place(settings: Settings, key: str) -> str:
    """Return `file:line: ` of a setting, or of the table that it is in; "" where it comes from code."""
    sources = settings.origin.sources
    while key and key not in sources:
        key = key.rpartition(".")[0]
    return f"{sources[key]}: " if key else ""
