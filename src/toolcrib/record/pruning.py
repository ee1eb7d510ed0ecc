"""Delete changes, their stored contents and spilled outputs that are too old or, oldest first, over the quota."""

from __future__ import annotations

import time
from dataclasses import dataclass, field

from ..boundary.remove_tree import remove_all
from . import state
from .change import COMMAND_PREFIX, open_journal_db
from .state import Removal, StateFolder, folder_entries, prune_folder, remove_entry


def prune_journal(folder: StateFolder, quota: int, max_age: float, *, dry_run: bool = False) -> list[Removal]:
    """Delete changes that are too old or, oldest first, over the quota, with their stored contents."""
    if not (folder.journal / "journal.db").exists():
        return []
    now = time.time()
    layers = {f"{COMMAND_PREFIX}{n}": (s, t) for n, s, t in folder_entries(folder.path / COMMAND_PREFIX)}
    sizes = {f"journal/{n}": s for n, s, _ in folder_entries(folder.journal) if not n.startswith("journal.db")}
    ages = {f"journal/{n}": t for n, _, t in folder_entries(folder.journal) if not n.startswith("journal.db")}
    for name, size, changed in folder_entries(folder.trash):
        sizes[f"trash/{name}"], ages[f"trash/{name}"] = size, changed
    removed: list[Removal] = []
    db = open_journal_db(folder)
    try:
        rows = db.execute("SELECT id, at, kept FROM change ORDER BY id").fetchall()
        holders = [(number, at, _holder(kept)) for number, at, kept in rows]
        for holder in {holder for _, _, holder in holders} & layers.keys():  # other layers wait for an answer
            sizes[holder], ages[holder] = layers[holder]
        total = sum(sizes.values())
        for number, at, holder in holders:
            size = sizes.get(holder, 0) if holder else 0
            if now - at <= max_age and (total <= quota or size == 0):
                continue
            total -= size
            removed.append(
                Removal("trash" if holder.startswith("trash/") else "journal", f"change {number}", size, now - at)
            )
            if not dry_run:
                db.execute("DELETE FROM change WHERE id = ?", (number,))
                if holder.startswith(COMMAND_PREFIX):
                    remove_all(folder.path / holder)
                elif holder:
                    remove_entry(folder.path / holder)
        known = {holder for _, _, holder in holders}
        for holder in sizes.keys() - known:  # a crash between storing the content and writing the row left it
            if now - ages[holder] > 3600:
                removed.append(Removal(holder.split("/")[0], holder, sizes[holder], now - ages[holder]))
                if not dry_run:
                    remove_entry(folder.path / holder)
    finally:
        db.close()
    return removed


def _holder(kept: str | None) -> str:
    """Return the entry of the state folder that contains a stored content: each trash entry is its own folder."""
    return "/".join(kept.split("/")[:2]) if kept else ""


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
    spill_quota: int = state.SPILL_QUOTA,
    spill_age: float = state.SPILL_AGE,
    journal_quota: int = state.JOURNAL_QUOTA,
    journal_age: float = state.JOURNAL_AGE,
    dry_run: bool = False,
) -> CleanReport:
    """Remove entries that are older than their maximum age (seconds) or, oldest first, over their quota (bytes)."""
    report = CleanReport(folder.sizes(), dry_run=dry_run)
    report.removed.extend(prune_folder(folder.spill, "spill", spill_quota, spill_age, dry_run=dry_run))
    report.removed.extend(prune_journal(folder, journal_quota, journal_age, dry_run=dry_run))
    return report
