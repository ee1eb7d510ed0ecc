"""`toolcrib undo`: take back changes of file tools, and of commands that ran over a layer."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from typing import Annotated

from ..boundary.workspace import Workspace
from ..policy.plain import plain_line
from ..record.change import Change
from ..record.journal import Journal
from ..record.state import StateFolder
from ..record.undoing import UndoConflict
from ..record.undoing import undo as undo_call
from ..toolbox.sandbox import command_journal, recover_effects
from . import show
from .exit_codes import FAILED, OK
from .options import Options
from .reader import Argument, CliCommand, Option


def undo(
    options: Options,
    call_id: Annotated[
        str | None, Argument(metavar="CALL-ID", help="The call to take back. Default: the last one.")
    ] = None,
    listed: Annotated[bool, Option("--list", "-l", help="List the changes that can be taken back.")] = False,
    force: Annotated[
        bool, Option("--force", help="Undo even if files have changed since. Their present content goes to the trash.")
    ] = False,
    limit: Annotated[int, Option("--limit", "-n", minimum=1, help="How many changes --list shows.")] = 50,
) -> int:
    """Take back all changes of a call: contents, modes and new files. An undo can be undone."""
    with open_journal(options) as journal:
        for line in recover_effects(journal.folder):
            show.warn(line)
        if listed:
            _list(journal, call_id, limit, options.json)
            return OK
        try:
            done = undo_call(journal, call_id, force=force)
        except UndoConflict as error:
            for line in error.conflicts:
                show.error(plain_line(line))
            show.error("nothing was undone; --force undoes it anyway, and moves the present content to the trash")
            return FAILED
        if options.json:
            show.out_json({"call_id": done.call_id, "undo_id": done.undo_id, "lines": done.lines})
        else:
            for line in done.lines:
                show.out(plain_line(line))
            show.say(f"Call {done.call_id} is undone. `toolcrib undo {done.undo_id}` restores it.", "dim")
        return OK


@contextmanager
def open_journal(options: Options) -> Generator[Journal]:
    """The journal of the workspace that the options name."""
    settings = options.settings(quiet=True)
    workspace = Workspace(settings.workspace, write_roots=settings.sandbox.write_roots)
    state = StateFolder.for_workspace(settings.workspace)
    journal = Journal(state, workspace, commands=command_journal(state))
    try:
        yield journal
    finally:
        journal.close()
        workspace.close()


def _list(journal: Journal, call_id: str | None, limit: int, as_json: bool) -> None:
    changes = journal.changes(call_id, limit)
    if as_json:
        show.out_json([
            {"call_id": c.call_id, "time": c.at, "tool": c.tool, "action": c.action, "path": c.path,
             "status": c.status, "session_id": c.session_id}
            for c in changes
        ])  # fmt: skip
        return
    rows = [[c.call_id, show.clock(c.at), c.tool, c.action, c.status, _what(c)] for c in changes]
    show.columns(rows, ("bold", "dim", None, None, "dim", None), none="No changes are recorded here.")


def _what(change: Change) -> str:
    """The path; for a command, whose changes are one entry, the command."""
    return plain_line(change.reason or "")[:120] if change.action == "ran" else change.path


COMMAND = CliCommand(undo)
