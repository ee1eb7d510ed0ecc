"""Define an effect: one thing that a command does."""

from __future__ import annotations

from ...core.dataclass import dataclass
from .parts import Word


@dataclass(slots=True, unsafe_hash=True)
class Effect:
    """One thing that a command does.

    `kind` is one of `PATH_KINDS` (then `target` is the path's word), one of `KINDS`, or `shell` (then the target is a
    separate command line). `reason` completes the sentence "`command` …" if the kind's own phrase does not. `cwd` is
    set if the path is not relative to the command's own directory; `code` is a program text and its language.
    """

    kind: str
    target: Word | str | None = None
    reason: str = ""
    rule: str = ""
    cwd: str | None = None
    code: tuple[str, str] | None = None
