"""The composition root: from settings to a registry with everything behind it, opened and closed as one."""

from .toolbox import Toolbox

__all__ = ["Toolbox"]
