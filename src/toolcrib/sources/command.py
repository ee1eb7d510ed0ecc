"""Command tools from the configuration: a command line with `{{parameter}}`s, run in the same way as `exec` does."""

from __future__ import annotations

import re
from pathlib import Path

from ..core.errors import ToolDefinitionError
from ..core.tool import Tool, ToolCategory
from .parameters import check_names, parameter_schema
from .running import CommandServices, CommandWork, program_tool, real_paths
from .settings import CustomToolSettings
from .template import command_template

SOURCE = "command"
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_-]{0,63}")


def command_tool(entry: CustomToolSettings, services: CommandServices, base: Path) -> Tool:
    """Return the tool.

    Relative `read` paths start from `base`. Raises ToolDefinitionError with the reason if the entry is invalid.
    """
    try:
        if not _NAME.fullmatch(entry.name):
            raise ToolDefinitionError("a name has letters, digits, _ and -, at most 64, and begins with a letter or _")
        if entry.category is not None and entry.category not in set(ToolCategory):
            raise ToolDefinitionError(f"unknown category {entry.category!r}; known: {', '.join(ToolCategory)}")
        template = command_template(entry.command)
        schema = parameter_schema(entry.parameters)
        work = CommandWork(
            entry.name,
            template,
            services,
            real_paths(entry.read, base),
            entry.working_dir,
            max(1.0, entry.timeout),
            dict(entry.env),
            check_names(template.names, schema),
        )
        if entry.working_dir is not None:
            work.runner.place(entry.working_dir)
        tool = program_tool(work, entry.description, schema, source=SOURCE, category=entry.category)
        tool.prepare()
    except (ToolDefinitionError, OSError) as error:
        raise ToolDefinitionError(f"custom tool {entry.name!r}: {error}") from None
    return tool
