"""Compile one rule for one tool: which parts of a call it checks, and how."""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, cast

from ...core.context import ANY_SHELL, ToolContext
from ...core.dataclass import dataclass
from ...core.errors import ConfigError
from ...core.text import wildcard
from ...core.tool import Access, Tool, ToolCategory
from . import names
from .commands import Certainty, CommandPattern, Subject, parse_pattern, refuses, subjects_of
from .file_patterns import File, FilePattern, file_at, file_pattern, files_of
from .rule_grammar import Rule
from .suggest import unquoted

if TYPE_CHECKING:
    from ..shell.parts import Script

ALL: frozenset[Access] = names.READS | names.WRITES
SAFE_METHODS = frozenset({"GET", "HEAD"})
CANONICAL = frozenset({"command", "file_path", "path", "url"})
"""Parameters for which Claude Code's rules have a special form in parentheses; `url:x` and so on is ignored."""

Labels = Callable[[ToolContext], Mapping[str, str]]


@dataclass(frozen=True, slots=True)
class MatchEnvironment:
    """The paths that rules are relative to (absolute and real), and the function that reads a session's labels."""

    workspace: str
    home: str
    labels: Labels | None = None


@dataclass(eq=False)
class JudgedCall:
    """One call as rules see it. Data that only some rules need is computed at the first use."""

    tool: Tool
    arguments: Mapping[str, Any]
    ctx: ToolContext
    environment: MatchEnvironment

    @property
    def command(self) -> str | None:
        """The shell command, if the call has one."""
        return self.tool.command_in(self.arguments)

    @functools.cached_property
    def cwd(self) -> str:
        """The folder in which the command starts."""
        given, workspace = self.arguments.get("working_dir"), self.environment.workspace
        return file_at(given, workspace, "search").spelled if isinstance(given, str) else workspace

    @functools.cached_property
    def script(self) -> Script:
        """The parsed command."""
        from ..shell.reading import read_script

        typed = self.tool.command_argument == "input"  # what a running command gets
        sh = bool(self.ctx.metadata.get(ANY_SHELL))
        return read_script(self.command or "", self.cwd, self.environment.home, typed=typed, sh=sh)

    @functools.cached_property
    def subjects(self) -> tuple[Subject, ...]:
        """The parts of the command, in the form for patterns that refuse."""
        return subjects_of(self.script)

    @property
    def unread(self) -> bool:
        """Whether a part of the command could not be parsed."""
        return any(problem.verdict == "ask" for problem in self.script.problems)

    @functools.cached_property
    def files(self) -> tuple[File, ...]:
        """The files in the arguments."""
        return tuple(files_of(self.tool, self.arguments, self.environment.workspace))

    @functools.cached_property
    def hosts(self) -> tuple[str | None, ...]:
        """The hosts in the arguments; None for an address whose host is uncertain."""
        given = [self.arguments.get(name) for name in names.URL_ARGUMENTS]
        return tuple(names.host_of(each) for value in given for each in _choices(value) if isinstance(each, str))


@dataclass(frozen=True, slots=True)
class Bound:
    """A rule that can apply to a tool. At most one of `command`, `files` and `domain` is set: the part that it checks.

    If none is set, the rule applies to the call as a whole, if `rest` (its other conditions) holds.
    """

    rule: Rule
    command: CommandPattern | None = None
    files: FilePattern | None = None
    access: frozenset[Access] = ALL
    domain: str | None = None
    rest: tuple[Callable[[JudgedCall], bool], ...] = ()

    @property
    def always(self) -> bool:
        """Whether the rule applies to every call of the tool."""
        return self.whole and not self.rest

    @property
    def whole(self) -> bool:
        """Whether the rule applies to calls as a whole."""
        return self.command is None and self.files is None and self.domain is None

    def rest_fits(self, call: JudgedCall) -> bool:
        """Return whether the other conditions of the rule hold."""
        for each in self.rest:  # noqa: SIM110 - as a generator it takes twice as long
            if not each(call):
                return False
        return True

    def refuses(self, call: JudgedCall) -> Certainty:
        """Return whether a rule that denies or asks applies to this call."""
        if not self.rest_fits(call):
            return "no"
        if self.command is not None:
            if call.command is None:
                return "no"
            return refuses(self.command, call.subjects, call.command, unread=call.unread)
        if self.files is not None:
            return self._refuses_files(call)
        if self.domain is not None:
            if any(host is None for host in call.hosts):  # an address with an uncertain host could be this one
                return "maybe"
            return "yes" if any(names.domain_meets(self.domain, host) for host in call.hosts if host) else "no"
        return "yes"

    def _refuses_files(self, call: JudgedCall) -> Certainty:
        assert self.files is not None
        found: Certainty = "no"
        for file in call.files:
            if file.access not in self.access:
                continue
            if self.files.refuses_all_in(file) if file.access == "search" else self.files.refuses(file):
                return "yes"
            if file.access in names.WRITES and self.files.means_inside(file):
                found = "maybe"  # the whole directory with its content
        return found


def bind(rule: Rule, tool: Tool, environment: MatchEnvironment) -> Bound | None:
    """Return the rule compiled for this tool; None if it never applies. Raises ConfigError if the rule is invalid."""
    allow = rule.verdict == "allow"
    if not names.means(rule.tool, rule.spec, tool, rule.verdict):
        return None
    if allow and tool.origin is not None and (rule.category or rule.hints):  # hints may only tighten
        return None
    if rule.category is not None and rule.category != tool.category:
        return None
    if any(_hint_of(tool, hint) != wanted for hint, wanted in rule.hints.items()):
        return None
    rest = _rest(rule, tool, environment)
    if rest is None:
        return None
    if rule.spec is None:
        attaches = tool.category == ToolCategory.MESSAGING and names.family_of(rule.tool) == "read"
        return Bound(rule, rest=(*rest, _names_files) if attaches else rest)
    return _bind_spec(rule, rule.spec, tool, environment, rest)


def _names_files(call: JudgedCall) -> bool:
    return bool(call.files)


def _rest(rule: Rule, tool: Tool, environment: MatchEnvironment) -> tuple[Callable[[JudgedCall], bool], ...] | None:
    found: list[Callable[[JudgedCall], bool]] = []
    if rule.args:
        if rule.verdict == "allow" and any(_too_wide(tool, name, value) for name, value in rule.args.items()):
            return None
        wanted = rule.args
        found.append(lambda call: _args_fit(wanted, call.arguments))
    if rule.exactly is not None:
        whole = rule.exactly
        found.append(lambda call: _exactly(whole, call.arguments))
    if rule.labels:
        read = environment.labels
        if read is None:
            return None
        labels = rule.labels
        found.append(lambda call: all(read(call.ctx).get(key) == value for key, value in labels.items()))
    return tuple(found)


def _too_wide(tool: Tool, name: str, value: Any) -> bool:
    """Return whether an allowed text restricts less than it seems: one of a command, or of a path with links in it."""
    if name == tool.command_argument:
        return _has_star(value)
    return callable(tool.paths) or name in tool.paths


def _bind_spec(
    rule: Rule, spec: str, tool: Tool, environment: MatchEnvironment, rest: tuple[Callable[[JudgedCall], bool], ...]
) -> Bound | None:
    family, allow = names.family_of(rule.tool), rule.verdict == "allow"
    if family in ("read", "write"):
        if allow and rule.tool in names.IGNORED_PATHS:
            return None
        access = names.READS if family == "read" else names.WRITES
        if allow and family == "read":
            access = names.READS - {"edit"}
        return Bound(rule, files=pattern_of(rule, environment), access=access, rest=rest)
    if tool.command_argument is not None and family in ("command", "own"):
        if spec.startswith("domain:"):  # it opens hosts to commands that are allowed (`RuleSet.opened`)
            return Bound(rule, domain=spec, rest=rest) if allow else None
        if spec.startswith("="):
            command, name = unquoted(spec[1:]), tool.command_argument
            return Bound(rule, rest=(*rest, lambda call: _exactly({name: command}, call.arguments)))
        return Bound(rule, command=parse_pattern(spec), rest=rest)
    if spec.startswith("domain:") and (family == "web" or names.has_url(tool)):
        domain = names.plain_domain(spec.removeprefix("domain:"))
        if domain is None:
            raise ConfigError(f"{spec!r} names no host; write domain:example.com or domain:*.example.com")
        if allow and family == "web":
            rest = (*rest, _only_looks)
        return Bound(rule, domain=domain, rest=rest)
    if family == "own" and tool.paths:
        return Bound(rule, files=pattern_of(rule, environment), rest=rest)
    return _bind_parameter(rule, spec, rest)


def _bind_parameter(rule: Rule, spec: str, rest: tuple[Callable[[JudgedCall], bool], ...]) -> Bound | None:
    name, colon, value = spec.partition(":")
    if rule.verdict == "allow" or not colon or name in CANONICAL:
        return None
    return Bound(rule, rest=(*rest, lambda call: _args_fit({name.strip(): value}, call.arguments)))


def pattern_of(rule: Rule, environment: MatchEnvironment) -> FilePattern:
    """Return the pattern of a rule for paths. Raises ConfigError if it is invalid."""
    base = rule.source.base or environment.workspace
    return file_pattern(rule.spec or "", environment.workspace, base, environment.home, allow=rule.verdict == "allow")


def _only_looks(call: JudgedCall) -> bool:
    """Return whether a request only fetches: that is what WebFetch allows."""
    method = call.arguments.get("method")
    return method is None or (isinstance(method, str) and method.upper() in SAFE_METHODS)


def why_never(rule: Rule) -> str | None:
    """Return why a rule can match nothing, with any tools; None if it can match."""
    family, allow = names.family_of(rule.tool), rule.verdict == "allow"
    if allow and family == "own" and not rule.tool.strip("*"):
        return "a rule that allows must name what it allows"
    if allow and family == "mcp" and not names.anchored(rule.tool):
        return "a rule that allows must name the server: mcp__server__*"
    if family in ("read", "write") and allow and rule.spec is not None and rule.tool in names.IGNORED_PATHS:
        return f"Claude Code never looks at it; write {'Read' if family == 'read' else 'Edit'}({rule.spec})"
    if rule.spec is None:
        return None
    if rule.spec.startswith("domain:") and (family == "command" or rule.tool in ("exec", "shell")):
        if not allow:
            return "a rule about the hosts of commands can only allow; a command reaches none by itself"
        places = [each.rpartition(":") for each in rule.spec.removeprefix("domain:").split()]
        if not places or not all(
            port.isdecimal() and names.plain_domain(host) == host != "*" for host, _, port in places
        ):
            return f"write each host with its port: {rule.tool}(domain:example.com:443)"
    if family == "search":
        return "WebSearch takes nothing in parentheses"
    if family == "web" and not rule.spec.startswith("domain:"):
        name = rule.spec.partition(":")[0]
        if allow or name in CANONICAL or ":" not in rule.spec:
            return "WebFetch takes domain:HOST in its parentheses"
    if family == "mcp":
        name, colon, _ = rule.spec.partition(":")
        if allow:
            return 'the parentheses of an mcp__ rule cannot allow; write {tool = "mcp__…", args = {…}}'
        if not colon or name in CANONICAL:
            return "an mcp__ rule takes parameter:value in its parentheses"
    return None


# --- arguments other than paths, commands and addresses


def _args_fit(wanted: Mapping[str, Any], arguments: Mapping[str, Any]) -> bool:
    """Return whether every named argument is given and equals one of the values. A list or table never does."""
    for name, value in wanted.items():  # noqa: SIM110 - see rest_fits
        if not _fits(value, arguments.get(name)):
            return False
    return True


def _exactly(wanted: Mapping[str, Any], arguments: Mapping[str, Any]) -> bool:
    """Return whether these are exactly the arguments. null is the same as absent; 1 is not 1.0 or true."""
    return _canonical(wanted) == _canonical(arguments)


def _canonical(arguments: Mapping[str, Any]) -> str:
    """Return arguments as JSON text that is equal only for equal arguments."""
    given = {key: value for key, value in arguments.items() if value is not None}
    return json.dumps(given, sort_keys=True, separators=(",", ":"), ensure_ascii=True)


def _has_star(value: Any) -> bool:
    """Return whether a value of `args` can match more than one text."""
    return any(isinstance(each, str) and len(_pieces(each)) > 1 for each in _choices(value))


def _fits(wanted: Any, given: Any) -> bool:
    number = isinstance(given, int | float)
    if not number and not isinstance(given, str):
        return False
    text = _number(given) if number else given
    for each in _choices(wanted):
        if wildcard(_pieces(each), text) if isinstance(each, str) else number and _number(each) == text:
            return True
    return False


def _choices(value: Any) -> list[Any]:
    return cast("list[Any]", value) if isinstance(value, list) else [value]


def _number(value: float) -> str:
    """Return a number or boolean as text: 80 and 80.0 are the same number for a tool."""
    return str(int(value)) if isinstance(value, float) and value.is_integer() else json.dumps(value)


@functools.lru_cache(4096)
def _pieces(pattern: str) -> tuple[str, ...]:
    """Return the pattern split at its stars; `\\*` is a star and `\\\\` a backslash."""
    pieces = [""]
    for escaped, star, text in re.findall(r"\\([*\\])|(\*)|([^*\\]+|\\)", pattern):
        if star:
            pieces.append("")
        else:
            pieces[-1] += escaped or text
    return tuple(pieces)


def _hint_of(tool: Tool, hint: str) -> bool:
    """Return a hint of a tool. If an MCP server does not give it, MCP's default counts: the worst case."""
    if hint == "read_only":
        return tool.is_read_only
    value = getattr(tool, hint)
    if value is not None:
        return value
    if hint == "destructive" and tool.category == ToolCategory.DESTRUCTIVE:
        return True
    return tool.origin is not None and hint != "idempotent" and not tool.is_read_only
