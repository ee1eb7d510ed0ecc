"""Remember how trusted servers described their tools. A tool with another description asks before each call.

A trusted server can change its tools later ("rug pull"): a new description gives the model new instructions. So the
digests of all its tools are stored when it is first listed. A tool that is new or changed after that asks before
each call, until a person has reviewed and accepted it.

There is one file per server in `$XDG_STATE_HOME/toolcrib/mcp/pins`. If a file cannot be read, nothing is trusted:
every tool of that server asks.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from .cache import ServerFiles
from .listed import Json, ListedTool


class Accepted(NamedTuple):
    """The accepted state of one tool: the digest of all that a model reads of it, and its description."""

    digest: str
    description: str


class Pins(ServerFiles):
    """The accepted digests of the tools of servers, by the server's identity (`ServerConfig.identity`)."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self._known: dict[str, dict[str, Accepted]] = {}

    def trust_first(self, identity: str, tools: Iterable[ListedTool]) -> None:
        """Accept the listing of a server, if nothing of it was accepted before."""
        if not self.path(identity).exists():
            self.accept(identity, tools)

    def accept(self, identity: str, tools: Iterable[ListedTool]) -> None:
        """Accept the current listing of a server. Raises OSError if it cannot be stored; then it is not accepted."""
        accepted = {tool.name: Accepted(tool.digest, tool.description) for tool in tools}
        self.store(self.path(identity), tools=accepted)
        self._known[identity] = accepted

    def doubt(self, identity: str, server: str, tool: ListedTool) -> str | None:
        """Return why calls of a tool should ask; None if the tool has not changed since it was accepted."""
        accepted = self.said(identity, tool.name)
        if accepted is not None and accepted.digest == tool.digest:
            return None
        changed = "has changed what it says of" if accepted is not None else "has added"
        return (
            f"MCP server {server} {changed} its tool {tool.name[:80]} since it was first listed or accepted; "
            f"`toolcrib mcp accept {server}` shows what it says now, and asks whether that is right"
        )

    def forget(self, identity: str) -> None:
        """Delete everything that was accepted of a server."""
        self._known.pop(identity, None)
        self.path(identity).unlink(missing_ok=True)

    def said(self, identity: str, tool: str) -> Accepted | None:
        """Return the accepted state of one tool; None if the tool was not accepted."""
        known = self._known.get(identity)
        if known is None:
            known = self._known[identity] = self.load(self.path(identity), _accepted) or {}
        return known.get(tool)


def _accepted(entry: Json) -> dict[str, Accepted]:
    return {str(name): Accepted(str(digest), str(text)) for name, (digest, text) in entry["tools"].items()}
