"""Settings of the record."""

from __future__ import annotations

import os
from typing import Annotated

from ..core.dataclass import dataclass
from ..core.settings import Bounds, Checked, Section
from ..core.tightening import Longer


def _address(url: str) -> None:
    if url and not url.startswith(("postgresql://", "postgres://", "${")):
        raise ValueError(f"{url!r} should begin with postgresql://")


@dataclass(frozen=True, slots=True)
class RecordSettings(Section):
    """Where the record is, and how much of it is kept. 0 means no limit."""

    keep_days: Annotated[int, Bounds(ge=0, le=36_500), Longer()] = 365
    """Older calls are dropped."""
    max_bytes: Annotated[int, Bounds(ge=0, le=2**62)] = 2**30
    """The size of the record; beyond it the oldest calls are dropped. A project that is not trusted cannot change it,
    so that it cannot fill the disk."""
    url: Annotated[str, Checked(_address)] = ""
    """A Postgres database that many machines share: `postgresql://user:${PASSWORD}@host/name`. It holds calls,
    approvals and sessions. "" means a file in the state folder of each workspace."""

    @property
    def address(self) -> str:
        """The database, with `${VAR}` replaced; "" for a file. Raises ConfigError if a variable is not set."""
        if "${" not in self.url:
            return self.url
        from ..core.variables import expand

        return expand(self.url, os.environ, "record.url")
