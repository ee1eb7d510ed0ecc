"""Several reasons to ask about one call, put as one question."""

from __future__ import annotations

from collections.abc import Sequence

from ..core.verdict import Judgement


def all_of(asks: Sequence[Judgement]) -> Judgement | None:
    """One judgement with the rules and reasons of all; None of none.

    Its rule names them all: a yes for the session to one of them is none to several.
    """
    if len(asks) < 2:
        return asks[0] if asks else None
    rules = dict.fromkeys(ask.rule for ask in asks if ask.rule)
    return Judgement("ask", "; ".join(dict.fromkeys(ask.reason for ask in asks)), " and ".join(rules) or None)
