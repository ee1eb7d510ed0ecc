"""Settings of jobs: where they are stored, and how many run at once."""

from __future__ import annotations

import os
from typing import Annotated, Literal

from ..core.dataclass import dataclass
from ..core.settings import Bounds, Checked, Count, ErrorText, Section
from ..core.tightening import Smaller


def _url(url: str) -> None:
    if not url.startswith(("postgresql://", "postgres://", "sqlite:///")):
        raise ValueError("should be postgresql://USER:PASSWORD@HOST/DATABASE, or sqlite:////FILE")


_Name = Annotated[str, Bounds(pattern=r"^[\w.-]{1,60}$"), ErrorText("should have 1 to 60 letters, digits and _ . -")]


@dataclass(frozen=True, slots=True)
class JobsSettings(Section):
    """Work in the background and schedules."""

    engine: Literal["dbos", "memory"] = "dbos"
    """`dbos` stores jobs in a database. With `memory` they end with the process."""
    url: Annotated[str, Checked(_url)] | None = None
    """The database, for example `postgresql://USER:${PASSWORD}@HOST/DATABASE`. Unset: a SQLite file in the state folder
    of the workspace."""
    queue: _Name = "default"
    """The queue that gets the jobs of this configuration, and that workers take jobs from."""
    tags: tuple[_Name, ...] = ()
    """What a worker must have to run the jobs of this configuration, such as `docker`."""
    tenant: Annotated[
        str, Bounds(pattern=r"^[\w.@-]{0,60}$"), ErrorText("should have at most 60 letters, digits and _ . @ -")
    ] = ""
    """Whose jobs these are. The tenants of a queue get equal shares of it."""
    max_running: Annotated[Count, Smaller()] = 16
    """Jobs of a queue that a worker runs at once."""
    max_queue: Annotated[Count | None, Smaller()] = None
    """Jobs of a queue that run at once, in all workers."""
    max_tenant: Annotated[Count | None, Smaller()] = None
    """Jobs of one tenant that run at once, in each queue."""
    max_total: Annotated[Count | None, Smaller()] = None
    """Jobs of all queues that run at once, in all workers."""
    keep_days: Annotated[int, Bounds(ge=1, le=36_500)] = 30
    """Days after which a job that has ended is deleted."""

    @property
    def address(self) -> str | None:
        """The database, with `${VAR}` replaced. Raises ConfigError if a variable is not set."""
        if self.url is None or "${" not in self.url:
            return self.url
        from ..core.variables import expand

        return expand(self.url, os.environ, "jobs.url")
