"""Settings of the record."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from ..core.settings import Bounds, Section
from ..core.tightening import Longer


@dataclass(frozen=True, slots=True)
class RecordSettings(Section):
    """How much of the record of calls is kept. 0 means no limit."""

    keep_days: Annotated[int, Bounds(ge=0, le=36_500), Longer()] = 365
    """Older calls are dropped."""
    max_bytes: Annotated[int, Bounds(ge=0, le=2**62)] = 2**30
    """The size of the file; beyond it the oldest calls are dropped. A project that is not trusted cannot change it, so
    that it cannot fill the disk."""
