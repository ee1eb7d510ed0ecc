"""Rules by which settings from an untrusted file may tighten those that are there, and never loosen them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


class Tightening:
    """The rule by which an untrusted file may tighten a setting: `Annotated[int, Smaller()]`.

    A field without a rule takes nothing from such a file. So a setting is closed, not open, if its rule was forgotten.
    A function in a rule needs a name: a lambda would not see its module.
    """

    def __call__(self, current: Any, proposed: Any) -> tuple[Any, bool]:
        """Return the value to use, never looser than `current`, and whether the whole proposal is in it."""
        return (proposed, True) if proposed == current or self.tightens(current, proposed) else (current, False)

    def tightens(self, current: Any, proposed: Any) -> bool:
        """Return whether the proposed value, which differs from the current one, is tighter."""
        raise NotImplementedError


class Rank(Tightening):
    """One of several words, the loosest first. A word that is not listed is never taken."""

    def __init__(self, words: tuple[str, ...]) -> None:
        self._rank = {word: n for n, word in enumerate(words)}

    def tightens(self, current: Any, proposed: Any) -> bool:
        known = current in self._rank and proposed in self._rank
        return known and self._rank[proposed] > self._rank[current]


class Smaller(Tightening):
    """A limit: the smaller number wins. `unset` returns the number that None means, so that none can loosen it."""

    def __init__(self, unset: Callable[[], float] | None = None) -> None:
        self._unset = unset

    def tightens(self, current: Any, proposed: Any) -> bool:
        limit = self._unset() if current is None and self._unset is not None else current
        return limit is not None and proposed is not None and proposed <= limit


class Longer(Tightening):
    """How long or how much is stored: the larger number wins; 0 means without limit."""

    def tightens(self, current: Any, proposed: Any) -> bool:
        return current != 0 and (proposed == 0 or proposed > current)


class Only(Tightening):
    """A switch that tightens in one direction."""

    def __init__(self, value: bool) -> None:
        self._value = value

    def tightens(self, current: Any, proposed: Any) -> bool:
        return proposed is self._value


class Fewer(Tightening):
    """A list that tightens as it shrinks: grants."""

    def __call__(self, current: Any, proposed: Any) -> tuple[Any, bool]:
        return tuple(item for item in current if item in proposed), all(item in current for item in proposed)


class OnlySome(Tightening):
    """A list that grows by those items that tighten; the others are left out."""

    def __init__(self, tightens: Callable[[Any], bool]) -> None:
        self._takes = tightens

    def __call__(self, current: Any, proposed: Any) -> tuple[Any, bool]:
        taken = [item for item in proposed if item in current or self._takes(item)]
        return (*current, *(item for item in taken if item not in current)), len(taken) == len(proposed)


class More(OnlySome):
    """A list that tightens as it grows: refusals, questions, things hidden."""

    def __init__(self) -> None:
        super().__init__(lambda _item: True)
