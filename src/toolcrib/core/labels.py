"""Information-flow labels: whether a result can be trusted, and whether it is private.

The two axes and the wire form `_meta.ifc` are those of github-mcp-server and of FIDES (Costa et al., 2025).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, cast

Integrity = Literal["trusted", "untrusted"]
Confidentiality = Literal["public", "private"]

META_KEY = "ifc"
"""The key in an MCP result's `_meta`."""


@dataclass(frozen=True, slots=True)
class Labels:
    """Where a text came from, and who may see it."""

    integrity: Integrity = "trusted"
    confidentiality: Confidentiality = "public"

    def join(self, other: Labels) -> Labels:
        """The labels of something made from both: untrusted if either is, private if either is."""
        untrusted = "untrusted" in (self.integrity, other.integrity)
        private = "private" in (self.confidentiality, other.confidentiality)
        return LABELS[untrusted, private]

    @property
    def wire(self) -> dict[str, str]:
        """As MCP carries them under `_meta.ifc`."""
        return {"integrity": self.integrity, "confidentiality": self.confidentiality}


LABELS = {
    (untrusted, private): Labels("untrusted" if untrusted else "trusted", "private" if private else "public")
    for untrusted in (False, True)
    for private in (False, True)
}
"""All four, by (untrusted, private)."""


def from_wire(value: Any) -> Labels | None:
    """Labels as another server sent them; None where they cannot be read.

    Confidentiality was a list of readers once: one that is not just "public" counts as private.
    """
    if not isinstance(value, Mapping):
        return None
    sent = cast("Mapping[str, Any]", value)
    integrity, confidentiality = sent.get("integrity"), sent.get("confidentiality", "private")
    if integrity not in ("trusted", "untrusted"):
        return None
    public = confidentiality == "public" or confidentiality == ["public"]
    return LABELS[integrity == "untrusted", not public]
