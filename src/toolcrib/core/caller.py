"""One of several callers of a server, each with a token and limits of its own."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from .dataclass import dataclass
from .text import matches


def name_of(caller: Caller | None) -> str | None:
    """Return the name of a caller, if there is one."""
    return None if caller is None else caller.name


def finds_room(caller: str | None, mine: int, taken: int, most: int) -> bool:
    """Return whether a caller who has `mine` of the `taken` places may take another one: half of what is
    free, because others may come. Where there are no callers, everything may be taken."""
    return caller is None or not mine or mine < most - taken


@dataclass(frozen=True, eq=False)
class Caller:
    """A caller by its name, and what its token limits. None of this gives more than the settings give to everybody,
    except the rules that allow.

    `mode` counts if it is stricter than that of the settings. `tools` are names, which may contain `*`; without any, it
    has all tools. `rules` are added to those of everybody. `asks` is a policy of approvals: where the settings or a
    `--yes` ask about less, that is not for this caller.
    """

    name: str
    mode: str | None = None
    tools: tuple[str, ...] = ()
    rules: tuple[Any, ...] = ()
    asks: str = ""

    def has(self, names: Iterable[str]) -> bool:
        """Return whether it may use a tool with these names."""
        return not self.tools or matches(names, self.tools)
