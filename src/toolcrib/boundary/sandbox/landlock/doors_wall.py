"""The wall `all`: a command that nobody approved may do everything without a sandbox, but not answer for the person.

Landlock's rules leave out our state and settings, so the command can neither read nor change approvals, rules, trust
and the record. Rules are needed for everything else: each folder above those files is opened entry by entry. What is
made directly in these folders (`~`) cannot be written by the command. The devices of disks, and what root reads of the
memory of other processes and of the kernel, are closed, too: the same is there. A yes of a person lifts this wall.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from ... import landlock_calls
from ...descriptors import unreadable
from ...per_process import PerProcess
from ...real_path import real_path
from ...spawn import Spawn
from ..settings import Profile, SandboxSettings
from .file_rules import FileRules

MIN_ABI = landlock_calls.ABI_REFER  # before it, files could not be moved between any folders


class DoorsWall:
    """The wall around commands of one workspace. `name` and `profile` are those of the backend without a sandbox."""

    active = False
    fresh_folders: tuple[str, ...] = ()
    domains: tuple[str, ...] = ()

    def __init__(self, settings: SandboxSettings, name: str, profile: Profile) -> None:
        self.name = name
        self.profile: Profile = profile
        abi = landlock_calls.landlock_abi()
        self._rights = landlock_calls.all_rights(abi) & landlock_calls.CONTENT
        self._hidden = settings.hidden

    def wrap(self, argv: Sequence[str], *, cwd: Path, env: Mapping[str, str], timeout: float | None) -> Spawn:
        """Return what to start instead of the command. Raises OSError if it cannot be prepared."""
        ruleset = landlock_calls.create_ruleset(landlock_calls.handled_files(self._rights))
        try:
            rules = FileRules(ruleset, self._rights, (*map(real_path, self._hidden), *disk_devices()))
            with os.scandir("/") as entries:
                for entry in entries:
                    if not entry.is_symlink():
                        rules.allow(entry.path)
        except BaseException:
            os.close(ruleset)
            raise
        return Spawn(
            argv=argv,
            cwd=str(cwd),
            env=env,
            confined=functools.partial(_threads().start, ruleset),
            outlives_thread=True,
            cleanup=lambda: os.close(ruleset),
        )


# Kinds of devices by which disks are read, and where those are: also as characters, by commands of SCSI and NVMe.
_DISKS = {"block": "/dev", "scsi_generic": "/dev", "nvme-generic": "/dev", "bsg": "/dev/bsg", "mtd": "/dev"}


def disk_devices() -> list[str]:
    """Return the devices of disks, for a user who may open any of them."""
    found: list[str] = []
    for kind, folder in _DISKS.items() if os.geteuid() == 0 else ():
        with unreadable:
            found += [f"{folder}/{name.replace('!', '/')}" for name in os.listdir(f"/sys/class/{kind}")]
    return found


def _confine(ruleset: int) -> None:
    landlock_calls.drop_capabilities(landlock_calls.KERNEL_CAPABILITIES)
    landlock_calls.restrict_thread(ruleset)


# Landlock alone does not close our own process to root.
_threads = PerProcess(
    lambda: landlock_calls.ConfinedThreads(
        lambda: landlock_calls.bound_capabilities(landlock_calls.KERNEL_CAPABILITIES), _confine
    )
)
