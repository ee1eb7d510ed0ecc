"""Parse and check rules: Claude Code's strings (`Bash(git diff *)`, `mcp__github__*`) and our tables.

    rule  = NAME | NAME "(" SPEC ")" | a JSON object, the one-line form of a table
    table = {tool = rule, args = {…}, exactly = {…}, category, hints, labels, verdict, reason, match, not_match}

The meaning of SPEC depends on the tool: a command pattern, a path, `domain:HOST` or `parameter:value`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import field
from typing import Any, cast

from ...core.dataclass import dataclass
from ...core.empty import EMPTY
from ...core.errors import ConfigError
from ...core.text import clip, lazy_regex
from ...core.tool import ToolCategory
from ...core.verdict import Verdict
from ..plain import plain_line

VERDICTS: tuple[Verdict, ...] = ("deny", "ask", "allow")
"""The strictest first."""

HINTS = ("read_only", "destructive", "idempotent", "open_world")
LABELS: Mapping[str, tuple[str, ...]] = {
    "integrity": ("trusted", "untrusted"),
    "confidentiality": ("public", "private"),
}
_KEYS = ("tool", "args", "exactly", "category", "hints", "labels", "verdict", "reason", "match", "not_match")
_MAX_NAME = 256
_NAME = lazy_regex(r"[^\s()]+")


@dataclass(frozen=True, slots=True)
class RuleSource:
    """The origin of a rule: its layer (user, project, remembered, session …), and the file and line for people.

    `base` is the folder that a path beginning with one `/` is relative to; None is the workspace.
    """

    layer: str = "session"
    where: str = ""
    base: str | None = None


@dataclass(frozen=True, slots=True)
class Rule:
    """One rule. `text` is its written form: the string itself, or the table as JSON on one line."""

    verdict: Verdict
    text: str
    tool: str
    spec: str | None = None
    args: Mapping[str, Any] = EMPTY
    exactly: Mapping[str, Any] | None = None
    category: ToolCategory | None = None
    hints: Mapping[str, bool] = EMPTY
    labels: Mapping[str, str] = EMPTY
    reason: str = ""
    match: tuple[Any, ...] = ()
    not_match: tuple[Any, ...] = ()
    source: RuleSource = field(default_factory=RuleSource)

    @property
    def hosts(self) -> tuple[str, ...]:
        """The hosts that a rule for commands opens: `exec(domain:example.com:443)`."""
        if not (self.spec or "").startswith("domain:") or self.args or self.category or self.hints or self.labels:
            return ()
        return tuple((self.spec or "").removeprefix("domain:").split())

    @property
    def shown(self) -> str:
        """The rule for people: on one line; for a table, only the parts that decide."""
        if not self.text.startswith("{"):
            return plain_line(self.text)
        table = cast("dict[str, Any]", json.loads(self.text))
        said = {key: value for key, value in table.items() if key not in ("verdict", "reason", "match", "not_match")}
        text = said["tool"] if list(said) == ["tool"] else json.dumps(said, ensure_ascii=False)
        return plain_line(text)

    def __str__(self) -> str:
        where = f" ({self.source.where})" if self.source.where else ""
        return f"{self.verdict} {self.shown}{where}"


def parse_rule(written: object, verdict: Verdict, source: RuleSource | None = None) -> Rule:
    """Return a rule from a string or a table. Raises ConfigError that shows the rule and says what is wrong with it."""
    source = source or RuleSource()
    if isinstance(written, Mapping):
        return _table(cast("Mapping[str, Any]", written), verdict, source)
    if not isinstance(written, str):
        raise _wrong(repr(written), source, "should be text like Bash(git diff *), or a table with a tool")
    text = written.strip()
    if text.startswith("{"):
        try:
            value: Any = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise _wrong(text, source, f"begins like a table, but is not JSON: {error}") from None
        return _table(cast("Mapping[str, Any]", value), verdict, source)
    name, spec = _split(text, source)
    return Rule(verdict, text, name, spec, source=source)


def written_form(rule: Rule) -> str | dict[str, Any]:
    """Return the rule as a file contains it: its string, or the table."""
    return json.loads(rule.text) if rule.text.startswith("{") else rule.text


def _split(text: str, source: RuleSource) -> tuple[str, str | None]:
    name, opened, rest = text.partition("(")
    name = name.rstrip()
    if not _NAME.fullmatch(name) or len(name) > _MAX_NAME:
        raise _wrong(text, source, "should begin with the name of a tool, as in Bash(git diff *) or read_file")
    if "\0" in text:
        raise _wrong(text, source, "holds a NUL character")
    if not opened:
        return name, None
    if not rest.endswith(")"):
        raise _wrong(text, source, "opens a parenthesis that nothing closes at its end")
    spec = rest[:-1]
    if not spec.strip():
        raise _wrong(text, source, f"has nothing in its parentheses; {name} alone means every call")
    return name, None if spec.strip() in ("*", ":*") else spec


def _table(table: Mapping[str, Any], verdict: Verdict, source: RuleSource) -> Rule:
    try:
        text = json.dumps(table, ensure_ascii=False)
    except (TypeError, ValueError, RecursionError):  # for example a date from TOML
        raise _wrong(str(dict(table)), source, "holds something that JSON cannot say") from None
    unknown = [key for key in table if key not in _KEYS]
    if unknown:
        raise _wrong(text, source, f"{unknown[0]!r} is not a key of a rule; known: {', '.join(_KEYS)}")
    said = table.get("verdict", verdict)
    if said != verdict:
        raise _wrong(text, source, f"says {said!r}, but is among the {verdict} rules")
    _check(table, text, source)
    name, spec = _split(table.get("tool", "*").strip(), source)
    rule = Rule(
        verdict, text, name, spec,
        args=table.get("args", EMPTY),
        exactly=table.get("exactly"),
        category=ToolCategory(table["category"]) if table.get("category") is not None else None,
        hints=table.get("hints", EMPTY),
        labels=table.get("labels", EMPTY),
        reason=table.get("reason", ""),
        match=tuple(table.get("match", ())),
        not_match=tuple(table.get("not_match", ())),
        source=source,
    )  # fmt: skip
    if rule.exactly is not None and (spec is not None or rule.args):
        raise _wrong(text, source, "exactly says it all; leave args and the parentheses out")
    return rule


def _check(table: Mapping[str, Any], text: str, source: RuleSource) -> None:
    """Raise ConfigError if a value of a table is of the wrong kind."""
    for key, should in _TEXTS.items():
        if not isinstance(table.get(key, ""), str):
            raise _wrong(text, source, f"{key} should be {should}")
    for key, (fits, should) in _MAPS.items():
        entries: Any = table.get(key, EMPTY)
        if not isinstance(entries, Mapping):
            raise _wrong(text, source, f'{key} should be a table, like {{repo = "me/*"}}')
        for name, value in cast("Mapping[str, Any]", entries).items():
            if not fits(name, value):
                raise _wrong(text, source, f"{key}.{name} = {value!r}: {should}")
    for key in ("match", "not_match"):
        examples: Any = table.get(key, [])
        if not isinstance(examples, list) or not all(
            isinstance(each, str | Mapping) for each in cast("list[Any]", examples)
        ):
            raise _wrong(text, source, f"{key} should be a list of examples: commands, paths, addresses or arguments")
    category = table.get("category")
    if category is not None and category not in list(ToolCategory):
        raise _wrong(text, source, f"category {category!r} is unknown; known: {', '.join(ToolCategory)}")


def _is_argument(value: Any) -> bool:
    choices = cast("list[Any]", value) if isinstance(value, list) else [value]
    return bool(choices) and all(isinstance(each, str | bool | int | float) for each in choices)


_TEXTS = {"tool": "the name of a tool, or a rule like Bash(git push *)", "reason": "text"}
_LABELS = "; ".join(f"{name} {' or '.join(words)}" for name, words in LABELS.items())
_MAPS: Mapping[str, tuple[Callable[[str, Any], bool], str]] = {
    "args": (
        lambda _, value: _is_argument(value),
        "it should be text (with *), a number or a boolean, or a list of these",
    ),
    "exactly": (lambda _name, _value: True, ""),
    "hints": (
        lambda name, value: name in HINTS and isinstance(value, bool),
        f"hints are {', '.join(HINTS)}, each true or false",
    ),
    "labels": (lambda name, value: value in LABELS.get(name, ()), f"labels are {_LABELS}"),
}
"""Keys of a table that are tables: whether an entry is right, and what it should be."""


def _wrong(text: str, source: RuleSource, what: str) -> ConfigError:
    shown = clip(plain_line(text), 200)
    return ConfigError(f"{source.where}: rule {shown}: {what}" if source.where else f"rule {shown}: {what}")
