"""Collect the rules of every layer, each with its origin, including the rules of Claude Code's settings files."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from ..core.errors import ConfigError
from ..core.text import one_line
from ..core.verdict import Verdict
from ..policy.rules.grammar import VERDICTS, Rule, RuleSource, parse_rule
from ..policy.rules.match import why_never
from .files import ConfigFile, absolute_path, read_config_file
from .layers import Layer
from .origin import Ignored
from .settings import Settings


@dataclass(frozen=True, slots=True)
class RuleLayer:
    """The rules of one layer: its name for people, whether its allow rules count, and the base folder of `/` paths."""

    layer: Layer
    name: str
    trusted: bool = True
    base: Path | None = None


@dataclass(slots=True)
class Rules:
    """The result of collecting: active rules, warnings, and the rules of an untrusted import that were ignored."""

    rules: list[Rule]
    warnings: list[str]
    ignored: list[Ignored]
    imported: list[ConfigFile]
    """Imported files inside the workspace: anyone who works there may change them, so they need `toolcrib trust`."""


def gather(layers: Iterable[RuleLayer], root: Path, home: Path, trusts: Trusts) -> Rules:
    """Collect every rule of the layers and of the files they import. Raises ConfigError for an invalid rule."""
    found = Rules([], [], [], [])
    for each in layers:
        for verdict in VERDICTS:
            for rule in _of_layer(each, verdict):
                _keep(rule, found)
        if each.trusted:
            _imports(each, root, home, trusts, found)
    _check_examples(found.rules, root, home)
    return found


Status = Callable[[ConfigFile], str]


class Trusts:
    """Decides whether an imported file counts in full: the user's own files do; files that tools may change must be
    trusted.

    `roots` are the folders that tools may change: the workspace, and the granted folders.
    """

    def __init__(self, roots: Iterable[Path], status: Status) -> None:
        self._roots = tuple(os.path.join(os.path.realpath(root), "") for root in roots)
        self._status = status

    def inside(self, path: Path) -> bool:
        """Return whether tools could change what is read there: the file itself, or a link on the path to it."""
        return any(f"{entry}/".startswith(root) for entry in _looked_up(path) for root in self._roots)

    def __call__(self, file: ConfigFile) -> bool:
        return not self.inside(file.path) or self._status(file) == "trusted"


_MAX_LINKS = 40  # Linux also follows at most 40 links


def _looked_up(path: Path) -> Iterator[str]:
    """Yield every directory entry on the way to a file: its folders, links, the targets of those links, and the file
    itself."""
    at, waiting, links = "/", list(reversed(os.path.abspath(path).split(os.sep))), 0
    while waiting:
        name = waiting.pop()
        if name in ("", "."):
            continue
        if name == "..":
            at = os.path.dirname(at)
            continue
        entry = os.path.join(at, name)
        yield entry
        if not os.path.islink(entry):
            at = entry
            continue
        links += 1
        if links > _MAX_LINKS:
            return
        target = os.readlink(entry)
        at = "/" if os.path.isabs(target) else at
        waiting += reversed(target.split(os.sep))


def _of_layer(each: RuleLayer, verdict: Verdict) -> Iterator[Rule]:
    if verdict == "allow" and not each.trusted:  # the code that merges the layers lists these as ignored
        return
    base = str(each.base) if each.base is not None else None
    for number, written in enumerate(getattr(each.layer.values.get("rules"), verdict, ())):
        where = each.layer.origin(("rules", verdict, str(number)))
        yield parse_rule(written, verdict, RuleSource(each.name, where, base))


def _imports(each: RuleLayer, root: Path, home: Path, trusts: Trusts, found: Rules) -> None:
    for name in getattr(each.layer.values.get("rules"), "imports", ()):
        path = absolute_path(name, root, each.layer.origin(("rules", "imports")))
        if not path.exists():
            found.warnings.append(f"{each.layer.origin(('rules', 'imports'))}: there is no {path} to import rules from")
            continue
        file = read_config_file(path)
        trusted = trusts(file)
        if trusts.inside(path):
            found.imported.append(file)
        _claude_file(file, trusted, _base_of(path, root, home), found)


def _base_of(path: Path, root: Path, home: Path) -> Path:
    """Return the folder that `/` is relative to in a Claude Code file: the project, or the folder of the user's own
    file."""
    folder = path.parent
    return folder.parent if folder.name == ".claude" and folder.parent != home else folder


def _claude_file(file: ConfigFile, trusted: bool, base: Path, found: Rules) -> None:
    for verdict, written, where in claude_rules(file):
        if verdict == "allow" and not trusted:
            found.ignored.append(Ignored(f"permissions.allow of {file.path}", written))
            continue
        try:
            rule = parse_rule(written, verdict, RuleSource("claude", where, str(base)))
        except ConfigError as error:
            if verdict != "allow":
                raise
            found.warnings.append(f"left out: {error}")
            continue
        _keep(rule, found)


def claude_rules(file: ConfigFile) -> Iterator[tuple[Verdict, Any, str]]:
    """Yield (verdict, rule as written, place) for the `permissions` in a settings file of Claude Code, or a similar
    file.

    Raises ConfigError if `permissions` is not an object of lists.
    """
    permissions: Any = file.values.get("permissions", {})
    if not isinstance(permissions, Mapping):
        raise ConfigError(f"{file.at(('permissions',))}: permissions should be an object")
    for verdict in VERDICTS:
        written: Any = cast("Mapping[str, Any]", permissions).get(verdict, [])
        where = file.at(("permissions", verdict))
        if not isinstance(written, list):
            raise ConfigError(f"{where}: permissions.{verdict} should be a list of rules")
        for each in cast("list[Any]", written):
            yield verdict, each, where


def _keep(rule: Rule, found: Rules) -> None:
    why = why_never(rule)
    if why is not None:
        found.warnings.append(one_line(f"{rule}: can never match: {why}"))
    found.rules.append(rule)


def _check_examples(rules: Iterable[Rule], root: Path, home: Path) -> None:
    for rule in rules:
        if rule.match or rule.not_match:
            from ..policy.rules.selftest import check_examples

            check_examples(rule, str(root), str(home))


def rules_of(settings: Settings) -> tuple[Rule, ...]:
    """Return the active rules of every layer, each with its origin. `settings.rules` contains the merged lists."""
    if settings.origin.rules is not None:
        return settings.origin.rules
    rules = settings.rules
    by_verdict: dict[Verdict, Iterable[Any]] = {"deny": rules.deny, "ask": rules.ask, "allow": rules.allow}
    return tuple(
        parse_rule(each, verdict, RuleSource("settings")) for verdict, written in by_verdict.items() for each in written
    )
