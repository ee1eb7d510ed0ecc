"""Convert a change list to plain data and back, so that another process can apply, undo or complete a layer.

Changes, ops and entries are tuples, which JSON writes as they are. Names that are not valid UTF-8 are surrogate
escapes.
"""

from __future__ import annotations

from typing import Any

from .change_list import ChangeList, Op, PathChange
from .file_entry import Entry


def ops_to_data(ops: list[Op]) -> list[Any]:
    """Return the ops, which say what to do, as plain data."""
    return [tuple(op) for op in ops]


def changes_to_data(found: ChangeList) -> dict[str, Any]:
    """Return the changes, which people read, as plain data."""
    return {"roots": list(found.roots), "changes": [tuple(change) for change in found.changes]}


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
