"""Which workers take the jobs of a toolbox, and which schedules are its own: those of its workspace."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, TypedDict

from .schedules import Schedules

if TYPE_CHECKING:
    from ..toolbox import Toolbox


class Placement(TypedDict):
    """What chooses the workers of a job, and shares them."""

    queue: str
    tags: tuple[str, ...]
    tenant: str
    workspace: str


def placement(box: Toolbox) -> Placement:
    """Return where the jobs of a toolbox are done."""
    jobs = box.settings.jobs
    return {"queue": jobs.queue, "tags": jobs.tags, "tenant": jobs.tenant, "workspace": workspace_of(box)}


def workspace_of(box: Toolbox) -> str:
    """Return the workspace of a toolbox as a job names it."""
    return named_by(box.workspace.root)


def named_by(root: str | os.PathLike[str]) -> str:
    """Return the name of a workspace for jobs and schedules: its real path, which the machines must share."""
    return os.path.realpath(root).encode("utf-8", "replace").decode()


def schedules_of(box: Toolbox) -> Schedules:
    """Return the schedules of a toolbox."""
    return Schedules(box.state.record, workspace_of(box))
