"""`toolcrib changes`: show the changes of commands that wait for approval, and apply or discard them."""

from __future__ import annotations

import sys
from collections.abc import Generator
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING, Annotated

from ..effects import apply_changes, changes_in, in_words, recover
from ..policy.plain import plain, plain_line
from ..record.approvals import Approvals
from . import show
from .exit_codes import FAILED, OK
from .options import Options
from .reader import Argument, CliCommand, Option, group
from .undo import open_journal

if TYPE_CHECKING:
    from ..effects import HeldChanges, JournalledLayers
    from ..record.journal import Journal

Id = Annotated[str, Argument(metavar="ID", help="Their id, like ch-19a5c0e7b21-3fa9c1.")]


def listed(
    options: Options, everything: Annotated[bool, Option("--all", help="Also list applied and undone changes.")] = False
) -> None:
    """List the changes that wait to be applied."""
    with _journal(options) as (_, changes):
        found = changes.layers.all() if everything else changes.layers.all("held")
    if options.json:
        show.out_json([_data(held) for held in found])
        return
    rows = [[held.id, show.clock(held.at), held.state, plain_line(held.command)[:200]] for held in found]
    show.columns(rows, ("bold", "dim", None, None), none="No changes wait for approval here.")


def shown(options: Options, changes: Id) -> None:
    """Show the changes of a command."""
    with _journal(options) as (_, known):
        held = known.layers.get(changes)
        found = held.changes()
    if options.json:
        changed: list[dict[str, object]] = []
        for change in found.changes:
            entry = change.after or change.before
            changed.append({
                "path": found.shown_path(change), "action": change.action, "kind": entry and entry.kind,
                "refused": change.refused, "conflict": change.conflict, "notes": list(change.notes),
            })  # fmt: skip
        show.out_json({**_data(held), "changes": changed})
        return
    show.say(f"{held.id}  {held.state}  call {plain_line(held.call_id)}")
    show.say(plain(held.command), "bold")
    headline, paths = in_words(found)
    show.say(headline)
    show.diff(held.told or paths if held.state == "held" else paths, stream=sys.stdout)


def apply(options: Options, changes: Id) -> int:
    """Apply waiting changes: all of them, or none if the workspace has changed since."""
    with _journal(options) as (journal, known):
        held = known.layers.get(changes)
        conflicts = apply_changes(journal, held)
    if conflicts:
        for line in conflicts:
            show.error(line)
        show.error("nothing was applied; the workspace changed since the command ran")
        return FAILED
    show.say(f"Applied {changes}. `toolcrib undo {held.call_id}` takes it back.")
    _expire(options, held)
    return OK


def discard(options: Options, changes: Id) -> None:
    """Discard waiting changes."""
    with _journal(options) as (_, known):
        held = known.layers.get(changes)
        known.layers.discard(changes)
        _expire(options, held)
    show.say(f"Discarded {changes}; the workspace is as it was.")


def _expire(options: Options, held: HeldChanges) -> None:
    """End the request for approval of changes that a person has decided about here."""
    if held.approval_id is not None:
        with closing(Approvals(options.state().record)) as approvals:
            approvals.expire(held.approval_id)


def _data(held: HeldChanges) -> dict[str, object]:
    return {
        "id": held.id, "state": held.state, "time": held.at, "call_id": held.call_id, "session_id": held.session_id,
        "command": held.command, "approval_id": held.approval_id, "roots": list(held.roots),
    }  # fmt: skip


@contextmanager
def _journal(options: Options) -> Generator[tuple[Journal, JournalledLayers]]:
    with open_journal(options) as journal:
        for line in recover(journal.folder):
            show.warn(line)
        yield journal, changes_in(journal)


COMMAND = group(
    listed,
    "The changes of commands that wait for approval. Without a command: list them.",
    {
        "list": CliCommand(listed),
        "show": CliCommand(shown),
        "apply": CliCommand(apply, without=("json",)),
        "discard": CliCommand(discard, without=("json",)),
    },
)
