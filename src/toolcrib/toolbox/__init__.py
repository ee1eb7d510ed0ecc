"""The composition root: from settings to a registry with everything behind it, opened and closed as one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .toolbox import Toolbox

if TYPE_CHECKING:
    from ..builtin.default_tools import default_tools

__all__ = ["Toolbox", "default_tools"]


def __getattr__(name: str) -> Any:  # the built-in tools load what `from toolcrib import Toolbox` must not
    if name != "default_tools":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from ..builtin.default_tools import default_tools

    return default_tools
