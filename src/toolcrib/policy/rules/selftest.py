"""Check the examples of a rule when the rule is read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, cast

from ...core.context import EMPTY_CONTEXT
from ...core.empty import EMPTY
from ...core.errors import ConfigError
from ...core.tool import Access, FunctionTool, Tool, ToolOrigin
from ..plain import plain_line
from .names import family_of
from .rule_grammar import Rule
from .ruleset import RuleSet

COMMANDS = frozenset({"exec", "shell"})
FILES: Mapping[str, Access] = {
    "read_file": "read", "list_dir": "search", "glob": "search", "grep": "search",
    "write_file": "write", "delete_file": "write", "edit_file": "edit", "apply_patch": "edit",
}  # fmt: skip
"""Our own tools, for examples that are plain text."""


def check_examples(rule: Rule, workspace: str, home: str | None = None) -> None:
    """Check a rule's examples. Raises ConfigError with the rule and the first example that has another result than it
    says."""
    if not rule.match and not rule.not_match:
        return
    rules = RuleSet([replace(rule, category=None, hints=EMPTY, labels=EMPTY)], workspace=workspace, home=home)
    for expected, examples in ((True, rule.match), (False, rule.not_match)):
        for example in examples:
            tool, arguments = _example(rule, example)
            found = rules.match(tool, arguments, EMPTY_CONTEXT)
            fits = found is not None and found.verdict == rule.verdict
            if fits is not expected or (found is not None and not expected):
                does = "does not match" if expected else "matches"
                key = "match" if expected else "not_match"
                where = f"{rule.source.where}: " if rule.source.where else ""
                raise ConfigError(f"{where}rule {plain_line(rule.text)}: {key}: it {does} {plain_line(str(example))!r}")


def _example(rule: Rule, example: Any) -> tuple[Tool, Mapping[str, Any]]:
    """Return a tool that the rule applies to, and the example as its arguments."""
    family, name = family_of(rule.tool), rule.tool.replace("*", "x")
    origin = None
    if family == "mcp":
        server, _, tool = name.removeprefix("mcp__").partition("__")
        origin = ToolOrigin("mcp", server, tool or "x")
    if family == "command" or rule.tool in COMMANDS:
        return _tool("exec", command_argument="command"), _arguments(rule, example, "command")
    if family in ("read", "write"):
        access: Access = "read" if family == "read" else "write"
        return _tool("x", paths={"path": access}), _arguments(rule, example, "path")
    if rule.tool in FILES:
        return _tool(rule.tool, paths={"path": FILES[rule.tool]}), _arguments(rule, example, "path")
    if family == "web" or (rule.spec or "").startswith("domain:"):
        return _tool("web_fetch" if family == "web" else name), _arguments(rule, example, "url")
    return _tool(name, origin=origin), _arguments(rule, example, None)


def _arguments(rule: Rule, example: Any, key: str | None) -> Mapping[str, Any]:
    if isinstance(example, Mapping):
        return cast("Mapping[str, Any]", example)
    if key is None:
        raise ConfigError(f"rule {plain_line(rule.text)}: its examples are tables of arguments, not {example!r}")
    return {key: example}


def _tool(name: str, **options: Any) -> Tool:
    schema = {"type": "object", "properties": {"url": {"type": "string"}}, "additionalProperties": True}
    return FunctionTool(_nothing, name=name, parameters=schema, **options)


def _nothing(args: dict[str, Any]) -> None:
    """Do nothing: the function of an example's tool."""
