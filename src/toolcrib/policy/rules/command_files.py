"""Match path rules against shell commands: the files that a command reads or changes, by the table of programs."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from glob import iglob
from itertools import islice
from typing import TYPE_CHECKING

from ...core.dataclass import dataclass
from ...core.text import lazy_regex
from .commands import Certainty
from .file_patterns import File, FilePattern, file_at
from .git_content import may_show, put_back_by
from .match import Bound, JudgedCall
from .rule_grammar import Rule

if TYPE_CHECKING:
    from ..shell.parts import Word

READING = frozenset({"read", "list", "send"})
MOVING = frozenset({"move", "link"})  # afterwards a file can be read under another name
MAX_FOUND = 2_000
"""The most files that a shell glob may expand to; with more, the files count as unknown."""


@dataclass(frozen=True, slots=True)
class Touched:
    """A file or directory that a command is known to touch. `below`: also its content; `unknown`: an unknown file below
    it; `moves`: it gets another name."""

    file: File
    reads: bool
    below: bool
    unknown: bool = False
    moves: bool = False


def refused_by_effects(call: JudgedCall, rules: Iterable[Bound]) -> tuple[Rule, Certainty] | None:
    """Return the strictest path rule that matches a command's known reads and changes, and how certain the match is."""
    bound = [each for each in rules if each.files is not None and each.rest_fits(call)]
    if not bound:
        return None
    found: tuple[Rule, Certainty] | None = None
    touched = list(_touched(call))
    for each in bound:
        assert each.files is not None
        for one in touched:
            reads = "read" in each.access
            if one.reads != reads and not (one.moves and reads):
                continue
            certainty = _meets(each.files, one)
            if certainty == "yes":
                return each.rule, "yes"
            if certainty == "maybe" and found is None:
                found = (each.rule, "maybe")
        if found is not None or "read" not in each.access:
            continue
        named = (Touched(file, reads=True, below=False) for file in _named(call))
        if _is_stored(call, each.files) or any(_meets(each.files, one) != "no" for one in named):
            found = (each.rule, "maybe")
    return found


def _named(call: JudgedCall) -> Iterator[File]:
    """Yield what the words of programs name that do more than is known of their files: they may read it."""
    from ..shell.effects import effects_of
    from ..shell.kinds import PATH_KINDS

    for command in call.script.commands:
        runs = command.name in (".", "source") or any(each.kind not in PATH_KINDS for each in effects_of(command))
        for word in command.args if runs else ():
            for text in _SIGNS.split(word.text or ""):
                if text and text[0] != "-":
                    yield file_at(text, command.cwd or call.cwd, "read", by_command=True)


def _is_stored(call: JudgedCall, pattern: FilePattern) -> bool:
    """Return whether a command may show a denied file from what a repository stores."""
    return any(may_show(command, command.cwd or call.cwd, pattern) for command in call.script.commands)


def _meets(pattern: FilePattern, touched: Touched) -> Certainty:
    file = touched.file
    lists_all = (
        (touched.reads or touched.moves) and not touched.unknown and file.is_dir and pattern.refuses_all_in(file)
    )
    if pattern.refuses(file) or lists_all:
        return "yes"
    return "maybe" if touched.below and pattern.means_inside(file) else "no"


def _touched(call: JudgedCall) -> Iterator[Touched]:
    """Yield every path that a script's commands touch, by the table of programs."""
    from ..shell.effects import effects_of
    from ..shell.kinds import PATH_KINDS

    for command in call.script.commands:
        for path in put_back_by(command, command.cwd or call.cwd):
            yield Touched(file_at(path, call.cwd, "read", by_command=True), reads=False, below=True)
        for effect in effects_of(command):
            cwd = effect.cwd or command.cwd
            if effect.kind in PATH_KINDS and cwd is not None and effect.target is not None:
                reads, below = effect.kind in READING, effect.kind != "list"
                for path, unknown in _paths(effect.target, cwd):
                    file = file_at(path, cwd, "read", by_command=True)
                    yield Touched(file, reads, below or unknown, unknown, effect.kind in MOVING)


def _paths(target: Word | str, cwd: str) -> Iterator[tuple[str, bool]]:
    """Yield the paths of a word: itself, the matches of the shell's glob, or the folder that must contain it; of a glob
    that a shell may read in another way than Python, these and the folder."""
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
            if not _OTHERWISE.search(pattern):
                return
    known = _GLOBBED.split(target.start)[0]
    above, _, last = known.rpartition("/")
    yield known if last == ".." else above or ("/" if known.startswith("/") else "."), True


_SIGNS = lazy_regex(r"[@=:,]")  # `@x`, `name=x`, `file:x,option`
_GLOBBED = lazy_regex(r"[*?\[]")
_OTHERWISE = lazy_regex(r"\*\*|(?<!\\)\[")  # zsh lets `**` go into all folders; brackets are not those of Python
_QUOTED = lazy_regex(r"\\(.)", re.DOTALL)


def _as_class(found: re.Match[str]) -> str:
    """Return an escaped character (`\\*`) in the form that Python's glob uses."""
    return f"[{found[1]}]" if found[1] in "*?[" else found[1]
