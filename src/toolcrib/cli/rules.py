"""`toolcrib rules`: list, test, add, remove, import and export rules that allow, ask about or deny calls."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from ..core.verdict import Verdict
from . import show
from .arguments import read_arguments
from .exit_codes import FAILED, OK, Usage, of_verdict
from .options import Options
from .reader import Argument, Command, Option, group

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ..policy.rules.grammar import Rule

Written = Annotated[str, Argument(metavar="RULE", help="Like 'Bash(npm test)', 'Read(src/**)', mcp__github.")]
User = Annotated[bool, Option("--user", help="For all workspaces, not only for this one.")]


def listed(options: Options) -> int:
    """List the rules for this workspace, strictest first, and warn about rules that can never match."""
    from ..policy.rules.grammar import VERDICTS

    with options.build(options.settings(quiet=True)) as box:
        rules = sorted(box.rules.rules, key=lambda rule: VERDICTS.index(rule.verdict))
        warnings = box.rules.warnings(box.registry)
        ignored = [str(item) for item in box.settings.origin.ignored if _is_rule(item.key)]
    if options.json:
        show.out_json({"rules": [_as_json(rule) for rule in rules], "warnings": warnings, "ignored": ignored})
        return OK
    rows = [[rule.verdict, rule.shown, rule.source.layer, rule.source.where] for rule in rules]
    show.columns(rows, ("verdict", None, "dim", "dim"), widest=50)
    if not rules:
        show.say("No rules: the mode and the check of each call decide. See `toolcrib rules add --help`.")
    for warning in warnings:
        show.warn(warning)
    for item in ignored:
        show.warn(f"ignored until the project is trusted: {item}")
    return OK


def tried(
    options: Options,
    name: Annotated[str, Argument(metavar="NAME", help="The tool.")],
    pairs: Annotated[list[str] | None, Argument(metavar="KEY=VALUE", help="Arguments, as for call.")] = None,
    arguments: Annotated[str | None, Option("--arguments", metavar="JSON", help="All arguments as JSON.")] = None,
) -> int:
    """Show which rules match a call, and the verdict. Nothing runs.

    Exit code 0 for allow, 3 for ask and deny.
    """
    from pydantic_core import from_json

    from ..core.errors import InvalidArguments
    from .running import run

    given = read_arguments(pairs or [], arguments)
    with options.build(options.settings(quiet=True)) as box:
        tool = box.registry.require(name)
        try:
            bound = from_json(tool.bind(given)[1])
        except InvalidArguments as error:
            raise Usage(str(error)) from None
        speaking = box.rules.speaking(tool, bound, box.context)
        found = run(box.check(name, bound))
        if options.json:
            matching = [{**_as_json(rule), "certain": sure} for rule, sure in speaking]
            show.out_json({"verdict": found.verdict, "rule": found.rule, "reason": found.reason, "matching": matching})
        else:
            rows = [[rule.verdict, rule.shown, "" if sure else "may match", rule.source.where or
                     rule.source.layer] for rule, sure in speaking]  # fmt: skip
            show.columns(rows, ("verdict", None, "yellow", "dim"))
            if not rows:
                show.say("No rule matches.", "dim")
            show.columns([[found.verdict, found.reason]], ("verdict", None))
    return of_verdict(found.verdict)


def added(
    options: Options,
    verdict: Annotated[Verdict, Argument(help="What to do with a call that the rule matches.")],
    rule: Written,
    user: User = False,
) -> int:
    """Add a rule to your own rules, for this workspace or (--user) for all."""
    from ..config.remembered import remember

    path = remember(None if user else _workspace(options), verdict, rule)
    show.say(f"Wrote {verdict} {rule} to {path}.")
    with options.build(options.settings(quiet=True)) as box:
        for warning in box.rules.warnings(box.registry):
            if warning.startswith(f"{verdict} {rule.strip()} ("):
                show.warn(warning)
    return OK


def removed(options: Options, rule: Written, user: User = False) -> int:
    """Remove one of your own rules, also one written by "always". Edit rules of other files there."""
    from ..config.remembered import forget

    if forget(None if user else _workspace(options), rule):
        show.say(f"Removed {rule}.")
        return OK
    from ..config.rules import rules_of

    others = [each for each in rules_of(options.settings(quiet=True)) if each.text == rule.strip()]
    where = ", ".join(each.source.where or each.source.layer for each in others)
    show.error(f"{rule} is not among your own rules here" + (f"; it is in {where}" if where else ""))
    return FAILED


def imported(
    options: Options,
    file: Annotated[str, Argument(metavar="FILE", help="A settings file of Claude Code.")],
    user: User = False,
) -> int:
    """Show the rules of a Claude Code settings file, and add them to your own after a yes."""
    from ..config.files import read_config_file
    from ..config.remembered import remember
    from ..config.rules import claude_rules
    from ..policy.rules.grammar import RuleSource, parse_rule
    from ..policy.rules.match import why_never

    rules = [
        parse_rule(written, verdict, RuleSource("claude", where))
        for verdict, written, where in claude_rules(read_config_file(Path(file).expanduser()))
    ]
    useful = [rule for rule in rules if why_never(rule) is None]
    for rule in rules:
        if rule not in useful:
            show.warn(f"{rule}: can never match: {why_never(rule)}")
    show.columns([[rule.verdict, rule.text] for rule in useful], ("verdict", None))
    if not useful:
        show.say(f"{file} has no rules to add.")
        return OK
    options.confirm(f"Add {len(useful)} rules?", "nothing was added")
    workspace = None if user else _workspace(options)
    for rule in useful:
        path = remember(workspace, rule.verdict, rule.text)
        show.say(f"Wrote {rule.verdict} {rule.text} to {path}.", "dim")
    return OK


def exported(
    options: Options,
    claude: Annotated[bool, Option("--claude", help="Print them as permissions for Claude Code's settings.")] = False,
) -> int:
    """Print the rules as JSON; with --claude the rules that Claude Code can express, in its format."""
    from ..config.rules import rules_of
    from ..policy.rules.export import permissions

    settings = options.settings(quiet=True)
    if not claude:
        show.out_json({"permissions": _by_verdict(rules_of(settings))})
        return OK
    found, left_out = permissions(rules_of(settings))
    extra: dict[str, Any] = {"defaultMode": "plan" if settings.mode == "observer" else "default"}
    if settings.sandbox.write_roots:
        extra["additionalDirectories"] = [str(path) for path in settings.sandbox.write_roots]
    show.out_json({"permissions": {**found, **extra}})
    for rule in left_out:
        show.warn(f"{rule}: Claude Code cannot express it")
    return OK


def _by_verdict(rules: Iterable[Rule]) -> dict[str, list[Any]]:
    from ..policy.rules.grammar import written_form

    found: dict[str, list[Any]] = {"allow": [], "ask": [], "deny": []}
    for rule in rules:
        found[rule.verdict].append(written_form(rule))
    return found


def _as_json(rule: Rule) -> dict[str, Any]:
    from ..policy.rules.grammar import written_form

    source = rule.source
    return {
        "verdict": rule.verdict, "rule": written_form(rule), "layer": source.layer, "where": source.where or None,
        "reason": rule.reason or None,
    }  # fmt: skip


def _is_rule(key: str) -> bool:
    return key.startswith(("rules.", "permissions."))


def _workspace(options: Options) -> Path:
    return options.settings(quiet=True).workspace


COMMAND = group(
    listed,
    "Rules that allow, ask about or deny calls. Without a command: list them.",
    {
        "list": Command(listed),
        "test": Command(tried),
        "add": Command(added, without=("json", "yes", "mode")),
        "remove": Command(removed, without=("json", "yes", "mode")),
        "import": Command(imported, without=("json", "mode")),
        "export": Command(exported, without=("json", "yes")),
    },
)
