"""Find plugins in folders, load them under the allow and block lists, and load them again when they change."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import field
from itertools import islice
from pathlib import Path
from typing import Literal

from ...boundary.programs import search_path
from ...boundary.read_tree import folders_below
from ...boundary.real_path import real_path
from ...core.dataclass import dataclass
from ...core.errors import ConfigError, OutsideWorkspace, ToolcribError, ToolDefinitionError
from ...core.homes import config_home, data_home, state_home
from ...core.registry import ToolRegistry
from ...core.text import clip
from ...core.tool import Tool
from ...policy.plain import plain_line
from ..command_tools import CommandServices, command_tool
from ..registering import register_all
from ..settings import DEFAULT_SECONDS, CustomToolSettings, PluginsSettings
from .agent_plugin import AgentPlugin, is_agent_plugin, read_agent_plugin
from .binary import binary_tool, unpinnable
from .channel import Channel
from .manifest import Manifest, ManifestError, PluginTool, manifest_file, read_manifest
from .program import PinnedProgram

log = logging.getLogger("toolcrib.plugins")

FOLDER_VARIABLE = "TOOLCRIB_PLUGIN_DIR"
"""The variable with the plugin's folder, for its commands and programs."""
LOOK_SECONDS = 2.0  # between two checks for changes
_MAX_REASON = 1_000  # characters
_MAX_LINKS = 2_000  # in a plugin's folder
State = Literal["loaded", "blocked", "not allowed", "error"]
_Stamp = tuple[int, ...]


def plugin_folders(settings: PluginsSettings) -> tuple[Path, ...]:
    """Return the folders to look for plugins in. Raises ConfigError for a folder that commands cannot see."""
    home = data_home() / "plugins"
    folders = settings.plugin_dirs or (home,)
    for folder in folders:
        for own in (config_home(), state_home()):
            if Path(real_path(folder)).is_relative_to(real_path(own)):
                raise ConfigError(
                    f"plugins.plugin_dirs: {folder} lies in {own}, which no command can see; use another folder, as "
                    f"{home}"
                )
    return folders


@dataclass(slots=True)
class Plugin:
    """One plugin folder, with the state of the plugin and the reason."""

    folder: Path
    state: State
    reason: str = ""
    manifest: Manifest | None = None
    tools: tuple[str, ...] = ()
    program: PinnedProgram | None = None
    package: AgentPlugin | None = None
    """Its parts if it is an Agent Plugin; it then has no manifest of ours."""
    may_change: bool = False
    stamp: _Stamp = field(default=(), repr=False)

    @property
    def name(self) -> str:
        """Its name, or its folder's name if the manifest cannot be read."""
        known = self.manifest or self.package
        return known.name if known is not None else plain_line(self.folder.name)


class Plugins:
    """The plugins of one registry. `writable` are folders that tools may change. `on_new` is called with each
    registered tool."""

    def __init__(
        self,
        settings: PluginsSettings,
        writable: Iterable[Path],
        registry: ToolRegistry,
        services: CommandServices,
        on_new: Callable[[Tool], object] | None = None,
    ) -> None:
        self._settings, self._registry, self._services = settings, registry, services
        self._bases = plugin_folders(settings)
        self._writable = [Path(real_path(root)) for root in writable]
        self._on_new = on_new
        self._found: dict[Path, Plugin] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._closed = False

    def __iter__(self) -> Iterator[Plugin]:
        """Iterate over all plugin folders, loaded or not."""
        return iter(self._found.values())

    @property
    def problems(self) -> list[tuple[str, str]]:
        """The plugins that could not be loaded because of an error: (name, reason)."""
        return [(f"plugin {each.name}", each.reason) for each in self if each.state == "error"]

    def load(self) -> bool:
        """Scan the folders: load new or changed plugins, unload removed ones. Return whether anything changed."""
        there = {folder: stamp for folder in self._folders() if (stamp := self._stamp_of(folder))}
        gone = [each for folder, each in self._found.items() if there.get(folder) != each.stamp]
        for plugin in gone:
            self._unload(plugin)
        new = [folder for folder in there if folder not in self._found]
        for folder in new:
            self._found[folder] = plugin = self._load(folder, there[folder])
            if plugin.state == "error":
                level = logging.INFO if self._timer is None else logging.WARNING  # at the start, `problems` reports it
                log.log(level, "plugin %s: %s", plugin.name, plugin.reason)
        return bool(gone or new)

    def watch(self, loop: asyncio.AbstractEventLoop) -> None:
        """Check for changes every LOOK_SECONDS, on this loop."""
        if self._closed:
            return
        self._timer = loop.call_later(LOOK_SECONDS, self._look, loop)

    def _look(self, loop: asyncio.AbstractEventLoop) -> None:
        try:
            self.load()
        except Exception:
            log.exception("plugins could not be looked through")
        self.watch(loop)

    def close(self) -> None:
        """Stop checking, and close the programs."""
        self._closed = True
        if self._timer is not None:
            self._timer.cancel()
        for plugin in self:
            if plugin.program is not None:
                plugin.program.close()

    # --- channels

    @property
    def channels(self) -> Mapping[str, Plugin]:
        """The loaded channel plugins, by name."""
        return {
            each.name: each
            for each in self
            if each.state == "loaded" and each.manifest is not None and each.manifest.execution == "channel"
        }

    def channel(self, name: str, env: Mapping[str, str] | None = None) -> Channel:
        """Return the channel of that name.

        The caller starts and stops it. Raises KeyError if there is no such channel.
        """
        plugin = self.channels[name]
        assert plugin.manifest is not None
        assert plugin.program is not None
        env = {"PATH": search_path(self._writable), **(plugin.manifest.env or {}), **(env or {})}
        return Channel(plugin.manifest, plugin.program, env=env, redact=self._services.redact)

    # --- one folder

    def _folders(self) -> Iterator[Path]:
        for base in self._bases:
            try:
                entries = sorted(entry.name for entry in os.scandir(base) if entry.is_dir())
            except OSError:  # not created yet; `toolcrib plugin list` says so
                continue
            for name in entries:
                if not name.startswith("."):
                    yield Path(real_path(base / name))

    def _load(self, folder: Path, stamp: _Stamp) -> Plugin:
        plugin = Plugin(folder, "error", stamp=stamp)
        path = manifest_file(folder)
        try:
            if path is None:
                raise ManifestError(f"{folder}: its manifest is gone")
            plugin.may_change = self._may_change(folder)
            if is_agent_plugin(path):
                plugin.package = read_agent_plugin(path)
                if plugin.may_change:
                    raise ManifestError(f"{folder}: tools can write there, so its skills and servers are not used")
                plugin.state, plugin.reason = self._verdict(plugin.package.name)
                return plugin
            plugin.manifest = manifest = read_manifest(path)
            plugin.state, plugin.reason = self._verdict(manifest.name)
            if plugin.state != "loaded":
                return plugin
            tools, plugin.program = parts_of(manifest, self._services, may_change=plugin.may_change)
            made = register_all(self._registry, tools)
            plugin.tools = tuple(tool.name for tool in made)
            if self._on_new is not None:
                for tool in made:
                    self._on_new(tool)
        except ToolcribError as error:
            plugin.state, plugin.reason = "error", _said(str(error))
        except Exception as error:  # an error in one plugin does not affect the others
            said = (isinstance(error, OSError) and error.strerror) or f"{type(error).__name__}: {error}"
            plugin.state, plugin.reason = "error", _said(f"{folder}: {said}")
        if plugin.state == "error" and plugin.manifest is not None and plugin.manifest.binary is not None:
            plugin.stamp = (*stamp, *_status(folder / plugin.manifest.binary.path))
        return plugin

    def _may_change(self, folder: Path) -> bool:
        """Return whether tools can write to a plugin's folder, or to something that a link in it leads to."""
        places = [str(folder), *islice(_linked(str(folder)), _MAX_LINKS)]
        return any(Path(real_path(place)).is_relative_to(root) for place in places for root in self._writable)

    def _verdict(self, name: str) -> tuple[State, str]:
        settings = self._settings
        if name in settings.blocked_plugins:
            return "blocked", "plugins.blocked_plugins names it"
        if settings.allowed_plugins and name not in settings.allowed_plugins:
            return "not allowed", "plugins.allowed_plugins does not name it"
        for other in self:
            if other.state == "loaded" and other.name == name:
                return "error", f"there is a plugin {name!r} already, in {other.folder}"
        return "loaded", ""

    def _unload(self, plugin: Plugin) -> None:
        del self._found[plugin.folder]
        for name in plugin.tools:
            self._registry.unregister(name)
        if plugin.program is not None:
            plugin.program.close()

    def _stamp_of(self, folder: Path) -> _Stamp:
        """Return a value that changes with the manifest, or with the program of a plugin that failed to load; empty if
        none.

        The program of a loaded plugin is checked when it is called.
        """
        path = manifest_file(folder)
        known = self._found.get(folder)
        if known is not None and known.state == "error" and known.manifest is not None and known.manifest.binary:
            return (*_status(path), *_status(folder / known.manifest.binary.path))
        return _status(path)


def _linked(folder: str) -> Iterator[str]:
    """Yield every link in a folder and below it."""
    for at, folders, files in folders_below(folder):
        yield from (path for name in (*folders, *files) if os.path.islink(path := os.path.join(at, name)))


def _said(text: str) -> str:
    """Return a message about a plugin on one line: paths and keys may contain any character of a file name."""
    return plain_line(clip(text, _MAX_REASON))


def _status(path: Path | None) -> _Stamp:
    with contextlib.suppress(OSError):
        if path is not None:
            st = path.stat()
            return (st.st_dev, st.st_ino, st.st_size, st.st_mtime_ns, st.st_ctime_ns)
    return ()


# --- the parts of one plugin


def parts_of(
    manifest: Manifest, services: CommandServices, *, may_change: bool = False
) -> tuple[list[Tool], PinnedProgram | None]:
    """Return the tools of a manifest, and its program if it has one.

    `may_change`: tools could write to the plugin's folder, so all its tools count as shell, and its variables are
    judged with its commands. Raises ToolDefinitionError or ProgramRefused if a tool or the program is invalid.
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
                tools.append(_command_tool(manifest, tool, services, env, category, may_change))
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
    path = manifest_file(Path(real_path(folder)))
    if path is None:
        raise ManifestError(f"{folder}: {'it has no plugin.json' if folder.is_dir() else 'it is not a folder'}")
    if is_agent_plugin(path):
        package = read_agent_plugin(path)
        servers = list(package.mcp.servers) if package.mcp is not None else []
        return [f"{package.name} {package.version}, an Agent Plugin", *package.notes, *(f"server {s}" for s in servers)]
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
    manifest: Manifest, tool: PluginTool, services: CommandServices, env: dict[str, str], category: str, changing: bool
) -> Tool:
    entry = CustomToolSettings(
        tool.name, tool.description, tool.command, tool.parameters, tool.working_dir,
        tool.timeout_secs or DEFAULT_SECONDS, env, category, (str(manifest.folder),),
    )  # fmt: skip
    failed = f"Plugin tool {tool.name!r} failed"
    source = f"plugin:{manifest.name}"
    return command_tool(entry, services, manifest.folder, source=source, failed=failed, judge_env=changing)
