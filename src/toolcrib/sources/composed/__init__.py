"""Composed tools: instructions with parameters that a model writes and later runs as a tool."""

from .create_tool import add_composed_tools

__all__ = ["add_composed_tools"]
