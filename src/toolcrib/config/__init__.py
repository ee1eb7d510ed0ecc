"""Load settings from defaults, files, environment and flags, check them, and decide which files to trust."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .load import load_settings
    from .merge import make_settings
    from .schema import config_schema
    from .settings import Settings
    from .trust import TrustStore

_HOMES = {
    "load_settings": "load",
    "make_settings": "merge",
    "config_schema": "schema",
    "Settings": "settings",
    "TrustStore": "trust",
}

__all__ = [
    "Settings",
    "TrustStore",
    "config_schema",
    "load_settings",
    "make_settings",
]


def __getattr__(name: str) -> Any:  # lazy: the schema needs pydantic, and most parts need other modules
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f".{_HOMES[name]}", __name__), name)
    globals()[name] = value
    return value
