"""Make the parts of a plugin from its manifest: tools that run its commands or its program, or a channel."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from ...core.errors import OutsideWorkspace, ToolDefinitionError
from ...core.tool import Tool
from ..parameters import check_names, parameter_schema
from ..running import DEFAULT_SECONDS, CommandServices, CommandWork, program_tool
from ..template import command_template
from .binary import binary_tool
from .manifest import Manifest, PluginTool
from .program import PinnedProgram

FOLDER_VARIABLE = "TOOLCRIB_PLUGIN_DIR"
"""The variable with the plugin's folder, for its commands and programs."""


@dataclass(frozen=True, slots=True)
class Parts:
    """The parts made from a manifest: its tools, and its program if it has one."""

    tools: tuple[Tool, ...]
    program: PinnedProgram | None = None


def parts_of(manifest: Manifest, services: CommandServices, *, may_change: bool = False) -> Parts:
    """Make the tools. `may_change`: tools could write to the plugin's folder, so all its tools count as shell.

    Raises ToolDefinitionError or ProgramRefused if a tool or the program is invalid.
    """
    env = {**manifest.env, FOLDER_VARIABLE: str(manifest.folder)}

    def category(tool: PluginTool) -> str:
        return "shell" if may_change else tool.category

    program: PinnedProgram | None = None

    def make(tool: PluginTool) -> Tool:
        if program is None:
            return _command(manifest, tool, services, env, category(tool))
        return binary_tool(manifest, tool, program, services, env, category(tool))

    if manifest.binary is not None and manifest.execution != "command":
        program = PinnedProgram(manifest.folder, manifest.binary.path, manifest.binary.sha256)
        program.check()
    return Parts(tuple(_checked(manifest, tool, services, make) for tool in manifest.tools), program)


def _command(
    manifest: Manifest, tool: PluginTool, services: CommandServices, env: dict[str, str], category: str
) -> Tool:
    template = command_template(tool.command)
    schema = parameter_schema(tool.parameters)
    work = CommandWork(
        tool.name, template, services, (manifest.folder,), tool.working_dir, tool.seconds or DEFAULT_SECONDS,
        {**env, **tool.env}, check_names(template.names, schema), f"Plugin tool {tool.name!r} failed",
    )  # fmt: skip
    return program_tool(work, tool.description, schema, source=f"plugin:{manifest.name}", category=category)


def _checked(
    manifest: Manifest, tool: PluginTool, services: CommandServices, make: Callable[[PluginTool], Tool]
) -> Tool:
    """Make a tool, and build everything that could fail later. Errors name the folder and the tool."""
    try:
        if tool.working_dir is not None:
            services.runner((manifest.folder,)).place(tool.working_dir)
        made = make(tool)
        made.prepare()
    except (ToolDefinitionError, OutsideWorkspace) as error:
        said = str(error).removeprefix(f"{tool.name}: ")
        raise ToolDefinitionError(f"{manifest.folder}: tool {tool.name!r}: {said}") from None
    return made
