"""The judgement of a call before it runs: allow, ask or deny, and why."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from .context import ToolContext

Verdict = Literal["allow", "ask", "deny"]


@dataclass(frozen=True, slots=True)
class Judgement:
    """A tool's own judgement of one call's arguments.

    `unknown` marks an `ask` with only such reasons as the sandbox answers: the effect cannot be known beforehand, or
    the sandbox confines it. In an active workspace sandbox without network, policy turns
    that into allow (spec 6.0 step 4).
    """

    verdict: Verdict
    reason: str = ""
    rule: str | None = None
    unknown: bool = False


Judge = Callable[[Mapping[str, Any], "ToolContext"], Judgement | None]
"""Judges validated JSON arguments; None means no opinion. Must not have effects. If it raises, the call is refused."""

Preview = Callable[[Mapping[str, Any], "ToolContext"], str]
"""A readable preview of what a call would do (a diff, a command). Must not have effects."""
