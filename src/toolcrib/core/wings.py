"""Finds the wings of this installation. A wing is an optional package: everything else works without it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Wing:
    """The package of a wing, below `toolcrib`; its command in `cli/`, if it has one, and what the command does."""

    package: str
    command: str = ""
    summary: str = ""


WINGS = {
    "browser": Wing("builtin.browser"),
    "composed": Wing("sources.composed"),
    "docker": Wing("boundary.sandbox.docker"),
    "documents": Wing("builtin.documents"),
    "effects": Wing("effects", "changes", "See and apply what commands would change."),
    "gateway": Wing("serve.gateway"),
    "landlock": Wing("boundary.sandbox.landlock"),
    "lint": Wing("policy.lint", "lint", "Find faults in tools' names, texts and schemas."),
    "openapi": Wing("sources.openapi"),
    "plugins": Wing("sources.plugins", "plugin", "List, check and scaffold plugins."),
}
"""The rest imports a wing where `has_wing` says that it is there, and only the package itself; without its folder and
its line here everything else works."""


def has_wing(name: str) -> bool:
    """Return whether the wing is installed."""
    return name in WINGS


def absent(name: str) -> str:
    """Return why a part that needs the wing is not available."""
    return f"this installation of toolcrib has no {name!r}"
