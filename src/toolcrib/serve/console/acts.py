"""Records what a person does at the console, besides answers: those are stored with their request."""

from __future__ import annotations

from contextlib import closing

from ...record.audit import Audit
from ...record.connection import Where


def note_act(record: Where, person: str, did: str, what: str) -> None:
    """Record that a person does this now. Raises RecordError if that is impossible: then it must not be done."""
    with closing(Audit(record)) as audit:
        audit.note("person", {"person": person, "did": did, "what": what})
