"""Check that the tools in the approval settings exist: a name without a tool would protect nothing."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from typing import TYPE_CHECKING

from ..core.errors import ConfigError

if TYPE_CHECKING:
    from ..config import Settings
    from ..core.registry import ToolRegistry


def check_approval_names(settings: Settings, registry: ToolRegistry, missing: Iterable[tuple[str, str]]) -> None:
    """Check that every name in `approval.require_for` is a tool; names with `*` may match tools that come later.

    Unknown names in `dangerous_tools` only cause a warning: files of the earlier designs list their own tools there.
    The same for `require_for`, if servers or plugins may add tools with names that are not known yet. Raises
    ConfigError for an unknown name otherwise.
    """
    if not settings.approval.require_for and not settings.approval.dangerous_tools:
        return
    known = {name for tool in registry for name in tool.every_name} | {name for name, _ in missing}
    more_come = bool(settings.mcp_servers) or settings.plugins.enabled
    for setting in ("require_for", "dangerous_tools"):
        unknown = [name for name in getattr(settings.approval, setting) if "*" not in name and name not in known]
        if not unknown:
            continue
        text = _said(setting, unknown, known, settings.origin.sources.get(f"approval.{setting}"))
        if setting == "dangerous_tools" or more_come:
            logging.getLogger("toolcrib").warning("%s", text)
        else:
            raise ConfigError(text)


def _said(setting: str, unknown: Iterable[str], known: set[str], where: str | None) -> str:
    names = ", ".join(map(repr, unknown))
    place = f"{where}: " if where else ""
    return (
        f"{place}approval.{setting}: there is no tool {names}, so nothing would ask because of it; known here: "
        f"{', '.join(sorted(known))}. A name with * may mean tools that come later"
    )
