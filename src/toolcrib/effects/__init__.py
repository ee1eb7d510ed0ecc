"""Record, review and undo what commands change. Commands run over copy-on-write layers; a layer is applied as a whole
or not at all.

This file is the entry: it loads the rest only where there is something to do.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from ..record.change import COMMAND_PREFIX

if TYPE_CHECKING:
    from ..builtin.command_effects import EffectServices
    from ..record.journal import Journal
    from ..record.state import StateFolder
    from .change_list import ChangeList
    from .journal_rows import JournalledLayers
    from .layer_store import HeldChanges
    from .layered_commands import LayeredCommands
    from .saved_files import FileSaver

Mode = Literal["direct", "journal", "review"]


def command_changes(folder: StateFolder) -> JournalledLayers:
    """Return the object that a journal of this state folder needs to undo the changes of commands."""
    from .journal_rows import JournalledLayers
    from .layer_store import LayerStore

    return JournalledLayers(LayerStore(folder))


def changes_in(journal: Journal) -> JournalledLayers:
    """Return the command changes that a journal knows. It is the same object each time, so that all callers see an
    undo."""
    from .journal_rows import JournalledLayers

    found = journal.commands
    return found if isinstance(found, JournalledLayers) else command_changes(journal.folder)


def apply_changes(journal: Journal, held: HeldChanges) -> list[str]:
    """Apply the changes of a command: all of them, or none. Return the conflicts that prevented it."""
    from .layer_apply import ApplyConflict

    try:
        changes_in(journal).apply(journal, held)
    except ApplyConflict as error:
        return error.conflicts
    return []


def in_words(found: ChangeList) -> tuple[str, str]:
    """Return how many changes of each kind there are, and a line for each path."""
    from .change_text import headline, paths

    return headline(found), "\n".join(paths(found, len(found.changes)))


def recover(folder: StateFolder, *, prune: bool = False) -> list[str]:
    """Complete the work that a killed process had begun. Return a line for each layer. `prune` also drops old
    changes that wait."""
    if not (folder.path / COMMAND_PREFIX).is_dir():
        return []
    layers = command_changes(folder).layers
    lines = layers.recover()
    if prune:
        layers.prune()
    return lines


def file_saver(journal: Journal) -> FileSaver:
    """Return what saves the files that commands could delete or rewrite, where commands write directly."""
    from .saved_files import FileSaver

    return FileSaver(journal)


def effects_of_commands(mode: Mode, journal: Journal, services: EffectServices) -> LayeredCommands | None:
    """Return the effects of commands in mode `journal` or `review`; None in mode `direct`, where commands write
    directly."""
    if mode == "direct":
        return None
    from .layered_commands import LayeredCommands

    return LayeredCommands(mode, journal, changes_in(journal), services)
