"""`toolcrib clean`: remove old files and rows from the state folder."""

from __future__ import annotations

import time
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

from ..core.homes import state_home
from ..core.text import size
from ..record import retention
from ..record.connection import is_full
from ..record.pruning import CleanReport
from ..record.pruning import clean as clean_state
from ..record.settings import RecordSettings
from ..record.state import Removal, StateFolder, folder_entries
from . import show
from .exit_codes import of_success
from .options import Options
from .reader import CliCommand, Option


def clean(
    options: Options,
    dry_run: Annotated[bool, Option("--dry-run", help="Only show what would be removed.")] = False,
    everything: Annotated[
        bool, Option("--all", help="Remove all spilled outputs, undo history, saved files and trash, of any age.")
    ] = False,
    everywhere: Annotated[
        bool, Option("--all-workspaces", help="Do so for every workspace, also for those that are gone.")
    ] = False,
) -> int:
    """Remove spilled outputs, undo history and recorded calls that are too old or too large.

    Spilled outputs are kept 7 days and 2 GiB, undo history, trash and files as they were before
    commands 30 days and 2 GiB, the record of calls as
    record.keep_days and record.max_bytes say (a year, 1 GiB), even with --all. --all asks first.
    Files that killed browsers left behind are always removed.
    """
    settings = options.settings(quiet=True)
    url = settings.record.address
    states = [StateFolder(path, url) for path in state_folders()] if everywhere else [options.state()]
    if everything and not dry_run:
        parts = [size for state in states for part, size in state.sizes().items() if part not in ("record", "browser")]
        where = f"{len(states)} folders of {state_home()}" if everywhere else str(states[0].path)
        question = f"Remove {size(sum(parts))} in {where}? Nothing can be undone afterwards."
        options.confirm(question, "nothing was removed")
    reports = [(state, _clean(state, settings.record, everything, dry_run)) for state in states]
    code = of_success(not any(report.failed for _, report in reports))
    if options.json:
        found = [_data(state, report) for state, report in reports]
        show.out_json(found if everywhere else found[0])
        return code
    verb = "would be freed" if dry_run else "freed"
    for state, report in reports:
        for removal in report.removed:
            show.out(f"{removal.part}/{removal.name}  {size(removal.size)}  {removal.age / 86400:.1f} days old")
        held = ", ".join(f"{part} {size(count)}" for part, count in report.sizes.items())
        for failure in report.failed:
            show.error(f"{state.path} was not cleaned in one part, {failure}")
        if report.removed or report.failed or not everywhere:
            show.say(f"{size(report.freed)} {verb} in {state.path} (held before: {held})")
        if not report.removed and not everything and is_full(state.record_db):
            show.say(
                "The disk is full, and nothing here is old: `toolcrib clean --all` removes it at any age.", "yellow"
            )
    if everywhere:
        total = sum(report.freed for _, report in reports)
        show.say(f"{size(total)} {verb} in the {len(states)} folders of {state_home()}")
    return code


def state_folders() -> list[Path]:
    """The state folders of all workspaces."""
    return sorted({path.parent for name in ("record.db", "journal") for path in state_home().glob(f"*/{name}")})


def _clean(state: StateFolder, keep: RecordSettings, everything: bool, dry_run: bool) -> CleanReport:
    if everything:
        report = clean_state(state, spill_quota=0, spill_age=0, journal_quota=0, journal_age=0, dry_run=dry_run)
    else:
        report = clean_state(state, dry_run=dry_run)
    report.add("browser", lambda: _dead_browsers(state, dry_run))
    report.add("record", lambda: _old_calls(state, keep, dry_run))
    return report


def _data(state: StateFolder, report: CleanReport) -> dict[str, object]:
    return {
        "folder": str(state.path), "sizes": report.sizes, "freed": report.freed, "dry_run": report.dry_run,
        "removed": [asdict(removal) for removal in report.removed], "failed": report.failed,
    }  # fmt: skip


def _old_calls(state: StateFolder, keep: RecordSettings, dry_run: bool) -> list[Removal]:
    """Drop the rows that the record need not keep. The other rows can still be verified."""
    if not state.url and not state.record_db.exists():
        return []
    gone = retention.apply(state.record, keep, slack=0, dry_run=dry_run)
    return [Removal("record", f"{gone.rows:,} rows", gone.size, gone.age)] if gone.rows else []


def _dead_browsers(state: StateFolder, dry_run: bool) -> list[Removal]:
    """Remove the profiles of browsers that are dead: no process holds their lock."""
    found = {name: (size, changed) for name, size, changed in folder_entries(state.browser)}
    now = time.time()
    try:
        from ..builtin.browser import dead_profiles

        gone = dead_profiles(state.browser, remove=not dry_run)
    except ImportError:  # without this wing; on a system without such locks
        return []
    return [Removal("browser", name, found[name][0], now - found[name][1]) for name in gone if name in found]


COMMAND = CliCommand(clean)
