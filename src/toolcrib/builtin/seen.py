"""Remembers how a file was when a session last read or wrote it, to tell when somebody else changed it since."""

from __future__ import annotations

import threading
from collections import OrderedDict

from ..boundary.workspace_paths import Identity

_LIMIT = 4096  # files over all sessions; the least recently used are forgotten


class Seen:
    """For each session and path, the identity of the file as that session knows it."""

    def __init__(self, limit: int = _LIMIT) -> None:
        self._limit = limit
        self._lock = threading.Lock()
        self._known: OrderedDict[tuple[str | None, str], Identity] = OrderedDict()

    def note(self, session: str | None, path: str, identity: Identity) -> None:
        """This session now knows the file so."""
        key = (session, path)
        with self._lock:
            self._known[key] = identity
            self._known.move_to_end(key)
            while len(self._known) > self._limit:
                self._known.popitem(last=False)

    def changed(self, session: str | None, path: str, identity: Identity) -> bool:
        """Whether the session knows the file otherwise; False for one that it never read."""
        known = self._known.get((session, path))
        return known is not None and known != identity

    def forget(self, session: str | None, path: str) -> None:
        """The file is gone."""
        with self._lock:
            self._known.pop((session, path), None)
