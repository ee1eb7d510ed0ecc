"""Finds the wings of this installation. A wing is an optional package: everything else works without it."""

from __future__ import annotations

from collections.abc import Mapping

from .dataclass import dataclass
from .empty import EMPTY


@dataclass(frozen=True, slots=True)
class Wing:
    """The package of a wing, below `toolcrib`; its commands and what each does; the package with the commands."""

    package: str
    commands: Mapping[str, str] = EMPTY
    doors: str = "cli"


AGENT_COMMANDS = {
    "acp": "Serve the agent to an editor (Zed, JetBrains, Neovim).",
    "chat": "Talk with an agent.",
    "run": "Give an agent a task.",
    "sessions": "List, show and fork sessions of the agent.",
    "channels": "Talk to the agent through chats and webhooks.",
}

JOB_COMMANDS = {"jobs": "See, cancel and repeat work in the background.",
                "schedule": "Schedule messages to the agent and calls.",
                "worker": "Run jobs and schedules."}  # fmt: skip

HOOK_COMMANDS = {
    "hook": "Judge the calls of another agent, such as Claude Code.",
    "hookd": "Answer the events of hooks sooner.",
}

WINGS = {
    "adapters": Wing("adapters"),
    "agent": Wing("agent", AGENT_COMMANDS, "cli.agent"),
    "browser": Wing("builtin.browser"),
    "code": Wing("builtin.code", {"code": "Run a script that calls the tools."}),
    "composed": Wing("sources.composed"),
    "console": Wing("serve.console", {"console": "Answer calls that wait, in the browser."}),
    "demo": Wing("cli.demo", {"demo": "Watch an MCP client use the tools."}),
    "docker": Wing("boundary.sandbox.docker"),
    "documents": Wing("builtin.documents"),
    "effects": Wing("effects", {"changes": "See and apply what commands would change."}),
    "gateway": Wing("serve.gateway"),
    "hosts": Wing("hosts", HOOK_COMMANDS),
    "http": Wing("serve.http"),
    "install": Wing("cli.install", {"install": "Set up an MCP client, such as Claude Code or Cursor."}),
    "jobs": Wing("jobs", JOB_COMMANDS, "cli.jobs"),
    "landlock": Wing("boundary.sandbox.landlock"),
    "lint": Wing("policy.lint", {"lint": "Find faults in tools' names, texts and schemas."}),
    "oauth": Wing("sources.mcp.oauth"),
    "openapi": Wing("sources.openapi"),
    "plugins": Wing("sources.plugins", {"plugin": "List, check and scaffold plugins."}),
    "postgres": Wing("record.postgres"),
    "testing": Wing("testing"),
    "web": Wing("builtin.web"),
}
"""The rest imports a wing where `has_wing` says that it is there, and only the package itself; without its folder and
its line here everything else works."""


def has_wing(name: str) -> bool:
    """Return whether the wing is installed."""
    return name in WINGS


def absent(name: str) -> str:
    """Return why a part that needs the wing is not available."""
    return f"this installation of toolcrib has no {name!r}"
