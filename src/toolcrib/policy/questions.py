"""Combine several reasons to ask about one call into one question."""

from __future__ import annotations

from collections.abc import Sequence

from ..core.verdict import Judgement


def all_of(asks: Sequence[Judgement]) -> Judgement | None:
    """Return one judgement with the rules and reasons of all; None for an empty list.

    Its rule names them all: a session approval for one of them does not cover several.
    """
    if len(asks) < 2:
        return asks[0] if asks else None
    rules = dict.fromkeys(ask.rule for ask in asks if ask.rule)
    return Judgement("ask", "; ".join(dict.fromkeys(ask.reason for ask in asks)), " and ".join(rules) or None)
