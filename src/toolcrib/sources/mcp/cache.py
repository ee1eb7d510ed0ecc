"""The last listings of servers, on disk: a toolbox opens with their tools without starting the servers.

There is one file per server in `$XDG_STATE_HOME/toolcrib/mcp/lists`, readable only by this user. A file that cannot
be read is treated as missing: the server is asked again.
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
import time
from pathlib import Path
from typing import Any, cast

from ...boundary.own_files import replace_file
from ...record.state import private_folder
from .listed import ServerListing, listing_from_json

log = logging.getLogger("toolcrib.mcp")

VERSION = 1
MAX_BYTES = 64 * 2**20
FAILED_SECONDS = 120.0
"""How long a failed server is not asked again when a toolbox opens. `toolcrib mcp test` asks immediately."""


class ListCache:
    """Stores listings by the identity of a server (`ServerConfig.identity`)."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def read(self, identity: str) -> ServerListing | None:
        """Return the listing; None if there is none or it cannot be read."""
        path = self._path(identity)
        try:
            if path.stat().st_size > MAX_BYTES:
                return None
            value: Any = json.loads(path.read_bytes())
            if not isinstance(value, dict):
                return None
            entry = cast("dict[str, Any]", value)
            return listing_from_json(entry["listing"]) if entry.get("version") == VERSION else None
        except FileNotFoundError:
            return None
        except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            log.warning("%s: this list of tools cannot be read (%s); the server is asked again", path, error)
            return None

    def write(self, identity: str, name: str, listing: ServerListing) -> None:
        """Store a listing. A failure is only logged: its only effect is lost time."""
        entry = {"version": VERSION, "name": name, "when": time.time(), "listing": listing.to_json()}
        try:
            private_folder(self._folder.parent)
            private_folder(self._folder)
            replace_file(self._path(identity), json.dumps(entry))
            self._path(identity, "failed").unlink(missing_ok=True)
        except Exception as error:
            log.warning("the tools of MCP server %s could not be stored: %s", name, error)

    def keep(self, identity: str, kind: str, value: Any) -> None:
        """Store other data of a server, as JSON. A failure is only logged: its only effect is lost time."""
        try:
            private_folder(self._folder.parent)
            private_folder(self._folder)
            replace_file(self._path(identity, kind), json.dumps({"version": VERSION, "kept": value}))
        except Exception as error:
            log.warning("the %s of an MCP server could not be stored: %s", kind, error)

    def kept(self, identity: str, kind: str) -> Any:
        """Return the value that `keep` stored, or None."""
        path = self._path(identity, kind)
        try:
            if path.stat().st_size > MAX_BYTES:
                return None
            value: Any = json.loads(path.read_bytes())
            return cast("dict[str, Any]", value)["kept"] if value["version"] == VERSION else None
        except FileNotFoundError:
            return None
        except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
            log.warning("%s: cannot be read (%s); the server is asked again", path, error)
            return None

    def failed(self, identity: str, error: str) -> None:
        """Remember that a server without a listing could not be reached. The next toolbox then does not wait for it."""
        with contextlib.suppress(OSError):
            private_folder(self._folder.parent)
            private_folder(self._folder)
            fd = os.open(self._path(identity, "failed"), os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, 0o600)
            with os.fdopen(fd, "w", encoding="utf-8", errors="replace") as out:
                out.write(error)

    def failure(self, identity: str) -> str | None:
        """Return why a server could not be reached recently; None if no recent failure is known."""
        path = self._path(identity, "failed")
        try:
            ago = time.time() - path.stat().st_mtime
            return path.read_text(encoding="utf-8")[:2_000] if 0 <= ago < FAILED_SECONDS else None
        except (OSError, UnicodeDecodeError):
            return None

    def _path(self, identity: str, kind: str = "json") -> Path:
        return self._folder / f"{identity[:32]}.{kind}"
