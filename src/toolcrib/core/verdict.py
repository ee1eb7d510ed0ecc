"""The judgement of a call before it runs: allow, ask or deny, and why."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
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


def all_of(asks: Sequence[Judgement]) -> Judgement | None:
    """Return one judgement with the rules and reasons of all; None for an empty list.

    Its rule names them all: a session approval for one of them does not cover several.
    """
    if len(asks) < 2:
        return asks[0] if asks else None
    rules = dict.fromkeys(ask.rule for ask in asks if ask.rule)
    return Judgement("ask", "; ".join(dict.fromkeys(ask.reason for ask in asks)), " and ".join(rules) or None)


Judge = Callable[[Mapping[str, Any], "ToolContext"], Judgement | None]
"""Judges validated JSON arguments; None means no opinion. Must not have effects. If it raises, the call is refused."""

Preview = Callable[[Mapping[str, Any], "ToolContext"], str]
"""A readable preview of what a call would do (a diff, a command). Must not have effects."""
