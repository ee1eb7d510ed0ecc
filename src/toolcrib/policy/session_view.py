"""One session as its host sees it: its user's texts, and the results that its calls have read."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable

from ..core.output import Labels
from .flow import LabelFlow

log = logging.getLogger("toolcrib.policy")


class Session:
    """A view of the data that is stored for one session. It holds no data itself, so it needs no closing."""

    def __init__(self, session_id: str | None, flow: LabelFlow, ends: Iterable[Callable[[str | None], object]]) -> None:
        self.id = session_id
        self._flow, self._ends = flow, ends

    def trust(self, text: str) -> None:
        """Mark a text as written by the user: calls that use its values do not ask (`labels.policy` said or
        destinations)."""
        self._flow.trust(text, self.id)

    @property
    def labels(self) -> Labels:
        """The join of the labels of all results of its calls."""
        return self._flow.labels_of(self.id)

    def end(self) -> None:
        """Forget everything that was read, said, found and granted in the session; end its commands and pages."""
        for end in self._ends:
            try:
                end(self.id)
            except Exception:  # for example, the record is already closed; the other parts must forget it all the same
                log.debug("a part of the session %s could not be forgotten", self.id, exc_info=True)
