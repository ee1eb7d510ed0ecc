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
    """The labels of a text: its origin, and its allowed readers."""

    integrity: Integrity = "trusted"
    confidentiality: Confidentiality = "public"

    def join(self, other: Labels) -> Labels:
        """Return the labels of a text made from both: untrusted if either is, private if either is."""
        untrusted = "untrusted" in (self.integrity, other.integrity)
        private = "private" in (self.confidentiality, other.confidentiality)
        return LABELS[untrusted, private]

    @property
    def wire(self) -> dict[str, str]:
        """The labels in the form of MCP, under `_meta.ifc`."""
        return {"integrity": self.integrity, "confidentiality": self.confidentiality}


LABELS = {
    (untrusted, private): Labels("untrusted" if untrusted else "trusted", "private" if private else "public")
    for untrusted in (False, True)
    for private in (False, True)
}
"""All four labels, by (untrusted, private)."""


def from_wire(value: Any) -> Labels | None:
    """Read the labels that another server sent. Returns None if they cannot be read.

    Confidentiality was a list of readers in the past: a list other than just "public" counts as private.
    """
    if not isinstance(value, Mapping):
        return None
    sent = cast("Mapping[str, Any]", value)
    integrity, confidentiality = sent.get("integrity"), sent.get("confidentiality", "private")
    if integrity not in ("trusted", "untrusted"):
        return None
    public = confidentiality == "public" or confidentiality == ["public"]
    return LABELS[integrity == "untrusted", not public]
