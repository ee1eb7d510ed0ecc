"""The table of verdicts: one for each mode and category."""

from __future__ import annotations

from ..core.errors import ConfigError
from ..core.tool import ToolCategory
from ..core.verdict import Verdict

_C = ToolCategory

MODES: dict[str, dict[ToolCategory, Verdict]] = {
    "observer": {
        category: "allow" if category in (_C.FILESYSTEM_READ, _C.NETWORK_READ, _C.MEMORY) else "deny" for category in _C
    },
    "assistant": {
        category: "ask" if category in (_C.SHELL, _C.HARDWARE, _C.DESTRUCTIVE, _C.NETWORK_WRITE) else "allow"
        for category in _C
    },
    "autonomous": dict.fromkeys(_C, "allow"),
}
"""observer only reads; assistant asks before what cannot be undone; autonomous never asks because of the mode."""


def check_mode(mode: str) -> str:
    """Return the mode itself. Raises ConfigError for an unknown mode: there is never a silent fallback."""
    if mode not in MODES:
        raise ConfigError(f"unknown mode {mode!r}; known: {', '.join(MODES)}")
    return mode
