"""Make the parts of a plugin from its manifest: tools that run its commands or its program, or a channel."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from ...core.errors import OutsideWorkspace, ToolDefinitionError
from ...core.registry import ToolRegistry
from ...core.tool import Tool
from ..parameters import check_names, parameter_schema
from ..running import CommandServices, CommandWork, program_tool
from ..settings import DEFAULT_SECONDS
from ..template import command_template
from .binary import binary_tool, unpinnable
from .manifest import Manifest, ManifestError, PluginTool, manifest_file, read_manifest
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
    env = {**(manifest.env or {}), FOLDER_VARIABLE: str(manifest.folder)}

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


def check_plugin(folder: Path, registry: ToolRegistry, services: CommandServices, backend: str | None) -> list[str]:
    """Return what a plugin folder holds, and what could be better about it. Raises ToolcribError for a faulty one.

    `registry` has the other tools; `backend` is the sandbox of commands.
    """
    path = manifest_file(Path(os.path.realpath(folder)))
    if path is None:
        raise ManifestError(f"{folder}: {'it has no plugin.json' if folder.is_dir() else 'it is not a folder'}")
    manifest = read_manifest(path)
    parts = parts_of(manifest, services)
    notes = [f"{manifest.name} {manifest.version}, {manifest.execution}", *manifest.notes]
    for tool in parts.tools:
        taken = registry.find(tool.name)
        if taken is not None and taken.source != tool.source:
            raise ManifestError(f"{path}: there is a tool named {tool.name!r} already ({taken.source})")
        notes.append(f"{tool.name}({', '.join(tool.schema.get('properties', {}))}), {tool.category}")
    if manifest.binary is not None and parts.program is not None:
        if manifest.binary.sha256 is None:
            notes.append(f'not pinned: "sha256": "{parts.program.check()}" in binary refuses any other program')
        elif manifest.execution == "binary" and backend == "docker":
            notes.append(unpinnable(manifest.name, parts.program, "docker"))
    return notes


def _command(
    manifest: Manifest, tool: PluginTool, services: CommandServices, env: dict[str, str], category: str
) -> Tool:
    template = command_template(tool.command)
    schema = parameter_schema(tool.parameters)
    work = CommandWork(
        tool.name, template, services, (manifest.folder,), tool.working_dir, tool.timeout_secs or DEFAULT_SECONDS,
        {**env, **(tool.env or {})}, check_names(template.names, schema), f"Plugin tool {tool.name!r} failed",
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
