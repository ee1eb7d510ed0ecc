"""Plugins: folders with a manifest, whose programs are tools or carry messages; and Python packages with tools."""

from .entrypoints import load_entry_points, permitted, plugin_files
from .manifest import PLUGIN_NAME
from .plugins import Plugin, Plugins, check_plugin, plugin_folders
from .starters import Kind, starter

__all__ = [
    "PLUGIN_NAME", "Kind", "Plugin", "Plugins", "check_plugin", "load_entry_points", "permitted", "plugin_files",
    "plugin_folders", "starter",
]  # fmt: skip
