"""Delete changes, their stored contents and spilled outputs that are too old or, oldest first, over the quota."""

from __future__ import annotations

import contextlib
import os
import sqlite3
import time
from collections.abc import Callable
from dataclasses import field
from pathlib import Path

from ..core.dataclass import dataclass
from ..core.errors import ToolcribError
from . import state
from .change import COMMAND_PREFIX, open_journal_db
from .connection import is_busy
from .state import Removal, StateFolder, folder_entries, prune_folder, remove_entry


def prune_journal(folder: StateFolder, quota: int, max_age: float, *, dry_run: bool = False) -> list[Removal]:
    """Delete changes that are too old or, oldest first, over the quota, with their stored contents."""
    path = folder.journal / "journal.db"
    if not path.exists():
        return []
    try:
        with contextlib.closing(open_journal_db(folder)) as db:
            chosen = _old_changes(folder, db, quota, max_age)
            for _, number, holder in [] if dry_run else chosen:
                db.execute("DELETE FROM change WHERE id = ?", (number,))
                if holder:
                    remove_entry(folder.path / holder)
    except sqlite3.OperationalError as error:  # on a full disk nothing can be written until the contents are gone
        if is_busy(error):
            raise
        with contextlib.closing(sqlite3.connect(f"{path.as_uri()}?immutable=1", uri=True)) as db:
            chosen = _old_changes(folder, db, quota, max_age)
        # The changes that are still in the log of SQLite are not seen here: what seems to be of none may be theirs.
        chosen = [each for each in chosen if each[1] is not None]
        if chosen and not dry_run:
            for holder in {holder for _, _, holder in chosen} - {""}:
                remove_entry(folder.path / holder)
            with contextlib.closing(open_journal_db(folder)) as db:
                db.executemany("DELETE FROM change WHERE id = ?", [(number,) for _, number, _ in chosen])
    return [removal for removal, _, _ in chosen]


def _old_changes(
    folder: StateFolder, db: sqlite3.Connection, quota: int, max_age: float
) -> list[tuple[Removal, int | None, str]]:
    """Return what is to be removed, the number of its change, and what holds its content ("" if nothing does). The
    quota does not touch the newest call: its answer says how to take it back. What is larger than the quota alone goes
    before older changes."""
    now = time.time()
    layers = {f"{COMMAND_PREFIX}{n}": (s, t) for n, s, t in folder_entries(folder.path / COMMAND_PREFIX)}
    sizes = {f"journal/{n}": s for n, s, _ in folder_entries(folder.journal) if not n.startswith("journal.db")}
    ages = {f"journal/{n}": t for n, _, t in folder_entries(folder.journal) if not n.startswith("journal.db")}
    for name, size, changed in folder_entries(folder.trash):
        sizes[f"trash/{name}"], ages[f"trash/{name}"] = size, changed
    rows = db.execute("SELECT id, at, kept, call_id FROM change ORDER BY id").fetchall()
    holders = [(number, at, _holder(kept)) for number, at, kept, _ in rows]
    newest = {number for number, _, _, call in rows if call == rows[-1][3]}
    for holder in {holder for _, _, holder in holders} & layers.keys():  # other layers wait for an answer
        sizes[holder], ages[holder] = layers[holder]
    holders = [(number, at, holder if holder in sizes else "") for number, at, holder in holders]  # only what is there
    total = sum(sizes.values()) - sum(sizes[holder] for number, _, holder in holders if number in newest and holder)
    chosen: list[tuple[Removal, int | None, str]] = []
    for number, at, holder in sorted(holders, key=lambda each: sizes.get(each[2], 0) <= quota):
        size = sizes.get(holder, 0)
        if now - at <= max_age and (total <= quota or size == 0 or number in newest):
            continue
        total -= size
        part = "trash" if holder.startswith("trash/") else "journal"
        chosen.append((Removal(part, f"change {number}", size, now - at), number, holder))
    for holder in sizes.keys() - {holder for _, _, holder in holders}:  # a crash before the row was written left it
        if now - ages[holder] > 3600:
            removal = Removal(holder.split("/")[0], holder, sizes[holder], now - ages[holder])
            chosen.append((removal, None, holder))
    return chosen


def _prune_saved(folder: StateFolder, quota: int, max_age: float, dry_run: bool) -> list[Removal]:
    """Do the same for files as they were before commands. A copy has the times of its file, so its age is that of its
    inode."""
    now = time.time()
    found: list[tuple[float, Path, int]] = []
    with contextlib.suppress(FileNotFoundError):
        for path in folder.saved.iterdir():
            with contextlib.suppress(FileNotFoundError):
                found.append((path.lstat().st_ctime, path, path.lstat().st_size))
    total = sum(size for _, _, size in found)
    removed: list[Removal] = []
    for since, path, size in sorted(found):
        if total > quota or now - since > max_age:
            total -= size
            removed.append(Removal("saved", path.name, size, now - since))
            if not dry_run:
                remove_entry(path)
    return removed


def _holder(kept: str | bytes | None) -> str:
    """Return the entry of the state folder that contains a stored content: each trash entry is its own folder."""
    return "/".join(os.fsdecode(kept).split("/")[:2]) if kept else ""


@dataclass(frozen=True, slots=True)
class CleanReport:
    """The result of a cleaning. `sizes` are the bytes of each part before it; `removed` lists what was removed, or
    would be."""

    sizes: dict[str, int]
    removed: list[Removal] = field(default_factory=list[Removal])
    dry_run: bool = False
    failed: list[str] = field(default_factory=list[str])
    """What could not be cleaned, and why."""

    def add(self, part: str, prune: Callable[[], list[Removal]]) -> None:
        """Clean one part. What fails does not hold up the others: on a full disk each may make room for the next."""
        try:
            self.removed.extend(prune())
        except (ToolcribError, OSError, sqlite3.Error) as error:
            self.failed.append(f"{part}: {error}")

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
    report.add("spill", lambda: prune_folder(folder.spill, "spill", spill_quota, spill_age, dry_run=dry_run))
    report.add("saved", lambda: _prune_saved(folder, journal_quota, journal_age, dry_run))
    report.add("journal", lambda: prune_journal(folder, journal_quota, journal_age, dry_run=dry_run))
    return report
