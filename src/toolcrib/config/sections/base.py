"""Types of settings that several sections share."""

from __future__ import annotations

from typing import Annotated

from ...core.settings import Checked


def _expression(text: str) -> str:
    from ...policy.regexes import compile_pattern

    compile_pattern(text)
    return text


Expression = Annotated[str, Checked(_expression)]
"""A regular expression, as RE2 reads them."""
