"""Define the error for a command whose text cannot be read with certainty."""

from __future__ import annotations


class Unsure(Exception):
    """The error for a text that cannot be read with certainty. `rule` names the kind, `source` the place."""

    def __init__(self, reason: str, source: str = "", rule: str = "shell:syntax") -> None:
        super().__init__(reason)
        self.reason = reason
        self.source = source
        self.rule = rule
