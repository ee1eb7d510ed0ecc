"""The base of all tools that change files, and a record of the files that each session has seen."""

from __future__ import annotations

import os
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..boundary.workspace import Workspace
from ..boundary.workspace_paths import Identity
from ..core.context import ToolContext
from ..core.errors import ToolError
from ..core.recent import Recent
from ..core.verdict import Judgement
from ..record.journal import Journal
from ..record.state import JOURNAL_QUOTA
from .encoding import Encoding, detect
from .explain import call_id_of, still_wanted

if TYPE_CHECKING:
    from ..policy.secrets.redact import Redactor

RULE_LARGE = "path:large"
MAX_EDIT = 100 * 2**20  # larger files are not loaded into memory for editing or previews
MAX_DISGUISED = 8 * 2**20
_MAX_SEEN = 4096  # files over all sessions; the least recently used are forgotten


class Seen:
    """Stores, for each session and path, the identity of the file when the session last read or wrote it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._known = Recent[tuple[str | None, str], Identity](_MAX_SEEN)

    def note(self, session: str | None, path: str, identity: Identity) -> None:
        """Record that this session now knows the file with this identity."""
        with self._lock:
            self._known[session, path] = identity

    def changed(self, session: str | None, path: str, identity: Identity) -> bool:
        """Return whether the file has changed since the session knew it; False if the session never read it."""
        known = self._known.get((session, path))
        return known is not None and known != identity

    def forget_session(self, session: str | None) -> None:
        """Forget all files of a session that has ended."""
        with self._lock:
            for key in [key for key in self._known if key[0] == session]:
                del self._known[key]

    def forget(self, session: str | None, path: str) -> None:
        """Forget a file, because it was deleted."""
        with self._lock:
            self._known.pop((session, path), None)


class JournaledTools:
    """Tools that change files and journal each change. `redactor` finds secrets that a new text would destroy."""

    def __init__(
        self, workspace: Workspace, journal: Journal, seen: Seen | None = None, *, redactor: Redactor | None = None
    ) -> None:
        self.ws = workspace
        self.journal = journal
        self.seen = seen or Seen()
        self._redactor = redactor

    def _read_whole(self, path: str, doing: str) -> tuple[bytes, os.stat_result]:
        """Return the bytes of a file that is not a link. Raises ToolError if it is too large for `doing`."""
        with open(self.ws.open_read(path, follow=False), "rb") as file:
            st = os.fstat(file.fileno())
            if st.st_size > MAX_EDIT:
                raise ToolError(
                    f"{self.ws.relative(path)} has {st.st_size:,} bytes; at most {MAX_EDIT:,} can be {doing}"
                )
            return file.read(), st

    def _write(
        self, path: str, data: bytes, tool: str, ctx: ToolContext, *, call: str | None = None, **options: Any
    ) -> None:
        """Write a file for a tool; `options` are those of `Journal.write`. The session knows the file afterwards."""
        still_wanted(ctx)
        call = call or call_id_of(ctx, self.journal)
        identity = self.journal.write(path, data, call_id=call, tool=tool, session_id=ctx.session_id, **options)
        self.seen.note(ctx.session_id, self.ws.relative(path), identity)

    def _trash(self, path: str, tool: str, ctx: ToolContext, call: str) -> Path:
        """Move a file or directory to the trash for a tool. Returns its new path."""
        still_wanted(ctx)
        trashed = self.journal.move_to_trash(path, call, tool, tool=tool, session_id=ctx.session_id)
        self.seen.forget(ctx.session_id, self.ws.relative(path))
        return trashed

    def _judge_size(self, path: str) -> Judgement | None:
        """Return a reason to ask before a file is replaced or deleted; None if undo keeps what it has."""
        try:
            size = self.ws.lstat(path).st_size
        except OSError:
            return None
        if size <= JOURNAL_QUOTA:
            return None
        kept = f"more than the {JOURNAL_QUOTA:,} that undo keeps, so later changes remove it from there"
        return Judgement("ask", f"{path} has {size:,} bytes: {kept}", RULE_LARGE)

    def _refuse_masks(self, current: str, new: str, shown: str) -> None:
        """Raise ToolError if a secret of the file would be overwritten with its mask."""
        why = None if self._redactor is None else self._redactor.lost_by(current, new)
        if why is not None:
            raise ToolError(f"{shown} was not changed: {why}")

    def _refuse_disguise(self, fd: int, encoding: Encoding, sample: bytes, shown: str) -> None:
        """Raise ToolError if a file, of which `sample` is the beginning, has a secret that an encoding which somebody
        asked for may show as other characters."""
        found = detect(sample)
        if self._redactor is None or encoding.plain or (found is not None and found.name == encoding.name):
            return
        if (size := os.fstat(fd).st_size) > MAX_DISGUISED:
            raise ToolError(
                f"{shown} has {size:,} bytes; with {encoding.name} at most {MAX_DISGUISED:,} can be read, because they "
                "are searched for secrets first"
            )
        if self._redactor.spans(os.pread(fd, size, 0).decode("latin-1"), dumps=False):
            raise ToolError(f"{shown} has a secret that {encoding.name} would not hide; read it without `encoding`")
