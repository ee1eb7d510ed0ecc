"""Make the parts of a plugin from its manifest: tools that run its commands or its program, or a channel."""

from __future__ import annotations

import os
from pathlib import Path

from ...core.errors import OutsideWorkspace, ToolDefinitionError
from ...core.registry import ToolRegistry
from ...core.tool import Tool
from ..running import CommandServices, command_tool
from ..settings import DEFAULT_SECONDS, CustomToolSettings
from .binary import binary_tool, unpinnable
from .manifest import Manifest, ManifestError, PluginTool, manifest_file, read_manifest
from .program import PinnedProgram

FOLDER_VARIABLE = "TOOLCRIB_PLUGIN_DIR"
"""The variable with the plugin's folder, for its commands and programs."""


def parts_of(
    manifest: Manifest, services: CommandServices, *, may_change: bool = False
) -> tuple[list[Tool], PinnedProgram | None]:
    """Return the tools of a manifest, and its program if it has one.

    `may_change`: tools could write to the plugin's folder, so all its tools count as shell. Raises ToolDefinitionError
    or ProgramRefused if a tool or the program is invalid.
    """
    program: PinnedProgram | None = None
    if manifest.binary is not None:
        program = PinnedProgram(manifest.folder, manifest.binary.path, manifest.binary.sha256)
        program.check()
    tools: list[Tool] = []
    for tool in manifest.tools:
        env = {**(manifest.env or {}), FOLDER_VARIABLE: str(manifest.folder), **(tool.env or {})}
        category = "shell" if may_change else tool.category
        try:
            if program is None:
                tools.append(_command_tool(manifest, tool, services, env, category))
            else:
                tools.append(binary_tool(manifest, tool, program, services, env, category))
        except (ToolDefinitionError, OutsideWorkspace) as error:
            said = str(error).removeprefix(f"{tool.name}: ")
            raise ToolDefinitionError(f"{manifest.folder}: tool {tool.name!r}: {said}") from None
    return tools, program


def check_plugin(folder: Path, registry: ToolRegistry, services: CommandServices, backend: str | None) -> list[str]:
    """Return what a plugin folder holds, and what could be better about it. Raises ToolcribError for a faulty one.

    `registry` has the other tools; `backend` is the sandbox of commands.
    """
    path = manifest_file(Path(os.path.realpath(folder)))
    if path is None:
        raise ManifestError(f"{folder}: {'it has no plugin.json' if folder.is_dir() else 'it is not a folder'}")
    manifest = read_manifest(path)
    tools, program = parts_of(manifest, services)
    notes = [f"{manifest.name} {manifest.version}, {manifest.execution}", *manifest.notes]
    for tool in tools:
        taken = registry.find(tool.name)
        if taken is not None and taken.source != tool.source:
            raise ManifestError(f"{path}: there is a tool named {tool.name!r} already ({taken.source})")
        notes.append(f"{tool.name}({', '.join(tool.schema.get('properties', {}))}), {tool.category}")
    if manifest.binary is not None and program is not None:
        if manifest.binary.sha256 is None:
            notes.append(f'not pinned: "sha256": "{program.check()}" in binary refuses any other program')
        elif manifest.execution == "binary" and backend == "docker":
            notes.append(unpinnable(manifest.name, program, "docker"))
    return notes


def _command_tool(
    manifest: Manifest, tool: PluginTool, services: CommandServices, env: dict[str, str], category: str
) -> Tool:
    entry = CustomToolSettings(
        tool.name, tool.description, tool.command, tool.parameters, tool.working_dir,
        tool.timeout_secs or DEFAULT_SECONDS, env, category, (str(manifest.folder),),
    )  # fmt: skip
    failed = f"Plugin tool {tool.name!r} failed"
    return command_tool(entry, services, manifest.folder, source=f"plugin:{manifest.name}", failed=failed)
