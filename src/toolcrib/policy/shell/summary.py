"""Describe the parts of a command line, one line each, for a person who must approve it: the worst part comes first."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable

from ...boundary.scripts import fingerprint, loaded_by
from ..plain import plain_line
from .effect import Effect
from .effects import effects_of
from .judge import shown
from .kinds import KINDS, PATH_KINDS
from .parts import Command, Word
from .reading import read_script

MAX_LINES = 25
MANY = 8
"""Of more parts than this, those that do no harm are counted only: a screen has to show the others."""
MAX_PHRASES = 6
_TARGET = 80

_VERBS = {
    "read": "reads", "list": "lists", "send": "sends", "write": "writes", "create": "makes", "delete": "deletes",
    "move": "moves", "modify": "changes", "link": "links",
}  # fmt: skip
_SEEN = frozenset({"read", "list", "send"})


def summary(command: str, cwd: str, home: str) -> list[str]:
    """Return a line for each part of a command line that would run in `cwd`, most dangerous first. Judges no paths."""
    script = read_script(command, cwd, home)
    parts: dict[tuple[str, str], tuple[int, list[str]]] = {}
    wrappers = {name for part in script.commands for name in part.via}
    for part in script.commands:
        rank, said = _said(part, wrappers)
        folders = parts.setdefault((plain_line(shown(part)), said), (rank, []))[1]
        folder = _folder(part.cwd, cwd)
        if folder not in folders:
            folders.append(folder)
    lines = [f"! {plain_line(problem.reason)}" for problem in script.problems]
    for (source, said), (_, folders) in sorted(parts.items(), key=lambda item: item[1][0]):
        where = "" if folders == [""] else f" (in {' or '.join(each or 'the same folder' for each in folders)})"
        lines.append(f"`{source}`{where}: {said}")
    worse = len(script.problems) + sum(rank < _HARMLESS for rank, _ in parts.values())
    most = MAX_LINES if len(lines) <= MANY else min(MAX_LINES, max(3, worse))
    if len(lines) > most:
        lines = [*lines[:most], f"… and {len(lines) - most} more parts that do less"]
    return lines


_RUNS = frozenset({"execute", "unknown", "check"})
_READS_CODE = (".", "source")


def code_of(command: str, cwd: str, home: str, roots: Iterable[str]) -> str:
    """Return in one line which files below `roots` the commands of a line run or load, and a hash of them as they are
    now; "" for none. It reads them: run it in a thread."""
    found: dict[str, str] = {}
    for part in read_script(command, cwd, home).commands:
        at, name = part.cwd, part.name
        runs = name in _READS_CODE or bool(_RUNS.intersection(effect.kind for effect in effects_of(part)))
        if at is not None and name and runs:
            rest = [text for word in part.words[1:] if (text := word.text)]
            files = [text for text in rest if os.path.isfile(os.path.join(at, text)) or "-m" in rest]
            found |= fingerprint(loaded_by([name, *files], at, roots))
    if not found:
        return ""
    digest = hashlib.sha256(repr(sorted(found.items())).encode("utf-8", "surrogateescape")).hexdigest()[:12]
    names = [_cut(os.path.relpath(path, cwd)) for path, state in sorted(found.items()) if state != "absent"]
    more = f" and {len(names) - 3} more" if len(names) > 3 else ""
    return f"it runs code of {', '.join(names[:3]) or 'files that are not there yet'}{more} (hash {digest})"


def _said(part: Command, wrappers: set[str]) -> tuple[int, str]:
    effects = sorted(effects_of(part), key=_rank)
    phrases = list(dict.fromkeys(map(_phrase, effects)))
    if len(phrases) > MAX_PHRASES:
        phrases = [*phrases[:MAX_PHRASES], f"and {len(phrases) - MAX_PHRASES} things more"]
    nothing = "runs what follows it" if part.name in wrappers else "prints, or only looks"
    return min(map(_rank, effects), default=_HARMLESS), ", ".join(phrases) or nothing


def _folder(at: str | None, cwd: str) -> str:
    if at == cwd:
        return ""
    if at is None:
        return "a folder known only then"
    return _cut(at[len(cwd) + 1 :] if at.startswith(f"{cwd}/") else at)


_HARMLESS = 5


def _rank(effect: Effect) -> int:
    """Return a rank: 0 known harm, 1 a person is asked anyway, 2 it changes files, 3 it is unknown, 4 it only looks."""
    if effect.kind in PATH_KINDS:
        return 4 if effect.kind in _SEEN else 2
    kind = KINDS.get(effect.kind)
    if kind is None:
        return 3
    return 0 if kind.verdict == "deny" else 3 if kind.unknown else 1


def _phrase(effect: Effect) -> str:
    target = _text(effect.target)
    if effect.kind in PATH_KINDS:
        return f"{_VERBS.get(effect.kind, effect.kind)} {target or 'a path known only then'}"
    kind = KINDS.get(effect.kind)
    said = effect.reason or (kind.phrase if kind is not None else "runs a command from inside another program")
    return f"{plain_line(said)}{f': {target}' if target and target not in said else ''}"


def _text(target: Word | str | None) -> str:
    if target is None:
        return ""
    return _cut(target if isinstance(target, str) else target.source or target.text or "".join(_known(target.parts)))


def _known(parts: Iterable[str | None]) -> Iterable[str]:
    return (part if part is not None else "…" for part in parts)


def _cut(text: str) -> str:
    line = plain_line(text)
    return line if len(line) <= _TARGET else f"{line[: _TARGET // 2]}…{line[-_TARGET // 2 + 1 :]}"
