"""Combine the rules of all layers: deny before ask before allow, whichever layer has the rule.

A rule is compiled once for each tool that it can apply to. For a tool without rules, the policy needs one dictionary
look-up to see that its calls need no check, and nothing per call.
"""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import islice
from typing import TYPE_CHECKING, Any, Literal
from weakref import WeakKeyDictionary

from ...boundary.real_path import real_path
from ...core.context import ToolContext
from ...core.dataclass import dataclass
from ...core.errors import ConfigError
from ...core.text import clip
from ...core.tool import Tool
from ...core.verdict import Judgement, Verdict, all_of
from ..plain import plain_line
from .commands import Certainty
from .file_patterns import File, FilePattern
from .match import Bound, JudgedCall, Labels, MatchEnvironment, bind, pattern_of, why_never
from .names import CLAUDE, family_of
from .rule_grammar import VERDICTS, Rule, RuleSource, parse_rule

if TYPE_CHECKING:
    from ..shell.parts import CommandPlace

log = logging.getLogger("toolcrib.policy")

MAX_SHOWN = 300
"""Longest rule in an answer, in characters."""


DeniedPaths = Callable[[str], bool]
"""`denied(path)` says whether an absolute, real path is denied."""


@dataclass(frozen=True, slots=True)
class Compiled:
    """The rules that can apply to one tool, by verdict."""

    deny: tuple[Bound, ...] = ()
    ask: tuple[Bound, ...] = ()
    allow: tuple[Bound, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.deny or self.ask or self.allow)


class RuleSet:
    """All active rules, matched against calls. May be used and changed from several threads.

    Relative paths are relative to `workspace`; `home` is the folder of `~`. `place` says where commands run, so that a
    part of a script that no rule mentions can be judged by itself; without `place` such a part is not allowed. `labels`
    reads a session's labels. `changed` is called when a rule was added or removed, to clear caches of verdicts.
    """

    def __init__(
        self,
        rules: Iterable[Rule] = (),
        *,
        workspace: str | os.PathLike[str] = ".",
        home: str | None = None,
        place: Callable[[str], CommandPlace] | None = None,
        labels: Labels | None = None,
    ) -> None:
        self._rules = tuple(rules)
        self._environment = MatchEnvironment(
            real_path(workspace), os.path.abspath(home or os.path.expanduser("~")), labels
        )
        self._place = place
        self._compiled: WeakKeyDictionary[Tool, Compiled] = WeakKeyDictionary()
        self._lock = threading.Lock()
        self._denied: dict[str, tuple[tuple[Rule, ...], DeniedPaths | None]] = {}
        self.changed: Callable[[], None] = lambda: None

    # --- storing

    @property
    def rules(self) -> tuple[Rule, ...]:
        """Every rule, in the order in which it was added."""
        return self._rules

    def add(self, rule: Rule | str | Mapping[str, Any], verdict: Verdict = "allow", layer: str = "session") -> Rule:
        """Add a rule, active at once. Raises ConfigError if it is invalid or could match nothing."""
        if verdict not in VERDICTS:
            raise ConfigError(f"{verdict!r}: a rule can allow, ask or deny")
        parsed = rule if isinstance(rule, Rule) else parse_rule(rule, verdict, RuleSource(layer))
        why = why_never(parsed)
        if why is not None:
            raise ConfigError(f"rule {plain_line(parsed.text)} can never match: {why}")
        with self._lock:
            if not any(each.text == parsed.text and each.verdict == parsed.verdict for each in self._rules):
                self._change((*self._rules, parsed))
        self.changed()
        return parsed

    def use(self, rules: Iterable[Rule]) -> None:
        """Use these rules instead of those before, besides the rules of sessions."""
        with self._lock:
            self._change((*rules, *(each for each in self._rules if each.source.layer == "session")))
        self.changed()

    def remove(self, rule: str, verdict: Verdict | None = None) -> bool:
        """Remove a rule of the sessions. Returns False if it was not found."""
        text = parse_rule(rule, verdict or "allow").text
        with self._lock:
            kept = tuple(
                each for each in self._rules
                if not (each.text == text and each.source.layer == "session" and verdict in (None, each.verdict))
            )  # fmt: skip
            found = len(kept) < len(self._rules)
            if found:
                self._change(kept)
        if found:
            self.changed()
        return found

    def _change(self, rules: tuple[Rule, ...]) -> None:
        self._rules = rules
        self._compiled = WeakKeyDictionary()  # a compilation in progress goes into the old one

    def joined(self, rules: Iterable[Rule]) -> RuleSet:
        """Return a set of the rules that are here now and of more rules, with the same surroundings."""
        return self.only((*self._rules, *rules))

    def only(self, rules: Iterable[Rule]) -> RuleSet:
        """Return a set of other rules, with the same surroundings."""
        made = RuleSet(rules, place=self._place)
        made._environment = self._environment
        return made

    # --- matching

    def touches(self, tool: Tool) -> bool:
        """Return whether any rule could refuse or ask about a call of this tool, or allow some calls and not others."""
        compiled = self._of(tool)
        return bool(compiled.deny or compiled.ask) or any(not each.always for each in compiled.allow)

    def always(self, tool: Tool) -> Judgement | None:
        """Return the verdict of bare rules for every call of this tool; a tool that they deny is not listed."""
        compiled = self._of(tool)
        for each in (*compiled.deny, *compiled.ask, *compiled.allow):
            if each.always:
                return _judgement(each.rule, each.rule.verdict)
        return None

    def match(self, tool: Tool, arguments: Mapping[str, Any], ctx: ToolContext) -> Judgement | None:
        """Return the strictest rule that applies to a call. If a deny rule only possibly applies, the verdict is
        ask."""
        compiled = self._of(tool)
        if not compiled:
            return None
        call = JudgedCall(tool, arguments, ctx, self._environment)
        asked: list[Judgement] = []
        for verdict, rules in (("deny", compiled.deny), ("ask", compiled.ask)):
            for rule, certainty in _refusing(call, rules):
                if verdict == "deny" and certainty == "yes":
                    return _judgement(rule, "deny")
                asked.append(_judgement(rule, "ask", unsure=certainty == "maybe"))
        if asked:
            return all_of(asked)
        if not compiled.allow:
            return None
        from .allow import allowed  # loaded only when there is a rule that allows

        rule = allowed(call, compiled.allow, self._rules, self._place)
        return _judgement(rule, "allow") if rule is not None else None

    def opened(self, tool: Tool, hosts: Iterable[str]) -> tuple[str, ...]:
        """Return those of these hosts (`host:port`) that rules like `exec(domain:example.com:443)` open to commands."""
        if tool.command_argument is None:
            return ()
        opening = [rule for rule in self._rules if rule.verdict == "allow" and rule.hosts and self._bind(rule, tool)]
        return tuple(each for each in hosts if any(each in rule.hosts for rule in opening))

    def speaking(self, tool: Tool, arguments: Mapping[str, Any], ctx: ToolContext) -> list[tuple[Rule, bool]]:
        """Return every rule that applies to a call, for people, and whether that is certain."""
        from .allow import allowed

        compiled = self._of(tool)
        call = JudgedCall(tool, arguments, ctx, self._environment)
        found: list[tuple[Rule, bool]] = []
        for each in (*compiled.deny, *compiled.ask):
            for rule, certainty in islice(_refusing(call, (each,)), 1):
                found.append((rule, certainty == "yes"))
        rule = allowed(call, compiled.allow, self._rules, self._place)
        return found if rule is None else [*found, (rule, True)]

    def hider(self, tool: Tool, below: str, asks: bool = True) -> Callable[[str], bool] | None:
        """Return a function that says which paths a search by this tool below a directory omits: those that rules deny
        or, with `asks`, ask about. None if it omits nothing.

        All paths are absolute and real. A rule for the directory itself was applied when the call named the directory.
        """
        compiled = self._of(tool)
        above = File(below, below, "read")
        patterns = [
            each.files for each in (*compiled.deny, *(compiled.ask if asks else ()))
            if each.files is not None and "read" in each.access
            and not each.files.refuses_all_in(above) and each.files.reaches_below(below)
        ]  # fmt: skip
        if not patterns:
            return None
        return lambda path: any(pattern.refuses(File(path, path, "read")) for pattern in patterns)

    def denied(self, name: Literal["Read", "Edit"]) -> DeniedPaths | None:
        """Return a function that says which paths rules of this name, or like it (`Write(path)`), deny to everybody,
        also to commands; None if there are none. The same function is returned until the rules change."""
        known = self._denied.get(name)
        if known is None or known[0] is not self._rules:
            known = self._denied[name] = (self._rules, self._find_denied(name))
        return known[1]

    def _find_denied(self, name: str) -> DeniedPaths | None:
        patterns: list[FilePattern] = []
        for rule in self._rules:
            narrowed = rule.exactly is not None or rule.args or rule.labels or rule.hints or rule.category
            if (
                rule.verdict == "deny"
                and family_of(rule.tool) == family_of(name)
                and rule.spec is not None
                and not narrowed
            ):
                try:
                    patterns.append(pattern_of(rule, self._environment))
                except ConfigError as error:  # it refuses every call of the tools that it names
                    log.warning("%s: %s", rule, error)
        if not patterns:
            return None
        return lambda path: any(pattern.refuses(File(path, path, "read")) for pattern in patterns)

    def warnings(self, tools: Iterable[Tool]) -> list[str]:
        """Return warnings about rules that can never match, with the reason, and about rules that name no existing
        tool."""
        from ...core.near import near
        from ..shell.table import lookup

        tools = list(tools)
        found: list[str] = []
        for rule in self._rules:
            why = why_never(rule)
            if why is not None:
                found.append(f"{rule}: can never match: {why}")
            elif not any(self._bind(rule, tool) for tool in tools):
                meant = near(rule.tool, [*CLAUDE, *(tool.name for tool in tools)])
                if rule.spec is None and meant != ["Bash"] and lookup(rule.tool):
                    meant = [f"Bash({rule.tool} *)"]
                found.append(f"{rule}: no tool here is meant by it{f'; did you mean {meant[0]}?' if meant else ''}")
        return found

    # --- compiling

    def _of(self, tool: Tool) -> Compiled:
        cache = self._compiled
        found = cache.get(tool)
        if found is None:
            found = cache[tool] = self._compile(tool)
        return found

    def _compile(self, tool: Tool) -> Compiled:
        bound = [each for each in (self._bind(rule, tool) for rule in self._rules) if each is not None]
        deny, ask, allow = (tuple(each for each in bound if each.rule.verdict == verdict) for verdict in VERDICTS)
        return Compiled(deny, ask, allow)

    def _bind(self, rule: Rule, tool: Tool) -> Bound | None:
        try:
            if why_never(rule) is not None and rule.verdict == "allow":
                return None
            return bind(rule, tool, self._environment)
        except ConfigError as error:  # invalid for this tool: it refuses all calls, and allows none
            log.warning("%s: %s", rule, error)
            return None if rule.verdict == "allow" else Bound(rule)


def _refusing(call: JudgedCall, rules: tuple[Bound, ...]) -> Iterator[tuple[Rule, Certainty]]:
    """Yield the rules that apply to a call, or may apply; last a path rule that a command's effects meet."""
    for each in rules:
        certainty = each.refuses(call)
        if certainty != "no":
            yield each.rule, certainty
    if rules and call.command is not None:
        from .command_files import refused_by_effects  # loaded with the first command

        found = refused_by_effects(call, rules)
        if found is not None:
            yield found


def _judgement(rule: Rule, verdict: Verdict, *, unsure: bool = False) -> Judgement:
    shown = clip(rule.shown, MAX_SHOWN)
    where = f" ({rule.source.where or rule.source.layer})"
    if unsure:
        reason = f"it may do what the {rule.verdict} rule {shown}{where} is about; that is known only when it runs"
    elif rule.reason:
        reason = rule.reason
    else:
        says = {"deny": "forbids it", "ask": "wants to be asked", "allow": "allows it"}[verdict]
        reason = f"the rule {shown}{where} {says}"
    return Judgement(verdict, reason, shown)
