"""Judge each command of a script by itself, for people who want to see which one a verdict is about."""

from __future__ import annotations

from ...core.verdict import Judgement
from .judge import ALLOWED, judge_script, shown
from .parts import CommandPlace, Script


def judged_parts(command: str, place: CommandPlace) -> list[tuple[str, Judgement]]:
    """Return every command of a command line with its own judgement, in order, each text once.

    The list is empty if there is only one command.
    """
    from .reading import read_script

    script = read_script(command, place.cwd, place.home)
    found: dict[str, Judgement] = {}
    for part in script.commands:
        text = shown(part)
        judgement = judge_script(Script((part,)), place)
        if not text and judgement == ALLOWED:  # the words of a loop
            continue
        if text not in found or found[text] == ALLOWED:
            found[text] = judgement
    for problem in script.problems:
        found.setdefault(problem.source or command, Judgement(problem.verdict, problem.reason, problem.rule))
    return list(found.items()) if len(found) > 1 else []
