"""`toolcrib lint`: what models, providers or people will stumble over in the tools there are."""

from __future__ import annotations

import dataclasses
from typing import Annotated

import typer

from . import show
from .options import Options, Usage, single

_STYLES = {"error": "red", "warning": "yellow", "info": None}


def lint_tools(
    options: Options,
    names: Annotated[list[str] | None, typer.Argument(metavar="NAME", help="Only these tools.")] = None,
    ignore: Annotated[
        list[str] | None, typer.Option(metavar="RULE", help="A rule that does not count; may be given again.")
    ] = None,
    level: Annotated[str, typer.Option(help="The least that is shown: error, warning or info.")] = "warning",
) -> int:
    """Check names, descriptions and schemas, and look for injected instructions. Exit code 1 if there is an error."""
    from ..policy.lint import LEVELS, lint

    if level not in LEVELS:
        raise Usage(f"--level {level}: should be one of {', '.join(LEVELS)}")
    with options.open() as box:
        offered = list(box.registry)
        tools = [box.registry.require(name) for name in names] if names else offered
        found = lint(tools, offered, ignore or ())
    shown = [finding for finding in found if LEVELS.index(finding.level) <= LEVELS.index(level)]
    if options.json:
        show.out_json([dataclasses.asdict(finding) for finding in shown])
    else:
        for finding in shown:
            show.out(f"{finding.level}: {finding.tool} {finding.text} [{finding.rule}]", _STYLES[finding.level])
            if finding.remedy:
                show.out(f"    {finding.remedy}", "dim")
        counts = ", ".join(f"{sum(f.level == each for f in found)} {each}" for each in LEVELS)
        show.say(f"{len(tools)} tools: {counts}", "dim")
    return 1 if any(finding.level == "error" for finding in found) else 0


app = single("lint", lint_tools)
