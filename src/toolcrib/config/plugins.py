"""Convert the section `plugins` for the plugin loader: where to look for plugins, and which are allowed."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from ..core.errors import ConfigError
from ..record.state import state_home
from .homes import config_home
from .settings import Settings

if TYPE_CHECKING:
    from ..sources.plugins import PluginSettings


def plugin_home() -> Path:
    """Return `$XDG_DATA_HOME/toolcrib/plugins`, or `~/.local/share/toolcrib/plugins`."""
    given = os.environ.get("XDG_DATA_HOME", "")
    base = Path(given) if os.path.isabs(given) else Path.home() / ".local" / "share"
    return base / "toolcrib" / "plugins"


def plugin_settings(settings: Settings) -> PluginSettings:
    """Return the section `plugins` for the plugin loader. Raises ConfigError for a folder that commands cannot see."""
    from ..sources.plugins import PluginSettings

    given = settings.plugins
    folders = tuple(given.plugin_dirs) or (plugin_home(),)
    for folder in folders:
        for own in (config_home(), state_home()):
            if Path(os.path.realpath(folder)).is_relative_to(os.path.realpath(own)):
                raise ConfigError(
                    f"plugins.plugin_dirs: {folder} lies in {own}, which no command can see; use another folder, as "
                    f"{plugin_home()}"
                )
    writable = (settings.workspace, *settings.sandbox.write_roots)
    return PluginSettings(
        folders,
        frozenset(given.allowed_plugins),
        frozenset(given.blocked_plugins),
        tuple(Path(os.path.realpath(root)) for root in writable),
    )
