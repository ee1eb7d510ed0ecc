"""Path rules against shell commands: the files that a command is known to read or change, by the table of programs."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from glob import iglob
from itertools import islice
from typing import TYPE_CHECKING

from ...core.errors import ConfigError
from .commands import Certainty
from .files import File, FilePattern, file_at, file_pattern
from .grammar import Rule
from .match import Bound, JudgedCall, MatchEnvironment

if TYPE_CHECKING:
    from ..shell.parts import Word

READING = frozenset({"read", "list", "send"})
MAX_FOUND = 2_000
"""Files that a glob of the shell is expanded to before it counts as unknown."""


@dataclass(frozen=True, slots=True)
class Touched:
    """A file or directory that a command is known to touch. `below`: what is inside, too; `unknown`: or only that."""

    file: File
    reads: bool
    below: bool
    unknown: bool = False


def refused_by_effects(call: JudgedCall, rules: Iterable[Bound]) -> tuple[Rule, Certainty] | None:
    """The strictest path rule that a command's known reads and changes meet, and how surely."""
    bound = [each for each in rules if each.files is not None and each.rest_fits(call)]
    if not bound:
        return None
    found: tuple[Rule, Certainty] | None = None
    touched = list(_touched(call))
    for each in bound:
        assert each.files is not None
        for one in touched:
            if one.reads != ("read" in each.access):
                continue
            certainty = _meets(each.files, one)
            if certainty == "yes":
                return each.rule, "yes"
            if certainty == "maybe" and found is None:
                found = (each.rule, "maybe")
    return found


def _meets(pattern: FilePattern, touched: Touched) -> Certainty:
    if pattern.refuses(touched.file) or (touched.reads and not touched.unknown and _lists_all(pattern, touched.file)):
        return "yes"
    return "maybe" if touched.below and pattern.means_inside(touched.file) else "no"


def _lists_all(pattern: FilePattern, file: File) -> bool:
    return file.is_dir and pattern.refuses_all_in(file)


def _touched(call: JudgedCall) -> Iterator[Touched]:
    """Every path that the table of programs knows a script's commands to touch."""
    from ..shell.effects import effects_of
    from ..shell.kinds import PATH_KINDS

    for command in call.script.commands:
        for effect in effects_of(command):
            cwd = effect.cwd or command.cwd
            if effect.kind in PATH_KINDS and cwd is not None and effect.target is not None:
                reads, below = effect.kind in READING, effect.kind != "list"
                for path, unknown in _paths(effect.target, cwd):
                    yield Touched(file_at(path, cwd, "read"), reads, below or unknown, unknown)


def _paths(target: Word | str, cwd: str) -> Iterator[tuple[str, bool]]:
    """The paths of a word: itself, what the shell's glob finds, or the folder below which it must be."""
    if isinstance(target, str):
        yield target, False
        return
    if target.text is not None:
        yield target.text, False
        return
    if target.glob and None not in target.parts and not target.many:
        pattern = "".join(part for part in target.parts if part is not None)
        found = list(islice(iglob(_QUOTED.sub(_as_class, pattern), root_dir=cwd), MAX_FOUND + 1))
        if len(found) <= MAX_FOUND:
            yield from ((path, False) for path in found or [pattern])
            return
    known = _GLOBBED.split(target.start)[0]
    yield known.rpartition("/")[0] or ("/" if known.startswith("/") else "."), True


_GLOBBED = re.compile(r"[*?\[]")
_QUOTED = re.compile(r"\\(.)", re.DOTALL)


def _as_class(found: re.Match[str]) -> str:
    """`\\*` as Python's glob quotes it."""
    return f"[{found[1]}]" if found[1] in "*?[" else found[1]


def forbids(rule: Rule, file: File, environment: MatchEnvironment) -> bool:
    """Whether a rule that denies or asks means a file."""
    if rule.spec is None:
        return True
    try:
        base = rule.source.base or environment.workspace
        return file_pattern(rule.spec, environment.workspace, base, environment.home, allow=False).refuses(file)
    except ConfigError:
        return True
