"""From a manifest to what a plugin gives: tools that run its commands or its program, or a channel."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from ...core.errors import ToolDefinitionError
from ...core.tool import Tool
from ..parameters import check_names, parameter_schema
from ..running import DEFAULT_SECONDS, Around, CommandWork, program_tool
from ..template import command_template
from .binary import binary_tool
from .manifest import Manifest, PluginTool
from .program import Program

FOLDER_VARIABLE = "TOOLCRIB_PLUGIN_DIR"
"""Where a plugin's own files are, for its commands and programs."""


@dataclass(frozen=True, slots=True)
class Parts:
    """What was made of a manifest: its tools, and its program if it has one."""

    tools: tuple[Tool, ...]
    program: Program | None = None


def parts_of(manifest: Manifest, around: Around, *, may_change: bool = False) -> Parts:
    """Make the tools. `may_change`: tools could write to its folder, so that all of them count as shell.

    Raises ToolDefinitionError or ProgramRefused.
    """
    env = {**manifest.env, FOLDER_VARIABLE: str(manifest.folder)}

    def category(tool: PluginTool) -> str:
        return "shell" if may_change else tool.category

    if manifest.execution == "command":
        return Parts(tuple(_command(manifest, tool, around, env, category(tool)) for tool in manifest.tools))
    assert manifest.binary is not None
    program = Program(manifest.folder, manifest.binary.path, manifest.binary.sha256)
    program.check()
    if manifest.execution == "channel":
        return Parts((), program)
    make: Callable[[PluginTool], Tool] = lambda tool: _named(  # noqa: E731
        tool, lambda: binary_tool(manifest, tool, program, around, env, category(tool))
    )
    return Parts(tuple(make(tool) for tool in manifest.tools), program)


def _command(manifest: Manifest, tool: PluginTool, around: Around, env: dict[str, str], category: str) -> Tool:
    def make() -> Tool:
        template = command_template(tool.command)
        schema = parameter_schema(tool.parameters)
        work = CommandWork(
            tool.name, template, around, (manifest.folder,), tool.working_dir, tool.seconds or DEFAULT_SECONDS,
            {**env, **tool.env}, check_names(template.names, schema), f"Plugin tool {tool.name!r} failed",
        )  # fmt: skip
        source = f"plugin:{manifest.name}"
        return program_tool(work, tool.description, schema, source=source, category=category)

    return _named(tool, make)


def _named(tool: PluginTool, make: Callable[[], Tool]) -> Tool:
    """Make a tool and build what could fail later; what is wrong names it."""
    try:
        made = make()
        made.prepare()
    except ToolDefinitionError as error:
        raise ToolDefinitionError(f"tool {tool.name!r}: {error}") from None
    return made
