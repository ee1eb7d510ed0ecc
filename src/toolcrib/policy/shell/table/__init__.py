"""Look up what a program reads, writes, executes and connects to. The data is loaded on first use."""

from __future__ import annotations

from functools import lru_cache
from itertools import chain
from types import FunctionType

from .program_spec import Handler, Program, rows


@lru_cache(maxsize=1)
def _table() -> dict[str, Program]:
    from ..roles import of_options, plain
    from . import builders, changers, git, interpreters, readers, remote, shell
    from .closed import CLOSED
    from .gitrows import GIT_CLOSED, GIT_OPEN
    from .open import OPEN

    families = (builders, changers, git, interpreters, readers, remote, shell)
    own = {name: each for family in families for name, each in vars(family).items() if isinstance(each, FunctionType)}
    handlers: dict[str, Handler] = {f"@{name}": each for name, each in own.items()}
    handlers |= {f"options@{name}": _after(of_options, each) for name, each in own.items()}
    handlers |= {f"roles@{name}": _after(plain, each) for name, each in own.items()}
    table: dict[str, Program] = {"git": Program(options=git.GLOBAL, handler=git.settings, closed=True)}
    for text, closed in ((CLOSED, True), (GIT_CLOSED, True), (OPEN, False), (GIT_OPEN, False)):
        rows(text, table, handlers, closed=closed)
    return table


def _after(before: Handler, own: Handler) -> Handler:
    return lambda call: chain(before(call), own(call))


def lookup(name: str) -> Program | None:
    """Return what is known of a program with this plain name, which may have a version or a kind (`python3.12`,
    `gcc-13`, `mkfs.ext4`); or None. Of those that only read just pip has one: `test2` is a program of its own."""
    table = _table()
    found = table.get(name)
    if found is None and (name[-1:].isdigit() or "." in name):
        plain = name.rstrip("0123456789.").rstrip("-")
        found = table.get(plain) or table.get(name.partition(".")[0] + ".*")
        return None if found is not None and found.closed and plain != "pip" else found
    return found


def names() -> list[str]:
    """Return the names of all programs in the table."""
    return sorted(_table())
