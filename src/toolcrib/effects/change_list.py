"""The change list of a layer. It says what a command changed: for people, for the model, and for the apply."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

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

    def counts(self) -> Iterator[tuple[str, int]]:
        """Yield each kind of change and how many there are. Refused ones are counted separately."""
        found: dict[str, int] = {}
        for change in self.changes:
            found[change.action if not change.refused else "refused"] = (
                found.get(change.action if not change.refused else "refused", 0) + 1
            )
        yield from found.items()


def readable(path: str) -> str:
    """Return a path as printable text. Line breaks and bytes that are not valid UTF-8 are written as escapes."""
    text = os.fsencode(path).decode("utf-8", "backslashreplace")
    return text if text.isprintable() else text.encode("unicode_escape").decode("ascii")
