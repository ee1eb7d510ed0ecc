"""One session as its host sees it: its user's texts, and the results that its calls have read."""

from __future__ import annotations

from ..core.output import Labels
from .approval import ApprovalService
from .flow import LabelFlow


class Session:
    """A view of the data that is stored for one session. It holds no data itself, so it needs no closing."""

    def __init__(self, session_id: str | None, flow: LabelFlow, approval_service: ApprovalService) -> None:
        self.id = session_id
        self._flow, self._approval_service = flow, approval_service

    def trust(self, text: str) -> None:
        """Mark a text as written by the user: under `labels.policy = "said"`, calls that use its values do not ask."""
        self._flow.trust(text, self.id)

    @property
    def labels(self) -> Labels:
        """The join of the labels of all results of its calls."""
        return self._flow.labels_of(self.id)

    def end(self) -> None:
        """Forget everything that was read, said and granted in the session."""
        self._flow.forget(self.id)
        self._approval_service.forget(self.id)
