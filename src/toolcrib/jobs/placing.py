"""Which workers take the jobs of a toolbox, and which schedules are its own: those of its workspace."""

from __future__ import annotations

import os
import re
from hashlib import sha256
from typing import TYPE_CHECKING, TypedDict

from ..boundary.real_path import real_path
from .engine import CONFIG
from .schedules import Schedules

if TYPE_CHECKING:
    from ..config.settings import Settings
    from ..toolbox import Toolbox


class Placement(TypedDict):
    """What chooses the workers of a job, and shares them."""

    queue: str
    tags: tuple[str, ...]
    tenant: str
    workspace: str


MAX_CONFIG = 180
"""Characters of the path in the tag for `--config`."""


def placement(box: Toolbox) -> Placement:
    """Return where the jobs of a toolbox are done."""
    jobs, tags = box.settings.jobs, (*box.settings.jobs.tags, *config_tag(box.settings))
    return {"queue": jobs.queue, "tags": tags, "tenant": jobs.tenant, "workspace": workspace_of(box)}


def config_tag(settings: Settings) -> tuple[str, ...]:
    """Return the tag of jobs that are made under a file of `--config`, and of workers that have it: no other one takes
    them, because that file may be stricter than theirs."""
    if settings.origin.config is None:
        return ()
    path = real_path(settings.origin.config)
    shown = re.sub(r"[^A-Za-z0-9_./-]", "_", path)[-MAX_CONFIG:]
    return (f"{CONFIG}{shown}-{_digits(path)}",)


def config_name(tag: str) -> str:
    """Return the path of the file of `--config` that a tag stands for, or its name if the tag cannot hold its path; ""
    for another tag."""
    if not tag.startswith(CONFIG):
        return ""
    shown, _, digits = tag.removeprefix(CONFIG).rpartition("-")
    return shown if _digits(shown) == digits else os.path.basename(shown)


def _digits(path: str) -> str:
    return sha256(os.fsencode(path)).hexdigest()[:8]


def workspace_of(box: Toolbox) -> str:
    """Return the workspace of a toolbox as a job names it."""
    return named_by(box.workspace.root)


def named_by(root: str | os.PathLike[str]) -> str:
    """Return the name of a workspace for jobs and schedules: its real path, which the machines must share."""
    return real_path(root).encode("utf-8", "replace").decode()


def schedules_of(box: Toolbox) -> Schedules:
    """Return the schedules of a toolbox."""
    return Schedules(box.state.record, workspace_of(box))
