"""What a call changed in files, as short diffs for a person. Read from the journal and the files as they are now."""

from __future__ import annotations

from ...builtin.diffs import bounded_diff
from ...core.dataclass import dataclass
from ...core.errors import ToolcribError
from ...record.change import Change
from ...record.journal import Journal

MAX_BYTES = 4 * 2**20  # of a file that is compared
MAX_FILES = 20


@dataclass(frozen=True, slots=True)
class FileChange:
    """A changed file: what happened to it, and the lines of its diff, without its header."""

    path: str
    action: str
    lines: tuple[str, ...] = ()

    @property
    def summary(self) -> str:
        """The path and how many lines came and went."""
        added = sum(line.startswith("+") for line in self.lines)
        removed = sum(line.startswith("-") for line in self.lines)
        return f"{self.path} {self.action} (+{added} -{removed})" if self.lines else f"{self.path} {self.action}"


def file_changes(journal: Journal, call_id: str) -> list[FileChange]:
    """Return what a call changed; nothing for a call that changed no file."""
    if not journal.knows(call_id):
        return []
    first: dict[tuple[str, str], Change] = {}
    for change in journal.changes(call_id):  # newest first, so that the oldest of a path stays
        if not change.of_command and "dir" not in (change.before_kind, change.after_kind):
            first[change.root, change.path] = change
    return [_change(journal, change) for change in list(first.values())[:MAX_FILES]]


def _change(journal: Journal, change: Change) -> FileChange:
    try:
        before, after = (None if each is None else each.decode() for each in journal.contents(change, MAX_BYTES))
    except (OSError, ValueError, ToolcribError):  # cleaned up, too large, not text, or gone already
        return FileChange(change.path, change.action)
    diff = bounded_diff(before, after, change.path).splitlines()
    return FileChange(change.path, change.action, tuple(line for line in diff[2:] if not line.startswith("@@")))
