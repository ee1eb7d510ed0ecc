"""A linter for tools: finds problems for models, providers and people (`toolcrib lint`)."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from ...core.tool import Tool
from .finding import LEVELS, Level, LintFinding
from .injection import check_injection
from .returns import check_returns
from .schemas import check_schema
from .wording import check_overlap, check_wording

__all__ = ["LEVELS", "Level", "LintFinding", "lint"]


def lint(tools: Sequence[Tool], among: Sequence[Tool] | None = None, ignore: Collection[str] = ()) -> list[LintFinding]:
    """Return the findings about tools, the worst first.

    `among`: all tools that are offered together; `ignore`: rules to leave out.
    """
    offered = tools if among is None else among
    names: dict[str, list[str]] = {}
    for tool in offered:
        names.setdefault(tool.source, []).append(tool.name)
    found: list[LintFinding] = []
    for tool in tools:
        others = [name for source, own in names.items() if tool.source not in ("own", source) for name in own]
        found += [*check_wording(tool), *check_schema(tool), *check_injection(tool, others), *check_returns(tool)]
    found += check_overlap(tools, offered)
    order = {level: n for n, level in enumerate(LEVELS)}
    return sorted((f for f in found if f.rule not in ignore), key=lambda f: (order[f.level], f.tool, f.rule))
