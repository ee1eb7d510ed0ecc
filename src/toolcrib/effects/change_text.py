"""Show a change list as bounded text for people and for the model: what a command changed or would change.

Paths come first, content after them. Secrets are removed. The content of files that probably hold secrets is never
shown.
"""

from __future__ import annotations

import os
import stat
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path

from ..boundary.copy_tree import READ
from ..boundary.descriptors import closing_fd
from ..boundary.sensitive_names import sensitive_by
from ..builtin.diffs import bounded_diff
from .change_list import ChangeList, PathChange, readable
from .file_entry import Entry
from .layer_apply import open_beneath

MAX_PATHS = 60
MAX_DIFFS = 8
_MAX_NAME = 160  # characters of a name in a list that is bounded
_DIFF_LINES = 40
_DIFF_BYTES = 4 * 2**20
_ACTIONS = {"mode": "mode", "attributes": "attributes", "touched": "times"}

Redact = Callable[[str], str]


def headline(found: ChangeList) -> str:
    """Return how many changes of each kind there are: "2 created, 1 deleted; 1 refused"."""
    counts = Counter("refused" if change.refused else change.action for change in found.changes)
    refused = counts.pop("refused", 0)
    parts = [f"{number:,} {_ACTIONS.get(action, action)}" for action, number in counts.items()]
    text = ", ".join(parts) or "nothing"
    return f"{text}; {refused:,} never applied" if refused else text


def paths(found: ChangeList, most: int = MAX_PATHS, room: int | None = None) -> list[str]:
    """Return a line for each path. In long lists the most important paths come first, and paths that move with their
    folder are only counted. `room`: so many characters at most; then long names are shortened, too. The last line
    says how many paths are left out."""
    changes = found.changes
    if len(changes) > most:
        changes = [change for change in changes if not change.below or change.refused]
    below = _below(found) if len(changes) < len(found.changes) else {}

    def rank(change: PathChange) -> tuple[bool, bool, int]:
        counted = below.get((change.root, change.path), 0)
        return (not (change.refused or change.conflict), change.action == "created", -counted)

    def line(change: PathChange) -> str:
        return _line(found, change, below.get((change.root, change.path), 0), shortened=room is not None)

    lines = [line(change) for change in changes] if not below and len(changes) <= most else []
    if lines and (room is None or sum(map(len, lines)) <= room):
        return lines
    lines = [line(change) for change in sorted(changes, key=rank)[:most]]
    while room is not None and sum(map(len, lines)) > room:
        lines.pop()
    if len(changes) > len(lines):
        lines.append(f"… and {len(changes) - len(lines):,} more")
    return lines


def diffs(
    found: ChangeList,
    uppers: Sequence[Path],
    redact: Redact | None = None,
    hides_more: Callable[[str], bool] = lambda text: False,
    room: int = 10_000,
) -> list[str]:
    """Return the diffs of text files, while nothing is applied yet, in so many characters. `uppers` hold the new
    content, root by root.

    A line says where `redact` hides more than secrets, and which diffs are left out.
    """
    texts: list[str] = []
    shown = [c for c in found.changes if c.action in ("modified", "replaced", "created") and not c.refused]
    shown.sort(key=lambda change: change.action == "created")  # the old content is the most important
    for change in shown:
        if len(texts) >= MAX_DIFFS:
            texts.append(f"… the content of {len(shown) - MAX_DIFFS:,} more is not shown here")
            break
        text = _diff(found, change, uppers[change.root])
        if text:
            name, masked = _short(found.shown_path(change)), redact(text) if redact is not None else text
            texts.append(masked if len(masked) <= room else f"({name}: what it changes is too long to be shown here)")
            room -= len(texts[-1])
            if hides_more(text):
                texts.append(f"⟨a mask in {name} hides more than a secret: deny it if in doubt⟩")
    return texts


def _short(text: str) -> str:
    if len(text) <= _MAX_NAME:
        return text
    half = _MAX_NAME // 2
    return f"{text[:half]}⟨{len(text) - 2 * half:,} characters⟩{text[-half:]}"


def _line(found: ChangeList, change: PathChange, below: int, shortened: bool) -> str:
    entry = change.after or change.before
    short = _short if shortened else str
    name = short(found.shown_path(change))
    if entry is not None and entry.kind == "dir":
        name += "/"
    said = [f"{_ACTIONS.get(change.action, change.action)} {name}"]
    if below:
        said.append(f"and {below:,} below it")
    if change.target is not None:
        said.append(f"-> {short(readable(change.target))}")
    if change.action == "mode" and change.before is not None and change.after is not None:
        said.append(f"{change.before.mode:o} to {change.after.mode:o}")
    elif change.after is not None and change.after.kind == "file":
        said.append(f"({_what(change.before, change.after)})")
    if change.refused:
        said.append(f"NOT APPLIED: {short(change.refused)}")
    if change.conflict:
        said.append(f"CONFLICT: {change.conflict}")
    return " ".join([*said, *(f"[{note}]" for note in change.notes)])


def _what(before: Entry | None, after: Entry) -> str:
    size = f"{after.size:,} bytes"
    if before is not None and before.kind == "file" and before.size != after.size:
        size = f"{before.size:,} to {size}"
    runnable = after.mode & stat.S_IXUSR and (before is None or not before.mode & stat.S_IXUSR)
    return f"{size}, executable" if runnable else size


def _below(found: ChangeList) -> dict[tuple[int, str], int]:
    """Count the paths that move together with each folder."""
    counts = Counter[tuple[int, str]]()
    top = ""
    for change in found.changes:
        if not change.below:
            top = change.path
        else:
            counts[(change.root, top)] += 1
    return counts


def _diff(found: ChangeList, change: PathChange, upper: Path) -> str:
    before, after = change.before, change.after
    if after is None or after.kind != "file" or (before is not None and before.kind != "file"):
        return ""
    name = found.shown_path(change)
    why = sensitive_by(change.path)
    if why is not None:
        return f"({name}: not shown, {why.reason})"
    if max(after.size, before.size if before is not None else 0) > _DIFF_BYTES:
        return f"({_short(name)}: too large to be shown)"
    old = None if before is None else _read(Path(found.roots[change.root]), change.path)
    new = _read(upper, change.path)
    if not new and not old:
        return ""
    if new is None or (old is None and before is not None):
        return f"({name}: not text)"
    return bounded_diff(old, new, name, max_lines=_DIFF_LINES)


def _read(root: Path, path: str) -> str | None:
    """Return the text of a file below a root, without following links; None if it is not text."""
    try:
        with (
            closing_fd(os.open(root, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)) as top,
            closing_fd(open_beneath(top, os.path.dirname(path))) as folder,
            closing_fd(os.open(os.path.basename(path), READ, dir_fd=folder)) as fd,
            open(fd, "rb", closefd=False) as file,
        ):
            data = file.read(_DIFF_BYTES)
        return None if b"\0" in data else data.decode()
    except (OSError, UnicodeDecodeError):
        return None
