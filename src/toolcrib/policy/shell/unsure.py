"""What is raised where the text of a command cannot be read with certainty."""

from __future__ import annotations


class Unsure(Exception):
    """The text cannot be read with certainty. `rule` names the kind, `source` the place."""

    def __init__(self, reason: str, source: str = "", rule: str = "shell:syntax") -> None:
        super().__init__(reason)
        self.reason = reason
        self.source = source
        self.rule = rule
