"""The change list of a layer. It says what a command changed: for people, for the model, and for the apply.

Another process can apply, undo or complete a layer from a stored list. Changes, ops and entries are tuples, which JSON
writes as they are. Names that are not valid UTF-8 are surrogate escapes.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import field
from typing import Any, Literal, NamedTuple

from ..core.dataclass import dataclass
from .file_entry import Entry

Action = Literal["created", "modified", "replaced", "deleted", "mode", "attributes", "touched"]


class PathChange(NamedTuple):
    """One path that differs from before.

    `path` is relative to root number `root`; bytes that are not valid UTF-8 are surrogate escapes. `below` says that an
    apply moves the path together with a folder above it. `refused` says why the path is never applied, `conflict` says
    what changed it from outside meanwhile.
    """

    root: int
    path: str
    action: Action
    before: Entry | None
    after: Entry | None
    below: bool = False
    refused: str = ""
    conflict: str = ""
    notes: tuple[str, ...] = ()
    target: str | None = None
    """The target of a link."""


Kind = Literal["put", "swap", "take", "mode"]


class Op(NamedTuple):
    """One step of an apply: put a new name, swap one name for another, remove one, or set a folder's mode.

    `tree` lists everything below a folder that is put or removed: path below it, entry. `above` is the folder that
    contains the path, as device and inode.
    """

    kind: Kind
    root: int
    path: str
    before: Entry | None
    after: Entry | None
    tree: tuple[tuple[str, Entry], ...] = ()
    old_tree: tuple[tuple[str, Entry], ...] = ()
    above: tuple[int, int] | None = None


@dataclass(slots=True)
class ChangeList:
    """Everything that a layer holds. `ops` are independent of each other: each path has one."""

    roots: Sequence[str]
    changes: list[PathChange] = field(default_factory=list[PathChange])
    ops: list[Op] = field(default_factory=list[Op])

    @property
    def conflicts(self) -> list[PathChange]:
        """Return the changes of paths that were also changed from outside."""
        return [change for change in self.changes if change.conflict]

    @property
    def refused(self) -> list[PathChange]:
        """Return the changes that are never applied."""
        return [change for change in self.changes if change.refused]

    def __bool__(self) -> bool:
        return bool(self.changes)

    def shown_path(self, change: PathChange) -> str:
        """Return the path as people read it: relative in the workspace, absolute in another root."""
        path = change.path if change.root == 0 else os.path.join(self.roots[change.root], change.path)
        return readable(path)


def readable(path: str) -> str:
    """Return a path as printable text. Line breaks and bytes that are not valid UTF-8 are written as escapes."""
    text = os.fsencode(path).decode("utf-8", "backslashreplace")
    return text if text.isprintable() else text.encode("unicode_escape").decode("ascii")


def ops_from_data(data: list[Any]) -> list[Op]:
    """Return the ops from plain data."""
    return [
        Op(kind, root, path, _entry(before), _entry(after), _tree(tree), _tree(old), tuple(above) if above else None)
        for kind, root, path, before, after, tree, old, above in data
    ]


def changes_from_data(data: dict[str, Any]) -> ChangeList:
    """Return the change list from plain data, without the ops."""
    changes = [
        PathChange(root, path, action, _entry(before), _entry(after), below, refused, conflict, tuple(notes), target)
        for root, path, action, before, after, below, refused, conflict, notes, target in data["changes"]
    ]
    return ChangeList(data["roots"], changes)


def _entry(row: list[Any] | None) -> Entry | None:
    return None if row is None else Entry(*row)


def _tree(rows: list[Any]) -> tuple[tuple[str, Entry], ...]:
    return tuple((path, Entry(*row)) for path, row in rows) if rows else ()
