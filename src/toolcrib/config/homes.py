"""Find a user's configuration folder and the list of trusted files."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path


def config_home(environ: Mapping[str, str] | None = None) -> Path:
    """Return `$XDG_CONFIG_HOME/toolcrib`, or `~/.config/toolcrib`: the folder of the user's file."""
    return _xdg(os.environ if environ is None else environ, "XDG_CONFIG_HOME", ".config")


def trust_path(environ: Mapping[str, str]) -> Path:
    """Return `$XDG_STATE_HOME/toolcrib/trust.json`, or the same in `~/.local/state`."""
    return _xdg(environ, "XDG_STATE_HOME", ".local/state") / "trust.json"


def _xdg(env: Mapping[str, str], name: str, below_home: str) -> Path:
    given = env.get(name, "")  # a relative path counts as unset, by the XDG specification
    base = Path(given) if os.path.isabs(given) else Path(env.get("HOME") or os.path.expanduser("~")) / below_home
    return base / "toolcrib"
