"""List the commands of the settings that the host starts outside the sandbox."""

from __future__ import annotations

import os
from dataclasses import replace
from typing import TYPE_CHECKING

from ..policy.starts import DeclaredStart, of_hook, of_secret

if TYPE_CHECKING:
    from ..config import Settings


def declared_starts(settings: Settings) -> list[DeclaredStart]:
    """Return the commands of local MCP servers, hooks and secrets in these settings."""
    found = [of_hook(hook.command) for hook in settings.hooks if hook.command]
    secrets = settings.secrets.items()
    found += [of_secret(f"secrets.{name}", secret.command) for name, secret in secrets if secret.command]
    if any(server.command for server in settings.mcp_servers.values()):
        from ..sources.mcp.program import start_of

        for name, server in settings.mcp_servers.items():
            start = start_of(replace(server, name=name).expanded(os.environ), settings.workspace)
            if start is not None:
                found.append(start)
    return found
