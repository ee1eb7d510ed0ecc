"""A change list as plain data, so that a layer can be applied, undone or completed by another process."""

from __future__ import annotations

from typing import Any, cast

from .changes import Action, Change, ChangeList, Kind, Op
from .entry import Entry
from .entry import Kind as EntryKind

Tree = tuple[tuple[str, Entry], ...]


def to_data(found: ChangeList) -> dict[str, Any]:
    """As JSON data. Names that are no UTF-8 are surrogate escapes, which JSON writes as \\u escapes."""
    return {
        "roots": list(found.roots),
        "changes": [
            [c.root, c.path, c.action, _row(c.before), _row(c.after), c.below, c.refused, c.conflict, list(c.notes),
             c.target]
            for c in found.changes
        ],
        "ops": [
            [op.kind, op.root, op.path, _row(op.before), _row(op.after), _rows(op.tree), _rows(op.old_tree),
             op.above]
            for op in found.ops
        ],
    }  # fmt: skip


def from_data(data: dict[str, Any]) -> ChangeList:
    """Back again."""
    changes = [
        Change(root, path, cast("Action", action), _entry(before), _entry(after), below, refused, conflict,
               tuple(notes), target)
        for root, path, action, before, after, below, refused, conflict, notes, target in data["changes"]
    ]  # fmt: skip
    ops = [
        Op(cast("Kind", kind), root, path, _entry(before), _entry(after), _tree(tree), _tree(old),
           None if above is None else (above[0], above[1]))
        for kind, root, path, before, after, tree, old, above in data["ops"]
    ]  # fmt: skip
    return ChangeList(data["roots"], changes, ops)


def _row(entry: Entry | None) -> list[int | str] | None:
    return None if entry is None else entry.row


def _rows(tree: Tree) -> list[Any]:
    return [[path, entry.row] for path, entry in tree]


def _entry(row: list[Any] | None) -> Entry | None:
    return None if row is None else Entry(cast("EntryKind", row[0]), *row[1:])


def _tree(rows: list[Any]) -> Tree:
    return tuple((path, Entry(cast("EntryKind", row[0]), *row[1:])) for path, row in rows)
