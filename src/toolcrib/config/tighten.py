"""What an untrusted file may say: for each setting, how a proposed value is joined so that it can only tighten.

A rule is attached to a field (`Annotated[int, Smaller()]`). A field without a rule takes nothing from an
untrusted file: a setting that somebody forgets to think about is closed, not open.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol, cast


class Tightening(Protocol):
    """Joins the value that stands with one that an untrusted source proposes."""

    def __call__(self, current: Any, proposed: Any) -> tuple[Any, bool]:
        """The value to use, never looser than `current`, and whether the whole proposal is in it."""
        ...


@dataclass(eq=False, repr=False)
class Rank:
    """One of several words, the loosest first. A word that is not listed is never taken."""

    words: tuple[str, ...]

    def __call__(self, current: Any, proposed: Any) -> tuple[Any, bool]:
        if proposed == current:
            return current, True
        if proposed not in self.words or current not in self.words:
            return current, False
        tighter = self.words.index(proposed) > self.words.index(current)
        return (proposed, True) if tighter else (current, False)


@dataclass(eq=False, repr=False)
class Smaller:
    """A limit: the smaller number. `unset` gives what None stands for, so that a number cannot loosen it."""

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


@dataclass(eq=False, repr=False)
class Longer:
    """How long or how much is kept: the larger number; 0 is without limit."""

    def __call__(self, current: Any, proposed: Any) -> tuple[Any, bool]:
        keeps_more = current != 0 and (proposed == 0 or proposed > current)
        return (proposed, True) if proposed == current or keeps_more else (current, False)


@dataclass(eq=False, repr=False)
class Only:
    """A switch that tightens in one direction."""

    value: bool

    def __call__(self, current: Any, proposed: Any) -> tuple[Any, bool]:
        return (proposed, True) if proposed == current or proposed is self.value else (current, False)


@dataclass(eq=False, repr=False)
class More:
    """A list that tightens as it grows: refusals, questions, things hidden."""

    def __call__(self, current: Any, proposed: Any) -> tuple[Any, bool]:
        have = cast("list[Any]", current)
        return [*have, *(item for item in cast("list[Any]", proposed) if item not in have)], True


@dataclass(eq=False, repr=False)
class Fewer:
    """A list that tightens as it shrinks: grants."""

    def __call__(self, current: Any, proposed: Any) -> tuple[Any, bool]:
        have, want = cast("list[Any]", current), cast("list[Any]", proposed)
        return [item for item in have if item in want], all(item in have for item in want)


@dataclass(eq=False, repr=False)
class OnlySome:
    """A list that grows by those items that tighten; the others are left out."""

    tightens: Callable[[Any], bool]

    def __call__(self, current: Any, proposed: Any) -> tuple[Any, bool]:
        have, want = cast("list[Any]", current), cast("list[Any]", proposed)
        taken = [item for item in want if item in have or self.tightens(item)]
        return [*have, *(item for item in taken if item not in have)], len(taken) == len(want)
