"""What is stored of servers between sessions, one file for each server and kind, readable only by this user.

The last listings are in `$XDG_STATE_HOME/toolcrib/mcp/lists`: a toolbox opens with their tools without starting the
servers. A file that cannot be read is treated as missing: the server is asked again.

Pins are in `$XDG_STATE_HOME/toolcrib/mcp/pins`. A trusted server can change its tools later ("rug pull"): a new
description gives the model new instructions. So the digests of all its tools are stored when it is first listed. A
tool that is new or changed after that asks before each call, until a person has reviewed and accepted it. If a file
cannot be read, nothing is trusted: every tool of that server asks.
"""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from ...core.bound import Redact, map_texts
from ...core.text import lazy_regex
from ...policy.plain import plain_line
from ...record.state import write_private
from .listed import Json, ListedTool, ServerListing, listing_from_json

log = logging.getLogger("toolcrib.mcp")

VERSION = 1
MAX_BYTES = 64 * 2**20
FAILED_SECONDS = 120.0
"""How long a failed server is not asked again when a toolbox opens. `toolcrib mcp test` asks immediately."""
T = TypeVar("T")
_DIGEST = lazy_regex("[0-9a-f]{64}")


class ServerFiles:
    """Files about servers, by the identity of a server (`ServerConfig.identity`). `redact` removes secrets: a server
    may say what it was given."""

    def __init__(self, folder: Path, redact: Redact = str) -> None:
        self._folder, self._redact = folder, redact

    def path(self, identity: str, kind: str = "json") -> Path:
        return self._folder / f"{identity[:32]}.{kind}"

    def store(self, path: Path, **entry: Any) -> None:
        """Write a file. Raises OSError or ConfigError."""
        write_private(path, json.dumps({"version": VERSION, **self._clean(entry)}))

    def _clean(self, entry: Json) -> Json:
        """Return JSON data without secrets. Digests stay: what was accepted must be found again."""
        plain = json.loads(json.dumps(entry, default=dict))
        return map_texts(plain, lambda text: text if _DIGEST.fullmatch(text) else self._redact(text))

    def load(self, path: Path, read: Callable[[Json], T]) -> T | None:
        """Return what `read` makes of the entry in a file; None if there is none or it cannot be read."""
        try:
            if path.stat().st_size > MAX_BYTES:
                return None
            entry: Any = json.loads(path.read_bytes())
            return read(entry) if entry["version"] == VERSION else None
        except FileNotFoundError:
            return None
        except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            log.warning("%s: cannot be read (%s) and counts as missing", path, error)
            return None


class ListCache(ServerFiles):
    """The last listings, and what else is known of servers. A failure to write is only logged: it costs time."""

    def read(self, identity: str) -> ServerListing | None:
        """Return the listing; None if there is none or it cannot be read."""
        return self.load(self.path(identity), lambda entry: listing_from_json(entry["listing"]))

    def shown(self, listing: ServerListing) -> ServerListing:
        """Return a listing without secrets, as it is read from its file: models and clients get it."""
        return listing_from_json(self._clean(listing.to_json()))

    def write(self, identity: str, name: str, listing: ServerListing) -> None:
        """Store a listing."""
        self._write(identity, "json", name=name, when=time.time(), listing=listing.to_json())
        self.path(identity, "failed").unlink(missing_ok=True)

    def keep(self, identity: str, kind: str, value: Any) -> None:
        """Store other data of a server, as JSON."""
        self._write(identity, kind, kept=value)

    def kept(self, identity: str, kind: str, read: Callable[[Any], T]) -> T | None:
        """Return what `read` makes of the value that `keep` stored; None if there is none."""
        return self.load(self.path(identity, kind), lambda entry: read(entry["kept"]))

    def failed(self, identity: str, error: str) -> None:
        """Remember that a server without a listing could not be reached. The next toolbox then does not wait for it."""
        self._write(identity, "failed", when=time.time(), error=error)

    def failure(self, identity: str) -> str | None:
        """Return why a server could not be reached recently; None if no recent failure is known."""

        def recent(entry: Json) -> str | None:
            return str(entry["error"])[:2_000] if 0 <= time.time() - entry["when"] < FAILED_SECONDS else None

        return self.load(self.path(identity, "failed"), recent)

    def _write(self, identity: str, kind: str, **entry: Any) -> None:
        try:
            self.store(self.path(identity, kind), **entry)
        except Exception as error:
            log.warning("what is known of an MCP server could not be stored: %s", error)


class Accepted(NamedTuple):
    """The accepted state of one tool: the digest of all that a model reads of it, and its description."""

    digest: str
    description: str


class Pins(ServerFiles):
    """The accepted digests of the tools of servers, by the server's identity (`ServerConfig.identity`)."""

    def __init__(self, folder: Path, redact: Redact = str) -> None:
        super().__init__(folder, redact)
        self._known: dict[str, dict[str, Accepted]] = {}

    def trust_first(self, identity: str, tools: Iterable[ListedTool]) -> None:
        """Accept the listing of a server, if nothing of it was accepted before."""
        if not self.path(identity).exists():
            self.accept(identity, tools)

    def accept(self, identity: str, tools: Iterable[ListedTool]) -> None:
        """Accept these tools of a server; what was accepted of its others stays. Raises OSError if it cannot be stored;
        then they are not accepted."""
        now = {tool.name: Accepted(tool.digest, tool.description) for tool in tools}
        accepted = {**self._of(identity), **now}
        self.store(self.path(identity), tools=accepted)
        self._known[identity] = accepted

    def doubt(self, identity: str, server: str, tool: ListedTool) -> str | None:
        """Return why calls of a tool should ask; None if the tool has not changed since it was accepted."""
        accepted = self.said(identity, tool.name)
        if accepted is not None and accepted.digest == tool.digest:
            return None
        changed = "has changed what it says of" if accepted is not None else "has added"
        return (
            f"MCP server {server} {changed} its tool {plain_line(tool.name[:80])} since it was first listed or "
            f"accepted; `toolcrib mcp accept {server}` shows what it says now, and asks whether that is right"
        )

    def forget(self, identity: str) -> None:
        """Delete everything that was accepted of a server."""
        self._known.pop(identity, None)
        self.path(identity).unlink(missing_ok=True)

    def said(self, identity: str, tool: str) -> Accepted | None:
        """Return the accepted state of one tool; None if the tool was not accepted."""
        return self._of(identity).get(tool)

    def _of(self, identity: str) -> dict[str, Accepted]:
        known = self._known.get(identity)
        if known is None:
            known = self._known[identity] = self.load(self.path(identity), _accepted) or {}
        return known


def _accepted(entry: Json) -> dict[str, Accepted]:
    return {str(name): Accepted(str(digest), str(text)) for name, (digest, text) in entry["tools"].items()}
