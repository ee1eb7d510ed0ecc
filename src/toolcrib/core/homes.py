"""Find a user's folders of Toolcrib, as the XDG specification says: settings, state and data."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path


def config_home(environ: Mapping[str, str] = os.environ) -> Path:
    """Return `$XDG_CONFIG_HOME/toolcrib`, or `~/.config/toolcrib`: the folder of the user's file."""
    return _xdg(environ, "XDG_CONFIG_HOME", ".config")


def state_home(environ: Mapping[str, str] = os.environ) -> Path:
    """Return `$XDG_STATE_HOME/toolcrib`, or `~/.local/state/toolcrib`."""
    return _xdg(environ, "XDG_STATE_HOME", ".local/state")


def data_home() -> Path:
    """Return `$XDG_DATA_HOME/toolcrib`, or `~/.local/share/toolcrib`."""
    return _xdg(os.environ, "XDG_DATA_HOME", ".local/share")


def _xdg(environ: Mapping[str, str], name: str, below_home: str) -> Path:
    given = environ.get(name, "")  # a relative path counts as unset, by the XDG specification
    base = Path(given) if os.path.isabs(given) else Path(environ.get("HOME") or os.path.expanduser("~")) / below_home
    return base / "toolcrib"
