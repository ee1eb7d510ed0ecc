"""Remembers the state of each file when a session last read or wrote it, to detect changes by others since then."""

from __future__ import annotations

import threading
from collections import OrderedDict

from ..boundary.workspace_paths import Identity

_LIMIT = 4096  # files over all sessions; the least recently used are forgotten


class Seen:
    """Stores, for each session and path, the identity of the file that the session knows."""

    def __init__(self, limit: int = _LIMIT) -> None:
        self._limit = limit
        self._lock = threading.Lock()
        self._known: OrderedDict[tuple[str | None, str], Identity] = OrderedDict()

    def note(self, session: str | None, path: str, identity: Identity) -> None:
        """Record that this session now knows the file with this identity."""
        key = (session, path)
        with self._lock:
            self._known[key] = identity
            self._known.move_to_end(key)
            while len(self._known) > self._limit:
                self._known.popitem(last=False)

    def changed(self, session: str | None, path: str, identity: Identity) -> bool:
        """Return whether the file has changed since the session knew it; False if the session never read it."""
        known = self._known.get((session, path))
        return known is not None and known != identity

    def forget(self, session: str | None, path: str) -> None:
        """Forget a file, because it was deleted."""
        with self._lock:
            self._known.pop((session, path), None)
