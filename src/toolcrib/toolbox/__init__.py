"""The composition root: build a registry and everything that it needs from settings, and open and close them
together."""

from .toolbox import Toolbox

__all__ = ["Toolbox"]
