"""Export rules in Claude Code's syntax, as far as it can express them."""

from __future__ import annotations

from collections.abc import Iterable

from .grammar import Rule
from .match import why_never
from .names import CLAUDE, family_of
from .suggest import unquoted

_OURS = {
    "exec": "Bash", "shell": "Bash", "read_file": "Read", "grep": "Read", "glob": "Read", "list_dir": "Read",
    "write_file": "Edit", "edit_file": "Edit", "apply_patch": "Edit", "delete_file": "Edit",
    "web_fetch": "WebFetch", "web_search": "WebSearch",
}  # fmt: skip


def permissions(rules: Iterable[Rule]) -> tuple[dict[str, list[str]], list[Rule]]:
    """Return the lists allow, ask and deny for its settings, and the rules that it cannot express."""
    found: dict[str, list[str]] = {"allow": [], "ask": [], "deny": []}
    left_out: list[Rule] = []
    for rule in rules:
        text = _said(rule)
        if text is None:
            left_out.append(rule)
        elif text not in found[rule.verdict]:
            found[rule.verdict].append(text)
    return found, left_out


def _said(rule: Rule) -> str | None:
    if rule.text.startswith("{") or (rule.verdict == "allow" and why_never(rule) is not None):
        return None
    name, spec = rule.tool, rule.spec
    if name not in CLAUDE and family_of(name) != "mcp":
        if name not in _OURS or (spec is None and rule.verdict == "allow" and _OURS[name] in ("Read", "Edit")):
            return None  # in Claude Code, Read covers more tools than read_file
        name = _OURS[name]
    if spec is None:
        return name
    if name == "Bash" and spec.startswith("="):
        command = unquoted(spec[1:])
        if "*" in command or "\n" in command or command != command.strip() or command.endswith(":"):
            return None
        spec = command
    return f"{name}({spec})"
