"""`toolcrib lint`: find faults of tools that will confuse models, providers or people."""

from __future__ import annotations

import dataclasses
from typing import Annotated, Literal

from ..policy.plain import plain
from . import show
from .exit_codes import of_success
from .own_tools import OwnToolOptions, own_tools
from .reader import Argument, CliCommand, Option

_STYLES = {"error": "red", "warning": "yellow", "info": None}


def lint_tools(
    options: OwnToolOptions,
    names: Annotated[
        list[str] | None,
        Argument(metavar="[FILE.py] NAME", help="Check only these tools; those of FILE.py, if one is named."),
    ] = None,
    ignore: Annotated[list[str] | None, Option(metavar="RULE", help="Leave this rule out.")] = None,
    level: Annotated[
        Literal["error", "warning", "info"], Option(help="Show findings of this level and above.")
    ] = "warning",
) -> int:
    """Check names, descriptions and schemas, and look for injected instructions. Exit code 1 if there is an error."""
    from ..policy.lint import LEVELS, lint

    own, names = own_tools(names or [], options.module)
    with own.build(options) as box:
        box.ask_new_servers()
        own.complete(options, box)
        offered = list(box.registry)
        judged = offered if own.with_builtin(options) else own.tools
        tools = [box.registry.require(name) for name in names] if names else judged
        found = lint(tools, offered, ignore or ())
    shown = [finding for finding in found if LEVELS.index(finding.level) <= LEVELS.index(level)]
    if options.json:
        show.out_json([dataclasses.asdict(finding) for finding in shown])
    else:
        for finding in shown:
            show.out(f"{finding.level}: {finding.tool} {plain(finding.text)} [{finding.rule}]", _STYLES[finding.level])
            if finding.remedy:
                show.out(f"    {finding.remedy}", "dim")
        counts = {each: sum(f.level == each for f in found) for each in LEVELS}
        more = "" if len(shown) == len(found) else "; --level info shows all of them"
        said = ", ".join(f"{each}: {count}" for each, count in counts.items() if count) or "no findings"
        show.say(f"{len(tools)} {'tool' if len(tools) == 1 else 'tools'}; {said}{more}", "dim")
    return of_success(not any(finding.level == "error" for finding in found))


COMMAND = CliCommand(lint_tools)
