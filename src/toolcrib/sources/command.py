"""Command tools from the configuration: a command line with `{{parameter}}`s, run in the same way as `exec` does."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ..core.errors import ToolDefinitionError
from ..core.tool import Tool, ToolCategory
from .parameters import check_names, parameter_schema
from .running import DEFAULT_SECONDS, CommandServices, CommandWork, program_tool, real_paths
from .template import command_template

SOURCE = "command"
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_-]{0,63}")


@dataclass(frozen=True, slots=True)
class CommandToolSpec:
    """One entry of `custom_tools`. `read` are further paths that the command may read, `seconds` is its time limit."""

    name: str
    description: str
    command: str
    parameters: Mapping[str, Any] = field(default_factory=dict[str, Any])
    working_dir: str | None = None
    seconds: float | None = None
    env: Mapping[str, str] = field(default_factory=dict[str, str])
    category: str | None = None
    read: tuple[str, ...] = ()


def command_tool(spec: CommandToolSpec, services: CommandServices, base: Path) -> Tool:
    """Return the tool.

    Relative `read` paths start from `base`. Raises ToolDefinitionError with the reason if the entry is invalid.
    """
    try:
        if not _NAME.fullmatch(spec.name):
            raise ToolDefinitionError("a name has letters, digits, _ and -, at most 64, and begins with a letter or _")
        if spec.category is not None and spec.category not in set(ToolCategory):
            raise ToolDefinitionError(f"unknown category {spec.category!r}; known: {', '.join(ToolCategory)}")
        template = command_template(spec.command)
        schema = parameter_schema(spec.parameters)
        work = CommandWork(
            spec.name,
            template,
            services,
            real_paths(spec.read, base),
            spec.working_dir,
            max(1.0, spec.seconds or DEFAULT_SECONDS),
            dict(spec.env),
            check_names(template.names, schema),
        )
        if spec.working_dir is not None:
            work.runner.place(spec.working_dir)
        tool = program_tool(work, spec.description, schema, source=SOURCE, category=spec.category)
        tool.prepare()
    except (ToolDefinitionError, OSError) as error:
        raise ToolDefinitionError(f"custom tool {spec.name!r}: {error}") from None
    return tool
