"""Compute the resource limits of one command in the kernel's form, and set them."""

from __future__ import annotations

import os
import resource
from collections.abc import Mapping

from .settings import CommandLimits


def resource_limits(limits: CommandLimits, timeout: float | None) -> dict[int, int]:
    """Return the rlimits of one command. CPU time is limited only if there is a time limit to multiply."""
    found = {
        resource.RLIMIT_CORE: 0,
        resource.RLIMIT_AS: limits.address_space,
        resource.RLIMIT_FSIZE: limits.file_size,
        resource.RLIMIT_NOFILE: limits.open_files,
        # Counted inside the sandbox's user namespace (Linux ≥ 5.14); this limit does not bind the host's root.
        resource.RLIMIT_NPROC: limits.processes,
    }
    if timeout is not None:
        cores = limits.cores or os.cpu_count() or 1
        found[resource.RLIMIT_CPU] = max(1, int(timeout * cores) + 1)
    return found


def limit_process(pid: int, limits: Mapping[int, int]) -> None:
    """Set the limits of a process that waits; lower ones stay. Raises ProcessLookupError if it is gone."""
    for limit, value in limits.items():
        soft, hard = resource.prlimit(pid, limit)
        bound = value if hard == resource.RLIM_INFINITY else min(value, hard)
        soft = bound if soft == resource.RLIM_INFINITY else min(bound, max(soft, value))
        resource.prlimit(pid, limit, (soft, bound))
