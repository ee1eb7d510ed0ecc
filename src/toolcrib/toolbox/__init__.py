"""The composition root: from settings to a registry with everything behind it, opened and closed as one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .toolbox import Toolbox

__all__ = ["Toolbox"]


def __getattr__(name: str) -> Any:  # a look at a toolbox (`glance`) needs none
    if name != "Toolbox":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from .toolbox import Toolbox

    globals()[name] = Toolbox
    return Toolbox
