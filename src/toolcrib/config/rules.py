"""Collect the rules of every layer, each with its origin, including the rules of Claude Code's settings files."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, cast

from ..boundary.programs import names_followed
from ..boundary.real_path import real_path
from ..core.dataclass import dataclass
from ..core.errors import ConfigError
from ..core.nesting import has_more_values
from ..core.text import one_line
from ..core.verdict import Verdict
from ..policy.rules.match import why_never
from ..policy.rules.rule_grammar import VERDICTS, Rule, RuleSource, parse_rule
from .files import ConfigFile, absolute_path, read_config_file
from .layers import Layer
from .settings import Ignored, Settings

MAX_UNTRUSTED = 2_000
"""Values in a file that is not trusted. A rule or a hook costs up to a millisecond at every start."""


@dataclass(frozen=True, slots=True)
class RuleLayer:
    """The rules of one layer: its name for people, whether its allow rules count, and the base folder of `/` paths."""

    layer: Layer
    name: str
    trusted: bool = True
    base: Path | None = None


class Rules:
    """Collects the rules of layers and of the files that they import; an imported file counts in full if it is the
    user's own, or trusted.

    `roots` are the folders that tools may change: the workspace `root` first, then the granted folders. `status` says
    whether a file in them is trusted.
    """

    def __init__(self, roots: Iterable[Path], home: Path, status: Callable[[ConfigFile], str]) -> None:
        self.rules: list[Rule] = []
        self.warnings: list[str] = []
        self.ignored: list[Ignored] = []
        """The rules of an untrusted import that do not count."""
        self.imported: list[ConfigFile] = []
        """Imported files inside the workspace: anyone there may change them, so they need `toolcrib trust`."""
        self._root, *_ = folders = list(roots)
        self._home, self._status = home, status
        self._changeable = [os.path.join(real_path(each), "") for each in folders]

    def add(self, each: RuleLayer) -> None:
        """Take the rules of a layer. Raises ConfigError for an invalid rule."""
        base = str(each.base) if each.base is not None else None
        for verdict in VERDICTS:
            if verdict == "allow" and not each.trusted:  # the code that merges the layers lists these as ignored
                continue
            for number, written in enumerate(getattr(each.layer.values.get("rules"), verdict, ())):
                where = each.layer.origin(("rules", verdict, str(number)))
                self._keep(parse_rule(written, verdict, RuleSource(each.name, where, base)))
        if each.trusted:
            for name in getattr(each.layer.values.get("rules"), "imports", ()):
                self._import(name, each.layer.origin(("rules", "imports")))

    def check_examples(self) -> None:
        """Check every rule against its own examples. Raises ConfigError if one is not as the rule says."""
        for rule in self.rules:
            if rule.match or rule.not_match:
                from ..policy.rules.selftest import check_examples

                check_examples(rule, str(self._root), str(self._home))

    def _import(self, name: str, origin: str) -> None:
        path = absolute_path(name, self._root, origin)
        if not path.exists():
            self.warnings.append(f"{origin}: there is no {path} to import rules from")
            return
        file = read_config_file(path)
        trusted = True
        # Tools could change what is read there: the file itself, or a link on the path to it.
        if any(f"{entry}/".startswith(root) for entry in names_followed(str(path)) for root in self._changeable):
            self.imported.append(file)
            trusted = self._status(file) == "trusted"
        if not trusted:
            check_number(file, "import a smaller one, or one of your own")
        for verdict, written, where in claude_rules(file):
            if verdict == "allow" and not trusted:
                self.ignored.append(Ignored(f"permissions.allow of {file.path}", written, file.path))
                continue
            try:
                rule = parse_rule(written, verdict, RuleSource("claude", where, str(self._base_of(path))))
            except ConfigError as error:
                if verdict != "allow":
                    raise
                self.warnings.append(f"left out: {error}")
                continue
            self._keep(rule)

    def _base_of(self, path: Path) -> Path:
        """Return the folder that `/` is relative to in a Claude Code file: the project, or the folder of the user's
        own file."""
        folder = path.parent
        return folder.parent if folder.name == ".claude" and folder.parent != self._home else folder

    def _keep(self, rule: Rule) -> None:
        why = why_never(rule)
        if why is not None:
            self.warnings.append(one_line(f"{rule}: can never match: {why}"))
        self.rules.append(rule)


def check_number(file: ConfigFile, instead: str) -> None:
    """Raise ConfigError if a file that is not trusted has more than MAX_UNTRUSTED values. It says what to do
    `instead`."""
    if has_more_values(file.values, MAX_UNTRUSTED):
        raise ConfigError(
            f"{file.path}: a file that is not trusted may have {MAX_UNTRUSTED:,} values, and it has more; {instead}"
        )


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


def rules_of(settings: Settings) -> tuple[Rule, ...]:
    """Return the active rules of every layer, each with its origin. `settings.rules` contains the merged lists."""
    if settings.origin.rules is not None:
        return settings.origin.rules
    return tuple(
        parse_rule(each, verdict, RuleSource("settings"))
        for verdict in VERDICTS
        for each in getattr(settings.rules, verdict)
    )
