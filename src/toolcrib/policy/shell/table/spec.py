"""Define the notation in which the table describes a program's options and operands, and the objects it becomes.

Operands are roles in order: `"read*"` is any number of files that are read, `"text read*"` a pattern and then files,
`"read* write"` sources and a destination. Options are words of the form

    -n=          takes a value that is only text        -o=write     takes a value with a role
    -i           a flag (listed where it must be known) --rm!delete  a flag with an effect of that kind
    -i@write     a flag that gives the operands a role  -i?          may have a value attached (-O?=program: a role)

Roles are kinds of effect on a path (`read`, `list`, `write`, `create`, `delete`, `move`, `modify`, `link`), `text`
(nothing), `names` (a file that names files), `send` (a file that is sent away), `maybe` (a path only if it looks
like one), `exec` (a file of code, or a program that is run), `shell` (a command line), `program` (a program that
replaces another one), `host`, `url` and `remote` (`host:path` or a local path to read).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ..effects import Effect
    from ..sorting import SortedWords

Handler = Callable[["SortedWords"], "Iterable[Effect]"]
"""Yields the effects of a parsed call, if operands and options alone do not decide them."""


@dataclass(frozen=True, slots=True)
class Option:
    """One option: whether it takes a value, the value's role, a kind of effect, the operands' new role."""

    takes: bool = False
    role: str = "text"
    effect: str = ""
    operands: str = ""
    attached: bool = False

    @property
    def risky(self) -> bool:
        """Return whether it does more than change the printed output: it reads a file, writes one, runs something."""
        return self.role != "text" or bool(self.effect or self.operands)


@dataclass(frozen=True, slots=True)
class Program:
    """The description of a program, or of one of its sub-commands, in the notation above.

    `does` are kinds of effect that every use has. With `subs` the first operand names a sub-command; the entry "" is
    for a call without one. `single` marks programs whose long options have one dash (find, openssl). A `closed` program
    needs approval for an option that is not listed. A `wrapper` runs the words after its options, unless one of `stops`
    is given.
    """

    operands: str = "text*"
    options: str = ""
    does: tuple[str, ...] = ()
    subs: Mapping[str, Program] | None = None
    handler: Handler | None = None
    single: bool = False
    closed: bool = False
    wrapper: bool = False
    stops: tuple[str, ...] = ()


def program(
    operands: str = "text*",
    options: str = "",
    does: str = "",
    *,
    subs: Mapping[str, Program] | None = None,
    handler: Handler | None = None,
    single: bool = False,
    closed: bool = False,
    wrapper: bool = False,
    stops: str = "",
) -> Program:
    """Return a `Program`; kinds and sub-commands are words in a string."""
    flat = None if subs is None else spread(subs)
    return Program(operands, options, tuple(does.split()), flat, handler, single, closed, wrapper, tuple(stops.split()))


def spread(table: Mapping[str, Program]) -> dict[str, Program]:
    """Split the keys of a table like `{"cat tac": …}` into one key for each name."""
    return {name: entry for names, entry in table.items() for name in names.split() or [""]}


_OPTION = re.compile(
    r"(?P<name>--?(?:[^\s=!@?]+|[@?])|\+)(?P<attached>\?)?(?P<role>=[a-z-]*)?(?P<effect>![a-z-]+)?(?P<operands>@[a-z]+)?"
)


@cache
def parse_options(text: str) -> dict[str, Option]:
    """Return the options of a program by name. Raises ValueError if the text is not in the notation."""
    found: dict[str, Option] = {}
    for token in text.split():
        match = _OPTION.fullmatch(token)
        if match is None:
            raise ValueError(f"not an option of the table: {token}")
        role = match["role"]
        found[match["name"]] = Option(
            takes=role is not None and match["attached"] is None,
            role=(role or "=")[1:] or "text",
            effect=(match["effect"] or "!")[1:],
            operands=(match["operands"] or "@")[1:],
            attached=match["attached"] is not None,
        )
    return found


@cache
def is_risky(options: str) -> bool:
    """Return whether a program has an option that does more than change the printed output."""
    return any(option.risky for option in parse_options(options).values())


@cache
def is_harmful(options: str) -> bool:
    """Return whether a program has an option that does more than choose what is read and printed."""
    return any(
        option.role not in ("text", "read", "list", "maybe", "names")
        or option.effect not in ("", "named")
        or option.operands
        for option in parse_options(options).values()
    )


@cache
def parse_operands(text: str) -> tuple[tuple[str, ...], str | None, tuple[str, ...]]:
    """Return the roles of the first operands, the role of all between (or None), and the roles of the last ones."""
    roles = text.split()
    for index, role in enumerate(roles):
        if role.endswith("*"):
            return tuple(roles[:index]), role[:-1], tuple(roles[index + 1 :])
    return tuple(roles), None, ()
