"""What a person does at the console, and the record of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import closing

from ...core.dataclass import dataclass
from ...record.audit import Audit
from ...record.connection import Where


@dataclass(frozen=True, slots=True)
class SentForm:
    """A form that a person sent. `record` returns the record of this workspace."""

    given: Mapping[str, str]
    person: str
    record: Callable[[], Where]

    def get(self, name: str) -> str:
        """Return what a field says; "" if there is none."""
        return self.given.get(name, "")

    def note(self, did: str, what: str) -> None:
        """Record that the person does this now; answers are stored with their request instead.

        Raises RecordError if that is impossible: then it must not be done.
        """
        with closing(Audit(self.record())) as audit:
            audit.note("person", {"person": self.person, "did": did, "what": what})
