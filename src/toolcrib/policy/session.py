"""One session as its host sees it: what its user said, and what its calls have read."""

from __future__ import annotations

from ..core.labels import Labels
from .approval import ApprovalService
from .flow import LabelFlow


class Session:
    """What is kept of one session. It holds nothing itself, so it needs no closing."""

    def __init__(self, session_id: str | None, flow: LabelFlow, approval_service: ApprovalService) -> None:
        self.id = session_id
        self._flow, self._approval_service = flow, approval_service

    def trust(self, text: str) -> None:
        """The user said this: under `labels.policy = "said"`, calls that use what is in it do not ask."""
        self._flow.trust(text, self.id)

    @property
    def labels(self) -> Labels:
        """The join of the labels of everything its calls have returned."""
        return self._flow.labels_of(self.id)

    def end(self) -> None:
        """Forget what was read, said and granted in it."""
        self._flow.forget(self.id)
        self._approval_service.forget(self.id)
