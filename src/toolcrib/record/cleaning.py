"""Remove entries from a state folder that are too old or over a quota, for `toolcrib clean`."""

from __future__ import annotations

from dataclasses import dataclass, field

from .pruning import prune_journal
from .state import JOURNAL_AGE, JOURNAL_QUOTA, SPILL_AGE, SPILL_QUOTA, Removal, StateFolder, prune_folder


@dataclass(frozen=True, slots=True)
class CleanReport:
    """The result of a cleaning. `sizes` are the bytes of each part before it; `removed` lists what was removed, or
    would be."""

    sizes: dict[str, int]
    removed: list[Removal] = field(default_factory=list[Removal])
    dry_run: bool = False

    @property
    def freed(self) -> int:
        """Bytes that were removed, or that would be."""
        return sum(r.size for r in self.removed)


def clean(
    folder: StateFolder,
    *,
    spill_quota: int = SPILL_QUOTA,
    spill_age: float = SPILL_AGE,
    journal_quota: int = JOURNAL_QUOTA,
    journal_age: float = JOURNAL_AGE,
    dry_run: bool = False,
) -> CleanReport:
    """Remove entries that are older than their maximum age (seconds) or, oldest first, over their quota (bytes)."""
    report = CleanReport(folder.sizes(), dry_run=dry_run)
    report.removed.extend(prune_folder(folder.spill, "spill", spill_quota, spill_age, dry_run=dry_run))
    report.removed.extend(prune_journal(folder, journal_quota, journal_age, dry_run=dry_run))
    return report
