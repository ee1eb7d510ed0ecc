"""Decide whether allow rules cover a whole call: every command of its script, every file, every address."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from ...core.errors import ConfigError
from .allowed_scripts import Allowing
from .file_patterns import File, file_at
from .match import Bound, JudgedCall, MatchEnvironment, pattern_of
from .names import domain_fits, family_of
from .rule_grammar import Rule

if TYPE_CHECKING:
    from ..shell.parts import Command, CommandPlace


def allowed(
    call: JudgedCall, rules: Iterable[Bound], every: Iterable[Rule], place: Callable[[str], CommandPlace] | None
) -> Rule | None:
    """Return one of the rules that together allow this call; None if they do not allow it.

    `rules` allow calls of this tool; `every` are all rules, of which some allow or refuse the files of redirections.
    """
    fitting = [each for each in rules if each.rest_fits(call)]
    for each in fitting:
        if each.whole:
            return each.rule
    used: list[Rule | None] = []
    if call.command is not None:
        used.append(_command(call, fitting, every, place))
    if call.files:
        used += [_file(file, fitting) for file in call.files]
    if call.hosts:
        used += [_host(host, fitting) for host in call.hosts]
    return used[0] if used and None not in used else None


def _file(file: File, rules: Iterable[Bound]) -> Rule | None:
    fits = (each for each in rules if each.files is not None and file.access in each.access and each.files.allows(file))
    return next((each.rule for each in fits), None)


def _host(host: str | None, rules: Iterable[Bound]) -> Rule | None:
    fits = (each for each in rules if each.domain is not None and host is not None and domain_fits(each.domain, host))
    return next((each.rule for each in fits), None)


def _command(
    call: JudgedCall, rules: Iterable[Bound], every: Iterable[Rule], place: Callable[[str], CommandPlace] | None
) -> Rule | None:
    patterns = {each.command: each.rule for each in rules if each.command is not None}
    if not patterns:
        return None
    allowing = Allowing(
        tuple(patterns),
        call.environment.workspace,
        lambda command: place is not None and _harmless(command, place(call.cwd)),
        lambda command: place is not None and _changes_protected(command, place(call.cwd), every, call.environment),
        lambda path, cwd: _may_touch(path, cwd, True, every, call.environment),
        lambda path, cwd: _may_touch(path, cwd, False, every, call.environment),
    )
    assert call.command is not None
    used = allowing.whole(call.command) or allowing.covers(call.script, call.command)
    return patterns[used] if used is not None else None


def _harmless(command: Command, place: CommandPlace) -> bool:
    from ..shell.judge import judgements
    from ..shell.parts import Script

    # also without a variable for programs: what runs after this part gets it
    return next(judgements(Script((command,)), place, 0), None) is None


def _changes_protected(
    command: Command, place: CommandPlace, rules: Iterable[Rule], environment: MatchEnvironment
) -> bool:
    """Return whether a command is known to change a file that other programs run or trust, and no Edit rule allows
    that."""
    from ..shell.effects import effects_of
    from ..shell.kinds import PATH_KINDS
    from ..shell.parts import Word
    from ..shell.paths import judge as judge_path

    for effect in effects_of(command):
        if effect.kind in PATH_KINDS and effect.target is not None:
            target = effect.target if isinstance(effect.target, Word) else Word((effect.target,))
            cwd = effect.cwd or command.cwd
            finding = judge_path(effect.kind, target, cwd, place)
            protected = finding is not None and finding.rule == "shell:protected"
            if protected and not (target.text and _may_touch(target.text, cwd, True, rules, environment)):
                return True
    return False


def _may_touch(path: str, cwd: str | None, write: bool, rules: Iterable[Rule], environment: MatchEnvironment) -> bool:
    """Return whether a redirection may use a file. To write it, an Edit rule must allow it. To read it, it must be an
    ordinary file inside the workspace, or a Read rule must allow it. No rule may deny it or ask about it."""
    if cwd is None or path.startswith("~"):
        return False
    file = file_at(path, cwd, "write" if write else "read", by_command=True)
    family = "write" if write else "read"
    allows = not write and _ordinary(file, environment)
    for rule in rules:
        if family_of(rule.tool) != family or rule.exactly is not None or rule.args or rule.labels:
            continue
        if _applies(rule, file, environment):
            if rule.verdict != "allow":
                return False
            allows = True
    return allows


def _applies(rule: Rule, file: File, environment: MatchEnvironment) -> bool:
    """Return whether a path rule applies to a file. An invalid one refuses all files, and allows none."""
    allow = rule.verdict == "allow"
    if allow and (rule.category or rule.hints or rule.tool not in ("Read", "Edit")):
        return False
    if rule.spec is None:
        return True
    try:
        pattern = pattern_of(rule, environment)
    except ConfigError:
        return not allow
    return pattern.allows(file) if allow else pattern.refuses(file)


def _ordinary(file: File, environment: MatchEnvironment) -> bool:
    from ...boundary.sensitive_names import sensitive_by

    inside = os.path.join(environment.workspace, "")
    return all(path.startswith(inside) and sensitive_by(path) is None for path in (file.spelled, file.real))
