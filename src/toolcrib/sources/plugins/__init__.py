"""Plugins: folders with a manifest, whose programs are tools or carry messages; and Python packages with tools."""

from .entrypoints import load_entry_points
from .plugins import Plugins, PluginSettings

__all__ = ["PluginSettings", "Plugins", "load_entry_points"]
