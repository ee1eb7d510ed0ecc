"""Finds the wings of this installation. A wing is an optional package: everything else works without it."""

from __future__ import annotations

WINGS = {
    "browser": "builtin.browser",
    "composed": "sources.composed",
    "docker": "boundary.sandbox.docker",
    "documents": "builtin.documents",
    "effects": "effects",
    "gateway": "serve.gateway",
    "landlock": "boundary.sandbox.landlock",
    "lint": "policy.lint",
    "openapi": "sources.openapi",
    "plugins": "sources.plugins",
}
"""The packages of the wings, below `toolcrib`. The rest imports a wing where `has_wing` says that it is there, and only
the package itself; without its folder and its line here everything else works."""


def has_wing(name: str) -> bool:
    """Return whether the wing is installed."""
    return name in WINGS


def absent(name: str) -> str:
    """Return why a part that needs the wing is not available."""
    return f"this installation of toolcrib has no {name!r}"
