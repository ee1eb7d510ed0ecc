"""`toolcrib rules`: list, test, add, remove, import and export rules that allow, ask about or deny calls."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Any

from pydantic_core import from_json

from ..config.files import read_config_file
from ..config.remembered import forget, remember
from ..config.rules import claude_rules, rules_of
from ..core.errors import InvalidArguments
from ..core.verdict import Verdict
from ..policy.rules.match import why_never
from ..policy.rules.names import CLAUDE, family_of
from ..policy.rules.rule_grammar import VERDICTS, Rule, RuleSource, parse_rule, written_form
from ..policy.rules.suggest import unquoted
from . import show
from .arguments import named, read_arguments
from .exit_codes import Usage, of_verdict
from .main_loop import run
from .options import Options
from .reader import Argument, CliCommand, Option, group
from .rules_history import suggested, tried_on_record

Written = Annotated[str, Argument(metavar="RULE", help="Like 'Bash(npm test)', 'Read(src/**)', mcp__github.")]
User = Annotated[bool, Option("--user", help="For all workspaces, not only for this one.")]


_CLAUDE_NAMES = {
    "exec": "Bash", "shell": "Bash", "read_file": "Read", "grep": "Read", "glob": "Read", "list_dir": "Read",
    "write_file": "Edit", "edit_file": "Edit", "apply_patch": "Edit", "delete_file": "Edit",
    "web_fetch": "WebFetch", "web_search": "WebSearch",
}  # fmt: skip


def listed(options: Options) -> None:
    """List the rules for this workspace, strictest first, and warn about rules that can never match."""
    with options.build(options.settings(quiet=True)) as box:
        rules = sorted(box.rules.rules, key=lambda rule: VERDICTS.index(rule.verdict))
        warnings = box.rules.warnings(box.registry)
        ignored = [str(item) for item in box.settings.origin.ignored if item.key.startswith(("rules.", "permissions."))]
    if options.json:
        show.out_json({"rules": [_as_json(rule) for rule in rules], "warnings": warnings, "ignored": ignored})
        return
    rows = [[rule.verdict, rule.shown, rule.source.layer, rule.source.where] for rule in rules]
    none = "No rules: the mode and the check of each call decide. See `toolcrib rules add --help`."
    show.columns(rows, ("verdict", None, "dim", "dim"), widest=50, none=none)
    for warning in warnings:
        show.warn(warning)
    for item in ignored:
        show.warn(f"ignored until the project is trusted: {item}")


_ALLOWS = (
    " To allow a line, rules must match each of its commands, with words that are known before it runs, and `Edit` "
    "rules the files that its output goes to."
)


def tried(
    options: Options,
    name: Annotated[str, Argument(metavar="NAME", help="The tool.")],
    pairs: Annotated[list[str] | None, Argument(metavar="KEY=VALUE", help="Arguments, as for call.")] = None,
    arguments: Annotated[str | None, Option("--args", metavar="JSON", help="All arguments as JSON.")] = None,
) -> int:
    """Show which rules match a call, and the verdict. Nothing runs.

    Exit code 0 for allow, 3 for ask and deny.
    """
    given = read_arguments(pairs or [], arguments)
    with options.build(options.settings(quiet=True)) as box:
        tool = box.registry.require(name)
        try:
            bound = from_json(tool.bind(named(given, name, box.registry, pairs or []))[1])
        except InvalidArguments as error:
            raise Usage(str(error)) from None
        speaking = box.rules.speaking(tool, bound, box.context)
        found = run(box.check(name, bound))
        if options.json:
            matching = [{**_as_json(rule), "certain": sure} for rule, sure in speaking]
            show.out_json({"verdict": found.verdict, "rule": found.rule, "reason": found.reason, "matching": matching})
        else:
            rows = [[rule.verdict, rule.shown, "" if sure else "may match", _place(rule)] for rule, sure in speaking]
            why = _ALLOWS if tool.command_argument and any(rule.verdict == "allow" for rule in box.rules.rules) else ""
            show.columns(rows, ("verdict", None, "yellow", "dim"), none=f"No rule matches.{why}")
            show.columns([[found.verdict, found.reason]], ("verdict", None))
    return of_verdict(found.verdict)


def added(
    options: Options,
    verdict: Annotated[Verdict, Argument(help="What to do with a call that the rule matches.")],
    rule: Written,
    user: User = False,
) -> None:
    """Add a rule to your own rules, for this workspace or (--user) for all."""
    path = remember(None if user else _workspace(options), verdict, rule)
    show.say(f"Wrote {verdict} {rule} to {path}.")
    with options.build(options.settings(quiet=True)) as box:
        for warning in box.rules.warnings(box.registry):
            if warning.startswith(f"{verdict} {rule.strip()} ("):
                show.warn(warning)


def removed(
    options: Options,
    words: Annotated[list[str], Argument(metavar="[VERDICT] RULE", help="The rule, as `toolcrib rules` shows it.")],
    user: User = False,
) -> None:
    """Remove one of your own rules, also one written by "always". Edit rules of other files there."""
    *verdict, rule = words
    if verdict not in ([], *([each] for each in VERDICTS)):
        raise Usage(f"unexpected argument {rule!r}")
    if forget(None if user else _workspace(options), rule, verdict or VERDICTS):
        show.say(f"Removed {rule}.")
        return
    others = [each for each in rules_of(options.settings(quiet=True)) if each.text == rule.strip()]
    where = f"it is in {', '.join(map(_place, others))}" if others else "`toolcrib rules` lists them"
    raise Usage(f"{rule} is not among your own rules here; {where}")


def imported(
    options: Options,
    file: Annotated[str, Argument(metavar="FILE", help="A settings file of Claude Code.")],
    user: User = False,
) -> None:
    """Show the rules of a Claude Code settings file, and add them to your own after a yes."""
    rules = [
        parse_rule(written, verdict, RuleSource("claude", where))
        for verdict, written, where in claude_rules(read_config_file(Path(file).expanduser()))
    ]
    useful = [rule for rule in rules if why_never(rule) is None]
    for rule in rules:
        if rule not in useful:
            show.warn(f"{rule}: can never match: {why_never(rule)}")
    none = f"{file} has no rules to add."
    show.columns([[rule.verdict, rule.text] for rule in useful], ("verdict", None), none=none)
    if not useful:
        return
    options.confirm(f"Add {len(useful)} rules?", "nothing was added")
    workspace = None if user else _workspace(options)
    for rule in useful:
        path = remember(workspace, rule.verdict, rule.text)
        show.say(f"Wrote {rule.verdict} {rule.text} to {path}.", "dim")


def exported(
    options: Options,
    claude: Annotated[bool, Option("--claude", help="Print them as permissions for Claude Code's settings.")] = False,
) -> None:
    """Print the rules as JSON; with --claude the rules that Claude Code can express, in its format."""
    settings = options.settings(quiet=True)
    if not claude:
        show.out_json({"permissions": {
            verdict: [written_form(rule) for rule in rules_of(settings) if rule.verdict == verdict]
            for verdict in ("allow", "ask", "deny")
        }})  # fmt: skip
        return
    found, left_out = permissions(rules_of(settings))
    extra: dict[str, Any] = {"defaultMode": "plan" if settings.mode == "observer" else "default"}
    if settings.sandbox.write_roots:
        extra["additionalDirectories"] = [str(path) for path in settings.sandbox.write_roots]
    show.out_json({"permissions": {**found, **extra}})
    for rule in left_out:
        show.warn(f"{rule}: Claude Code cannot express it")


def _place(rule: Rule) -> str:
    return rule.source.where or rule.source.layer


def _as_json(rule: Rule) -> dict[str, Any]:
    source = rule.source
    return {
        "verdict": rule.verdict, "rule": written_form(rule), "layer": source.layer, "where": source.where or None,
        "reason": rule.reason or None,
    }  # fmt: skip


def _workspace(options: Options) -> Path:
    return options.settings(quiet=True).workspace


def permissions(rules: Iterable[Rule]) -> tuple[dict[str, list[str]], list[Rule]]:
    """The lists allow, ask and deny for Claude Code's settings, and the rules that it cannot express."""
    found: dict[str, list[str]] = {"allow": [], "ask": [], "deny": []}
    left_out: list[Rule] = []
    for rule in rules:
        text = _as_claude_writes(rule)
        if text is None:
            left_out.append(rule)
        elif text not in found[rule.verdict]:
            found[rule.verdict].append(text)
    return found, left_out


def _as_claude_writes(rule: Rule) -> str | None:
    if rule.text.startswith("{") or (rule.verdict == "allow" and why_never(rule) is not None):
        return None
    name, spec = rule.tool, rule.spec
    if name not in CLAUDE and family_of(name) != "mcp":
        if name not in _CLAUDE_NAMES or (
            spec is None and rule.verdict == "allow" and _CLAUDE_NAMES[name] in ("Read", "Edit")
        ):
            return None  # in Claude Code, Read covers more tools than read_file
        name = _CLAUDE_NAMES[name]
    if spec is None:
        return name
    if name == "Bash" and spec.startswith("="):
        command = unquoted(spec[1:])
        if "*" in command or "\n" in command or command != command.strip() or command.endswith(":"):
            return None
        spec = command
    return f"{name}({spec})"


COMMAND = group(
    listed,
    "Rules that allow, ask about or deny calls. Without a command: list them.",
    {
        "list": CliCommand(listed),
        "test": CliCommand(tried),
        "try": CliCommand(tried_on_record, without=("yes",)),
        "suggest": CliCommand(suggested, without=("yes",)),
        "add": CliCommand(added, without=("json", "mode")),
        "remove": CliCommand(removed, without=("json", "mode")),
        "import": CliCommand(imported, without=("json", "mode")),
        "export": CliCommand(exported, without=("json", "yes")),
    },
)
