"""Joins settings from an untrusted file: each setting has a rule, so that the proposed value can only tighten it.

A rule is attached to a field (`Annotated[int, Smaller()]`; a function in it needs a name: a lambda would not see its
module). A field without a rule takes nothing from an untrusted file. So a setting is closed, not open, if its rule was
forgotten.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any


class Tightening:
    """Joins the current value of a setting with one that an untrusted file proposes."""

    def __call__(self, current: Any, proposed: Any) -> tuple[Any, bool]:
        """Return the value to use, never looser than `current`, and whether the whole proposal is in it."""
        raise NotImplementedError


@dataclass(frozen=True, slots=True)
class Rank(Tightening):
    """One of several words, the loosest first. A word that is not listed is never taken."""

    words: tuple[str, ...]

    def __call__(self, current: Any, proposed: Any) -> tuple[Any, bool]:
        if proposed == current:
            return current, True
        if proposed not in self.words or current not in self.words:
            return current, False
        tighter = self.words.index(proposed) > self.words.index(current)
        return (proposed, True) if tighter else (current, False)


@dataclass(frozen=True, slots=True)
class Smaller(Tightening):
    """A limit: the smaller number wins. `unset` returns the number that None means, so that none can loosen it."""

    unset: Callable[[], float] | None = None

    def __call__(self, current: Any, proposed: Any) -> tuple[Any, bool]:
        if proposed == current:
            return current, True
        if proposed is None:
            return current, False
        if current is None:
            if self.unset is None or proposed > self.unset():
                return current, False
            return proposed, True
        return (proposed, True) if proposed < current else (current, False)


@dataclass(frozen=True, slots=True)
class Longer(Tightening):
    """How long or how much is stored: the larger number wins; 0 means without limit."""

    def __call__(self, current: Any, proposed: Any) -> tuple[Any, bool]:
        keeps_more = current != 0 and (proposed == 0 or proposed > current)
        return (proposed, True) if proposed == current or keeps_more else (current, False)


@dataclass(frozen=True, slots=True)
class Only(Tightening):
    """A switch that tightens in one direction."""

    value: bool

    def __call__(self, current: Any, proposed: Any) -> tuple[Any, bool]:
        return (proposed, True) if proposed == current or proposed is self.value else (current, False)


@dataclass(frozen=True, slots=True)
class More(Tightening):
    """A list that tightens as it grows: refusals, questions, things hidden."""

    def __call__(self, current: Any, proposed: Any) -> tuple[Any, bool]:
        return (*current, *(item for item in proposed if item not in current)), True


@dataclass(frozen=True, slots=True)
class Fewer(Tightening):
    """A list that tightens as it shrinks: grants."""

    def __call__(self, current: Any, proposed: Any) -> tuple[Any, bool]:
        return tuple(item for item in current if item in proposed), all(item in current for item in proposed)


@dataclass(frozen=True, slots=True)
class OnlySome(Tightening):
    """A list that grows by those items that tighten; the others are left out."""

    tightens: Callable[[Any], bool]

    def __call__(self, current: Any, proposed: Any) -> tuple[Any, bool]:
        taken = [item for item in proposed if item in current or self.tightens(item)]
        return (*current, *(item for item in taken if item not in current)), len(taken) == len(proposed)
